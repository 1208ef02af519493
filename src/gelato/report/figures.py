"""Figures, drawn from results and returned: whoever asks decides where they go."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FuncFormatter

from gelato.comparison.paired import SAME
from gelato.drawing import DASHES, GREY, PALETTE, STYLE
from gelato.explain.explanation import Explanation, Walk
from gelato.graph import FloatArray
from gelato.ranking import Evaluation, metrics
from gelato.ranking.example import WorkedExample, curves
from gelato.text import LABELS, shortened

_EXACT, _BIASED = PALETTE[0], "#bdbdbd"
# Curves: more than there are colours cannot be told apart, and their names do not fit.
_MOST_CURVES = 6
_TITLE_PAD = 28.0  # leaves room for a legend between title and axes
_POINTS = 400  # per curve: more cannot be seen and only makes files large


def draw_comparison(
    exact: Mapping[str, Evaluation], biased: Mapping[str, Evaluation], title: str
) -> Figure:
    """Draw precision at k, and average precision under both protocols.

    Parameters
    ----------
    exact : mapping
        Model name to its evaluation over all pairs.
    biased : mapping
        The same models against sampled negatives.
    title : str
        What was measured.
    """
    with rc_context(STYLE):
        figure = Figure(figsize=(11, 4.6), layout="constrained")
        left, right = figure.subplots(1, 2)
        names = sorted(exact, key=lambda name: exact[name].ap, reverse=True)
        _precision_curves(left, exact, names)
        _precision_bars(right, exact, biased, names)
        figure.suptitle(title, x=0.01, ha="left", fontweight="bold")
    return figure


def draw_orders(orders: Mapping[str, Any], title: str) -> Figure:
    """Draw how the order of models changes with the protocol.

    Parameters
    ----------
    orders : mapping
        Of :func:`gelato.comparison.orders.protocol_orders`.
    title : str
        What was measured.
    """
    protocols, models = orders["protocols"], orders["models"]
    with rc_context(STYLE):
        figure = Figure(
            figsize=(2.2 + 2.0 * len(protocols), 1.6 + 0.28 * len(models)),
            layout="constrained",
        )
        axes = figure.subplots()
        for at, model in enumerate(models):
            places = [one["places"][model] for one in protocols.values()]
            style: dict[str, Any] = {
                "color": PALETTE[at % len(PALETTE)],
                "linestyle": DASHES[at // len(PALETTE) % len(DASHES)],
            }
            axes.plot(range(len(places)), places, marker="o", **style)
            for x, side, align in ((0, -1, "right"), (len(places) - 1, 1, "left")):
                where = (x + 0.08 * side, places[x])
                axes.text(*where, _label(model), ha=align, va="center", fontsize=8)
        names = [
            f"{LABELS.get(name, 'all pairs')}\n{one['measure'].upper()}"
            + ("" if one["kendall_tau"] is None else f", tau {one['kendall_tau']:.2f}")
            for name, one in protocols.items()
        ]
        axes.set_xticks(range(len(names)), names)
        axes.set_xlim(-0.7, len(names) - 0.3)
        axes.set_ylabel("place (1 is best)")
        axes.invert_yaxis()
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.set_title(f"{title}: the order of models, by protocol", loc="left")
    return figure


def draw_example(example: WorkedExample) -> Figure:
    """Draw ROC and precision-recall curves of the paper's worked example."""
    with rc_context(STYLE):
        figure = Figure(figsize=(11, 4.6), layout="constrained")
        left, right = figure.subplots(1, 2)
        numbers = example.to_dict()
        for name, counts, colour, dash, width in (
            ("unbiased", example.unbiased, _EXACT, "-", 3.0),
            ("biased", example.biased, PALETTE[1], "--", 1.8),
        ):
            line = {"color": colour, "linestyle": dash, "linewidth": width}
            points = {key: _thinned(part) for key, part in curves(counts).items()}
            auc, ap = numbers[name]["auc"], numbers[name]["ap"]
            among = f"{name}: {counts.num_negatives:,} negatives"
            left.plot(
                points["false_positive_rate"],
                points["true_positive_rate"],
                label=f"{among}, AUC {auc:.2f}",
                **line,
            )
            right.plot(
                points["recall"],
                points["precision"],
                label=f"{among}, AP {ap:.2f}",
                **line,
            )
        _unit_axes(left, "false positive rate", "true positive rate")
        left.set_title("ROC: both protocols say excellent")
        left.legend(frameon=False, loc="lower right")
        _unit_axes(right, "recall", "precision")
        right.set_title("Precision and recall: only all pairs tell the truth")
        right.legend(frameon=False, loc="center right")
        figure.suptitle(
            f"{example.positives:,} true pairs, ranked behind "
            f"{example.false_first:,} false ones",
            x=0.01,
            ha="left",
            fontweight="bold",
        )
    return figure


