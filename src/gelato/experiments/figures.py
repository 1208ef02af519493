"""The figures of the paper by name: each from records, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure

from gelato.drawing import GREY, PALETTE, STYLE, save_figure
from gelato.experiments.curve_figures import draw_curves, draw_protocols
from gelato.experiments.paper import Experiment
from gelato.experiments.records import make_folders
from gelato.experiments.setting_figures import (
    draw_alpha_beta,
    draw_eta,
    draw_losses,
)
from gelato.experiments.toy import LABEL
from gelato.experiments.visual_figure import draw_visual
from gelato.ranking.example import curves, worked_example

Draw = Callable[[Experiment, Path], Figure | None]
_POINTS = 300  # of a curve: more cannot be seen


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
