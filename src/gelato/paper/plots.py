"""The paper's figures: which there are, and those of rankings and protocols."""

from __future__ import annotations

import statistics
import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, NullLocator

from gelato.drawing import GREY, MARKERS, PALETTE, STYLE, save_figure
from gelato.paper.cells import figure_note, marked, row_records
from gelato.paper.experiment import Experiment, Row, read_experiment
from gelato.paper.records import make_folders
from gelato.paper.setting_plots import (
    draw_alpha_beta,
    draw_eta,
    draw_losses,
    draw_visual,
)
from gelato.paper.toy import LABEL
from gelato.ranking.example import curves, worked_example

Draw = Callable[[Experiment, Path], Figure | None]
Records = list[dict[str, Any]]
# By group of methods, as the paper's tables have them; Gelato stands alone.
_DASHES = {"GNN": "--", "topology": ":", "attributes and topology": "-."}
_PANEL, _LEGEND_HEIGHT = 3.3, 1.0  # inches
_ABREAST = 3
_LEGEND_COLUMNS = 7
_FOOT = 130  # characters of a line under a figure
_NAMES = {"auc": "AUC", "ap": "AP"}
_POINTS = 300  # of a curve: more cannot be seen


def draw_figures(
    experiment: Experiment, results: Path, folder: Path
) -> dict[str, list[Path]]:
    """Draw the figures of an experiment that records allow, as PNG and SVG.

    Parameters
    ----------
    experiment : Experiment
        Which one.
    results : Path
        Folder of records.
    folder : Path
        Where the files go; it is made where it is missing.

    Returns
    -------
    files : dict
        By name of the figure the files written; an empty list where nothing that it
        needs is recorded.
    """
    written: dict[str, list[Path]] = {}
    for name in experiment.figures:
        written[name] = []
        with rc_context(STYLE):
            figure = FIGURES[name][1](experiment, results)
            if figure is None:
                continue
            _mark_toy(figure, experiment)
            make_folders(folder)
            written[name] = save_figure(figure, folder / f"{experiment.name}-{name}")
    return written


def _mark_toy(figure: Figure, experiment: Experiment) -> None:
    """Write across a figure that it shows toy runs."""
    if any(row.label == LABEL for row in experiment.rows):
        figure.text(
            *(0.5, 0.5, "TOY RUNS"),
            ha="center",
            va="center",
            rotation=25,
            fontsize=44,
            color=GREY,
            alpha=0.4,
            zorder=100,  # above images
        )


def draw_curves(experiment: Experiment, results: Path, kind: str) -> Figure | None:
    """Draw precision or hits at k of every recorded row, one panel per dataset.

    Parameters
    ----------
    experiment : Experiment
        A table of methods and datasets.
    results : Path
        Folder of recorded runs.
    kind : {"precision_at", "hits_at"}
        Which curve of a record.

    Returns
    -------
    figure : Figure or None
        None where nothing is recorded.
    """
    found = recorded(experiment, results)
    if not any(found.values()):
        return None
    datasets = [name for name in experiment.datasets if found[name]]
    figure, panels = _panels(len(datasets), 4.0)
    looks = method_looks(experiment)
    for axes, dataset in zip(panels, datasets, strict=True):
        for row, records in found[dataset]:
            names = list(records[0]["metrics"][kind])
            axes.plot(
                range(len(names)),
                [mean_of(records, kind, name) for name in names],
                label=row.name,
                **looks[row.name],
            )
        axes.set_title(dataset)
        _name_ticks(axes, names, kind)
        axes.set_ylim(bottom=0)
    words = {"precision_at": "prec@k (%)", "hits_at": "hits@k (%)"}
    for axes in panels[::_ABREAST]:
        axes.set_ylabel(words[kind])
    _legend(figure, panels)
    figure.supxlabel(missing_text(experiment, found), fontsize=8, color=GREY, x=0.5)
    return figure


