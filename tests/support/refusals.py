"""What a refused command looks like."""

from __future__ import annotations


def refused(outcome, *, code=1, says=()):
    """Check that a command failed with one clear message and printed no result."""
    assert outcome.code == code, outcome.err
    assert outcome.out == ""
    lines = outcome.err.splitlines()
    errors = [line for line in lines if line.startswith("error: ")]
    assert len(errors) == 1
    assert lines[-1] != errors[0], "there is no hint"
    for text in says:
        assert text in outcome.err, outcome.err
