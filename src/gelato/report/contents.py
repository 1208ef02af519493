"""What a page tells of a run, as plain data: rankings, heat maps, links and why.

Heat maps are the paper's visual analysis for any graph: input adjacency, enhanced
adjacency, distance of attributes and scores, over the same few nodes.
"""

from __future__ import annotations

import copy
import json
import os
import shlex
from collections.abc import Callable, Hashable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import reverse_cuthill_mckee

from gelato.errors import UsageError
from gelato.explain.explanation import Explanation
from gelato.explain.steps import Enhancer
from gelato.graph import FloatArray, Graph, IntArray
from gelato.models.registry import restore
from gelato.models.stack import Stack
from gelato.nn.similarity import pair_similarity
from gelato.ranking import Evaluation
from gelato.ranking.evaluate import Part
from gelato.ranking.scorers import RowScorer
from gelato.report.describe import (
    count_degrees,
    describe_attributes,
    describe_graph,
)
from gelato.report.measures import (
    expected_by_rank,
    gain_over,
    make_curves,
    rank_methods,
    ranking_row,
    score_histogram,
    where_it_works,
)
from gelato.splits import EdgeSplit
from gelato.stacking.calibration import Promise
from gelato.stacking.scorer import StackScorer
from gelato.storage import ENVIRONMENT, Run, read_run
from gelato.text import plain, plain_id
from gelato.version import __version__

DEFAULT_NODES = 60
MOST_NODES = 100
# What a matrix holds, what it says, and whether ranks are coloured: where values crowd
# together, a colour by value would show one colour.
_ABOUT = {
    "input adjacency": ("weight", "the edges that the model was given", False),
    "enhanced adjacency": (
        "weight",
        "edges and similarity pairs, with the weights of the model",
        False,
    ),
    "attribute distance": (
        "1 - cosine, coloured by rank",
        "dark where two nodes have alike attributes",
        True,
    ),
    "scores": ("score, coloured by rank", "what the model ranks pairs by", True),
}

_ROW_CELLS = 2_000_000  # scores of whole rows held at once


def make_heat_maps(
    model: Any,
    scorer: RowScorer,
    graph: Graph,
    held_out: IntArray,
    nodes: Sequence[Hashable] | None = None,
) -> dict[str, Any] | None:
    """Return the matrices of some nodes.

    Parameters
    ----------
    model : model
        Its enhanced graph is shown where it has one.
    scorer : RowScorer
        Scores pairs when the edges of ``graph`` are known.
    graph : Graph
        The known edges.
    held_out : (k, 2) int64
        Edges that ``graph`` lacks, to be marked.
    nodes : sequence of ids, optional
        Default: the nodes of highest degree of the largest class, or component.
    """
    if graph.num_nodes < 2:
        return None
    chosen, how = _chosen(graph, nodes)
    enhanced = model.enhanced_adjacency(graph)
    joined = graph.adjacency if enhanced is None else enhanced
    chosen = chosen[_order(joined[chosen][:, chosen])]
    if graph.is_bipartite:  # one kind after the other
        of_first = np.isin(chosen, graph.side(0))
        chosen = np.concatenate([chosen[of_first], chosen[~of_first]])
    inside = np.full(graph.num_nodes, -1)
    inside[chosen] = np.arange(len(chosen))
    marked = inside[held_out]
    marked = marked[(marked >= 0).all(axis=1)]
    maps = [_map("input adjacency", _among(graph.adjacency, chosen))]
    if enhanced is not None:
        maps.append(_map("enhanced adjacency", _among(enhanced, chosen)))
    if graph.num_attributes:
        maps.append(_map("attribute distance", _attribute_distance(graph, chosen)))
    maps.append(_map("scores", _scores(scorer, chosen, graph.num_nodes)))
    return {
        "how": how,
        "nodes": [plain_id(node) for node in graph.node_ids[chosen].tolist()],
        "held_out": marked.tolist(),
        "maps": maps,
    }


