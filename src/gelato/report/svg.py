"""Small charts as inline SVG: lines, bars and matrices, drawn by hand.

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
from typing import Any

import numpy as np
import numpy.typing as npt
from markupsafe import Markup, escape

WIDTH, HEIGHT = 480, 290
_LEFT, _RIGHT, _TOP, _BOTTOM = 72, 14, 12, 46


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
    shown = ticks or [((i + 0.5) / len(names), name) for i, name in enumerate(names)]
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
