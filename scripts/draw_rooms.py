"""Draw the rooms of the package, one row per layer of imports, for the docs.

The layers are those of ``pyproject.toml``, which import-linter holds the code to. Run
``python scripts/draw_rooms.py`` after a room has come, gone or moved.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Patch

from gelato.drawing import GREY, write_figure

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "images" / "rooms.svg"

CAPTIONS = {
    "cli": "one file per verb: parse, call, print",
    "report": "one offline page",
    "paper": "the experiments",
    "comparison": "models side by side",
    "tuning": "which parameters",
    "choosing": "which model",
    "baselines": "a file or folder per GNN, whole; loaded by name",
    "models": "every predictor: one interface, one registry",
    "training": "negatives, tasks, loop",
    "stacking": "pair features, trees",
    "predict": "tables of links",
    "explain": "walks of a score",
    "storage": "run folders",
    "nn": "pair MLP, walks, losses",
    "heuristics": "cn aa ra pa ac ...",
    "networkx_backend": "its indices",
    "ranking": "score, then consume: scorers, candidates, counts, best links, measures",
    "engines": "where blocks run: threads, or a Ray cluster",
    "kernels": "compiled loops, each with a slow twin in the tests",
    "splits": "which edges are held out",
    "datasets": "graphs by name",
    "drawing": "how figures look",
    "io": "files and frames to graphs and back",
    "graph": "Graph: edges, weights, attributes, ids; checked once",
    "errors": "what was seen, expected, to do",
    "text": "how numbers are said",
    "parameters": "what a model may be set to",
}
METHOD = {
    *("graph", "splits", "kernels", "ranking"),
    *("heuristics", "nn", "training", "models"),
}
FILLS = {"method": "#d6e8f4", "baselines": "#fbe3d3", "rest": "#f0f0f0"}
WIDTH, ROW, GAP = 100.0, 10.0, 1.6


def layers() -> list[list[str]]:
    """Return the rooms of every layer, the uppermost first."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    (contract,) = (
        found
        for found in project["tool"]["importlinter"]["contracts"]
        if found["type"] == "layers"
    )
    return [re.split(r"\s*[:|]\s*", layer) for layer in contract["layers"]]


def draw() -> Figure:
    """Draw a box for every room."""
    rows = layers()
    figure = Figure(figsize=(9.6, 0.62 * len(rows) + 0.7))
    axes = figure.add_axes((0, 0, 1, 1))
    height = ROW * len(rows)
    axes.set(xlim=(-8, WIDTH + 1), ylim=(-ROW, height + 2))
    axes.axis("off")
    for order, rooms in enumerate(rows):
        top = height - ROW * order
        width = (WIDTH - GAP * (len(rooms) - 1)) / len(rooms)
        for place, room in enumerate(rooms):
            _box(axes, place * (width + GAP), top - ROW + GAP, width, room)
    axes.annotate(
        "",
        (-4, GAP),
        (-4, height),
        arrowprops={"arrowstyle": "-|>", "color": GREY, "lw": 1.4},
    )
    axes.text(
        -6, height / 2, "imports point down", rotation=90, va="center", color=GREY
    )
    meaning = {
        "method": "the method, from a graph to Gelato's score",
        "baselines": "the networks it is compared with",
        "rest": "around it",
    }
    axes.legend(
        handles=[Patch(color=FILLS[key], label=text) for key, text in meaning.items()],
        loc="lower center",
        bbox_to_anchor=(0.53, 0.0),
        ncols=3,
        frameon=False,
        fontsize=9,
    )
    return figure


def _box(axes: Axes, left: float, bottom: float, width: float, room: str) -> None:
    """Draw one room: its name, and below it what it is for."""
    kind = "method" if room in METHOD else room if room in FILLS else "rest"
    box = FancyBboxPatch(
        (left, bottom),
        width,
        ROW - GAP,
        boxstyle="round,pad=0,rounding_size=1",
        facecolor=FILLS[kind],
        edgecolor="white",
    )
    axes.add_patch(box)
    middle = left + width / 2
    for text, rise, style in (
        (room, 0.66, {"weight": "bold", "fontsize": 11}),
        (CAPTIONS[room], 0.26, {"fontsize": 8.5, "color": "#404040"}),
    ):
        axes.text(
            middle, bottom + rise * (ROW - GAP), text, ha="center", va="center", **style
        )


def main() -> int:
    """Write the picture."""
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURE
    print(write_figure(draw(), target))
    return 0


if __name__ == "__main__":
    sys.exit(main())
