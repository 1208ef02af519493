"""Draw attributed graphs of any size: communities, hubs, closed triangles, words.

For benchmarks and tests, where real graphs are too small or too few. Everything
follows from the seed alone; nothing here costs more than the edges and words drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from gelato.datasets.recipe import GraphRecipe
from gelato.graph import FloatArray, Graph, IntArray, canonical_pairs, pair_keys

# Rounds of drawing again what was drawn twice; a graph that is not full needs few.
_ROUNDS = 25
# Of a community, the share that one node may be joined to: beyond it, hubs reach out.
_FULL = 0.5


def make_graph(nodes: int, **options: Any) -> Graph:
    """Draw an attributed graph with communities and power-law degrees.

    Every node has an expected degree from a power law and belongs to a community.
    Most edges stay inside a community, some close a triangle, the rest join any two
    nodes, always in proportion to expected degrees. A node's attributes are words,
    some from its community's topic and the rest from everybody's.

    Parameters
    ----------
    nodes : int
        Number of nodes n, up to some millions.
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
    >>> make_graph(1000, average_degree=5, seed=1)
    Graph(1,000 nodes, 2,500 undirected edges, 500 attributes)
    """
    recipe = GraphRecipe(nodes=nodes, **options)
    wiring_seed, word_seed = np.random.SeedSequence(recipe.seed).spawn(2)
    rng = np.random.default_rng(wiring_seed)
    wiring = _Wiring.draw(recipe, rng)
    edges = _draw_edges(recipe, wiring, rng)
    notes = []
    if len(edges) < recipe.num_edges:
        notes.append(
            f"drew {len(edges):,} edges instead of {recipe.num_edges:,}: more do not "
            "fit beside the largest degree"
        )
    return Graph.from_indices(
        nodes,
        edges,
        attributes=_draw_words(recipe, wiring.community, word_seed),
        labels=wiring.community,
        notes=notes,
    )


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

    def starts(self, rng: np.random.Generator) -> IntArray:
        """Draw one end of every edge: each node about half of its expected degree."""
        whole = np.floor(self.weights / 2 + rng.random(len(self.weights)))
        nodes = np.repeat(np.arange(len(whole)), whole.astype(np.int64))
        shuffled: IntArray = rng.permutation(nodes)
        return shuffled

    def anyone(self, count: int, rng: np.random.Generator) -> IntArray:
        """Draw nodes in proportion to their weights."""
        return self._at(rng.random(count) * self.totals[-1])

    def partners(self, nodes: IntArray, rng: np.random.Generator) -> IntArray:
        """Draw whom nodes are joined to, in their community or anywhere."""
        stay = rng.random(len(nodes)) < self.inside[nodes]
        home = self.community[nodes]
        low = np.where(stay, self.totals[self.bounds[home]], 0.0)
        high = np.where(stay, self.totals[self.bounds[home + 1]], self.totals[-1])
        return self._at(low + rng.random(len(nodes)) * (high - low))

    def _at(self, places: FloatArray) -> IntArray:
        found = np.searchsorted(self.totals, places, side="right") - 1
        return self.order[np.minimum(found, len(self.order) - 1)]


def _draw_edges(
    recipe: GraphRecipe, wiring: _Wiring, rng: np.random.Generator
) -> IntArray:
    base = recipe.num_edges - round(recipe.closure * recipe.num_edges)
    starts = wiring.starts(rng)
    drawn = _Drawn(recipe)
    ends = wiring.partners(starts[:base], rng)
    drawn.add(starts[:base], ends, base)
    _top_up(drawn, wiring, base, rng)
    drawn.add(*_closing(drawn.edges, starts[base:], recipe.nodes, rng))
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
    edges: IntArray, nodes: IntArray, n: int, rng: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """Join nodes to a random neighbour of a random neighbour."""
    ends = np.concatenate([edges, edges[:, ::-1]])
    ends = ends[np.argsort(ends[:, 0], kind="stable")]
    bounds = np.searchsorted(ends[:, 0], np.arange(n + 1))

    def step(at: IntArray) -> IntArray:
        degree = bounds[at + 1] - bounds[at]
        chosen = (rng.random(len(at)) * degree).astype(np.int64)
        following: IntArray = ends[bounds[at] + chosen, 1]
        return following

    nodes = nodes[bounds[nodes + 1] > bounds[nodes]]
    return nodes, step(step(nodes))


class _Drawn:
    """Distinct edges in the order in which they were drawn, degrees bounded."""

    def __init__(self, recipe: GraphRecipe) -> None:
        self._n, self._limit = recipe.nodes, recipe.largest_degree
        self._most = recipe.num_edges
        self.edges: IntArray = np.empty((0, 2), dtype=np.int64)

    def add(self, u: IntArray, v: IntArray, target: int | None = None) -> None:
        """Add edges that are new, until there are ``target``."""
        pairs = np.stack([u, v], axis=1)[u != v]
        pairs = canonical_pairs(pairs, directed=False)
        both = np.concatenate([self.edges, pairs])
        _, first = np.unique(pair_keys(both, self._n), return_index=True)
        both = self._within_limit(both[np.sort(first)])
        self.edges = both[: self._most if target is None else target]

    def _within_limit(self, edges: IntArray) -> IntArray:
        """Drop the last edges of nodes that have too many."""
        ends = edges.ravel()
        degrees = np.bincount(ends, minlength=self._n)
        full = np.flatnonzero(degrees[ends] > self._limit)
        if not len(full):
            return edges
        full = full[np.argsort(ends[full], kind="stable")]
        start = np.searchsorted(ends[full], ends[full])
        late = full[np.arange(len(full)) - start >= self._limit]
        return np.delete(edges, np.unique(late // 2), axis=0)


def _draw_words(
    recipe: GraphRecipe, community: IntArray, seed: np.random.SeedSequence
) -> sp.csr_array | None:
    """Draw a sparse binary matrix: words of the community's topic, and any words."""
    if recipe.attributes == 0:
        return None
    rng = np.random.default_rng(seed)
    n, r = recipe.nodes, recipe.attributes
    topics = rng.integers(0, r, size=(recipe.num_communities, recipe.topic_size))
    per_node = np.maximum(1, rng.poisson(recipe.words, size=n))
    nodes = np.repeat(np.arange(n), per_node)
    # Some words are common and most are rare, as in any language.
    popularity = np.cumsum(1.0 / (np.arange(r) + 10.0))
    drawn = rng.random(len(nodes)) * popularity[-1]
    words = np.minimum(np.searchsorted(popularity, drawn, side="right"), r - 1)
    own = np.flatnonzero(rng.random(len(nodes)) < recipe.signal)
    place = rng.integers(0, recipe.topic_size, size=len(own))
    words[own] = topics[community[nodes[own]], place]
    keys = np.unique(nodes * r + words)
    nodes, words = np.divmod(keys, r)
    indptr = np.searchsorted(nodes, np.arange(n + 1))
    ones = np.ones(len(keys), dtype=np.float32)
    return sp.csr_array((ones, words, indptr), shape=(n, r))
