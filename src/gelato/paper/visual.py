"""The paper's visual analysis as data: small matrices of a few nodes, recorded.

Weights are not kept in the repository: the matrices are made from the checkpoint of
a recorded run, and are then all that is needed to draw.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from gelato.graph import FloatArray, Graph, IntArray
from gelato.paper.experiment import Experiment, Row
from gelato.paper.records import (
    Report,
    code_commit,
    lock,
    make_folders,
    write_record,
)
from gelato.paper.runner import RunSpec, Watch, find_record, fitted, paper_graph
from gelato.ranking.best import best_candidates
from gelato.ranking.evaluate import candidates_of
from gelato.splits import EdgeSplit, split_edges
from gelato.storage import environment
from gelato.training.loop import CHECKPOINT

FORMAT = 1
NODES = 160
_STEPS = 999  # levels of a stored matrix: more cannot be seen


def visual_path(results: Path, dataset: str) -> Path:
    """Return where the matrices of a dataset are recorded."""
    return results / "visual" / f"{dataset}.json"


def find_visual(results: Path, dataset: str) -> dict[str, Any] | None:
    """Return the recorded matrices of a dataset, or ``None``."""
    return find_record(visual_path(results, dataset), FORMAT, dataset)


def missing_panels(experiment: Experiment, results: Path) -> list[Row]:
    """Return the rows whose matrices are not recorded, or are of another run."""
    missing = []
    for row in experiment.rows:
        record = find_visual(results, row.dataset) or {"models": {}}
        known = record["models"].get(row.name, {}).get("spec")
        if known not in [spec.to_dict() for spec in row_specs(row)]:
            missing.append(row)
    return missing


def row_specs(row: Row) -> list[RunSpec]:
    """Return the runs that a row's matrices may be of: any of its seeds."""
    return replace(row, seeds=row.seeds or (1,)).runs()


def nearest_spec(row: Row, work: Path) -> RunSpec:
    """Return the first run of a row whose checkpoint is kept, else the first run."""
    specs = row_specs(row)
    kept = [spec for spec in specs if (work / spec.name / CHECKPOINT).exists()]
    return (kept or specs)[0]


def record_panels(
    row: Row,
    results: Path,
    work: Path,
    *,
    report: Report | None = None,
    watch: Watch | None = None,
) -> None:
    """Make and record the matrices of one row, beside those that are there.

    Parameters
    ----------
    row : Row
        A method on a dataset.
    results, work : Path
        Folders of recorded runs and of checkpoints; a training that is not finished
        there goes on first.
    report, watch : callable, optional
        As in :func:`gelato.paper.runner.perform`.
    """
    split = split_edges(paper_graph(row.dataset))
    spec = nearest_spec(row, work)
    folder = work / spec.name
    make_folders(folder)
    with lock(folder, report):
        if row not in missing_panels(_alone(row), results):
            return  # another process was faster
        model = fitted(spec, split, folder, watch)
    path = visual_path(results, row.dataset)
    make_folders(path.parent, work / "visual")
    with lock(work / "visual", report):
        record = find_visual(results, row.dataset) or _graph_part(split, row.dataset)
        record["models"][row.name] = {
            "spec": spec.to_dict(),
            **_model_part(model, split, np.array(record["nodes"])),
        }
        write_record(path, record)


def _alone(row: Row) -> Experiment:
    return Experiment("visual", "", (), (row,), "visual")


def chosen_nodes(graph: Graph, count: int = NODES) -> IntArray:
    """Return the nodes of the first class with most edges inside it, best first."""
    inside = np.arange(graph.num_nodes)
    if graph.labels is not None:
        inside = np.flatnonzero(graph.labels == graph.labels.min())
    own = sp.csr_array(graph.adjacency[inside][:, inside])
    degree = np.diff(own.indptr)
    return inside[np.argsort(-degree, kind="stable")[:count]]


def _graph_part(split: EdgeSplit, dataset: str) -> dict[str, Any]:
    """Return what no model changes: nodes, edges, distances of attributes."""
    graph = split.train_graph
    nodes = chosen_nodes(graph)
    return {
        "format": FORMAT,
        "dataset": dataset,
        "split": split.fingerprint,
        "nodes": nodes.tolist(),
        "edges": _inside(graph.edges, nodes).tolist(),
        "test_edges": _inside(split.positives("test"), nodes).tolist(),
        "distance": pack(attribute_distance(graph, nodes)),
        "environment": environment(),
        "commit": code_commit(),
        "models": {},
    }


def _model_part(model: Any, split: EdgeSplit, nodes: IntArray) -> dict[str, Any]:
    graph = split.train_graph
    scorer = model.scorer(graph)
    rule = candidates_of(split, "test")
    best = best_candidates(scorer, rule, len(split.positives("test")))
    part: dict[str, Any] = {
        "scores": pack(_ranked(scorer.score_rows(nodes)[:, nodes])),
        "predicted": _inside(best.pairs, nodes).tolist(),
    }
    weights = model.enhanced_adjacency(graph)
    if weights is not None:
        part["enhanced"] = pack(weights[nodes][:, nodes].toarray())
    return part


def _inside(pairs: IntArray, nodes: IntArray) -> IntArray:
    """Return the pairs among some nodes, as positions in their list."""
    place = np.full(int(max(pairs.max(initial=0), nodes.max())) + 1, -1)
    place[nodes] = np.arange(len(nodes))
    found = place[pairs]
    return found[(found >= 0).all(axis=1)]


def attribute_distance(graph: Graph, nodes: IntArray) -> FloatArray:
    """Return the Euclidean distances of the attributes of a few nodes."""
    if graph.attributes is None:
        return np.zeros((len(nodes), len(nodes)))
    chosen = graph.attributes[nodes]
    rows = chosen.toarray() if sp.issparse(chosen) else np.asarray(chosen)
    x = rows.astype(np.float64)
    squares = (x**2).sum(axis=1)
    distance: FloatArray = np.sqrt(
        np.maximum(0.0, squares[:, None] + squares - 2 * x @ x.T)
    )
    return distance


def _ranked(scores: FloatArray) -> FloatArray:
    """Return ranks in [0, 1]: scores crowd together, and a colour would show one."""
    k = len(scores)
    u, v = np.triu_indices(k, 1)
    values, place = np.unique(scores[u, v], return_inverse=True)
    ranks = np.zeros((k, k))
    ranks[u, v] = ranks[v, u] = place / max(1, len(values) - 1)
    return ranks


def pack(matrix: FloatArray) -> dict[str, Any]:
    """Return a symmetric matrix as its upper triangle in a thousand levels.

    Examples
    --------
    >>> pack(np.array([[0.0, 2.0], [2.0, 0.0]]))
    {'size': 2, 'largest': 2.0, 'levels': [999]}
    """
    u, v = np.triu_indices(len(matrix), 1)
    values = matrix[u, v]
    largest = float(values.max(initial=0.0)) or 1.0
    levels = np.round(_STEPS * values / largest).astype(int)
    return {"size": len(matrix), "largest": largest, "levels": levels.tolist()}


def unpack(packed: dict[str, Any]) -> FloatArray:
    """Return the symmetric matrix that :func:`pack` stored."""
    levels: Sequence[int] = packed["levels"]
    u, v = np.triu_indices(packed["size"], 1)
    matrix = np.zeros((packed["size"], packed["size"]))
    matrix[u, v] = matrix[v, u] = np.array(levels) * packed["largest"] / _STEPS
    return matrix
