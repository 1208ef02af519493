"""Models as dots with their confidence intervals, and their paired differences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gelato.comparison.sides import SAME
from gelato.drawing import GREY, PALETTE, STYLE
from gelato.report.wording import shown

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


_Place = Callable[
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
    axes: Axes, entries: Sequence[Mapping[str, Any]], place: _Place, colour: str
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
    text = shown(entry[key]).replace("$", r"\$")
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
