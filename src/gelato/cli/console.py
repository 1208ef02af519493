"""What the user sees: results on stdout, notes and progress on stderr.

Ids and file names come from outside: they are printed as plain text, never as markup,
and control characters are escaped, so that no file can rewrite a terminal.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console as Terminal
from rich.console import RenderableType
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from gelato.text import plain, printable

if TYPE_CHECKING:
    from gelato.cli.options import OutputOptions
    from gelato.ranking.journal import Progress


_FACT_NAME = 12  # so that facts printed one after the other line up
_PAGE = 80  # columns that readers of a file can be expected to have
_WIDEST = 10_000  # columns of a table outside of a terminal
_PATIENCE = 2.0  # seconds without a sign of life before a progress bar appears


def safe_streams() -> None:
    """Let characters that a terminal cannot show be escaped, not end the program."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # not one that a test put there
            stream.reconfigure(errors="backslashreplace")


def print_error(problem: str, hint: str = "") -> None:
    """Print one message on stderr, and what to do next on a line of its own."""
    terminal = Terminal(stderr=True)
    message = Text("error: ", style="bold red")
    message.append(printable(problem), style="default")
    _print(terminal, message)
    if hint:
        _print(terminal, Text(printable(hint)))


def make_table(*columns: str, rows: Iterable[Sequence[Any]] = (), text: int = 1) -> Any:
    """Return a table whose first ``text`` columns are text and the others numbers.

    A cell is text, or a :class:`rich.text.Text` with a style of its own.
    """
    table = Table(
        box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0), header_style="bold"
    )
    for position, column in enumerate(columns):
        left = position < text
        table.add_column(
            Text(column),
            justify="left" if left else "right",
            no_wrap=position == 0 or not left,
            overflow="fold",
        )
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Text(cell) for cell in row))
    return table


def make_facts(rows: Iterable[tuple[str, str]]) -> Any:
    """Return lines of a name and what is to be said about it."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True, min_width=_FACT_NAME)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(Text(name), Text(value))
    return table


class Console:
    """The two streams of one command.

    Parameters
    ----------
    options : OutputOptions
        With ``json``, stdout carries one JSON document and nothing else.
    """

    def __init__(self, options: OutputOptions) -> None:
        self.json = options.json
        self.quiet = options.quiet
        self._out = Terminal(highlight=False)
        if not self._out.is_terminal:
            self._out.width = _WIDEST
        self._error = Terminal(stderr=True, highlight=False)

    def show(self, *parts: RenderableType | str) -> None:
        """Print parts of a result on stdout (text as it is), unless JSON is asked."""
        if self.json:
            return
        for part in parts:
            if isinstance(part, str):
                _print(self._out, Text(part))
            elif self._out.is_terminal:
                self._out.print(part)
            else:
                self._print_whole(part)

    @property
    def width(self) -> int:
        """Columns that a table may take: the terminal's, or 80 outside of one."""
        return self._out.width if self._out.is_terminal else _PAGE

    def fits(self, part: RenderableType) -> bool:
        """Tell whether a table needs no more than that."""
        measured = Measurement.get(self._out, self._out.options, part)
        return measured.maximum <= self.width

    def give(self, result: dict[str, Any]) -> None:
        """Print a result as JSON on stdout, if JSON is asked for."""
        if not self.json:
            return
        from gelato import __version__

        document = plain({"gelato": __version__, **result})
        sys.stdout.write(json.dumps(document, indent=2, allow_nan=False) + "\n")

    def note(self, *notes: str) -> None:
        """Print notes on stderr."""
        for note in () if self.quiet else notes:
            line = Text("note: ", style="bold")
            line.append(printable(note), style="default")
            _print(self._error, line)

    def line(self, text: str) -> None:
        """Print a line of progress on stderr, where a bar makes no sense."""
        if not self.quiet:
            _print(self._error, Text(printable(text)))

    def training_bar(self, what: str) -> TrainingBar | None:
        """Return a bar for many steps, or ``None`` where there is no terminal."""
        if self.quiet or not self._error.is_terminal:
            return None
        return TrainingBar(self._error, what)

    def _print_whole(self, part: RenderableType) -> None:
        """Print a table for a file or another program: no line folded or padded."""
        with self._out.capture() as captured:
            self._out.print(part)
        lines = captured.get().splitlines()
        sys.stdout.write("".join(f"{line.rstrip()}\n" for line in lines))

    @contextmanager
    def progress(self, what: str) -> Iterator[Progress]:
        """Yield a callback (done, in all) behind a bar that appears after a while.

        Nothing is shown with ``--quiet`` or where stderr is not a terminal.
        """
        if self.quiet or not self._error.is_terminal:
            yield lambda done, total: None
            return
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            TextColumn,
            TimeRemainingColumn,
        )
        from rich.progress import Progress as Bar

        bar = Bar(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=self._error,
            transient=True,
        )
        task = bar.add_task(printable(what))
        started = monotonic()

        def report(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)
            if not bar.live.is_started and monotonic() - started > _PATIENCE:
                bar.start()

        try:
            yield report
        finally:
            if bar.live.is_started:
                bar.stop()


class TrainingBar:
    """A bar of steps under a line of text that changes with every epoch."""

    def __init__(self, terminal: Terminal, what: str) -> None:
        from rich.progress import (
            BarColumn,
            Progress,
            TaskProgressColumn,
            TextColumn,
            TimeRemainingColumn,
        )

        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=None),
            TaskProgressColumn(),
            TimeRemainingColumn(compact=True),
            console=terminal,
            transient=True,
            expand=True,
            speed_estimate_period=120,
        )
        self._task = self._bar.add_task(printable(what), total=None)
        self._bar.start()

    def step(self, done: int, total: int) -> None:
        """Move the bar."""
        self._bar.update(self._task, completed=done, total=total)

    def describe(self, text: str) -> None:
        """Say how it goes."""
        self._bar.update(self._task, description=printable(text))

    def close(self) -> None:
        """Take the bar away."""
        self._bar.stop()


def _print(terminal: Terminal, text: Text) -> None:
    """Print lines, wrapped between words on a terminal and nowhere else."""
    terminal.print(text, soft_wrap=not terminal.is_terminal, highlight=False)
