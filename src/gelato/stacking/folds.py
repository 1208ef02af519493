"""Training rows from hidden edges: features without them, labels with them.

A fold hides a tenth of the training edges, as test edges are hidden, and computes
everything again from the rest: lists, candidates and features then look as they will
when the real question is asked. Hidden edges among the candidates are positive, all
other candidates negative. The best-ranked negatives are all kept, the rest sampled
and weighed: a fold stays small and no count is distorted. Rows that stand for many
others spoil the trees (photo, validation AP: 11.7 with weights of about 10, 11.3 with
30), and so do weights that are left out (8.9).
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gelato.engines.local import map_ordered
from gelato.graph import FloatArray, Graph, IntArray, pair_keys
from gelato.kernels.chunks import default_threads, use_threads
from gelato.stacking.features import FeatureTable, features_of
from gelato.stacking.node_attributes import NodeAttributes
from gelato.stacking.pair_measures import Measures, Table

HIDDEN = 10
"""A fold hides one edge in so many."""
POSITIVES = 4_000
"""Folds are added until there are so many hidden edges."""
SAMPLED = 120_000
"""Negatives drawn from those that are not hard, in all folds."""
SAMPLED_EACH = 32
"""And not more than so many per hidden edge: a tiny graph has few to tell from."""
HARD = 10
"""Candidates kept per hidden edge, among the best by each plain score."""
MOST_HARD = 100_000
"""Candidates kept in a fold, among the best by each plain score."""
KEPT = 200_000
"""Candidates whose features are held at a time."""
MOST_CANDIDATES = 2_000_000
"""Candidates of a fold that rows are taken from; of more, an even share is."""

MARK, FOLDS = "folds.json", "fold-*.npz"
"""What a folder keeps: whose folds they are, and the folds."""

_BY = ("ac", "ease", "mix")
_MOST_TOGETHER = 5_000  # nodes: a fold then holds some 100 MB


@dataclass(frozen=True, eq=False)
class Fold:
    """The training rows of one fold.

    Parameters
    ----------
    pairs : (k, 2) int64
    features : (k, features) float32
    labels : (k,) bool
        Whether a pair is a hidden edge.
    weights : (k,) float64
        How many candidates a row stands for.
    hidden : int
        How many edges were hidden; some may be outside the candidates.
    """

    pairs: IntArray
    features: Table
    labels: npt.NDArray[np.bool_]
    weights: FloatArray
    hidden: int

    def save(self, path: Path) -> None:
        """Write the fold as arrays; the file appears whole or not at all."""
        partial = path.with_name(f".{path.name}.{os.getpid()}")
        with partial.open("wb") as file:
            np.savez(
                file,
                pairs=self.pairs,
                features=self.features,
                labels=self.labels,
                weights=self.weights,
                hidden=np.array(self.hidden),
            )
        partial.replace(path)

    @classmethod
    def load(cls, path: Path) -> Fold:
        """Read a fold that :meth:`save` wrote."""
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        return cls(**arrays | {"hidden": int(arrays["hidden"])})


def fold_count(num_edges: int) -> int:
    """Return how many folds give enough positives, from 1 to 10."""
    per_fold = max(1, num_edges // HIDDEN)
    return max(1, min(HIDDEN, math.ceil(POSITIVES / per_fold)))


def hidden_edges(graph: Graph, fold: int, seed: int) -> npt.NDArray[np.bool_]:
    """Return which edges a fold hides: folds of one seed hide disjoint tenths."""
    order = np.random.default_rng([seed, 16]).permutation(graph.num_edges)
    hidden = np.zeros(graph.num_edges, dtype=bool)
    hidden[order[fold::HIDDEN]] = True
    return hidden


def make_fold(
    graph: Graph,
    attributes: NodeAttributes | None,
    fold: int,
    *,
    folds: int = 1,
    seed: int = 0,
) -> Fold:
    """Hide a tenth of the edges of a graph and return the rows to learn from.

    Parameters
    ----------
    graph : Graph
        The training edges.
    attributes : NodeAttributes, optional
        Of the same nodes.
    fold, folds : int
        Which one, 0 to 9, and how many there are: they share the sampled negatives.
    seed : int
        Decides what is hidden and which negatives are drawn.
    """
    hidden = hidden_edges(graph, fold, seed)
    masked = graph.with_edges(graph.edges[~hidden])
    table = FeatureTable.of(Measures(masked, attributes))
    pairs, n = table.candidates, graph.num_nodes
    answers = pair_keys(graph.edges[hidden], n)
    rng = np.random.default_rng([seed, fold, 17])
    share = 1.0
    if len(pairs) > MOST_CANDIDATES and table.measures.is_large:
        # Positives are thinned too, or weights would tell them apart from the rest.
        share = MOST_CANDIDATES / len(pairs)
        pairs = pairs[np.sort(rng.choice(len(pairs), MOST_CANDIDATES, replace=False))]
    labels = np.isin(pair_keys(pairs, n), answers)
    most = min(round(HARD * share * len(answers)), MOST_HARD)
    hard = hard_candidates(table, pairs, most)
    rest = np.flatnonzero(~labels & ~hard)
    wanted = min(len(rest), SAMPLED // folds, SAMPLED_EACH * len(answers))
    drawn = np.sort(rng.choice(rest, wanted, replace=False))
    rows = np.sort(np.concatenate([np.flatnonzero(labels | hard), drawn]))
    weights = np.ones(len(pairs))
    weights[drawn] = len(rest) / max(1, wanted)
    features = table.of_pairs(pairs[rows])
    counted = round(share * len(answers))
    return Fold(pairs[rows], features, labels[rows], weights[rows], counted)


def hard_candidates(
    table: FeatureTable, pairs: IntArray, most: int
) -> npt.NDArray[np.bool_]:
    """Return which candidates are among the best by one of the plain scores."""
    chosen = np.zeros(len(pairs), dtype=bool)
    for scores in table.plain_scores(pairs, _BY):
        if len(scores) <= most:
            chosen[:] = True
            break
        chosen |= scores >= np.partition(scores, len(scores) - most)[-most]
    return chosen


def kept_folds(
    graph: Graph,
    attributes: NodeAttributes | None,
    *,
    folds: int,
    seed: int,
    folder: Path | None,
    identity: dict[str, Any],
) -> Iterator[Fold]:
    """Yield folds, from a folder where they are kept, else computed and kept.

    Those of a small graph are computed side by side, as many as there are threads.
    """
    if folder is not None:
        _claim(folder, identity)
    together = default_threads() if graph.num_nodes <= _MOST_TOGETHER else 1

    def kept(fold: int) -> Fold:
        path = None if folder is None else folder / FOLDS.replace("*", str(fold))
        if path is not None and path.exists():
            return Fold.load(path)
        # Alone, a fold uses all threads by itself.
        with use_threads(1 if together > 1 else None):
            made = make_fold(graph, attributes, fold, folds=folds, seed=seed)
        if path is not None:
            made.save(path)
        return made

    for first in range(0, folds, together):
        some = range(first, min(folds, first + together))
        yield from map_ordered(kept, some, workers=together)


@dataclass(frozen=True, eq=False)
class KeptTable:
    """The features of all candidates of a graph, in a file.

    Parameters
    ----------
    measures : Measures
        Of the graph.
    candidates : (k, 2) int64
    values : (k, features) float32
        Read from the file as it is needed.
    """

    measures: Measures
    candidates: IntArray
    values: Table

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(feature.name for feature in features_of(self.measures))

    def rows(self, part: slice) -> Table:
        """Return the features of some candidates."""
        return np.ascontiguousarray(self.values[part])


def kept_table(measures: Measures, folder: Path, identity: dict[str, Any]) -> KeptTable:
    """Return the features of all candidates from a folder, computed if they are not."""
    _claim(folder, identity)
    pairs, values = folder / "candidates.npy", folder / "candidate-features.npy"
    if not values.exists():
        table = FeatureTable.of(measures)
        np.save(pairs, table.candidates)
        shape = (len(table.candidates), len(table.names))
        partial = values.with_name(f".{values.name}.{os.getpid()}")
        out = np.lib.format.open_memmap(partial, "w+", np.dtype(np.float32), shape)
        for start in range(0, shape[0], KEPT):
            part = slice(start, start + KEPT)
            out[part] = table.rows(part)
        out.flush()
        partial.replace(values)
    return KeptTable(measures, np.load(pairs), np.load(values, mmap_mode="r"))


def _claim(folder: Path, identity: dict[str, Any]) -> None:
    """Throw away what another fit kept, and write down whose this is."""
    mark = folder / MARK
    text = json.dumps(identity, sort_keys=True)
    if not mark.exists() or mark.read_text("utf-8") != text:
        for stale in (*folder.glob(FOLDS), *folder.glob("candidate*.npy")):
            stale.unlink()
        mark.write_text(text, "utf-8")