def _scores(scorer: RowScorer, chosen: IntArray, num_nodes: int) -> FloatArray:
    """Return the scores among some nodes; of whole rows only a few at a time."""
    at_once = max(1, _ROW_CELLS // num_nodes)
    starts = range(0, len(chosen), at_once)
    parts = [scorer.score_rows(chosen[i : i + at_once])[:, chosen] for i in starts]
    return np.concatenate(parts)


def _map(name: str, values: FloatArray) -> dict[str, Any]:
    """Return a matrix with what it shows, in three digits: nobody sees more."""
    unit, says, ranked = _ABOUT[name]
    rounded = [[float(f"{value:.3g}") for value in row] for row in values.tolist()]
    return {
        "name": name,
        "unit": unit,
        "says": says,
        "ranked": ranked,
        "values": rounded,
    }


def _chosen(graph: Graph, nodes: Sequence[Hashable] | None) -> tuple[IntArray, str]:
    if nodes is not None:
        found = np.unique(graph.indices_of(nodes))
        if not 2 <= len(found) <= MOST_NODES:
            raise UsageError(
                f"A heat map shows 2 to {MOST_NODES} nodes, and {len(found)} were "
                "named.",
                hint="Name some of them.",
            )
        return found, f"the {len(found)} nodes asked for"
    groups, noun = graph.components, "component"
    if graph.labels is not None and graph.labels.min(initial=0) >= 0:
        groups, noun = graph.labels, "class"
    largest = np.flatnonzero(groups == np.bincount(groups).argmax())
    if len(largest) < 2:
        largest = np.arange(graph.num_nodes)
        noun = "graph"
    count = np.bincount(graph.edges.ravel(), minlength=graph.num_nodes)[largest]
    if graph.is_bipartite:
        # Of either kind as many: nodes of one kind alone have no edge among them.
        halves = []
        for side in (0, 1):
            own = np.isin(largest, graph.side(side))
            order = np.argsort(-count[own], kind="stable")[: DEFAULT_NODES // 2]
            halves.append(largest[own][order])
        if all(map(len, halves)):
            best, kinds = np.concatenate(halves), " of each kind"
            sizes = " and ".join(f"{len(half)}" for half in halves)
            return best, f"the {sizes} nodes of highest degree{kinds}"
    best = largest[np.argsort(-count, kind="stable")[:DEFAULT_NODES]]
    whole = "the graph" if noun == "graph" else f"the largest {noun}"
    return np.sort(best), f"the {len(best)} nodes of highest degree in {whole}"


def _order(matrix: sp.csr_array) -> IntArray:
    """Return an order that puts joined nodes side by side."""
    # scipy writes into the index arrays' type that it expects: 32 bits.
    plain = sp.csr_matrix(matrix)
    order = reverse_cuthill_mckee(plain, symmetric_mode=False)
    return np.asarray(order, dtype=np.int64)


def _among(matrix: sp.csr_array, chosen: IntArray) -> FloatArray:
    dense: FloatArray = matrix[chosen][:, chosen].toarray()
    return dense


def _attribute_distance(graph: Graph, chosen: IntArray) -> FloatArray:
    k = len(chosen)
    u, v = np.triu_indices(k, 1)
    similar = pair_similarity(
        graph.attributes, np.stack([chosen[u], chosen[v]], axis=1)
    )
    distance = np.zeros((k, k))
    distance[u, v] = distance[v, u] = 1 - similar
    return distance


_WALKS, _EDGES, _ATTRIBUTES = 6, 2, 3


def list_links(model: Any, top: int) -> dict[str, Any]:
    """Return the best links with their evidence, and notes on all of them."""
    graph = model.graph_
    scorer = model.scorer(graph)
    # Explaining asks for the same scorer and enhanced graph every time: make them once.
    prepared = copy.copy(model)
    prepared.scorer = lambda _graph: scorer
    if isinstance(model, Enhancer):
        enhanced = model.enhanced(graph)
        prepared.enhanced = lambda _graph: enhanced
    if isinstance(scorer, StackScorer):
        table = model.table(graph)
        prepared.table = lambda _graph: table
    made = model.prediction(top=top)
    links = []
    for row in made.table.iter_rows(named=True):
        why = prepared.explain(
            row["source"],
            row["target"],
            top=_WALKS,
            top_edges=_EDGES,
            top_attributes=_ATTRIBUTES,
        )
        links.append({**plain(row), "why": short_explanation(why)})
    return {"links": links, "notes": list(made.notes)}


def short_explanation(why: Explanation) -> dict[str, Any]:
    """Return what a reader of a table wants to know of an explanation."""
    told: dict[str, Any] = plain(why.to_dict())
    kept = ("kind", "num_walks", "walk_score", "covered", "chance", "notes")
    more = {name: told.get(name) for name in ("groups", "base", "reason")}
    return {
        **{name: told[name] for name in kept},
        **more,
        "walks": told["walks"],
        "edges": [edge for edge in told["edges"] if edge["effects"]],
        "shared": told["shared"],
        "shared_rest": told["shared_rest"],
    }


FORMAT = 1
Say = Callable[[str], None]


def summarise_run(
    folder: str | os.PathLike[str],
    *,
    top: int = 100,
    nodes: Sequence[Hashable] | Callable[[Graph], Sequence[Hashable]] | None = None,
    say: Say | None = None,
) -> dict[str, Any]:
    """Return what a report shows about a run folder.

    Parameters
    ----------
    folder : path
        Written by ``model.save(folder)`` or ``gelato fit``.
    top : int
        How many predicted links to list.
    nodes : sequence of ids, or callable, optional
        Nodes of the heat maps (default: chosen by degree); a callable is given the
        graph of the run.
    say : callable, optional
        Told what is being worked on.

    Returns
    -------
    dict
        Plain data for JSON. ``ranking``, ``curves``, ``scores`` and ``where`` are
        None where the run held out no edges, ``training`` where nothing was trained,
        ``choice`` where the model was named.
        Only entries called ``seconds`` differ between two summaries of one run.
    """
    if top < 1:
        raise UsageError(f"The number of links to list is {top}; ask for at least 1.")
    tell = say or (lambda _: None)
    run = read_run(folder)
    model = restore(run, folder)
    part = _part(model.split_)
    named = nodes(run.graph) if callable(nodes) else nodes
    summary: dict[str, Any] = {
        "format": FORMAT,
        "gelato": __version__,
        "kind": "run",
        "name": Path(folder).resolve().name,
        "model": {"name": model.name, "summary": model.summary},
        "part": part,
        "data": _data(model.graph_),
        "split": None if model.split_ is None else model.split_.to_dict(),
        "notes": list(model.notes_),
        "choice": _choice(run),
    }
    tell("ranking the held-out edges")
    if part is None:
        nothing = ("verdict", "ranking", "curves", "scores", "where", "expected")
        summary |= dict.fromkeys((*nothing, "reliability"))
        known, held_out = model.graph_, model.graph_.edges[:0]
    else:
        summary |= _measured(run, model, part)
        known, held_out = model.split_.train_graph, model.split_.positives(part)
    tell("drawing heat maps")
    maps = make_heat_maps(model, model.scorer(known), known, held_out, named)
    tell("predicting and explaining links")
    summary |= {
        "heat_maps": maps,
        "prediction": list_links(model, top),
        "training": _training(run),
        "reproduce": _reproduce(run, Path(folder)),
    }
    made: dict[str, Any] = plain(summary)
    return made


def _data(graph: Graph) -> dict[str, Any]:
    """Return all that a page tells of a graph."""
    return describe_graph(graph) | {
        "degree_counts": count_degrees(graph),
        "attributes": describe_attributes(graph),
        "notes": list(graph.notes),
        "reading": None if graph.reading is None else {**graph.reading},
    }


def _part(split: EdgeSplit | None) -> Part | None:
    """Return whose edges are ranked: the test edges, or else the validation edges."""
    if split is None:
        return None
    parts: tuple[Part, ...] = ("test", "valid")
    return next((part for part in parts if len(split.positives(part))), None)


def _measured(run: Run, model: Any, part: Part) -> dict[str, Any]:
    """Return every section that follows from ranking held-out edges."""
    split: EdgeSplit = model.split_
    exact, biased, notes = rank_methods(model, split, part)
    own = exact[model.name]
    training = run.metrics.get("training") or {}
    fit_seconds = {model.name: float(training.get("seconds", 0.0))}
    rows = [ranking_row(n, r, fit_seconds.get(n, 0.0)) for n, r in exact.items()]
    rows.sort(key=lambda row: -row["ap"])
    rows.append(ranking_row(model.name, biased, fit_seconds[model.name]))
    scorer = model.scorer(split.train_graph)
    most = 10 * own.counts.num_positives
    return {
        "verdict": _verdict(model, exact, split, part),
        "ranking": {"rows": rows, "notes": notes, "evaluation": own.to_dict()},
        "curves": {
            "exact": make_curves(_strongest(model.name, exact), most=most),
            "biased": make_curves(
                {model.name: biased}, most=biased.counts.num_negatives
            ),
            "biased_evaluation": biased.to_dict(),
        },
        "scores": {
            "histogram": score_histogram(scorer, split, part),
            "tied_share": own.tied_share,
        },
        "expected": expected_by_rank(model, split),
        "reliability": [asdict(one) for one in _promises(model, split, part)] or None,
        "where": where_it_works(scorer, own.counts, split, part),
    }


def _promises(model: Any, split: EdgeSplit, part: Part) -> list[Promise]:
    """Return how far the precision of links held, for a model that promises one."""
    return model.promises(split, part) if isinstance(model, Stack) else []


def _strongest(name: str, exact: dict[str, Evaluation]) -> dict[str, Evaluation]:
    """Return the run's model and the best others, as many as a chart can show."""
    others = sorted((n for n in exact if n != name), key=lambda n: -exact[n].ap)
    return {n: exact[n] for n in (name, *others[:4])}


def _verdict(
    model: Any, exact: dict[str, Evaluation], split: EdgeSplit, part: Part
) -> dict[str, Any]:
    """Return who wins and by how much."""
    name = model.name
    own, others = exact[name], {n: r for n, r in exact.items() if n != name}
    best = max(exact, key=lambda n: exact[n].ap)
    rival = max(others, key=lambda n: others[n].ap) if others else None
    beside = None if rival is None else gain_over(model, rival, exact, split, part)
    return {
        "best": best,
        "model": name,
        "ap": own.ap,
        "best_ap": exact[best].ap,
        "random_ap": own.random_ap,
        "heuristic": rival,
        "heuristic_ap": None if rival is None else others[rival].ap,
        "against_heuristic": beside,
        "positives": own.counts.num_positives,
        "candidates": own.counts.num_positives + own.counts.num_negatives,
    }


def _choice(run: Run) -> dict[str, Any] | None:
    """Return how the model was chosen, where it was not named."""
    kept = run.metrics.get("choice")
    if not isinstance(kept, dict) or not isinstance(kept.get("reason"), str):
        return None
    return {
        "reason": kept["reason"],
        "candidates": len(kept.get("candidates", ())),
        "took": float(kept.get("seconds", 0.0)),
    }


def _training(run: Run) -> dict[str, Any] | None:
    if not run.history:
        return None
    metric = str(run.parameters.get("metric", "ap"))
    return {
        "metric": metric,
        "best_epoch": run.facts.get("best_epoch"),
        "best_value": run.facts.get("best_value"),
        "skipped_steps": run.facts.get("skipped_steps", 0),
        "epochs": [
            {"epoch": e["epoch"], "loss": e["loss"], "value": e.get(metric)}
            for e in run.history
        ],
        "train_seconds": float(sum(entry["seconds"] for entry in run.history)),
    }


def _reproduce(run: Run, folder: Path) -> dict[str, Any]:
    """Return the command that makes the run again from what it holds itself."""
    name = folder.resolve().name
    words = ["gelato", "fit", "--edges", f"{name}/graph.npz"]
    if run.split is not None:
        words += ["--split-file", f"{name}/split.parquet"]
    words += ["--model", run.model]
    for key, value in run.parameters.items():
        if isinstance(value, str | int | float | bool):
            words += ["--set", f"{key}={value}"]
    words += ["--output", f"{name}-again"]
    environment = json.loads((folder / ENVIRONMENT).read_text("utf-8"))
    return {
        "command": shlex.join(words),
        "parameters": run.parameters,
        "seed": run.parameters.get("seed"),
        "split_seed": None if run.split is None else run.split.seed,
        "environment": environment,
    }
