"""What the paper says about its numbers, checked against the records.

Claims in its text (gains, speed-ups, numbers of parameters) and orders of methods.
"""

from __future__ import annotations

import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from gelato.graph import Graph
from gelato.models.registry import make, preset
from gelato.paper.cells import cells, row_records
from gelato.paper.experiment import read_experiment, read_facts
from gelato.paper.timing import find_times, training_seconds
from gelato.splits import split_edges

# All but SEAL, whose classifier depends on the sizes of subgraphs.
NAMED = (
    *("mlp", "gelato", "gae", "hgcn", "lgcn", "neo-gnn", "bscnets"),
    *("tlc-gnn", "nbfnet", "walkpool"),
)
DATASETS = ("cora", "citeseer", "pubmed", "photo", "computers")
GNNS = (
    *("GAE", "SEAL", "HGCN", "LGCN", "TLC-GNN", "Neo-GNN", "NBFNet"),
    *("BScNets", "WalkPool"),
)
Scores = dict[str, dict[str, float]]
"""AP in percent by row, then by dataset."""


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper as a number.

    Parameters
    ----------
    name : str
        What is claimed.
    printed : str
        What the paper says.
    published : float, optional
        What its own tables give.
    ours : float, optional
        What the recorded runs give, where all that it needs is recorded.
    unit : str
        ``"%"`` or ``"times"``.
    note : str
        Where the paper's words and its tables differ.
    command : str
        What runs what ours needs.
    """

    name: str
    printed: str
    published: float | None
    ours: float | None
    unit: str
    note: str = ""
    command: str = ""


def claims(results: Path) -> list[Claim]:
    """Return the headline claims beside what tables and recorded runs give.

    Parameters
    ----------
    results : Path
        Folder of recorded runs.
    """
    paper, here = table_scores("ap"), table_scores("ap", results)
    neo = "the 145.2 % are against Neo-GNN on every graph, not against the best GNN"
    gains = (
        ("gain over Neo-GNN", "145.2 %", ("Neo-GNN",), neo),
        ("gain over the best GNN of each graph", "not printed", GNNS, neo),
        ("gain over autocovariance", "52.6 %", ("AC",), ""),
    )
    told = [
        _gain(f"{name}, mean over graphs", printed, (paper, here), rivals, note)
        for name, printed, rivals, note in gains
    ]
    return [*told, _training_gain(results), *_speed_ups(results), _parameter_ratio()]


def _gain(
    name: str,
    printed: str,
    scores: tuple[Scores, Scores],
    rivals: Sequence[str],
    note: str,
) -> Claim:
    """Return a gain; ours over the graphs where both sides are recorded."""
    paper, here = scores
    graphs = shared_graphs(paper, here, rivals)
    ours = mean_gain(here, rivals, graphs) if graphs else None
    if graphs and len(graphs) < len(DATASETS):
        there = mean_gain(paper, rivals, graphs)
        known = (
            "" if there is None else f", where the paper's tables give {there:.1f} %"
        )
        note = f"{note}; ours is over {', '.join(graphs)}{known}".lstrip("; ")
    command = "gelato reproduce ap"
    return Claim(name, printed, mean_gain(paper, rivals), ours, "%", note, command)


def shared_graphs(paper: Scores, here: Scores, rivals: Sequence[str]) -> list[str]:
    """Return the graphs on which Gelato and the paper's best rival are recorded.

    A gain over weaker rivals alone would flatter Gelato.
    """
    found = []
    for dataset in DATASETS:
        known = [rival for rival in rivals if dataset in paper.get(rival, {})]
        best = max(known, key=lambda rival: paper[rival][dataset], default="")
        if dataset in here.get("Gelato", {}) and dataset in here.get(best, {}):
            found.append(dataset)
    return found


def _training_gain(results: Path) -> Claim:
    ablation, own = table_scores("ablation"), table_scores("ablation", results)
    return Claim(
        "gain of unbiased training, photo",
        "8.5 %",
        mean_gain(ablation, ("Gelato-UT",), ["photo"]),
        mean_gain(own, ("Gelato-UT",), ["photo"]),
        "%",
        "compares unbiased with biased training, both with the N-pair loss",
        "gelato reproduce ablation --datasets photo",
    )


def _speed_ups(results: Path) -> list[Claim]:
    paper: Mapping[str, Any] = read_facts("time")["rows"]
    record = find_times(results, "photo")
    found = (record or {"methods": {}})["methods"]
    ours: list[float | None] = [None, None]
    if {"gelato", "neo-gnn"} <= set(found):
        neo, own = found["neo-gnn"], found["gelato"]
        slow = training_seconds(neo["training"]["biased"], neo["inference_seconds"])
        fast = training_seconds(own["training"]["unbiased"], own["inference_seconds"])
        ours = [slow / fast, neo["inference_seconds"] / own["inference_seconds"]]
    note = "ours is carried over from a few steps, on a CPU; the paper's is of a GPU"
    return [
        Claim(
            f"{name} speed-up over Neo-GNN, photo",
            printed,
            paper["neo-gnn"][place] / paper["gelato"][place],
            ours[place],
            "times",
            note,
            "gelato reproduce time --datasets photo",
        )
        for place, (name, printed) in enumerate(
            [("training", "11"), ("inference", "6,000")]
        )
    ]


def _parameter_ratio() -> Claim:
    ours = count_parameters("neo-gnn", "photo") / count_parameters("gelato", "photo")
    return Claim(
        "Neo-GNN's parameters against Gelato's, photo",
        "more than twice",
        455_200 / 208_130,
        ours,
        "times",
        command="gelato reproduce parameters",
    )


def table_scores(name: str, results: Path | None = None) -> Scores:
    """Return AP by row and dataset, as the paper prints it or as we recorded it.

    Parameters
    ----------
    name : str
        An experiment whose rows have the paper's names.
    results : Path, optional
        Folder of recorded runs; without it the published numbers.
    """
    experiment = read_experiment(name)
    scores: Scores = {}
    if results is None:
        found = [
            (row.name, row.dataset, row.published.get("ap")) for row in experiment.rows
        ]
    else:
        found = [
            (cell.method, cell.dataset, cell.mean)
            for cell in cells(experiment, results, "ap")
            if cell.state == "exact"  # a claim has no room for marks
        ]
    for row, dataset, value in found:
        if value is not None:
            scores.setdefault(row, {})[dataset] = value
    return scores


def mean_gain(
    scores: Scores,
    rivals: Sequence[str],
    datasets: Sequence[str] = DATASETS,
) -> float | None:
    """Return by how many percent Gelato exceeds the best rival, mean over graphs.

    ``None`` where a graph lacks Gelato or all rivals.

    Examples
    --------
    >>> scores = {"Gelato": {"x": 3.0, "y": 1.0}, "AC": {"x": 2.0, "y": 1.0}}
    >>> mean_gain(scores, ["AC"], ["x", "y"])
    25.0
    """
    gelato = scores.get("Gelato", {})
    gains = []
    for dataset in datasets:
        best = max(
            (scores[r][dataset] for r in rivals if dataset in scores.get(r, {})),
            default=None,
        )
        if best is None or dataset not in gelato:
            return None
        gains.append(100 * (gelato[dataset] / best - 1))
    return statistics.fmean(gains)


@dataclass(frozen=True)
class Ordering:
    """An ordering on one graph.

    Parameters
    ----------
    text, dataset : str
        What is said, and of which graph.
    published, ours : str
        Whether the paper's numbers and ours hold it: "holds" or "broken: ...", and
        what is missing.
    command : str
        What runs what is missing; empty if nothing is.
    """

    text: str
    dataset: str
    published: str
    ours: str
    command: str


def orderings(results: Path) -> list[Ordering]:
    """Return every ordering of the paper with what its numbers and ours say."""
    tables: dict[tuple[str, bool], Scores] = {}
    found = []
    for entry in read_facts("orderings")["rows"]:
        for dataset in entry["datasets"]:
            paper = _verdict(_values(entry, dataset, None, tables))
            values = _values(entry, dataset, results, tables)
            command = ""
            if _runs(entry["table"], dataset, _lacking(values), results):
                command = f"gelato reproduce {entry['table']} --datasets {dataset}"
            ours = _verdict(values)
            found.append(Ordering(entry["text"], dataset, paper, ours, command))
    return found


def _runs(table: str, dataset: str, lacking: Collection[str], results: Path) -> bool:
    """Tell whether a table's command would run something that is lacking.

    It would not where a reduced run is recorded, and no other planned.
    """
    return any(
        row.seeds and row.name in lacking and not row_records(row, results)
        for row in read_experiment(table).on([dataset]).rows
    )


def _lacking(groups: list[dict[str, float | None]]) -> list[str]:
    return [name for part in groups for name, value in part.items() if value is None]


def _values(
    entry: dict[str, Any],
    dataset: str,
    results: Path | None,
    tables: dict[tuple[str, bool], Scores],
) -> list[dict[str, float | None]]:
    """Return AP by method, group by group."""
    groups = []
    for group in entry["groups"]:
        values: dict[str, float | None] = {}
        for name in group:
            table, _, method = name.rpartition(":")
            key = (table or entry["table"], results is not None)
            if key not in tables:
                tables[key] = table_scores(key[0], results)
            values[method] = tables[key].get(method, {}).get(dataset)
        groups.append(values)
    return groups


def _verdict(groups: list[dict[str, float | None]]) -> str:
    broken = [
        f"{one} {a:.2f}, {two} {b:.2f}"
        for above, below in pairwise(groups)
        for one, a in above.items()
        for two, b in below.items()
        if a is not None and b is not None and a <= b
    ]
    lacking = ", ".join(_lacking(groups))
    known = [[v for v in part.values() if v is not None] for part in groups]
    parts = [f"broken: {'; '.join(broken)}"] if broken else []
    if not broken and all(known):
        parts.append("holds")
    if lacking:
        parts.append(f"without {lacking}" if parts else f"no full run of {lacking}")
    return "; ".join(parts)


_NODES = 40  # of the graph that stands in: no count depends on it


@cache
def count_parameters(method: str, dataset: str) -> int:
    """Return how many parameters a method trains on a benchmark graph.

    Only the number of attributes matters, so a small graph with as many stands in.

    Examples
    --------
    >>> count_parameters("gelato", "photo")
    208130
    """
    attributes = read_facts("datasets")["rows"][dataset][2]
    rng = np.random.default_rng(0)
    edges = rng.integers(0, _NODES, (4 * _NODES, 2))
    graph = Graph.from_indices(
        _NODES, edges, attributes=rng.random((_NODES, attributes))
    )
    model = make(method, **preset(dataset, method)).untrained(split_edges(graph))
    return sum(p.numel() for p in model.module_.parameters() if p.requires_grad)


def statistics_of(nodes: int, edges: int, attributes: int) -> list[Any]:
    """Return statistics as the paper prints them.

    Nodes, edges, attributes, average degree, and density in percent.

    Examples
    --------
    >>> statistics_of(3, 2, 7)
    [3, 2, 7, '1.33', '66.67']
    """
    pairs = nodes * (nodes - 1) // 2
    degree = f"{2 * edges / max(1, nodes):.2f}"
    return [nodes, edges, attributes, degree, f"{100 * edges / max(1, pairs):.2f}"]
