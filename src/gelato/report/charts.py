"""The charts of a report as inline SVG: lines, bars and matrices, drawn by hand.

Colours come from the page's style sheet through classes, so that one drawing serves
light, dark and print; every series also has its own dash pattern or hatching. What a
pointer or the arrow keys read off a chart is kept beside it as data.
"""

from __future__ import annotations

import base64
import json
import math
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from markupsafe import Markup, escape

from gelato.text import shortened

WIDTH, HEIGHT = 480, 290
_LEFT, _RIGHT, _TOP, _BOTTOM = 72, 14, 12, 46
_LETTER = 6.6  # of names below bars
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


def reliability_chart(promises: list[dict[str, Any]]) -> Markup:
    """Return the share of true links beside what was promised of them."""
    expected = [part["expected"] for part in promises]
    series = [
        Series("came true", [part["observed"] for part in promises], 0),
        Series("promised", expected, 1),
    ]
    top = _top(series)
    across = Axis(0, top, "promised precision of a link", percent=True)
    up = Axis(0, top, "precision", percent=True)
    title = "Precision of links: promised, and on the held-out edges"
    return line_chart(title, expected, series, (across, up))


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
        [shortened(entry["model"], 14) for entry in entries],
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


@dataclass(frozen=True)
class Axis:
    """One direction of a chart.

    Parameters
    ----------
    low, high : float
        Ends, in data units.
    label : str
        What it shows.
    log : bool
        Powers of ten instead of even steps; ``low`` is then positive.
    percent : bool
        Ticks are shares, written in percent.
    """

    low: float
    high: float
    label: str
    log: bool = False
    percent: bool = False

    def place(self, value: float) -> float:
        """Return where a value is, 0 at the low end and 1 at the high one."""
        if self.log:
            span = math.log(self.high / self.low) or 1.0
            return math.log(max(value, self.low) / self.low) / span
        return (value - self.low) / ((self.high - self.low) or 1.0)

    @property
    def ticks(self) -> list[float]:
        """Round values inside the axis."""
        if self.log:
            first = math.ceil(math.log10(self.low) - 1e-9)
            last = math.floor(math.log10(self.high) + 1e-9)
            powers = range(first, last + 1)
            step = 1 + len(powers) // 7
            return [10.0**power for power in list(powers)[::step]]
        width = _round_step((self.high - self.low) / 4)
        first = math.ceil(self.low / width - 1e-9)
        last = math.floor(self.high / width + 1e-9)
        return [k * width for k in range(first, last + 1)]

    def tick_text(self, value: float) -> str:
        """Return a tick as people read it."""
        if self.percent:
            return f"{100 * value:.3g} %"
        if value >= 1e4:
            unit, letter = (1e6, "M") if value >= 1e6 else (1e3, "k")
            return f"{value / unit:.4g}{letter}"
        return f"{value:,.0f}" if value == round(value) else f"{value:.3g}"


def _round_step(raw: float) -> float:
    if raw <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(raw))
    return next(power * m for m in (1, 2, 2.5, 5, 10) if power * m >= raw * 0.999)


@dataclass(frozen=True)
class Series:
    """A line: its name, its values at the chart's x, its style (0 is the main one)."""

    name: str
    values: Sequence[float | None]
    style: int


def line_chart(
    title: str,
    x: Sequence[float],
    series: Sequence[Series],
    axes: tuple[Axis, Axis],
    *,
    mark: tuple[float, str] | None = None,
) -> Markup:
    """Return lines over a shared x; ``mark`` is a vertical line with a name."""
    across, up = axes
    parts = [_frame(across, up)]
    if mark is not None:
        parts.append(_marked(across, *mark))
    # The main line last, so that no other covers it.
    for one in sorted(series, key=lambda s: -s.style):
        points = [
            f"{_x(across, k)},{_y(up, v)}"
            for k, v in zip(x, one.values, strict=True)
            if v is not None
        ]
        parts.append(
            f'<polyline class="line s{one.style}" points="{" ".join(points)}"/>'
        )
    reading = {
        "x": [_x(across, k) for k in x],
        "at": [f"{across.label} {_value_text(k, across)}" for k in x],
        "series": [[s.name, [_value_text(v, up) for v in s.values]] for s in series],
    }
    legend = _legend([(s.name, s.style) for s in series]) if len(series) > 1 else ""
    return _figure(title, "".join(parts), legend, reading)


