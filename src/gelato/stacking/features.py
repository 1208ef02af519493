"""One table of named features for pairs of nodes.

Every column has a line of documentation and a group that people understand. The
table is computed from :class:`~gelato.stacking.pair_measures.Measures` by sparse rows
and low-rank factors, for the pairs asked for only, with the same bits on any number of
threads.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gelato.graph import FloatArray, Graph, IntArray
from gelato.kernels import pair_attributes, pair_walks
from gelato.kernels.chunks import run_chunks
from gelato.stacking.lists import Lists, list_names, lists_and_candidates
from gelato.stacking.near_lists import near_lists_and_candidates
from gelato.stacking.node_attributes import node_attributes
from gelato.stacking.pair_measures import KINDS, Measures, Table, dots

SHARED, WALKS, POPULAR = "shared neighbours", "longer walks", "popularity"
ALIKE, AROUND, MUTUAL = "attributes", "neighbours' attributes", "mutual rank"
GROUPS = (SHARED, WALKS, ALIKE, AROUND, MUTUAL, POPULAR)
"""Groups of features, for explanations."""
RIDGE = "ridge walk"
"""A part of the longer walks that can be left out alone."""

_CHUNK = 20_000


@dataclass(frozen=True)
class Feature:
    """A column: its name, its group, and what it is."""

    name: str
    group: str
    about: str


_WALK_FEATURES = (
    Feature("cn", SHARED, "number of shared neighbours"),
    Feature("aa", SHARED, "shared neighbours, each over log(1 + degree)"),
    Feature("ra", SHARED, "shared neighbours, each over its degree"),
    Feature("rooted2", SHARED, "shared neighbours, each over the root of its degree"),
    Feature("jaccard", SHARED, "shared neighbours over all neighbours of both"),
    Feature("salton", SHARED, "shared neighbours over the root of both degrees"),
    Feature("lhn", SHARED, "shared neighbours over the product of both degrees"),
    Feature("ra_salton", SHARED, "ra over the root of both degrees"),
    Feature(
        "strong2", SHARED, "two-step walks along edges whose ends share neighbours"
    ),
    Feature("rarest", SHARED, "smallest degree of a shared neighbour"),
    Feature("second_rarest", SHARED, "second smallest degree of a shared neighbour"),
    Feature("count3", WALKS, "number of three-step walks"),
    Feature("l3", WALKS, "three-step walks over the roots of the degrees they pass"),
    Feature("log3", WALKS, "three-step walks over the log degrees they pass"),
    Feature("walk3", WALKS, "three-step random walks"),
    Feature("walk4", WALKS, "four-step random walks"),
    Feature("walk5", WALKS, "five-step random walks"),
    Feature("ac", WALKS, "three-step random walks against chance (times volume)"),
    Feature("count3_scaled", WALKS, "three-step walks over the product of degrees"),
    Feature("walk3_salton", WALKS, "three-step random walks over the root of degrees"),
    Feature("walk3_scaled", WALKS, "three-step random walks over product of degrees"),
    Feature("walk4_scaled", WALKS, "four-step random walks over product of degrees"),
    Feature("walk5_scaled", WALKS, "five-step random walks over product of degrees"),
    Feature("l3_salton", WALKS, "l3 over the root of both degrees"),
    Feature("walk3_per_2", WALKS, "three-step over two-step random walks"),
    Feature("walk5_per_3", WALKS, "five-step over three-step random walks"),
    Feature(
        "strong3", WALKS, "three-step walks along edges whose ends share neighbours"
    ),
    Feature("strong3_scaled", WALKS, "strong3 over the root of both degrees"),
    Feature("ease", WALKS, "ridge walk, both directions"),
    Feature("ease_less", WALKS, "ridge walk, the smaller direction"),
    Feature("ease_salton", WALKS, "ridge walk over the root of both degrees"),
    Feature("ease_even", WALKS, "ridge walk, neighbours over the root of degrees"),
    Feature("partial", WALKS, "partial correlation of both nodes in the ridge walk"),
    Feature("spectral", WALKS, "dot product of 64 eigenvectors times eigenvalues"),
    Feature("spectral_cosine", WALKS, "cosine of the same"),
)
_POPULARITY_FEATURES = (
    Feature("degree_less", POPULAR, "smaller of both degrees"),
    Feature("degree_more", POPULAR, "larger of both degrees"),
    Feature("degree_product", POPULAR, "product of both degrees"),
    Feature("clustering_less", POPULAR, "smaller of both clustering coefficients"),
    Feature("clustering_more", POPULAR, "larger of both clustering coefficients"),
    Feature("around_less", POPULAR, "smaller mean degree of neighbours"),
    Feature("around_more", POPULAR, "larger mean degree of neighbours"),
)
_ATTRIBUTE_FEATURES = (
    Feature("cosine", ALIKE, "cosine of attributes"),
    Feature("rare_cosine", ALIKE, "cosine of attributes weighed by their rarity"),
    Feature("log_odds", ALIKE, "log-odds of shared attributes along known edges"),
    Feature("cos", ALIKE, "cosine of 128 attribute factors"),
    Feature("bilinear", ALIKE, "known edges regressed on products of factors"),
    Feature("own_around_less", AROUND, "own factors, other's neighbours': smaller"),
    Feature("own_around_more", AROUND, "own factors, other's neighbours': larger"),
    Feature("around_around", AROUND, "factors of both nodes' neighbours"),
    Feature("mix", AROUND, "factors of both nodes with their neighbours"),
    Feature("bilinear_around", AROUND, "bilinear, of both nodes' neighbours"),
    Feature("alike2", AROUND, "two-step walks along edges whose ends are alike"),
    Feature("alike3", AROUND, "three-step walks along edges whose ends are alike"),
    Feature("alike3_scaled", AROUND, "alike3 over the root of both degrees"),
)


def _rank_features(name: str) -> tuple[Feature, ...]:
    return (
        Feature(f"{name}_rank_less", MUTUAL, f"better rank in both lists by {name}"),
        Feature(f"{name}_rank_more", MUTUAL, f"worse rank in both lists by {name}"),
        Feature(f"{name}_share_less", MUTUAL, f"{name} over the best of a list: less"),
        Feature(f"{name}_share_more", MUTUAL, f"{name} over the best of a list: more"),
    )


def features_of(measures: Measures) -> tuple[Feature, ...]:
    """Return the columns of the table of a graph."""
    own = [*_WALK_FEATURES, *_POPULARITY_FEATURES]
    if measures.attributes is not None:
        own += _ATTRIBUTE_FEATURES
    for name in list_names(measures):
        own += _rank_features(name)
    return tuple(own)


def left_out(names: Sequence[str], parts: Collection[str]) -> list[int]:
    """Return the columns of some groups, with the ranks that are made of them.

    Parameters
    ----------
    names : sequence of str
        The columns of a table.
    parts : collection of str
        Groups of features, or ``"ridge walk"``.
    """
    group = {name: told.partition(":")[0] for name, told in feature_guide().items()}

    def gone(name: str) -> bool:
        source = re.sub("_(rank|share)_(less|more)$", "", name)
        ridge = source.startswith("ease") or source == "partial"
        return bool({group[name], group[source], RIDGE if ridge else ""} & {*parts})

    return [at for at, name in enumerate(names) if gone(name)]


@dataclass(frozen=True, eq=False)
class FeatureTable:
    """The features of one graph: measures and lists, read for any pairs.

    Parameters
    ----------
    measures : Measures
    lists : Lists
    candidates : (k, 2) int64
        Pairs worth scoring, sorted.
    """

    measures: Measures
    lists: Lists
    candidates: IntArray

    @classmethod
    def of(cls, measures: Measures) -> FeatureTable:
        """Make the lists of a graph."""
        make = near_lists_and_candidates if measures.is_large else lists_and_candidates
        return cls(measures, *make(measures))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(feature.name for feature in features_of(self.measures))

    def rows(self, part: slice) -> Table:
        """Return the features of some candidates."""
        return self.of_pairs(self.candidates[part])

    def of_pairs(self, pairs: IntArray) -> Table:
        """Return the features of pairs (u < v, sorted), as (pairs, features)."""
        self._prepare()
        out = np.empty((len(pairs), len(self.names)), dtype=np.float32)
        bounds = _row_cuts(pairs, self._chunk)

        def fill(chunk: int) -> None:
            part = slice(bounds[chunk], bounds[chunk + 1])
            out[part] = self._columns(np.ascontiguousarray(pairs[part]))

        run_chunks(fill, len(bounds) - 1)
        return out

    def plain_scores(self, pairs: IntArray, names: tuple[str, ...]) -> list[FloatArray]:
        """Return some list scores of pairs (u < v, sorted), those that there are."""
        wanted = [name for name in names if name in self.lists.names]
        out = np.empty((len(wanted), len(pairs)))
        bounds = _row_cuts(pairs, self._chunk)
        self._prepare()

        def fill(chunk: int) -> None:
            part = slice(bounds[chunk], bounds[chunk + 1])
            some = np.ascontiguousarray(pairs[part])
            for at, name in enumerate(wanted):
                out[at, part] = _plain_score(self.measures, name, some)

        run_chunks(fill, len(bounds) - 1)
        return list(out)

    @property
    def _chunk(self) -> int:
        """Pairs per part: buffers of the size of the graph are made for each."""
        return max(_CHUNK, self.measures.num_nodes // 4)

    def _prepare(self) -> None:
        """Compute what pairs share before threads ask for it."""
        measures = self.measures
        _ = measures.walk_kinds, measures.spectral_factors, measures.clustering
        _ = measures.neighbour_degrees, measures.counts, measures.pattern
        measures.ridge_pairs(np.zeros((0, 2), dtype=np.int64))
        if measures.attributes is not None:
            _ = measures.neighbour_factors, measures.mixed_factors
            _ = measures.bilinear_factors, measures.attribute_columns
            _ = measures.bilinear_around

    def _columns(self, pairs: IntArray) -> Table:
        found = {
            **_walk_columns(self.measures, pairs),
            **_popularity(self.measures, pairs),
        }
        if self.measures.attributes is not None:
            found |= _attribute_columns(self.measures, pairs)
        for name in self.lists.names:
            found |= _rank_columns(self.lists, name, pairs, found[name])
        return np.stack([found[name] for name in self.names], axis=1).astype(np.float32)


def pair_features(graph: Graph, pairs: Any) -> Any:
    """Return the features of pairs of nodes as a table with named columns.

    Everything is computed from the edges and attributes of ``graph``; give a graph
    without the edges that are to be predicted. See :func:`feature_guide` for what the
    columns are.

    Parameters
    ----------
    graph : Graph
        Undirected.
    pairs : (p, 2) int
        Node indices; the order of both nodes does not matter.

    Returns
    -------
    polars.DataFrame
        ``source`` and ``target`` (ids), and one column per feature.

    Examples
    --------
    >>> square = Graph.from_indices(4, [(0, 1), (1, 2), (2, 3), (0, 3)])
    >>> pair_features(square, [(0, 2)])["cn"].to_list()
    [2.0]
    """
    import polars as pl

    graph.require_undirected("A table of pair features")
    given = np.asarray(pairs, dtype=np.int64).reshape(-1, 2)
    _check_pairs(given, graph.num_nodes)
    measures = Measures(graph, node_attributes(graph))
    table = FeatureTable.of(measures)
    canonical = np.sort(given, axis=1)
    order = np.lexsort((canonical[:, 1], canonical[:, 0]))
    values = np.empty((len(given), len(table.names)), dtype=np.float32)
    values[order] = table.of_pairs(canonical[order])
    ids = graph.node_ids
    columns = {"source": ids[given[:, 0]].tolist(), "target": ids[given[:, 1]].tolist()}
    return pl.DataFrame(
        columns | {name: values[:, at] for at, name in enumerate(table.names)}
    )


def feature_guide() -> dict[str, str]:
    """Return what every feature is, by name; a graph without attributes has fewer."""
    ranks = [
        f for name in ("ra", "ac", "ease", "cos", "mix") for f in _rank_features(name)
    ]
    every = (*_WALK_FEATURES, *_POPULARITY_FEATURES, *_ATTRIBUTE_FEATURES, *ranks)
    return {feature.name: f"{feature.group}: {feature.about}" for feature in every}


def _check_pairs(pairs: IntArray, num_nodes: int) -> None:
    from gelato.errors import InputError

    outside = (pairs < 0) | (pairs >= num_nodes)
    if outside.any() or np.any(pairs[:, 0] == pairs[:, 1]):
        raise InputError(
            f"Pairs must be two different nodes of 0 to {num_nodes - 1:,}.",
            hint="Give node indices; graph.indices_of(ids) finds them.",
        )


def _row_cuts(pairs: IntArray, size: int) -> list[int]:
    """Cut sorted pairs into parts of about a size, where it can be between rows."""
    if not len(pairs):
        return [0]
    starts = np.searchsorted(pairs[:, 0], pairs[::size, 0])
    return [*np.unique(starts).tolist(), len(pairs)]


def _walk_columns(measures: Measures, pairs: IntArray) -> dict[str, Any]:
    """Return the features of shared neighbours and longer walks."""
    weights, factors = measures.walk_kinds
    kinds = len(KINDS)
    raw = np.empty((len(pairs), 2 * kinds + 5))
    pattern, limits = measures.pattern, (measures.walks_are_long, measures.hub)
    pair_walks.walks_of_pairs(pairs, pattern, weights, factors, limits, raw)
    two = dict(zip(KINDS, raw.T[:kinds], strict=True))
    three = dict(zip(KINDS, raw.T[kinds : 2 * kinds], strict=True))
    four, five, shared, rarest, second = raw.T[2 * kinds :]
    u, v = pairs.T
    degrees, counts = measures.graph.degrees, measures.counts
    product = np.maximum(degrees[u] * degrees[v], 1e-9)
    root = np.sqrt(product)
    halves = measures.ridge_pairs(pairs)
    both = halves[:, 0] + halves[:, 1]
    spectral = measures.spectral_factors
    return {
        "cn": shared,
        "aa": two["log"],
        "ra": two["walk"],
        "rooted2": two["root"],
        "jaccard": shared / np.maximum(counts[u] + counts[v] - shared, 1.0),
        "salton": two["count"] / root,
        "lhn": two["count"] / product,
        "ra_salton": two["walk"] / root,
        "strong2": two["strong"],
        "rarest": rarest,
        "second_rarest": second,
        "count3": three["count"],
        "l3": three["root"],
        "log3": three["log"],
        "walk3": three["walk"],
        "walk4": four,
        "walk5": five,
        "ac": three["walk"] - degrees[u] * degrees[v] / max(degrees.sum(), 1e-9),
        "count3_scaled": three["count"] / product,
        "walk3_salton": three["walk"] / root,
        "walk3_scaled": three["walk"] / product,
        "walk4_scaled": four / product,
        "walk5_scaled": five / product,
        "l3_salton": three["root"] / root,
        "walk3_per_2": _ratio(three["walk"], two["walk"]),
        "walk5_per_3": _ratio(five, three["walk"]),
        "strong3": three["strong"],
        "strong3_scaled": three["strong"] / root,
        "ease": both,
        "ease_less": halves[:, :2].min(axis=1),
        "ease_salton": both / root,
        "ease_even": halves[:, 3],
        "partial": halves[:, 2],
        "spectral": dots(pairs, *measures.eigenvectors),
        "spectral_cosine": dots(pairs, spectral, spectral),
        "alike2": two["alike"],
        "alike3": three["alike"],
        "alike3_scaled": three["alike"] / root,
    }


def _plain_score(measures: Measures, name: str, pairs: IntArray) -> FloatArray:
    """Return one list score of pairs."""
    if name == "ease":
        return np.asarray(measures.ridge_pairs(pairs)[:, :2].sum(axis=1))
    if name == "mix":
        return dots(pairs, measures.mixed_factors, measures.mixed_factors).astype(float)
    raw = np.empty((len(pairs), 2 * len(KINDS) + 5))
    limits = (False, measures.hub)
    kinds = measures.walk_kinds
    pair_walks.walks_of_pairs(pairs, measures.pattern, *kinds, limits, raw)
    degrees = measures.graph.degrees
    u, v = pairs.T
    chance = degrees[u] * degrees[v] / max(degrees.sum(), 1e-9)
    return np.asarray(raw[:, len(KINDS)] - chance)


def _popularity(measures: Measures, pairs: IntArray) -> dict[str, Any]:
    """Return the features that only tell how popular both nodes are."""
    found: dict[str, Any] = {}
    for name, values in (
        ("degree", measures.graph.degrees),
        ("clustering", measures.clustering),
        ("around", measures.neighbour_degrees),
    ):
        ends = values[pairs]
        found[f"{name}_less"] = ends.min(axis=1)
        found[f"{name}_more"] = ends.max(axis=1)
    found["degree_product"] = found["degree_less"] * found["degree_more"]
    return found


def _attribute_columns(measures: Measures, pairs: IntArray) -> dict[str, Any]:
    """Return the features of attributes, own and neighbours'."""
    own = measures.attributes
    assert own is not None
    rows = own.rows
    csr = (rows.indptr, rows.indices, rows.data)
    sums = np.empty((len(pairs), 3))
    pair_attributes.shared_sums(pairs, csr, measures.attribute_columns, sums)
    u, v = pairs.T
    norms = own.rare_norms[u] * own.rare_norms[v]
    factors, around = own.factors, measures.neighbour_factors
    mixed = measures.mixed_factors
    crossed = np.stack([dots(pairs, factors, around), dots(pairs, around, factors)])
    bilinear = measures.bilinear_factors
    return {
        "cosine": sums[:, 0],
        "rare_cosine": np.divide(
            sums[:, 1], norms, out=np.zeros(len(pairs)), where=norms > 0
        ),
        "log_odds": sums[:, 2],
        "cos": dots(pairs, factors, factors),
        "bilinear": dots(pairs, bilinear, factors),
        "own_around_less": crossed.min(axis=0),
        "own_around_more": crossed.max(axis=0),
        "around_around": dots(pairs, around, around),
        "mix": dots(pairs, mixed, mixed),
        "bilinear_around": dots(pairs, measures.bilinear_around, around),
    }


def _rank_columns(
    lists: Lists, name: str, pairs: IntArray, scores: FloatArray
) -> dict[str, Any]:
    """Return the features of mutual rank by one score."""
    found = lists.ranks(name, pairs, np.ascontiguousarray(scores, dtype=np.float32))
    rank, share = found[:, :, 0], found[:, :, 1]
    return {
        f"{name}_rank_less": rank.min(axis=1),
        f"{name}_rank_more": rank.max(axis=1),
        f"{name}_share_less": share.min(axis=1),
        f"{name}_share_more": share.max(axis=1),
    }


def _ratio(above: FloatArray, below: FloatArray) -> FloatArray:
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)