def _precision_curves(
    axes: Axes, exact: Mapping[str, Evaluation], names: Sequence[str]
) -> None:
    """Draw the share of true links among the k best, for k up to ten times them."""
    positives = exact[names[0]].counts.num_positives
    names = names[:_MOST_CURVES]
    # Below ten pairs a curve only shows where the first hit happens to stand.
    ks = np.unique(np.geomspace(min(10, positives), 10 * positives, 80).astype(int))
    for place, name in enumerate(names):
        counts = exact[name].counts
        values = [100 * metrics.precision_at(counts, int(k)) for k in ks]
        axes.plot(
            ks,
            values,
            color=PALETTE[place % len(PALETTE)],
            linestyle=DASHES[place % len(DASHES)],
            linewidth=2,
            label=name,
        )
    axes.axvline(positives, color=GREY, linewidth=1, linestyle=":")
    axes.annotate(
        f"k = {positives:,} = all held-out links",
        (positives, 0.98),
        xycoords=("data", "axes fraction"),
        xytext=(-4, 0),
        textcoords="offset points",
        rotation=90,
        ha="right",
        va="top",
        color=GREY,
        fontsize=8,
    )
    chance = 100 * exact[names[0]].random_ap
    axes.set(
        xscale="log",
        xlim=(ks[0], ks[-1]),
        xlabel="k best pairs of all candidates",
        ylabel="true links among them (%)",
    )
    axes.set_title(
        f"Precision at k over all pairs (random order: {chance:.2g} %)", pad=_TITLE_PAD
    )
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda k, _: f"{k:,.0f}"))
    # Best AP first, where curves have come down.
    axes.legend(frameon=False, loc="upper right", fontsize=9)


def _precision_bars(
    axes: Axes,
    exact: Mapping[str, Evaluation],
    biased: Mapping[str, Evaluation],
    names: Sequence[str],
) -> None:
    places = np.arange(len(names))
    bars: tuple[tuple[str, Mapping[str, Evaluation], float, dict[str, Any]], ...] = (
        ("all pairs", exact, -0.2, {"color": _EXACT}),
        (
            "BIASED: as many sampled non-edges as edges",
            biased,
            0.2,
            {"color": _BIASED, "hatch": "///", "edgecolor": GREY, "linewidth": 0.5},
        ),
    )
    for label, results, offset, look in bars:
        values = [100 * results[name].ap for name in names]
        drawn = axes.barh(places + offset, values, height=0.38, label=label, **look)
        axes.bar_label(drawn, [f"{value:.2f}" for value in values], padding=3)
    axes.set_yticks(places, names)
    axes.invert_yaxis()
    axes.set(xlim=(0, 112), xlabel="average precision (%)")
    axes.set_title("The same rankings under two protocols", pad=_TITLE_PAD)
    axes.legend(
        frameon=False,
        ncols=2,
        loc="lower left",
        bbox_to_anchor=(0, 1.0),
        borderaxespad=0.2,
        columnspacing=1.2,
    )
    axes.set_xticks(range(0, 101, 20))


def _unit_axes(axes: Axes, xlabel: str, ylabel: str) -> None:
    axes.set(xlabel=xlabel, ylabel=ylabel, xlim=(-0.01, 1.01), ylim=(-0.01, 1.03))
    axes.grid(color="#e6e6e6", linewidth=0.8)
    axes.set_axisbelow(True)


def _thinned(values: FloatArray) -> FloatArray:
    """Return at most a few hundred points of a curve, the first and last included."""
    if len(values) <= _POINTS:
        return values
    # Curves turn sharply at both ends, so points are denser there.
    turn = np.sin(np.linspace(0, np.pi / 2, _POINTS)) ** 2
    chosen: FloatArray = values[
        np.unique(np.round(turn * (len(values) - 1)).astype(int))
    ]
    return chosen


_LONGEST = 24
_TOP, _ROW = 1.5, 0.34  # inches


