"""Figures of what Gelato learns: losses, eta, alpha and beta, and its matrices."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from gelato.drawing import GREY, PALETTE
from gelato.graph import FloatArray
from gelato.paper.cells import cells, row_records, trained_alike
from gelato.paper.experiment import Experiment, Row
from gelato.paper.runner import paper_preset
from gelato.paper.visual import find_visual, unpack

_SHADES = "cividis"  # dark to light evenly, for colour-blind people too
_METRICS = (("AP", "ap"), ("prec@100%", "prec"))


def draw_losses(experiment: Experiment, results: Path) -> Figure | None:
    """Draw loss and validation by epoch for each loss and training set.

    One column per row of the experiment, the test AP in its title; one seed
    is drawn. A column without a recorded run says so.
    """
    found = [row_records(row, results) for row in experiment.rows]
    if not any(found):
        return None
    titles = {(c.method, c.dataset): _ap_title(c) for c in cells(experiment, results)}
    figure = Figure(figsize=(3.3 * len(found), 5.4), layout="constrained")
    panels = figure.subplots(2, len(found), squeeze=False)
    for column, (row, records) in enumerate(zip(experiment.rows, found, strict=True)):
        above, below = panels[:, column]
        above.set_title(titles[row.name, row.dataset], fontsize=9.5)
        if not records:
            for axes in (above, below):
                _say_missing(axes)
            continue
        history = _fullest(records)["training"]["history"]
        _losses(above, history)
        _validation(below, history)
        below.set_xlabel("epoch")
    panels[0, 0].set_ylabel("loss")
    panels[1, 0].set_ylabel("validation (%)")
    return figure


def _fullest(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the first record with a validation loss, else the first of all."""
    told = (r for r in records if "valid_loss" in r["training"]["history"][-1])
    return next(told, records[0])


def _ap_title(cell: Any) -> str:
    ours = "not recorded" if cell.mean is None else f"{cell.mean:.2f}"
    if cell.deviation is not None:
        ours += f" ± {cell.deviation:.2f}"
    paper = "" if cell.published is None else f", paper {cell.published:.2f}"
    return f"{cell.method}\n{cell.dataset}, test AP {ours}{paper}"


def _losses(axes: Axes, history: Sequence[dict[str, Any]]) -> None:
    for key, label, colour, dash in (
        ("loss", "training", PALETTE[0], "-"),
        ("valid_loss", "validation", PALETTE[1], "--"),
    ):
        points = [(e["epoch"], e[key]) for e in history if e.get(key) is not None]
        name = label if points else f"{label}: not recorded"
        axes.plot(*_columns(points), color=colour, linestyle=dash, label=name)
    axes.legend(frameon=False, fontsize=8)


def _validation(axes: Axes, history: Sequence[dict[str, Any]]) -> None:
    for key, label, colour, dash in (
        ("prec@100%", "prec@100%", PALETTE[2], "-"),
        ("ap", "AP", PALETTE[3], "-."),
    ):
        points = [(e["epoch"], 100 * e[key]) for e in history if key in e]
        axes.plot(*_columns(points), color=colour, linestyle=dash, label=label)
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, fontsize=8)


def _columns(points: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in points], [y for _, y in points]


def _say_missing(axes: Axes) -> None:
    axes.set_axis_off()
    axes.annotate(
        "not recorded",
        (0.5, 0.5),
        xycoords="axes fraction",
        ha="center",
        va="center",
        color=GREY,
    )


def draw_eta(experiment: Experiment, results: Path) -> Figure | None:
    """Draw AP and prec@100% by eta, at the selected alpha and beta."""
    found = {
        name: _line(experiment, results, name) for name in _selected_graphs(experiment)
    }
    if not any(points for points, _ in found.values()):
        return None
    figure = Figure(figsize=(4.6 * len(found), 3.8), layout="constrained")
    panels = figure.subplots(1, len(found), squeeze=False)[0]
    for axes, (dataset, (points, missing)) in zip(panels, found.items(), strict=True):
        labels = {row.label for row, _ in points if row.label}
        axes.set_title(", ".join([dataset, *sorted(labels)]))
        if not points:
            _say_missing(axes)
            continue
        for place, (name, key) in enumerate(_METRICS):
            axes.plot(
                [row.parameters["eta"] for row, _ in points],
                [_value(records, key) for _, records in points],
                marker="os"[place],
                color=PALETTE[place],
                linestyle=("-", "--")[place],
                label=name,
            )
        lacking = f"\nnot recorded: {', '.join(missing)}" if missing else ""
        axes.set(xlabel=f"eta{lacking}", ylabel="%")
        axes.set_ylim(bottom=0)
        axes.legend(frameon=False)
    return figure