def bar_chart(
    title: str,
    names: Sequence[str],
    series: Sequence[Series],
    up: Axis,
    x_label: str,
    *,
    texts: Sequence[str] = (),
    ticks: Sequence[tuple[float, str]] = (),
    ranges: Sequence[tuple[float, float] | None] = (),
) -> Markup:
    """Return bars, side by side where there are several series.

    ``texts`` stand above the bars; ``ticks`` (place from 0 to 1, text) stand in for
    the names below them; ``ranges`` are drawn over the bars, as lines with ends.
    """
    wide = (WIDTH - _LEFT - _RIGHT) / max(len(names), 1)
    parts = [_frame(None, up, x_label), _bars(series, up, wide)]
    # Every second or third name where all of them would run into each other.
    longest = max((len(name) for name in names), default=0)
    step = max(1, math.ceil(_LETTER * (longest + 1) / wide))
    named = [((i + 0.5) / len(names), name) for i, name in enumerate(names)]
    shown = ticks or named[::step]
    for at, name in shown:
        x = round(_LEFT + at * (WIDTH - _LEFT - _RIGHT), 1)
        anchor = "end" if at > 0.99 else "middle"
        parts.append(_text("name", x, HEIGHT - _BOTTOM + 16, name, anchor))
    parts += [
        _whisker(up, _LEFT + (i + 0.5) * wide, *ends)
        for i, ends in enumerate(ranges)
        if ends is not None
    ]
    for i, text in enumerate(texts):
        values = [s.values[i] or up.low for s in series]
        values += (ranges[i] or ()) if ranges else ()
        x = round(_LEFT + (i + 0.5) * wide, 1)
        parts.append(_text("tick", x, _y(up, max(values)) - 4, text, "middle"))
    reading = {
        "x": [round(_LEFT + (i + 0.5) * wide, 1) for i in range(len(names))],
        "at": [f"{x_label} {name}" for name in names],
        "series": [[s.name, [_value_text(v, up) for v in s.values]] for s in series],
    }
    legend = _legend([(s.name, s.style) for s in series], bars=True)
    drawn = "".join(parts)
    return _figure(title, drawn, legend if len(series) > 1 else "", reading)


def png_uri(pixels: npt.NDArray[np.uint8]) -> str:
    """Return an (h, w, 3) image as a data URI, the same bytes every time."""
    height, width, _ = pixels.shape
    lines = b"".join(b"\0" + row.tobytes() for row in np.ascontiguousarray(pixels))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", head), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b"")]
    data = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body))
        + kind
        + body
        + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in chunks
    )
    return f"data:image/png;base64,{base64.b64encode(data).decode('ascii')}"


def _text(kind: str, x: float, y: float, text: str, anchor: str) -> str:
    place = f'x="{round(x, 1)}" y="{round(y, 1)}" text-anchor="{anchor}"'
    return f'<text class="{kind}" {place}>{escape(text)}</text>'


def _marked(across: Axis, value: float, name: str) -> str:
    """Return a vertical line with its name on the side that has room."""
    at = _x(across, value)
    right = at > _LEFT + 0.55 * (WIDTH - _LEFT - _RIGHT)
    line = (
        f'<line class="mark" x1="{at}" x2="{at}" y1="{_TOP}" y2="{HEIGHT - _BOTTOM}"/>'
    )
    beside, anchor = (at - 5, "end") if right else (at + 5, "start")
    return line + _text("tick", beside, _TOP + 9, name, anchor)


