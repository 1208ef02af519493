"""The charts of a report, drawn from its summary."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from gelato.report.svg import Axis, Series, bar_chart, line_chart, png_uri
from gelato.report.wording import shown

# Dark to light, and evenly so: the order survives print and colour blindness.
_DARK, _MIDDLE, _LIGHT = (38, 20, 84), (31, 128, 141), (250, 238, 180)
_HELD_OUT = (214, 94, 0)
# Held-out edges of one kind below which a share says little.
FEW_EDGES = 5


def curve_charts(curves: dict[str, Any], positives: int) -> dict[str, list[Markup]]:
    """Return the three curves, over all pairs and under the biased protocol."""
    exact, biased = curves["exact"], curves["biased"]
    own = exact["methods"][0]
    fair = [(m["name"], m, i) for i, m in enumerate(exact["methods"])]
    unfair = [
        (f"{own['name']}, BIASED sample", biased["methods"][0], 5),
        (f"{own['name']}, all pairs", None, 0),
    ]
    every = f"k = {positives:,}"
    return {
        "exact": _three(exact, fair, mark=(float(positives), every), full=False),
        "biased": _three(biased, unfair, own=own, fair=exact, full=True),
    }


def _three(
    curves: dict[str, Any],
    methods: list[tuple[str, Any, int]],
    *,
    full: bool,
    mark: tuple[float, str] | None = None,
    own: Any = None,
    fair: Any = None,
) -> list[Markup]:
    ks, recalls = curves["k"], curves["recall"]
    k_axis = Axis(ks[0], max(ks[-1], 2), "k", log=True)
    titles = (
        ("precision", "Precision at k: true links among the k best", "precision"),
        ("hits", "Hits at k: held-out links above the k-th non-edge", "hits"),
    )
    charts = []
    for key, title, label in titles:
        series = [
            Series(name, values[key] if values else _onto(fair["k"], own[key], ks), i)
            for name, values, i in methods
        ]
        up = Axis(0, 1.0 if full else _top(series), label, percent=True)
        charts.append(line_chart(title, ks, series, (k_axis, up), mark=mark))
    key = "precision_by_recall"
    series = [Series(name, (values or own)[key], i) for name, values, i in methods]
    up = Axis(0, 1.0 if full else _top(series), "precision", percent=True)
    across = Axis(0, 1, "recall", percent=True)
    title = "Precision and recall"
    charts.append(line_chart(title, recalls, series, (across, up)))
    return charts


def _onto(ks: list[int], values: list[float], wanted: list[int]) -> list[float]:
    found: list[float] = np.interp(np.log(wanted), np.log(ks), values).tolist()
    return found


def _top(series: list[Series]) -> float:
    highest = max((v for s in series for v in s.values if v is not None), default=1.0)
    return min(1.0, 1.08 * highest) or 1.0


def degree_chart(data: dict[str, Any]) -> Markup:
    """Return how many nodes have which degree."""
    counts = data["degree_counts"]
    nodes = [entry["nodes"] for entry in counts]
    up = Axis(0, 1.12 * max(*nodes, 1), "nodes")
    return bar_chart(
        "Nodes by degree",
        [entry["degree"] for entry in counts],
        [Series("nodes", nodes, 0)],
        up,
        "degree",
        texts=[f"{count:,}" for count in nodes],
    )


def histogram_chart(histogram: dict[str, Any]) -> Markup:
    """Return how scores of held-out edges and non-edges are distributed."""
    bounds = histogram["bounds"]
    highest = max(*histogram["held_out"], *histogram["non_edges"], 1)
    up = Axis(0.7, 1.6 * highest, "pairs (log)", log=True)
    names = [f"{a:.3g} to {b:.3g}" for a, b in pairwise(bounds)]
    some = range(0, len(bounds), len(bounds) // 4)
    ticks = [(i / (len(bounds) - 1), f"{bounds[i]:.2g}") for i in some]
    return bar_chart(
        "Scores of held-out edges and of non-edges",
        names,
        [
            Series("held-out edges", histogram["held_out"], 1),
            Series("non-edges", histogram["non_edges"], 6),
        ],
        up,
        "score",
        ticks=ticks,
    )


def expected_chart(expected: dict[str, Any]) -> Markup:
    """Return the expected precision of the k best links."""
    series = [Series("expected precision", expected["precision"], 0)]
    across = Axis(1, max(expected["k"][-1], 2), "k best links", log=True)
    up = Axis(0, _top(series), "expected precision", percent=True)
    title = "Expected precision of the k best links"
    return line_chart(title, expected["k"], series, (across, up))


def recall_chart(title: str, buckets: list[dict[str, Any]], label: str) -> Markup:
    """Return the share of held-out edges found, by bucket.

    A bucket of a few edges would be the tallest bar, or none, by chance: only where
    there are no larger ones is it drawn.
    """
    some = [bucket for bucket in buckets if bucket["edges"] >= FEW_EDGES]
    some = some or [bucket for bucket in buckets if bucket["edges"]]
    values = [bucket["recall"] for bucket in some]
    up = Axis(0, 1.15 * max([*values, 0.01]), "found", percent=True)
    names = [b["name"].replace(" hops", "").replace(" or more", "+") for b in some]
    return bar_chart(
        title,
        names,
        [Series("found", values, 0)],
        up,
        label,
        texts=[f"{100 * v:.0f} %" for v in values],
    )


def training_charts(training: dict[str, Any]) -> list[Markup]:
    """Return loss and validation by epoch, the best epoch marked."""
    epochs = training["epochs"]
    x = [entry["epoch"] for entry in epochs]
    across = Axis(1, max(x[-1], 2), "epoch")
    mark = (float(training["best_epoch"]), f"best: epoch {training['best_epoch']}")
    charts = []
    for key, title, share in (
        ("loss", "Training loss", False),
        ("value", f"Validation {training['metric']}", True),
    ):
        values = [entry[key] for entry in epochs]
        known = [value for value in values if value is not None]
        if known:
            room = 0.08 * ((max(known) - min(known)) or max(known) or 1.0)
            up = Axis(
                max(0.0, min(known) - room), max(known) + room, title, percent=share
            )
            series = [Series(title, values, 0)]
            charts.append(line_chart(title, x, series, (across, up), mark=mark))
    return charts


def comparison_chart(entries: list[dict[str, Any]]) -> Markup:
    """Return the mean average precision of every method, with its interval."""
    means = [entry["mean"]["ap"] for entry in entries]
    limits = [entry["interval"]["ap"] for entry in entries]
    ranges = [x and (max(x["low"], 0.0), x["high"]) for x in limits]
    highest = max([*means, *(x[1] for x in ranges if x)])
    up = Axis(0, 1.15 * highest or 1.0, "AP", percent=True)
    known = " with 95 % confidence intervals" if any(ranges) else ""
    return bar_chart(
        f"Average precision over all pairs{known}",
        [shown(entry["model"])[:14] for entry in entries],
        [Series("AP", means, 0)],
        up,
        "method",
        texts=[f"{100 * mean:.3g}" for mean in means],
        ranges=ranges,
    )


def heat_images(maps: dict[str, Any]) -> list[dict[str, Any]]:
    """Return every matrix as a small picture with its legend."""
    drawn = []
    held_out = maps["held_out"]
    for item in maps["maps"]:
        values = np.array(item["values"], dtype=float)
        off = ~np.eye(len(values), dtype=bool)
        low, high = float(values[off].min()), float(values[off].max())
        share = (values - low) / ((high - low) or 1.0)
        if item["ranked"]:
            share = _ranks(np.where(off, values, low))
        reverse = "distance" in item["name"]
        pixels = _coloured(1 - share if reverse else share)
        pixels[~off] = _coloured(np.zeros((1, 1)))[0, 0]
        marks = held_out if item["name"] == "input adjacency" else []
        for u, v in marks:
            pixels[u, v] = pixels[v, u] = _HELD_OUT
        drawn.append(
            {
                "name": item["name"],
                "says": item["says"],
                "unit": item["unit"],
                "uri": png_uri(pixels),
                "light": f"{high if reverse else low:.3g}",
                "dark": f"{low if reverse else high:.3g}",
                "marked": len(marks),
                "filled": float(np.count_nonzero(values[off]) / max(off.sum(), 1)),
            }
        )
    return drawn


def _ranks(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the rank of every value, 0 to 1, equal values alike."""
    distinct, inverse = np.unique(values, return_inverse=True)
    share = np.arange(len(distinct)) / max(len(distinct) - 1, 1)
    return share[inverse].reshape(values.shape)


def _coloured(share: npt.NDArray[np.float64]) -> npt.NDArray[np.uint8]:
    """Return light for 0 and dark for 1."""
    stops = np.array([_LIGHT, _MIDDLE, _DARK], dtype=float)
    levels = [np.interp(share, [0, 0.5, 1], stops[:, channel]) for channel in range(3)]
    return np.round(np.stack(levels, axis=-1)).astype(np.uint8)
