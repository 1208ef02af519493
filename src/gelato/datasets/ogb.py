"""Link prediction data in the files of the Open Graph Benchmark, its split as it is.

A folder such as ``ogbl_collab`` holds ``raw/edge.csv.gz`` (one pair per line),
``raw/num-node-list.csv.gz``, perhaps ``raw/node-feat.csv.gz``, and under ``split/NAME``
the parts as ``train.pt``, ``valid.pt`` and ``test.pt``. Nothing is downloaded here.
"""

from __future__ import annotations

import codecs
import gzip
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gelato.errors import InputError
from gelato.graph import FloatArray, Graph, IntArray, canonical_pairs, pair_keys
from gelato.splits.edge_split import PARTS, EdgeSplit, Part


@dataclass(frozen=True, eq=False)
class OGBLinks:
    """A split, and the lists that OGB evaluates with, in the order of its files.

    Parameters
    ----------
    split : EdgeSplit
        Graph and parts; a pair that an earlier part has, too, is in that one alone.
    positives : dict
        By part the pairs of the file, ``(p, 2)``, repeated ones included.
    negatives : dict
        By part the given negatives: ``(k, 2)`` where all positives share them,
        ``(p, k, 2)`` where each has its own; no entry where the file has none.
    """

    split: EdgeSplit
    positives: dict[Part, IntArray]
    negatives: dict[Part, IntArray]


def read_ogb(
    folder: str | os.PathLike[str],
    *,
    split: str | None = None,
    directed: bool = False,
) -> OGBLinks:
    """Read a link property prediction dataset of OGB from its folder.

    Parameters
    ----------
    folder : path
        Such as ``dataset/ogbl_collab``, with ``raw`` and ``split`` in it.
    split : str, optional
        Folder below ``split``: ``"time"``, ``"throughput"``, ...; default the only one.
    directed : bool
        Whether pairs have a direction, as in ogbl-citation2.

    Examples
    --------
    >>> read_ogb("dataset/ogbl_collab").negatives["test"]  # doctest: +SKIP
    """
    root = Path(folder)
    graph = _read_graph(root / "raw", directed=directed)
    parts = _split_folder(root, split)
    files = {part: _read_part(parts / f"{part}.pt") for part in PARTS}
    positives = {
        part: _pairs_of(files[part], "edge", parts / f"{part}.pt", graph.num_nodes)
        for part in PARTS
    }
    negatives: dict[Part, IntArray] = {}
    for part in PARTS:
        found = _negatives_of(files[part], parts / f"{part}.pt", graph.num_nodes)
        if found is not None:
            negatives[part] = found
    made = _split_of(graph, positives, negatives)
    return OGBLinks(made, positives, negatives)


def _read_graph(raw: Path, *, directed: bool) -> Graph:
    nodes = int(_table(raw / "num-node-list.csv.gz")[0, 0])
    edges = _table(raw / "edge.csv.gz").astype(np.int64)
    _refuse_outside(edges, raw / "edge.csv.gz", "line", nodes)
    features = raw / "node-feat.csv.gz"
    attributes = _table(features) if features.exists() else None
    if attributes is not None and len(attributes) != nodes:
        raise InputError(
            f"{features} has {len(attributes):,} rows for {nodes:,} nodes."
        )
    return Graph.from_indices(nodes, edges, attributes=attributes, directed=directed)


def _table(path: Path) -> FloatArray:
    try:
        with gzip.open(path, "rt") as file:
            rows = np.loadtxt(file, delimiter=",", ndmin=2)
    except OSError as error:
        raise InputError(
            f"{path} cannot be read: {error}.",
            hint="Name the folder that holds raw and split, such as ogbl_collab.",
        ) from error
    except ValueError as error:
        raise InputError(f"{path} is not a table of numbers: {error}.") from error
    if not rows.size:
        raise InputError(f"{path} is empty.")
    return rows


def _split_folder(root: Path, split: str | None) -> Path:
    found = sorted(path.name for path in (root / "split").glob("*") if path.is_dir())
    if split is None and len(found) == 1:
        split = found[0]
    if split not in found:
        raise InputError(
            f"{root / 'split'} has no split called {split!r}."
            if split
            else f"{root / 'split'} has {len(found)} splits.",
            hint=f"Choose one of: {', '.join(found)}." if found else "It is empty.",
        )
    return root / "split" / split