def _bars(series: Sequence[Series], up: Axis, wide: float) -> str:
    each = 0.84 * wide / len(series)
    base = HEIGHT - _BOTTOM
    drawn = []
    for place, one in enumerate(series):
        for i, value in enumerate(one.values):
            if value is None or value <= up.low:
                continue
            left = round(_LEFT + (i + 0.08) * wide + place * each, 1)
            top = _y(up, value)
            size = f'width="{max(each - 0.5, 0.5):.1f}" height="{base - top:.1f}"'
            drawn.append(
                f'<rect class="bar s{one.style}" x="{left}" y="{top}" {size}/>'
            )
    return "".join(drawn)


def _whisker(up: Axis, x: float, low: float, high: float) -> str:
    """Return a vertical line with ends."""
    bottom, top = _y(up, low), _y(up, high)
    middle, left, right = round(x, 1), round(x - 5, 1), round(x + 5, 1)
    return (
        f'<path class="whisker" d="M{middle} {bottom}V{top}'
        f'M{left} {bottom}H{right}M{left} {top}H{right}"/>'
    )


def _x(axis: Axis, value: float) -> float:
    return round(_LEFT + axis.place(value) * (WIDTH - _LEFT - _RIGHT), 1)


def _y(axis: Axis, value: float) -> float:
    high = HEIGHT - _BOTTOM - _TOP
    return round(HEIGHT - _BOTTOM - min(max(axis.place(value), 0), 1) * high, 1)


def _value_text(value: float | None, axis: Axis) -> str:
    if value is None:
        return "none"
    if axis.percent:
        return f"{100 * value:.3g} %"
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:.4g}"


def _frame(across: Axis | None, up: Axis, x_label: str = "") -> str:
    """Return grid, ticks and names of the axes."""
    base, right = HEIGHT - _BOTTOM, WIDTH - _RIGHT
    parts = []
    for value in up.ticks:
        y = _y(up, value)
        parts.append(
            f'<line class="grid" x1="{_LEFT}" x2="{right}" y1="{y}" y2="{y}"/>'
        )
        parts.append(_text("tick", _LEFT - 6, y + 4, up.tick_text(value), "end"))
    for value in [] if across is None else across.ticks:
        assert across is not None
        x = _x(across, value)
        anchor = "end" if x > right - 8 else "middle"
        parts.append(_text("tick", x, base + 16, across.tick_text(value), anchor))
    label = x_label if across is None else across.label
    middle = (_LEFT + right) / 2
    parts.append(
        f'<line class="axis" x1="{_LEFT}" x2="{right}" y1="{base}" y2="{base}"/>'
        f'<text class="label" x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">'
        f"{escape(label)}</text>"
        f'<text class="label" transform="translate(12 {(_TOP + base) / 2}) rotate(-90)"'
        f' text-anchor="middle">{escape(up.label)}</text>'
    )
    return "".join(parts)


def _legend(entries: Sequence[tuple[str, int]], *, bars: bool = False) -> str:
    shown = []
    for name, style in entries:
        sample = (
            f'<rect class="bar s{style}" width="14" height="10" y="1"/>'
            if bars
            else f'<line class="line s{style}" x1="0" x2="28" y1="6" y2="6"/>'
        )
        wide = 14 if bars else 28
        shown.append(
            f'<span class="key"><svg width="{wide}" height="12" aria-hidden="true">'
            f"{sample}</svg> {escape(name)}</span>"
        )
    return f'<div class="legend">{"".join(shown)}</div>'


def _figure(title: str, drawn: str, legend: str, reading: dict[str, Any]) -> Markup:
    data = escape(json.dumps(reading, separators=(",", ":")))
    named = escape(title)
    return Markup(  # noqa: S704 - every text inside was escaped above
        f'<figure class="chart"><figcaption>{named}</figcaption>{legend}'
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" tabindex="0" '
        f'aria-label="{named}. Read values with the left and right arrow keys." '
        f'data-reading="{data}">{drawn}'
        f'<line class="cursor" y1="{_TOP}" y2="{HEIGHT - _BOTTOM}"/></svg>'
        '<output class="reading" aria-live="polite">&nbsp;</output></figure>'
    )
