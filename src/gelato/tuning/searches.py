"""In which order values are tried. What comes next depends on what is known alone.

Each search is a function of the finished trials, without a memory of its own: a study
that was interrupted goes on with the trial that would have come next.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, Literal, Protocol

import numpy as np

from gelato.errors import UsageError
from gelato.tuning.result import TrialRecord, point
from gelato.tuning.spaces import Space

Parameters = dict[str, Any]
Proposal = Parameters | Literal["drawn"] | None
_LARGEST_GRID = 100_000


class Search(Protocol):
    """What proposes the next trial."""

    def next(self, done: Sequence[TrialRecord]) -> Proposal:
        """Return parameters, or "drawn" if they are drawn; None when all is tried."""
        ...

    def expected(self) -> int | None:
        """Return how many trials there are, at least; None if as many as one likes."""
        ...


class GridSearch:
    """Every combination once, in an order drawn by seed.

    Fewer trials than combinations then still reach every corner of the grid.
    """

    def __init__(self, space: Space, seed: int) -> None:
        values = [dimension.values for dimension in space.values()]
        size = math.prod(map(len, values))
        if size > _LARGEST_GRID:
            raise UsageError(
                f"The grid has {size:,} combinations.",
                hint="Try fewer values, or use a line or a free search.",
            )
        every = itertools.product(*values)
        points = [dict(zip(space, one, strict=True)) for one in every]
        order = np.random.default_rng(seed).permutation(len(points))
        self.points: list[Parameters] = [points[k] for k in order]

    def next(self, done: Sequence[TrialRecord]) -> Proposal:
        """Return the next combination."""
        known = {point(record.parameters) for record in done}
        return next((x for x in self.points if point(x) not in known), None)

    def expected(self) -> int | None:
        """Return the number of combinations."""
        return len(self.points)


class LineSearch:
    """One parameter at a time, the others at their best so far.

    It goes through the parameters again until a round changes nothing. Among equals
    the present value stays, so that every change is a gain and the search ends.
    """

    def __init__(self, space: Space, start: Parameters) -> None:
        self.space, self.start = space, start

    def next(self, done: Sequence[TrialRecord]) -> Proposal:
        """Return the first point of the line that has not been tried."""
        known = {
            point(x.parameters): x.value if x.state == "complete" else None
            for x in done
        }
        present, changed = dict(self.start), True
        while changed:
            changed = False
            for name, dimension in self.space.items():
                line = [present | {name: value} for value in dimension.values]
                for one in line:
                    if point(one) not in known:
                        return one
                best = max(line, key=lambda x: _rank(known[point(x)], x == present))
                if _rank(known[point(best)], True) > _rank(known[point(present)], True):
                    present, changed = best, True
        return None

    def first_line(self) -> list[Parameters]:
        """Return the trials that come first: those of the first parameter."""
        name, dimension = next(iter(self.space.items()))
        return [self.start | {name: value} for value in dimension.values]

    def expected(self) -> int | None:
        """Return the number of trials of the first round."""
        return 1 + sum(len(x.values) - 1 for x in self.space.values())


class FreeSearch:
    """Start at the defaults, then let the sampler draw."""

    def __init__(self, space: Space, start: Parameters) -> None:
        self.start = start
        endless = any(dimension.is_range for dimension in space.values())
        sizes = [len(dimension.values) for dimension in space.values()]
        self.size = None if endless else math.prod(sizes)

    def next(self, done: Sequence[TrialRecord]) -> Proposal:
        """Return the defaults first, then "drawn" until nothing new is left."""
        if not done:
            return self.start
        tried = {point(record.parameters) for record in done}
        return None if len(tried) == self.size else "drawn"

    def expected(self) -> int | None:
        """Return the number of combinations, if there is an end of them."""
        return self.size


def make_search(search: str, space: Space, start: Parameters, seed: int) -> Search:
    """Return a search by name."""
    if search == "grid":
        return GridSearch(space, seed)
    return LineSearch(space, start) if search == "line" else FreeSearch(space, start)


def _rank(value: float | None, present: bool) -> tuple[float, bool]:
    return (-math.inf if value is None else value, present)
