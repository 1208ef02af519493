"""The figure of the visual analysis, from recorded matrices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gelato.drawing import GREY, PALETTE
from gelato.experiments.paper import Experiment
from gelato.experiments.visual import find_visual, unpack
from gelato.graph import FloatArray

_SHADES = "cividis"


def draw_visual(experiment: Experiment, results: Path) -> Figure | None:
    """Draw adjacency, attributes, scores and predicted edges, as the paper does.

    Three columns: what goes in, then one column per model. None where nothing is
    recorded.
    """
    dataset = experiment.rows[0].dataset
    record = find_visual(results, dataset)
    if record is None or not record["models"]:
        return None
    figure = Figure(figsize=(11.5, 11.8), layout="constrained")
    panels = figure.subplots(3, 3)
    _inputs(panels[0], record)
    for column, row in enumerate(experiment.rows[:3]):
        found = record["models"].get(row.name)
        for axes, draw in zip(panels[1:, column], (_scores, _predicted), strict=True):
            if found is None:
                _missing(axes, row.name)
            else:
                draw(axes, row.name, found, record)
    count = len(record["nodes"])
    figure.suptitle(
        f"{dataset}: the {count} nodes of highest degree within the first class",
        x=0.01,
        ha="left",
        fontweight="bold",
    )
    return figure


def _inputs(panels: Any, record: dict[str, Any]) -> None:
    size = len(record["nodes"])
    adjacency = np.zeros((size, size))
    for u, v in record["edges"]:
        adjacency[u, v] = adjacency[v, u] = 1.0
    _matrix(panels[0], adjacency, "Input adjacency")
    enhanced = [m["enhanced"] for m in record["models"].values() if "enhanced" in m]
    if enhanced:
        _matrix(panels[1], unpack(enhanced[0]), "Enhanced adjacency")
    else:
        _missing(panels[1], "Enhanced adjacency")
    _matrix(panels[2], unpack(record["distance"]), "Euclidean distance of attributes")


def _matrix(axes: Axes, matrix: FloatArray, title: str) -> None:
    shown = axes.imshow(matrix, cmap=_SHADES, interpolation="nearest")
    axes.set_title(title)
    assert axes.figure is not None
    axes.figure.colorbar(shown, ax=axes, shrink=0.75)


def _scores(
    axes: Axes, name: str, found: dict[str, Any], record: dict[str, Any]
) -> None:
    _matrix(axes, unpack(found["scores"]), f"{name} scores, coloured by rank")


def _predicted(
    axes: Axes, name: str, found: dict[str, Any], record: dict[str, Any]
) -> None:
    """Draw hits as squares and misses as crosses: told apart by more than colour."""
    true = {tuple(sorted(pair)) for pair in record["test_edges"]}
    predicted = [tuple(sorted(pair)) for pair in found["predicted"]]
    hits = [pair for pair in predicted if pair in true]
    misses = [pair for pair in predicted if pair not in true]
    for pairs, colour, marker, size in (
        (misses, PALETTE[4], "x", 5.0),
        (hits, PALETTE[0], "s", 4.0),
    ):
        both = [*pairs, *((v, u) for u, v in pairs)]
        xs, ys = [v for _, v in both], [u for u, _ in both]
        lines = 0.6 if marker == "x" else 0.0
        axes.scatter(xs, ys, s=size, c=colour, marker=marker, linewidths=lines)
    size = len(record["nodes"])
    axes.set(xlim=(-0.5, size - 0.5), ylim=(size - 0.5, -0.5), aspect="equal")
    axes.set_title(
        f"{name}: {len(hits)} of {len(predicted)} predicted\n"
        f"are test edges (squares; crosses are not)"
    )


def _missing(axes: Axes, name: str) -> None:
    axes.set_axis_off()
    axes.annotate(
        f"{name}: not recorded",
        (0.5, 0.5),
        xycoords="axes fraction",
        ha="center",
        color=GREY,
    )
