"""Draw attributed graphs of any size: communities, hubs, closed triangles, words.

For benchmarks and tests, where real graphs are too small or too few. Everything
follows from the seed alone; nothing here costs more than the edges and words drawn.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from gelato.errors import UsageError
from gelato.graph import FloatArray, Graph, IntArray

NodeArray = npt.NDArray[np.int32]
Progress = Callable[[int, int], None]

# Node pairs are numbered u * n + v in 64 bits; far below that, memory decides.
_MOST_NODES = 100_000_000
_DEFAULT_COMMUNITY = 30
_DEFAULT_MAX_DEGREE = 1000


@dataclass(frozen=True, kw_only=True)
class GraphRecipe:
    """The numbers behind :func:`~gelato.datasets.synthetic.make_synthetic_graph`.

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
    def num_words(self) -> int:
        """Number of words to draw, about."""
        return round(self.words * self.nodes) if self.attributes else 0

    @property
    def peak_bytes(self) -> int:
        """Memory that drawing the graph takes, about."""
        return 50 * self.nodes + 50 * self.num_edges + 20 * self.num_words

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


# Rounds of drawing again what was drawn twice; a graph that is not full needs few.
_ROUNDS = 25
# Of a community, the share that one node may be joined to: beyond it, hubs reach out.
_FULL = 0.5


def make_graph(nodes: Any, **options: Any) -> Graph:
    """Draw a synthetic graph; an old name of :func:`make_synthetic_graph`."""
    if not isinstance(nodes, int | np.integer):
        raise UsageError(
            "make_graph draws a synthetic graph of so many nodes, and reads no "
            f"{type(nodes).__name__}.",
            hint="For edges of your own: gelato.read_graph(edges), which also takes "
            "frames, arrays and graphs of other libraries.",
        )
    warnings.warn(
        "gelato.make_graph is now gelato.make_synthetic_graph; the old name goes with "
        "the next release.",
        DeprecationWarning,
        stacklevel=2,
    )
    return make_synthetic_graph(int(nodes), **options)


def make_synthetic_graph(
    nodes: int, *, progress: Progress | None = None, **options: Any
) -> Graph:
    """Draw an attributed graph with communities and power-law degrees.

    Every node has an expected degree from a power law and belongs to a community.
    Most edges stay inside a community, some close a triangle, the rest join any two
    nodes, always in proportion to expected degrees. A node's attributes are words,
    some from its community's topic and the rest from everybody's.

    Parameters
    ----------
    nodes : int
        Number of nodes n, up to some ten millions.
    progress : callable, optional
        Told how many edges and words were drawn, and how many there will be.
    **options
        The other fields of :class:`GraphRecipe`: ``communities``, ``average_degree``,
        ``exponent``, ``max_degree``, ``inside``, ``closure``, ``attributes``,
        ``words``, ``signal``, ``seed``.

    Returns
    -------
    Graph
        Undirected, without weights; ``labels`` holds the communities, ``attributes``
        the words (sparse, binary).

    Raises
    ------
    UsageError
        If a number is out of its range, or two contradict each other.

    Examples
    --------
    >>> make_synthetic_graph(1000, average_degree=5, seed=1)
    Graph(1,000 nodes, 2,500 undirected edges, 500 attributes)
    """
    recipe = GraphRecipe(nodes=nodes, **options)
    told = _Told(progress, recipe.num_edges + recipe.num_words)
    wiring_seed, word_seed = np.random.SeedSequence(recipe.seed).spawn(2)
    rng = np.random.default_rng(wiring_seed)
    wiring = _Wiring.draw(recipe, rng)
    edges = _draw_edges(recipe, wiring, rng, told)
    notes = []
    if len(edges) < recipe.num_edges:
        notes.append(
            f"drew {len(edges):,} edges instead of {recipe.num_edges:,}: more do not "
            "fit beside the largest degree"
        )
    community = wiring.community
    del wiring
    return Graph.from_indices(
        nodes,
        edges,
        attributes=_draw_words(recipe, community, word_seed, told),
        labels=community,
        notes=notes,
    )


