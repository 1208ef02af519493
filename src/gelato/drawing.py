"""How figures look, and how they are written: for everything that draws.

Colours are Okabe and Ito's, which most colour-blind people can tell apart; every
curve also has its own dash pattern, marker or name beside it. Figures are plain
objects without pyplot, so that drawing needs no display and leaves no state behind.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

from gelato.io import write_bytes_atomic

# Okabe and Ito (2008), darkest first; yellow is left out, too faint on white.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = (
    *("-", "--", "-.", (0, (1, 1)), (0, (5, 1, 1, 1, 1, 1))),
    *((0, (7, 2)), (0, (2, 4))),
)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*", "p")
GREY = "#6e6e6e"
FIGURE_SUFFIXES = (".png", ".svg")
STYLE: dict[str, Any] = {
    "font.size": 10.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 11.0,
    "axes.titlelocation": "left",
    "svg.fonttype": "none",
    "svg.hashsalt": "gelato",
}


def save_figure(figure: Figure, stem: Path) -> list[Path]:
    """Write a figure as PNG and as SVG, each completely or not at all.

    The same figure gives the same bytes: no date, no name of a program.

    Parameters
    ----------
    figure : Figure
        What to write.
    stem : Path
        The file without its suffix.
    """
    return [
        write_figure(figure, stem.with_name(stem.name + suffix))
        for suffix in FIGURE_SUFFIXES
    ]


def write_figure(figure: Figure, path: Path) -> Path:
    """Write a figure in the format of the suffix, completely or not at all."""
    kind = path.suffix[1:].lower()
    dates = {"svg": ("Date", "Creator"), "png": ("Software",), "pdf": ("CreationDate",)}
    buffer = io.BytesIO()
    with rc_context(STYLE):
        metadata = dict.fromkeys(dates[kind])
        figure.savefig(buffer, format=kind, metadata=metadata, dpi=150)
    return write_bytes_atomic(path, buffer.getvalue())
