"""Draw the pictures of the docs, from the tool's own numbers.

``protocols.svg`` shows runs recorded in ``results/runs/citeseer``; ``negatives.svg``
follows from exact counts on the embedded graph; ``worked-example.svg`` is the paper's
example; ``gallery/`` is what the scripts of ``examples/gallery`` draw. Run it with
``python scripts/make_doc_figures.py``: it takes half a minute.
"""

from __future__ import annotations

import os
import runpy
import shutil
import sys
from contextlib import chdir
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

import gelato
from gelato.drawing import GREY, PALETTE, STYLE, write_figure
from gelato.paper.cells import row_records
from gelato.paper.experiment import read_experiment
from gelato.report.figures import draw_example

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
METHODS = ("cn", "ra", "aa", "cos", "ac", "cos+ac", "gelato")

BLUE, ORANGE, GREEN = PALETTE[:3]


def recorded(dataset: str = "citeseer") -> dict[str, dict[str, float]]:
    """Return AP and AUC of the AP table's runs, in percent, as means over the seeds."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in read_experiment("ap").on([dataset]).of(METHODS).rows:
        if runs := row_records(row, ROOT / "results"):
            found[row.method] = list(runs)
    return {
        method: {
            "ap": 100 * mean(run["metrics"]["ap"] for run in runs),
            "biased_ap": 100 * mean(run["biased_metrics"]["ap"] for run in runs),
            "auc": 100 * mean(run["metrics"]["auc"] for run in runs),
            "random_ap": 100 * mean(run["metrics"]["random_ap"] for run in runs),
            "seeds": len(runs),
        }
        for method, runs in sorted(found.items())
    }


def draw_protocols(numbers: dict[str, dict[str, float]]) -> Figure:
    """Draw the average precision of every method under both protocols."""
    names = sorted(numbers, key=lambda name: numbers[name]["ap"])
    figure = Figure(figsize=(8.5, 4.2), layout="constrained")
    axes = figure.subplots()
    for place, name in enumerate(names):
        exact, biased = numbers[name]["ap"], numbers[name]["biased_ap"]
        axes.plot([exact, biased], [place, place], color="#cccccc", zorder=1)
        axes.plot(exact, place, "o", color=BLUE, markersize=9)
        axes.plot(biased, place, "D", color="white", mec=ORANGE, mew=2, markersize=8)
        about = {"textcoords": "offset points", "va": "center", "fontsize": 10}
        axes.annotate(
            f"{exact:.2f}", (exact, place), (-9, 0), ha="right", color=BLUE, **about
        )
        axes.annotate(f"{biased:.1f}", (biased, place), (9, 0), color=ORANGE, **about)
    chance = numbers[names[0]]["random_ap"]
    for value, text in (
        (chance, "random order,\nall pairs"),
        (50, "random order,\nBIASED"),
    ):
        axes.axvline(value, color=GREY, linestyle=":", linewidth=1)
        axes.annotate(
            text,
            (value, len(names) - 0.45),
            (4, 0),
            textcoords="offset points",
            color=GREY,
            fontsize=9,
        )
    axes.set(
        xscale="log",
        xlim=(0.006, 400),
        ylim=(-0.6, len(names) + 0.4),
        yticks=range(len(names)),
        yticklabels=names,
        xlabel="average precision of test edges, percent (logarithmic)",
    )
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axes.set_title(
        "CiteSeer: the same rankings, against all non-edges (●) and a sample (◇)",
        loc="left",
        fontsize=12,
    )
    return figure


def thinned_ap(counts: Any, per_positive: np.ndarray) -> np.ndarray:
    """Return the AP to expect against so many random negatives per positive.

    Of a sample, the same share stands above every positive as of all negatives.
    """
    found = np.cumsum(counts.positives)
    ahead = counts.above + counts.tied  # ties are taken together, as AP does
    share = per_positive * counts.num_positives / counts.num_negatives
    precision = found / (found + share[:, None] * ahead)
    return np.average(precision, axis=1, weights=counts.positives)


def draw_negatives(split: Any) -> Figure:
    """Draw average precision against the number of negatives ranked."""
    figure = Figure(figsize=(8.5, 4.4), layout="constrained")
    axes = figure.subplots()
    looks = zip(
        ("cos", "ac", "aa"), (ORANGE, BLUE, GREEN), ("--", "-", "-."), strict=True
    )
    for name, colour, dash in looks:
        counts = gelato.evaluate(gelato.make(name).fit(split), split).counts
        every = counts.num_negatives / counts.num_positives
        ratios = np.geomspace(1, every, 200)
        values = 100 * thinned_ap(counts, ratios)
        axes.plot(ratios, values, color=colour, linestyle=dash, lw=2, label=name)
    axes.plot(
        ratios, 100 / (1 + ratios), color=GREY, ls=":", lw=1, label="random order"
    )
    axes.set(
        xscale="log",
        yscale="log",
        xlim=(1, every),
        xlabel="random negatives ranked for each test edge",
        ylabel="average precision, percent",
    )
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,g}"))
    axes.legend(frameon=False)
    axes.set_title(
        f"CiteSeer: from a balanced sample (1) to every non-edge ({every:,.0f})",
        loc="left",
        fontsize=12,
    )
    return figure


def draw_gallery() -> None:
    """Let every example of the gallery draw its picture."""
    os.environ |= {"MPLBACKEND": "agg", "SOURCE_DATE_EPOCH": "0"}
    target = IMAGES / "gallery"
    target.mkdir(exist_ok=True)
    with TemporaryDirectory() as folder, chdir(folder):
        for file in (ROOT / "examples" / "data").iterdir():
            shutil.copy(file, folder)
        for example in sorted((ROOT / "examples" / "gallery").glob("*.py")):
            runpy.run_path(str(example))
            print(shutil.copy(f"{example.stem}.svg", target))


def main() -> int:
    """Draw all pictures."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    with rc_context(STYLE):
        split = gelato.split_edges(gelato.load_dataset("citeseer"))
        pictures = {
            "protocols": draw_protocols(recorded()),
            "negatives": draw_negatives(split),
            "worked-example": draw_example(gelato.worked_example()),
        }
        for name, figure in pictures.items():
            path = write_figure(figure, IMAGES / f"{name}.svg")
            print(path.relative_to(ROOT))
    with rc_context({key: STYLE[key] for key in ("svg.fonttype", "svg.hashsalt")}):
        draw_gallery()
    return 0


if __name__ == "__main__":
    sys.exit(main())