class _Told:
    """What has been drawn, for a bar."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress, self._total, self.done = progress, total, 0

    def reach(self, done: int) -> None:
        """Say how much there is."""
        self.done = done
        if self._progress is not None:
            self._progress(min(done, self._total), self._total)


# Draws that are made together. Generators give the same numbers in one go and in
# pieces, so that nothing depends on it but memory.
_BLOCK = 1 << 21


def _blocks(count: int) -> Iterator[slice]:
    return (slice(at, min(at + _BLOCK, count)) for at in range(0, count, _BLOCK))


@dataclass(frozen=True, eq=False)
class _Wiring:
    """Who is joined to whom, in expectation."""

    weights: FloatArray
    """Expected degrees."""
    community: IntArray
    inside: FloatArray
    """By node, the share of its edges that stay in its community."""
    order: IntArray
    """Nodes by community."""
    totals: FloatArray
    """Running sum of weights in that order, from 0."""
    bounds: IntArray
    """Where each community starts in that order, and the end."""

    @classmethod
    def draw(cls, recipe: GraphRecipe, rng: np.random.Generator) -> _Wiring:
        """Draw expected degrees and communities."""
        n = recipe.nodes
        # One draw from each n-th of the distribution: hubs are there in any graph.
        weights = rng.permutation(recipe.degree_at((np.arange(n) + rng.random(n)) / n))
        weights *= recipe.average_degree / weights.mean()
        sizes = rng.gamma(2.0, size=recipe.num_communities)
        shares = np.cumsum(sizes / sizes.sum())
        drawn = rng.random(n - recipe.num_communities)
        more = np.searchsorted(shares[:-1], drawn, side="right")
        everyone = np.concatenate([np.arange(recipe.num_communities), more])
        community: IntArray = rng.permutation(everyone).astype(np.int64)
        members = np.bincount(community)
        room = _FULL * members[community] / weights
        order = np.argsort(community, kind="stable")
        return cls(
            weights=weights,
            community=community,
            inside=recipe.inside * np.minimum(1.0, room),
            order=order,
            totals=np.concatenate([[0.0], np.cumsum(weights[order])]),
            bounds=np.concatenate([[0], np.cumsum(members)]),
        )

    def starts(self, rng: np.random.Generator) -> NodeArray:
        """Draw one end of every edge: each node about half of its expected degree."""
        whole = np.floor(self.weights / 2 + rng.random(len(self.weights)))
        nodes = np.arange(len(whole), dtype=np.int32)
        shuffled = np.repeat(nodes, whole.astype(np.int64))
        rng.shuffle(shuffled)
        return shuffled

    def anyone(self, count: int, rng: np.random.Generator) -> NodeArray:
        """Draw nodes in proportion to their weights."""
        drawn = np.empty(count, dtype=np.int32)
        for some in _blocks(count):
            places = rng.random(some.stop - some.start) * self.totals[-1]
            drawn[some] = self._at(places)
        return drawn

    def partners(self, nodes: NodeArray, rng: np.random.Generator) -> NodeArray:
        """Draw whom nodes are joined to, in their community or anywhere."""
        stays = np.empty(len(nodes), dtype=bool)
        for some in _blocks(len(nodes)):
            stays[some] = rng.random(some.stop - some.start) < self.inside[nodes[some]]
        drawn = np.empty(len(nodes), dtype=np.int32)
        for some in _blocks(len(nodes)):
            stay, home = stays[some], self.community[nodes[some]]
            low = np.where(stay, self.totals[self.bounds[home]], 0.0)
            high = np.where(stay, self.totals[self.bounds[home + 1]], self.totals[-1])
            drawn[some] = self._at(low + rng.random(len(home)) * (high - low))
        return drawn

    def _at(self, places: FloatArray) -> IntArray:
        found = np.searchsorted(self.totals, places, side="right") - 1
        return self.order[np.minimum(found, len(self.order) - 1)]


def _draw_edges(
    recipe: GraphRecipe, wiring: _Wiring, rng: np.random.Generator, told: _Told
) -> NodeArray:
    base = recipe.num_edges - round(recipe.closure * recipe.num_edges)
    starts = wiring.starts(rng)
    drawn = _Drawn(recipe, told)
    drawn.add(starts[:base], wiring.partners(starts[:base], rng), base)
    _top_up(drawn, wiring, base, rng)
    drawn.add(*_closing(drawn.edges, starts[base:], recipe.nodes, rng))
    del starts
    _top_up(drawn, wiring, recipe.num_edges, rng)
    return drawn.edges


def _top_up(
    drawn: _Drawn, wiring: _Wiring, target: int, rng: np.random.Generator
) -> None:
    """Draw until there are so many edges, or no more will fit."""
    for _ in range(_ROUNDS):
        missing = target - len(drawn.edges)
        if missing <= 0:
            return
        nodes = wiring.anyone(missing + missing // 4 + 8, rng)
        drawn.add(nodes, wiring.partners(nodes, rng), target)


def _closing(
    edges: NodeArray, nodes: NodeArray, n: int, rng: np.random.Generator
) -> tuple[NodeArray, NodeArray]:
    """Join nodes to a random neighbour of a random neighbour."""
    ends = np.concatenate([edges[:, 0], edges[:, 1]])
    order = np.argsort(ends, kind="stable")
    bounds = np.concatenate([[0], np.cumsum(np.bincount(ends, minlength=n))])
    neighbours = np.concatenate([edges[:, 1], edges[:, 0]])[order]
    del ends, order

    def step(at: NodeArray) -> NodeArray:
        following = np.empty_like(at)
        for some in _blocks(len(at)):
            first, last = bounds[at[some]], bounds[at[some] + 1]
            chosen = (rng.random(len(first)) * (last - first)).astype(np.int64)
            following[some] = neighbours[first + chosen]
        return following

    nodes = nodes[bounds[nodes + 1] > bounds[nodes]]
    return nodes, step(step(nodes))


class _Drawn:
    """Distinct edges in the order in which they were drawn, degrees bounded."""

    def __init__(self, recipe: GraphRecipe, told: _Told) -> None:
        self._n, self._limit = recipe.nodes, recipe.largest_degree
        self._most = recipe.num_edges
        self._told = told
        self._keys: IntArray = np.empty(0, dtype=np.int64)  # of the edges, sorted
        self._degrees = np.zeros(recipe.nodes, dtype=np.int64)
        self.edges: NodeArray = np.empty((0, 2), dtype=np.int32)

    def add(self, u: NodeArray, v: NodeArray, target: int | None = None) -> None:
        """Add edges that are new, until there are ``target``."""
        low, high = np.minimum(u, v), np.maximum(u, v)
        keys = low * np.int64(self._n) + high
        keys = keys[low != high]
        del low, high
        distinct, first = np.unique(keys, return_index=True)
        place = np.searchsorted(self._keys, distinct)
        place[place == len(self._keys)] = 0
        if len(self._keys):
            first = first[self._keys[place] != distinct]
        del distinct, place
        keys = keys[np.sort(first)]
        keys = keys[self._within_limit(keys)]
        keys = keys[: (self._most if target is None else target) - len(self.edges)]
        new = np.empty((len(keys), 2), dtype=np.int32)
        new[:, 0], new[:, 1] = np.divmod(keys, self._n)
        self._degrees += np.bincount(new.ravel(), minlength=self._n)
        self._keys = np.concatenate([self._keys, np.sort(keys)])
        self._keys.sort(kind="stable")  # two sorted runs: one merge
        self.edges = np.concatenate([self.edges, new])
        self._told.reach(len(self.edges))

    def _within_limit(self, keys: IntArray) -> npt.NDArray[np.bool_]:
        """Tell which edges stay: not the last ones of nodes that have too many."""
        ends = np.stack(np.divmod(keys, self._n), axis=1).ravel()
        degrees = self._degrees + np.bincount(ends, minlength=self._n)
        full = np.flatnonzero(degrees[ends] > self._limit)
        full = full[np.argsort(ends[full], kind="stable")]
        start = np.searchsorted(ends[full], ends[full])
        rank = np.arange(len(full)) - start + self._degrees[ends[full]]
        stay = np.ones(len(keys), dtype=bool)
        stay[full[rank >= self._limit] // 2] = False
        return stay


def _draw_words(
    recipe: GraphRecipe,
    community: IntArray,
    seed: np.random.SeedSequence,
    told: _Told,
) -> sp.csr_array | None:
    """Draw a sparse binary matrix: words of the community's topic, and any words."""
    if recipe.attributes == 0:
        return None
    rng = np.random.default_rng(seed)
    n, r = recipe.nodes, recipe.attributes
    topics = rng.integers(0, r, size=(recipe.num_communities, recipe.topic_size))
    per_node = np.maximum(1, rng.poisson(recipe.words, size=n))
    total = int(per_node.sum())
    # Some words are common and most are rare, as in any language.
    popularity = np.cumsum(1.0 / (np.arange(r) + 10.0))
    # All words are drawn first, then whose are of a topic, then which of it.
    flags, places = _ahead(rng, total), _ahead(rng, 2 * total)
    found = np.empty(total, dtype=np.int64)
    indptr = np.zeros(n + 1, dtype=np.int64)
    step = max(1, int(_BLOCK / recipe.words))
    edges = told.done
    for at in range(0, n, step):
        some = np.arange(at, min(at + step, n))
        nodes = np.repeat(some, per_node[some])
        drawn = rng.random(len(nodes)) * popularity[-1]
        words = np.minimum(np.searchsorted(popularity, drawn, side="right"), r - 1)
        own = np.flatnonzero(flags.random(len(nodes)) < recipe.signal)
        place = places.integers(0, recipe.topic_size, size=len(own))
        words[own] = topics[community[nodes[own]], place]
        keys = np.unique(nodes * r + words)
        start = indptr[at]
        found[start : start + len(keys)] = keys % r
        indptr[some + 1] = start + np.searchsorted(keys, (some + 1) * r)
        told.reach(edges + int(indptr[some[-1] + 1]))
    words = found[: indptr[-1]]
    ones = np.ones(len(words), dtype=np.float32)
    return sp.csr_array((ones, words, indptr), shape=(n, r))


def _ahead(rng: np.random.Generator, draws: int) -> np.random.Generator:
    """Return what a generator will be after so many numbers between 0 and 1."""
    now: Any = rng.bit_generator.state
    ahead = np.random.PCG64()
    ahead.state = now
    ahead.advance(draws)
    # Half of a number may be left over from whole ones; advance() forgets it.
    left = {key: now[key] for key in ("has_uint32", "uinteger")}
    moved: Any = {**ahead.state, **left}
    ahead.state = moved
    return np.random.Generator(ahead)