def _read_part(path: Path) -> Mapping[str, Any]:
    """Return the arrays of a part; only numbers are unpickled, no code is run."""
    import torch

    kinds = [type(np.dtype(kind)) for kind in (np.int32, np.int64, np.float32, float)]
    rebuild = np._core.multiarray._reconstruct  # type: ignore[attr-defined]
    old = "numpy.core.multiarray._reconstruct"  # before numpy 2
    allowed = [rebuild, (rebuild, old), np.ndarray, np.dtype, codecs.encode, bytes]
    try:
        with torch.serialization.safe_globals([*allowed, *kinds]):
            held = torch.load(path, weights_only=True)
    except Exception as error:  # whatever a damaged file makes torch raise
        raise InputError(
            f"{path} cannot be read: {type(error).__name__}.",
            hint="A file of OGB's split holds named arrays of numbers alone.",
        ) from error
    if not isinstance(held, Mapping):
        raise InputError(f"{path} holds a {type(held).__name__}, not named arrays.")
    return held


def _pairs_of(held: Mapping[str, Any], key: str, path: Path, nodes: int) -> IntArray:
    """Return named pairs, or those of a list of sources and one of targets."""
    if key in held:
        pairs = np.asarray(held[key])
    elif {"source_node", "target_node"} <= set(held):
        ends = [np.asarray(held[name]) for name in ("source_node", "target_node")]
        pairs = np.stack(ends, axis=-1)
    else:
        raise InputError(
            f"{path} holds neither {key!r} nor 'source_node' and 'target_node'; it "
            f"holds: {', '.join(map(repr, held))}."
        )
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise InputError(f"{path}: {key!r} has shape {pairs.shape}, not (k, 2).")
    pairs = pairs.astype(np.int64)
    _refuse_outside(pairs, path, f"{key!r} row", nodes)
    return pairs


def _negatives_of(held: Mapping[str, Any], path: Path, nodes: int) -> IntArray | None:
    if "edge_neg" in held:
        found = _pairs_of(held, "edge_neg", path, nodes)
        if not len(found):
            raise InputError(f"{path}: 'edge_neg' is empty.")
        return found
    if "target_node_neg" not in held:
        return None
    targets = np.asarray(held["target_node_neg"], dtype=np.int64)
    sources = np.asarray(held["source_node"], dtype=np.int64)
    if targets.ndim != 2 or len(targets) != len(sources) or not targets.size:
        raise InputError(
            f"{path}: 'target_node_neg' has shape {targets.shape}; expected a row with "
            f"at least one node for each of {len(sources):,} positives."
        )
    lists = np.stack(np.broadcast_arrays(sources[:, None], targets), axis=-1)
    _refuse_outside(targets, path, "'target_node_neg' row", nodes)
    return np.ascontiguousarray(lists)


def _refuse_outside(ends: IntArray, path: Path, where: str, nodes: int) -> None:
    wrong = np.argwhere((ends < 0) | (ends >= nodes))
    if len(wrong):
        row, column = wrong[0].tolist()
        place = row + 1 if where == "line" else row
        raise InputError(
            f"{path}: {where} {place} names node {ends[row, column]}, but nodes are "
            f"numbered 0 to {nodes - 1}."
        )


def _split_of(
    graph: Graph, positives: dict[Part, IntArray], negatives: dict[Part, IntArray]
) -> EdgeSplit:
    """Return the split, and in the graph's notes what its files repeat."""
    parts: dict[Part, IntArray] = {}
    known: IntArray = np.empty(0, dtype=np.int64)
    notes = []
    for part in PARTS:
        pairs = canonical_pairs(positives[part], directed=graph.directed)
        pairs = pairs[pairs[:, 0] != pairs[:, 1]]
        keys, first = np.unique(pair_keys(pairs, graph.num_nodes), return_index=True)
        new = ~np.isin(keys, known)
        parts[part] = pairs[first[new]]
        left = len(positives[part]) - len(parts[part])
        if left:
            notes.append(
                f"{part}: {left:,} pairs are repeated, loops or in an earlier part"
            )
        known = np.concatenate([known, keys[new]])
    for part, lists in negatives.items():
        keys = pair_keys(
            canonical_pairs(lists.reshape(-1, 2), directed=graph.directed),
            graph.num_nodes,
        )
        edges = np.flatnonzero(np.isin(keys, known))
        if len(edges):
            pair = lists.reshape(-1, 2)[edges[0]].tolist()
            notes.append(
                f"{part}: {len(edges):,} given negatives are edges, the first at place "
                f"{edges[0]}: {pair}"
            )
    beside = len(np.setdiff1d(pair_keys(graph.edges, graph.num_nodes), known))
    if beside:
        notes.append(f"raw: {beside:,} edges are in no part and left out")
    edges = np.concatenate([parts[part] for part in PARTS])
    whole = Graph.from_indices(
        graph.num_nodes,
        edges,
        attributes=graph.attributes,
        directed=graph.directed,
        notes=tuple(notes),
    )
    return EdgeSplit(whole, parts["train"], parts["valid"], parts["test"])