def draw_intervals(entries: Sequence[Mapping[str, Any]], title: str) -> Figure:
    """Draw average precision and the difference to one model, each with its interval.

    A difference that is none to be seen is a hollow dot: the picture does not need its
    colours to be understood.

    Parameters
    ----------
    entries : sequence
        Of :func:`gelato.comparison.summary.rank_models`; biased ones are left out.
    title : str
        What was measured.
    """
    fair = [entry for entry in entries if not entry["biased"]]
    compared = [entry for entry in fair if entry["difference"]["ap"] is not None]
    panels = 2 if compared else 1
    with rc_context(STYLE):
        size = (4.6 * panels + 0.6, _TOP + _ROW * len(fair))
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots(1, panels, sharey=True, squeeze=False)[0]
        _draw(axes[0], fair, _mean, PALETTE[0])
        axes[0].set(xlabel="average precision (%)")
        axes[0].set_yticks(range(len(fair)), [_name(entry) for entry in fair])
        axes[0].invert_yaxis()
        axes[0].set_ylim(len(fair) - 0.5, -0.5)
        if compared:
            _draw(axes[1], fair, _gain, PALETTE[1])
            axes[1].axvline(0, color=GREY, linewidth=1, linestyle=":")
            axes[1].set(xlabel=f"difference to {_name(fair[0], 'against')} (points)")
            axes[1].tick_params(left=False)
        figure.suptitle(title, x=0.01, ha="left", fontweight="bold")
    return figure


def plot_comparison(table: Any, *, against: str | None = None) -> Figure:
    """Draw what :func:`gelato.compare` returned: models with 95 % intervals.

    Parameters
    ----------
    table : polars.DataFrame
        One row per run.
    against : str, optional
        The model that differences are taken to (the best).

    Returns
    -------
    matplotlib.figure.Figure
        Notebooks show it; ``figure.savefig("file.svg")`` keeps it.
    """
    from gelato.comparison.summary import rank_models

    ranking = rank_models(table.to_dicts(), against=against)
    return draw_intervals(ranking, "95 % confidence intervals")


_Interval = Callable[
    [Mapping[str, Any]], tuple[float, float | None, float | None, bool] | None
]


def _mean(
    entry: Mapping[str, Any],
) -> tuple[float, float | None, float | None, bool] | None:
    """Return a value, the ends of its interval, and whether its dot is filled."""
    limits = entry["interval"]["ap"] or {"low": None, "high": None}
    return entry["mean"]["ap"], limits["low"], limits["high"], True


def _gain(
    entry: Mapping[str, Any],
) -> tuple[float, float | None, float | None, bool] | None:
    found = entry["difference"]["ap"]
    if found is None:
        return None
    return found["value"], found["low"], found["high"], found["verdict"] != SAME


def _draw(
    axes: Axes, entries: Sequence[Mapping[str, Any]], place: _Interval, colour: str
) -> None:
    for row, entry in enumerate(entries):
        found = place(entry)
        if found is None:
            continue
        value, low, high, filled = found
        if low is not None and high is not None:
            axes.plot([100 * low, 100 * high], [row, row], color=colour, linewidth=2)
        fill = colour if filled else "white"
        axes.plot(
            *([100 * value], [row]),
            marker="o",
            markersize=7,
            color=colour,
            markerfacecolor=fill,
        )
    axes.grid(axis="x", color="#e6e6e6", linewidth=0.8)
    axes.set_axisbelow(True)


def _name(entry: Mapping[str, Any], key: str = "model") -> str:
    # A dollar sign would start a formula.
    return shortened(entry[key], _LONGEST).replace("$", r"\$")


_WALK, _PAIR = PALETTE[0], PALETTE[1]
_LONGEST_LABEL = 18  # characters of a label
_WIDEST = 7.0  # points
_SMALL = {"font.size": 9.0, "svg.fonttype": "none", "svg.hashsalt": "gelato"}

_Place = tuple[int, object]  # a node at a step of a walk


def draw_explanation(why: Explanation) -> Figure:
    """Draw why a pair has its score.

    Walks run from left to right, one column per step; a line is as wide as the listed
    walks along it contribute. Steps over similarity pairs are dashed, and walks that
    step along the pair itself have their own colour. A cosine is drawn as the bars of
    its attributes.
    """
    with rc_context(_SMALL):
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
        face = "white" if own and not end else GREY if not end else "black"
        axes.plot(
            *(x, y),
            marker="o",
            markersize=9 if end else 6,
            markerfacecolor=face,
            markeredgecolor="black" if own else GREY,
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
            Line2D([], [], color=GREY, linestyle=(0, (2, 1)), label="similarity pair")
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
    return shortened(value, _LONGEST_LABEL)
