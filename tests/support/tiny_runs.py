"""A tiny graph in place of every benchmark graph, and runs on it."""

from __future__ import annotations

import numpy as np

from gelato.graph import Graph
from gelato.paper import jobs, timing, visual
from gelato.paper import runner as runs
from gelato.paper.experiment import read_experiment
from gelato.paper.toy import toy_experiment


def tiny_graph(*_, **__) -> Graph:
    """Forty nodes in two classes, more edges within a class, attributes that tell."""
    rng = np.random.default_rng(5)
    labels = np.arange(40) % 2
    edges = rng.integers(0, 40, (600, 2))
    same = labels[edges[:, 0]] == labels[edges[:, 1]]
    kept = edges[same | (rng.random(600) < 0.1)][:160]
    attributes = rng.random((40, 4)) + labels[:, None]
    return Graph.from_indices(40, kept, attributes=attributes, labels=labels)


def use_tiny_graph(monkeypatch) -> None:
    """Let every dataset be the tiny graph, whose split is nobody's."""
    for module in (runs, timing, visual):
        monkeypatch.setattr(module, "paper_graph", tiny_graph)
    monkeypatch.setattr(runs, "SPLITS", {})


def toy_results(name, folder, *, keep=lambda row: True):
    """Run the rows of a toy experiment that are kept; return it with its place."""
    experiment = toy_experiment(read_experiment(name))
    place = jobs.Place(folder / "results", folder / "work", 0.01)
    part = type(experiment)(
        **{**vars(experiment), "rows": tuple(r for r in experiment.rows if keep(r))}
    )
    for job in jobs.missing_jobs([part], place):
        job.run(None, None)
    return experiment, place
