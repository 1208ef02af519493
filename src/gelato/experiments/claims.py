"""The paper's headline claims, computed from its tables and from recorded runs."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gelato.experiments.paper import read_experiment, read_facts
from gelato.experiments.tables import cells
from gelato.graph import Graph

Scores = dict[str, dict[str, float]]
"""AP in percent by row, then by dataset."""

GNNS = (
    *("GAE", "SEAL", "HGCN", "LGCN", "TLC-GNN", "Neo-GNN", "NBFNet"),
    *("BScNets", "WalkPool"),
)


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
    """

    name: str
    printed: str
    published: float | None
    ours: float | None
    unit: str
    note: str = ""


def claims(results: Path) -> list[Claim]:
    """Return the headline claims beside what tables and recorded runs give.

    Parameters
    ----------
    results : Path
        Folder of recorded runs.
    """
    paper, here = table_scores("ap"), table_scores("ap", results)
    ablation, own = table_scores("ablation"), table_scores("ablation", results)
    time: Mapping[str, Any] = read_facts("time")["rows"]
    train = time["neo-gnn"][0] / time["gelato"][0]
    test = time["neo-gnn"][1] / time["gelato"][1]
    neo = "the 145.2 % are against Neo-GNN on every graph, not against the best GNN"
    loss = "compares unbiased with biased training, both with the N-pair loss"
    return [
        Claim(
            "gain over Neo-GNN, mean over graphs",
            "145.2 %",
            mean_gain(paper, ("Neo-GNN",)),
            mean_gain(here, ("Neo-GNN",)),
            "%",
            neo,
        ),
        Claim(
            "gain over the best GNN of each graph, mean over graphs",
            "not printed",
            mean_gain(paper, GNNS),
            mean_gain(here, GNNS),
            "%",
            neo,
        ),
        Claim(
            "gain over autocovariance, mean over graphs",
            "52.6 %",
            mean_gain(paper, ("AC",)),
            mean_gain(here, ("AC",)),
            "%",
        ),
        Claim(
            "gain of unbiased training, photo",
            "8.5 %",
            mean_gain(ablation, ("Gelato-UT",), ["photo"]),
            mean_gain(own, ("Gelato-UT",), ["photo"]),
            "%",
            loss,
        ),
        Claim("training speed-up over Neo-GNN, photo", "11", train, None, "times"),
        Claim("inference speed-up over Neo-GNN, photo", "6,000", test, None, "times"),
    ]


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
            if not cell.label  # fewer epochs say nothing about a claim
        ]
    for row, dataset, value in found:
        if value is not None:
            scores.setdefault(row, {})[dataset] = value
    return scores


def mean_gain(
    scores: Scores,
    rivals: Sequence[str],
    datasets: Sequence[str] = ("cora", "citeseer", "pubmed", "photo", "computers"),
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


def graph_statistics(graph: Graph) -> list[Any]:
    """Return a graph's statistics as the paper prints them.

    Nodes, edges, attributes, average degree, and density in percent.
    """
    n, m = graph.num_nodes, graph.num_edges
    density = 100 * m / max(1, graph.num_pairs)
    degree = f"{2 * m / max(1, n):.2f}"
    return [n, m, graph.num_attributes, degree, f"{density:.2f}"]
