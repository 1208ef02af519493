"""One family of exceptions: what was seen, what was expected, what to do next.

Everything that a user can cause derives from :class:`GelatoError`, so that the
command line turns it into one message and an exit code, never a traceback.
"""

from __future__ import annotations

from typing import Any


class GelatoError(Exception):
    """A problem that the user can understand and mend.

    Parameters
    ----------
    problem : str
        What was seen and what was expected, naming the file and line if any.
    hint : str, optional
        What to do next.
    """

    exit_code = 1

    def __init__(self, problem: str, *, hint: str = "") -> None:
        super().__init__(problem, hint)
        self.problem = problem
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.problem} {self.hint}".rstrip()

    def __reduce__(self) -> tuple[Any, ...]:
        # Errors of workers travel to the process that the user sees.
        return _restored, (type(self), self.problem, self.hint)


def _restored(kind: type[GelatoError], problem: str, hint: str) -> GelatoError:
    """Return an error as it was, whatever its class takes to be made."""
    error = kind.__new__(kind, problem, hint)
    error.problem, error.hint = problem, hint
    return error


class InputError(GelatoError, ValueError):
    """Data that cannot be used: a file, a table, a graph."""


class UsageError(GelatoError, ValueError):
    """An argument out of range or a combination that makes no sense."""

    exit_code = 2


class UnknownNameError(GelatoError, KeyError):
    """A name that is not in its registry; the message suggests near ones."""

    exit_code = 2


class UnsupportedGraphError(GelatoError, ValueError):
    """A method asked to work on a kind of graph it is not defined for."""


class MissingDataError(GelatoError, FileNotFoundError):
    """A benchmark graph that is neither on disk nor reachable."""


class MissingExtraError(GelatoError, ImportError):
    """An optional dependency that is not installed."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the package {package!r}, which is not installed.",
            hint=f"Install it with: pip install 'gelato-lp[{extra}]'",
        )


class OutputError(GelatoError, OSError):
    """A result that cannot be written where it was asked for."""


class StoredFileError(GelatoError, ValueError):
    """A stored split, model or result that is damaged, foreign or too new."""


class EngineError(GelatoError, RuntimeError):
    """Work that could not be spread: workers that die, a cluster that is silent."""
