"""A small picture of an explanation: the walks of a pair, or its shared attributes."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke

from gelato.drawing import PALETTE
from gelato.explain.explanation import Explanation, Walk, printable

_WALK, _PAIR, _GREY = PALETTE[0], PALETTE[1], "#6e6e6e"
_LONGEST = 18  # characters of a label
_WIDEST = 7.0  # points
_STYLE = {"font.size": 9.0, "svg.fonttype": "none", "svg.hashsalt": "gelato"}

_Place = tuple[int, object]  # a node at a step of a walk


def draw_explanation(why: Explanation) -> Figure:
    """Draw why a pair has its score.

    Walks run from left to right, one column per step; a line is as wide as the listed
    walks along it contribute. Steps over similarity pairs are dashed, and walks that
    step along the pair itself have their own colour. A cosine is drawn as the bars of
    its attributes.
    """
    with rc_context(_STYLE):
        figure = Figure(figsize=(7, _height(why)), layout="constrained")
        axes = figure.subplots()
        if why.walks:
            _draw_walks(axes, why)
        elif why.shared and why.kind == "attributes":
            _draw_shared(axes, why)
        else:
            axes.set_axis_off()
            told = why.notes[0] if why.notes else "nothing joins the two nodes"
            axes.text(0.5, 0.5, told, ha="center", parse_math=False, wrap=True)
        axes.set_title(_title(why), loc="left", parse_math=False)
    return figure


def _height(why: Explanation) -> float:
    """Return a height in inches that leaves room for every label."""
    rows = len(why.shared) + 1
    if why.walks:
        columns = [column for column, _ in _layout(why)]
        rows = max(columns.count(column) for column in columns)
    return max(2.6, 1.5 + 0.36 * rows)


def _title(why: Explanation) -> str:
    names = f"{_label(why.source)} and {_label(why.target)}"
    title = f"{names}: score {why.score:.4g}"
    if why.walks:
        title += (
            f"\n{len(why.walks)} of {why.num_walks:,} walks, "
            f"{why.covered:.0%} of what walks contribute"
        )
    return title


def _draw_walks(axes: Axes, why: Explanation) -> None:
    axes.set_axis_off()
    spots = _layout(why)
    # One line for each step at each place, as wide as all walks along it.
    carried: dict[tuple[_Place, _Place, bool], float] = {}
    for walk in why.walks:
        for one, two in pairwise(_places(walk, why.steps)):
            key = (one, two, walk.through_pair)
            carried[key] = carried.get(key, 0.0) + abs(walk.contribution)
    largest = max(carried.values())
    similar = {
        frozenset((edge.source, edge.target)) for edge in why.edges if not edge.is_edge
    }
    for (one, two, through), weight in carried.items():
        dashed = one[1] != two[1] and frozenset((one[1], two[1])) in similar
        (x, y), (to_x, to_y) = spots[one], spots[two]
        axes.plot(
            [x, to_x],
            [y, to_y],
            color=_PAIR if through else _WALK,
            linewidth=0.8 + (_WIDEST - 0.8) * weight / largest,
            linestyle=(0, (2, 1)) if dashed else "-",
            alpha=0.6,
            solid_capstyle="round",
            zorder=1,
        )
    _draw_nodes(axes, why, spots)
    _draw_legend(axes, why, bool(similar))


def _places(walk: Walk, steps: int) -> list[_Place]:
    """Return a walk's nodes with their columns; a shorter walk ends at the right."""
    inner = [(place, node) for place, node in enumerate(walk.nodes)]
    return [*inner[:-1], (steps, walk.nodes[-1])]


def _layout(why: Explanation) -> dict[_Place, tuple[float, float]]:
    """Place every node of the listed walks: a column for each step, heaviest on top."""
    weight: dict[_Place, float] = {}
    for walk in why.walks:
        for place in _places(walk, why.steps):
            weight[place] = weight.get(place, 0.0) + abs(walk.contribution)
    spots = {}
    for column in range(why.steps + 1):
        here = [place for place in weight if place[0] == column]
        here.sort(key=lambda place: -weight[place])  # stable: as walks name them
        heights = np.linspace(1, 0, len(here)) if len(here) > 1 else np.array([0.5])
        for place, height in zip(here, heights.tolist(), strict=True):
            spots[place] = (float(column), height)
    return spots


def _draw_nodes(
    axes: Axes, why: Explanation, spots: dict[_Place, tuple[float, float]]
) -> None:
    for (column, node), (x, y) in spots.items():
        end = column in (0, why.steps)
        own = node in (why.source, why.target)
        face = "white" if own and not end else _GREY if not end else "black"
        axes.plot(
            *(x, y),
            marker="o",
            markersize=9 if end else 6,
            markerfacecolor=face,
            markeredgecolor="black" if own else _GREY,
            linestyle="none",
            zorder=2,
        )
        beside = {0: (-9, "right"), why.steps: (9, "left")}.get(column, (0, "center"))
        axes.annotate(
            _label(node),
            (x, y),
            xytext=(beside[0], 0 if end else 7),
            textcoords="offset points",
            ha=beside[1],
            va="center" if end else "bottom",
            fontweight="bold" if end else "normal",
            parse_math=False,
            path_effects=[withStroke(linewidth=2.5, foreground="white")],
            zorder=3,
        )
    axes.set_xlim(-0.45, why.steps + 0.45)
    axes.set_ylim(-0.12, 1.18)


def _draw_legend(axes: Axes, why: Explanation, similar: bool) -> None:
    lines = [Line2D([], [], color=_WALK, linewidth=3, alpha=0.6, label="walk")]
    if any(walk.through_pair for walk in why.walks):
        label = "through the pair itself"
        lines.append(Line2D([], [], color=_PAIR, linewidth=3, alpha=0.6, label=label))
    if similar:
        lines.append(
            Line2D([], [], color=_GREY, linestyle=(0, (2, 1)), label="similarity pair")
        )
    if len(lines) > 1:
        axes.legend(
            handles=lines,
            frameon=False,
            ncols=len(lines),
            loc="upper center",
            bbox_to_anchor=(0.5, 0.0),
        )


def _draw_shared(axes: Axes, why: Explanation) -> None:
    names = [_label(part.name) for part in why.shared]
    values = [part.contribution for part in why.shared]
    if why.shared_rest:
        names.append("all others")
        values.append(why.shared_rest)
    places = np.arange(len(values))
    bars = axes.barh(places, values, color=_WALK)
    if why.shared_rest:
        bars[-1].set_color("#bdbdbd")
    axes.set_yticks(places, names, parse_math=False)
    axes.invert_yaxis()
    axes.set_xlabel("contribution to the cosine")
    axes.spines[["top", "right"]].set_visible(False)


def _label(value: object) -> str:
    text = printable(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
