"""Numbers and names as people read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gelato.text import (
    degree,
    duration,
    percent,
    percent_difference,
    percent_margin,
    plural,
    printable,
    shortened,
    size,
    times,
)


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.0265, "2.65"),
        (0.0000823, "0.0082"),
        (1.0, "100.00"),
        (0.0, "0.00"),
        (0.00099, "0.10"),
        (float("nan"), "-"),
    ],
)
def test_percent(share, text):
    assert percent(share) == text


@given(st.floats(1e-12, 1.0))
def test_percent_keeps_two_digits(share):
    assert float(percent(share)) == pytest.approx(100 * share, rel=0.06)


def test_margins_have_the_decimals_of_their_number():
    assert percent_margin(0.02, {"low": 0.01877, "high": 0.02123}) == "2.00 ± 0.12"
    assert (
        percent_margin(0.0000823, {"low": 0.0000723, "high": 0.0000923})
        == "0.0082 ± 0.0010"
    )
    assert percent_margin(0.5, None) == "50.00"


def test_differences_have_their_sign():
    assert percent_difference(0.0031, 0.0012) == "+0.31 ± 0.12"
    assert percent_difference(-0.00002, 0.0012) == "-0.00 ± 0.12"
    assert percent_difference(-0.000082, 0.00001) == "-0.0082 ± 0.0010"
    assert percent_difference(0.0, 0.0) == "+0.00 ± 0.00"


def test_units():
    spans = [duration(s) for s in (0.01, 3.21, 42.4, 600, 7200)]
    assert spans == ["< 0.1 s", "3.2 s", "42 s", "10 min", "2.0 h"]
    assert [size(b) for b in (2.4e8, 3.14e9)] == ["240 MB", "3.1 GB"]
    assert times(322.2) == "322"
    assert plural(1, "edge") == "1 edge"
    assert plural(2000, "edge") == "2,000 edges"
    assert [degree(d) for d in (3.0, 2.55)] == ["3", "2.55"]


@given(st.text())
def test_safe_text_cannot_move_the_cursor(text):
    assert printable(text).isprintable()


def test_safe_text_keeps_what_can_be_shown():
    assert printable("Zoë [bold] 東京") == "Zoë [bold] 東京"
    assert printable("a\x1b[2Jb\nc") == r"a\x1b[2Jb\nc"
    assert len(shortened("x" * 99)) == 40