def _panels(count: int, height: float) -> tuple[Figure, list[Axes]]:
    """Return a figure with a panel per graph, few abreast: pages are narrow."""
    columns = min(count, _ABREAST)
    rows = -(-count // columns)
    size = (_PANEL * max(2, columns), _LEGEND_HEIGHT + height * rows)
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes in panels[count:]:
        axes.set_axis_off()
    return figure, list(panels[:count])


def recorded(
    experiment: Experiment, results: Path
) -> dict[str, list[tuple[Row, Records]]]:
    """Return the rows with recorded runs, by dataset."""
    found: dict[str, list[tuple[Row, Records]]] = {}
    for row in experiment.rows:
        rows = found.setdefault(row.dataset, [])
        records = row_records(row, results)
        if records:
            rows.append((row, records))
    return found


def mean_of(records: Sequence[dict[str, Any]], kind: str, name: str) -> float:
    """Return the mean of a value of a curve over runs, in percent."""
    return 100 * statistics.fmean(r["metrics"][kind][name] for r in records)


def missing_text(
    experiment: Experiment, found: Mapping[str, Sequence[tuple[Row, Records]]]
) -> str:
    """Name methods without a recorded run, or whose runs are not exact."""
    names = list(dict.fromkeys(row.name for row in experiment.rows))
    lacking = {
        dataset: [n for n in names if n not in {row.name for row, _ in found[dataset]}]
        for dataset in experiment.datasets
    }
    everywhere = [n for n in names if all(n in part for part in lacking.values())]
    parts = [f"on no graph: {', '.join(everywhere)}"] if everywhere else []
    for dataset, part in lacking.items():
        rest = [name for name in part if name not in everywhere]
        if rest:
            parts.append(f"not on {dataset}: {', '.join(rest)}")
    text = f"Recorded {'; '.join(parts)}. " if parts else ""
    noted = figure_note(found)
    text += f"Not exact: {noted}." if noted else ""
    return "\n".join(textwrap.wrap(text.rstrip(". "), _FOOT))


def method_looks(experiment: Experiment) -> dict[str, dict[str, Any]]:
    """Return colour, dash and marker by method: the same in every figure.

    Groups differ by dash, methods of a group by colour and marker.
    """
    looks: dict[str, dict[str, Any]] = {}
    places: dict[str, int] = {}
    groups = {row.name: row.group for row in read_experiment("ap").rows}
    groups |= {row.name: row.group for row in experiment.rows if row.group}
    for name in dict.fromkeys([*groups, *(row.name for row in experiment.rows)]):
        group = groups.get(name, "")
        place = places[group] = places.get(group, -1) + 1
        strong = name.lower() == "gelato"
        looks[name] = {
            "color": PALETTE[-1] if strong else PALETTE[place % (len(PALETTE) - 1)],
            "linestyle": _DASHES.get(group, "-"),
            "marker": MARKERS[len(looks) % len(MARKERS)],
            "linewidth": 2.4 if strong else 1.3,
            "markersize": 5 if strong else 4,
        }
    return looks


def _name_ticks(axes: Axes, names: Sequence[str], kind: str) -> None:
    """Name every second k: equal steps, as the paper draws them."""
    axes.set_xticks(range(len(names))[1::2], names[1::2], fontsize=8)
    axes.set_xlabel("k, of test edges" if kind == "precision_at" else "k")


def _legend(figure: Figure, panels: Sequence[Axes]) -> None:
    """Put one legend for all panels above them."""
    shown: dict[str, Any] = {}
    for axes in panels:
        for line, name in zip(*axes.get_legend_handles_labels(), strict=True):
            shown.setdefault(name, line)
    figure.legend(
        shown.values(),
        shown.keys(),
        loc="outside upper left",
        ncols=min(_LEGEND_COLUMNS, 2 + 1 * len(panels)),
        frameon=False,
        fontsize=8,
        handlelength=3,
    )


def draw_protocols(experiment: Experiment, results: Path) -> Figure | None:
    """Draw every recorded row under biased and unbiased testing.

    Adamic-Adar under unbiased testing is the line to compare with.
    """
    found = recorded(experiment, results)
    datasets = [name for name in experiment.datasets if found[name]]
    if not datasets:
        return None
    tallest = max(len(found[name]) for name in datasets)
    figure, panels = _panels(len(datasets), 0.9 + 0.19 * tallest)
    for axes, dataset in zip(panels, datasets, strict=True):
        _protocol_panel(axes, dataset, found[dataset])
    _legend(figure, panels)
    figure.supxlabel(missing_text(experiment, found), fontsize=8, color=GREY)
    return figure


def _protocol_panel(
    axes: Axes, dataset: str, found: Sequence[tuple[Row, Records]]
) -> None:
    places = range(len(found))
    marks: tuple[tuple[str, str, str, str, str], ...] = (
        ("BIASED testing, AUC", "biased_metrics", "auc", "D", PALETTE[4]),
        ("BIASED testing, AP", "biased_metrics", "ap", "s", PALETTE[1]),
        ("all pairs, AP", "metrics", "ap", "o", PALETTE[0]),
    )
    for label, part, metric, marker, colour in marks:
        values = [
            100 * statistics.fmean(r[part][metric] for r in records)
            for _, records in found
        ]
        hollow = part == "biased_metrics"
        axes.plot(
            values,
            places,
            marker,
            color=colour,
            markerfacecolor="white" if hollow else colour,
            label=label,
            clip_on=False,
        )
    line = [r for row, records in found if row.name == "AA" for r in records]
    if line:
        ap = 100 * line[0]["metrics"]["ap"]
        axes.axvline(ap, color=GREY, linestyle="--", linewidth=1, label="AA, all pairs")
    axes.set_yticks(places, [marked(row.name, row) for row, _ in found], fontsize=8)
    axes.set(xscale="log", xlim=(0.05, 110), title=dataset, xlabel="%")
    axes.set_xticks([0.1, 1, 10, 100], ["0.1", "1", "10", "100"])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.grid(axis="y", color="#ececec")
    axes.set_axisbelow(True)
    axes.invert_yaxis()


def draw_example(experiment: Experiment, results: Path) -> Figure:
    """Draw ROC, and precision by recall under both protocols, of the example."""
    example = worked_example()
    numbers = example.to_dict()
    figure = Figure(figsize=(11, 3.8), layout="constrained")
    roc, biased, unbiased = figure.subplots(1, 3)
    for name, axes, place in (("biased", biased, 1), ("unbiased", unbiased, 0)):
        points = curves(getattr(example, name))
        step = max(1, len(points["recall"]) // _POINTS)
        look = {"color": PALETTE[place], "linestyle": ("-", "--")[place]}
        x, y = points["false_positive_rate"], points["true_positive_rate"]
        auc, ap = numbers[name]["auc"], numbers[name]["ap"]
        roc.plot(x[::step], y[::step], label=f"{name}, AUC {auc:.2f}", **look)
        axes.plot(points["recall"][::step], points["precision"][::step], **look)
        axes.set(xlabel="recall", ylabel="precision", ylim=(-0.02, 1.02))
        axes.set_title(f"{name} testing, AP {ap:.2f}")
    roc.set(xlabel="false positive rate", ylabel="true positive rate", title="ROC")
    roc.legend(frameon=False)
    return figure


FIGURES: dict[str, tuple[str, Draw]] = {
    "precision": ("prec@k", partial(draw_curves, kind="precision_at")),
    "hits": ("hits@k", partial(draw_curves, kind="hits_at")),
    "protocols": ("both protocols", draw_protocols),
    "losses": ("training by loss and training set", draw_losses),
    "eta": ("sensitivity to eta", draw_eta),
    "alpha-beta": ("sensitivity to alpha and beta", draw_alpha_beta),
    "visual": ("visual analysis", draw_visual),
    "example": ("ROC and precision by recall", draw_example),
}
"""By name: what a figure shows, and what draws it."""
