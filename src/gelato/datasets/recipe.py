"""What a synthetic graph is to look like: every number checked before any is used."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gelato.errors import UsageError
from gelato.graph import FloatArray

# Node pairs are numbered u * n + v in 64 bits; far below that, memory decides.
_MOST_NODES = 100_000_000
_DEFAULT_COMMUNITY = 30
_DEFAULT_MAX_DEGREE = 1000


@dataclass(frozen=True, kw_only=True)
class GraphRecipe:
    """The numbers behind :func:`~gelato.datasets.synthetic.make_graph`.

    Parameters
    ----------
    nodes : int
        Number of nodes n, at least 2.
    communities : int, optional
        Number of communities, of uneven sizes; default: one for every 30 nodes.
    average_degree : float
        Edges are ``n * average_degree / 2``.
    exponent : float
        Exponent of the power law of expected degrees, above 1. Infinite: all alike.
    max_degree : int, optional
        No node has more edges; default: 1,000, or n - 1 if that is less.
    inside : float
        Share of edges that stay in their community, apart from closing ones.
    closure : float
        Share of edges that close a triangle.
    attributes : int
        Number of different words r; 0 draws no attributes.
    words : float
        Words per node, on average; at least one.
    signal : float
        Share of words that come from the community's topic: 0 tells nothing, 1 all.
    seed : int
        Decides everything that is random.
    """

    nodes: int
    communities: int | None = None
    average_degree: float = 6.0
    exponent: float = 2.5
    max_degree: int | None = None
    inside: float = 0.9
    closure: float = 0.4
    attributes: int = 500
    words: float = 12.0
    signal: float = 0.7
    seed: int = 0

    def __post_init__(self) -> None:
        if not 2 <= self.nodes <= _MOST_NODES:
            raise UsageError(
                f"The number of nodes is {self.nodes:,}.",
                hint=f"Draw 2 to {_MOST_NODES:,} nodes.",
            )
        for name in ("inside", "closure", "signal"):
            share = getattr(self, name)
            if not 0 <= share <= 1:
                raise UsageError(f"{name} is a share between 0 and 1, not {share}.")
        if self.seed < 0:
            raise UsageError(f"The seed is {self.seed}, but must be 0 or more.")
        self._check_degrees()
        self._check_words()

    def _check_degrees(self) -> None:
        if not self.exponent > 1:
            raise UsageError(
                f"The exponent of the degrees is {self.exponent}; it must exceed 1.",
                hint="Real graphs have exponents between 2 and 3.",
            )
        if not (math.isfinite(self.average_degree) and self.average_degree > 0):
            raise UsageError(
                f"The average degree is {self.average_degree}; it must be positive."
            )
        if self.largest_degree < self.average_degree:
            raise UsageError(
                f"The largest degree, {self.largest_degree:,}, is below the average "
                f"degree, {self.average_degree:g}.",
                hint="Lower the average degree or raise the largest one, which is at "
                f"most {self.nodes - 1:,} here.",
            )
        if not 1 <= self.num_communities <= self.nodes:
            raise UsageError(
                f"There cannot be {self.num_communities:,} communities of "
                f"{self.nodes:,} nodes.",
                hint="Each community needs at least one node.",
            )

    def _check_words(self) -> None:
        if self.attributes < 0:
            raise UsageError(f"The number of attributes is {self.attributes}.")
        if not (math.isfinite(self.words) and self.words > 0):
            raise UsageError(f"The words per node are {self.words}; draw some.")
        if self.attributes and self.words > self.attributes:
            raise UsageError(
                f"A node cannot have {self.words:g} of {self.attributes:,} words.",
                hint="Draw fewer words per node, or from more attributes.",
            )

    @property
    def num_edges(self) -> int:
        """Number of edges to draw."""
        return round(self.nodes * self.average_degree / 2)

    @property
    def num_communities(self) -> int:
        """Number of communities."""
        if self.communities is None:
            return max(1, self.nodes // _DEFAULT_COMMUNITY)
        return self.communities

    @property
    def largest_degree(self) -> int:
        """The degree that no node exceeds."""
        most = _DEFAULT_MAX_DEGREE if self.max_degree is None else self.max_degree
        return min(most, self.nodes - 1)

    @property
    def topic_size(self) -> int:
        """Words in the topic of a community."""
        return max(1, min(self.attributes, 2 * math.ceil(self.words)))

    def degree_at(self, quantiles: FloatArray) -> FloatArray:
        """Return expected degrees at quantiles of the truncated power law."""
        top, power = float(self.largest_degree), self.exponent - 1
        if math.isinf(power):
            return np.full(len(quantiles), self.average_degree)
        low, high = 0.0, self.average_degree
        for _ in range(60):  # the smallest degree that gives the average
            middle = (low + high) / 2
            if _truncated_mean(middle, top, power) < self.average_degree:
                low = middle
            else:
                high = middle
        least = high / top
        degrees: FloatArray = top * (
            least * (1 - quantiles * (1 - least**power)) ** (-1 / power)
        )
        return degrees


def _truncated_mean(least: float, top: float, power: float) -> float:
    """Return the mean of a power law with tail exponent ``power`` on [least, top]."""
    if least <= 0:
        return 0.0
    ratio = least / top
    if ratio == 1:
        return top
    if power == 1:
        return least * -math.log(ratio) / (1 - ratio)
    share: float = (1 - ratio ** (power - 1)) / (1 - ratio**power)
    return power / (power - 1) * least * share