def draw_alpha_beta(experiment: Experiment, results: Path) -> Figure | None:
    """Draw AP and prec@100% over alpha and beta as heat maps, at the selected eta.

    The selected combination has a frame; one that is not recorded has a dash.
    """
    maps = {
        name: _grids(experiment, results, name) for name in _selected_graphs(experiment)
    }
    if not any(
        np.isfinite(part).any() for *_, grids in maps.values() for part in grids
    ):
        return None
    figure = Figure(figsize=(8.4, 3.7 * len(maps)), layout="constrained")
    panels = figure.subplots(len(maps), 2, squeeze=False)
    for pair, (dataset, (label, alphas, betas, grids)) in zip(
        panels, maps.items(), strict=True
    ):
        for axes, (name, _), grid in zip(pair, _METRICS, grids, strict=True):
            title = ", ".join(part for part in (dataset, label, name) if part)
            axes.set_title(f"{title} (%)")
            if not np.isfinite(grid).any():
                _say_missing(axes)
                continue
            _heat_map(axes, alphas, betas, grid, paper_preset(dataset))
    return figure


def _heat_map(
    axes: Axes,
    alphas: Sequence[float],
    betas: Sequence[float],
    grid: FloatArray,
    selected: dict[str, Any],
) -> None:
    shown = axes.imshow(grid, origin="lower", cmap=_SHADES, aspect="auto")
    low, high = shown.get_clim()
    for (i, j), value in np.ndenumerate(grid):
        known = np.isfinite(value)
        dark = known and value <= (low + high) / 2
        text = f"{value:.2f}" if known else "-"
        axes.text(j, i, text, ha="center", va="center", color="w" if dark else "k")
    if selected["alpha"] in alphas and selected["beta"] in betas:
        place = (betas.index(selected["beta"]), alphas.index(selected["alpha"]))
        corner = (place[0] - 0.5, place[1] - 0.5)
        frame = Rectangle(corner, 1, 1, fill=False, edgecolor=PALETTE[1], linewidth=3)
        axes.add_patch(frame)
    axes.set_xticks(range(len(betas)), [f"{value:g}" for value in betas])
    axes.set_yticks(range(len(alphas)), [f"{value:g}" for value in alphas])
    axes.set(xlabel="beta", ylabel="alpha")


def _selected_graphs(experiment: Experiment) -> list[str]:
    """Return the graphs that the paper draws, or all where it draws none of them."""
    drawn: list[str] = [n for n in ("photo", "cora") if n in experiment.datasets]
    return drawn or list(experiment.datasets)


def _line(
    experiment: Experiment, results: Path, dataset: str
) -> tuple[list[tuple[Row, list[dict[str, Any]]]], list[str]]:
    """Return the recorded rows along eta, and the values of eta that are missing."""
    chosen = paper_preset(dataset)
    rows = sorted(
        (
            row
            for row in experiment.rows
            if row.dataset == dataset
            and all(row.parameters[n] == chosen[n] for n in ("alpha", "beta"))
        ),
        key=lambda row: float(row.parameters["eta"]),
    )
    found = trained_alike(rows, results)
    lacking = [f"{row.parameters['eta']:g}" for row, records in found if not records]
    return [(row, records) for row, records in found if records], lacking


def _grids(
    experiment: Experiment, results: Path, dataset: str
) -> tuple[str, list[float], list[float], list[FloatArray]]:
    """Return label, alphas, betas, and a matrix per metric, gaps where runs miss."""
    chosen = paper_preset(dataset)
    found = trained_alike(
        (
            row
            for row in experiment.rows
            if row.dataset == dataset and row.parameters["eta"] == chosen["eta"]
        ),
        results,
    )
    alphas = sorted({row.parameters["alpha"] for row, _ in found})
    betas = sorted({row.parameters["beta"] for row, _ in found})
    grids = [np.full((len(alphas), len(betas)), np.nan) for _ in _METRICS]
    for row, records in found:
        place = (
            alphas.index(row.parameters["alpha"]),
            betas.index(row.parameters["beta"]),
        )
        for grid, (_, key) in zip(grids, _METRICS, strict=True):
            if records:
                grid[place] = _value(records, key)
    return found[0][0].label, alphas, betas, grids


def _value(records: Sequence[dict[str, Any]], key: str) -> float:
    """Return AP or prec@100% over all pairs, mean over runs, in percent."""
    found = (
        r["metrics"]["ap"] if key == "ap" else r["metrics"]["precision_at"]["100%"]
        for r in records
    )
    return 100 * statistics.fmean(found)


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
