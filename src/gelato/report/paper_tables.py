"""Tables for papers: LaTeX, Markdown or csv, with intervals; nothing is computed."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gelato.errors import UsageError
from gelato.io import write_text_atomic
from gelato.text import paired_difference, percent, percent_margin, protocol_mark

SUFFIXES = (".tex", ".md", ".csv")
_BESIDE = ("prec@100%", "hits@100", "auc")
_TITLES = {"auc": "AUC"}
# Characters that mean something to LaTeX.
_TEX = {
    **{char: f"\\{char}" for char in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "<": "$<$",
    ">": "$>$",
    "†": r"$\dagger$",
}


def write_paper_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], path: Path
) -> Path:
    """Write cells as they are, in the format of the suffix: .tex, .md or .csv."""
    makers = {".tex": _latex, ".md": _markdown, ".csv": _csv}
    maker = makers.get(path.suffix.lower())
    if maker is None:
        raise UsageError(
            f"{path}: a table cannot be written as {path.suffix!r}.",
            hint=f"Choose one of: {', '.join(SUFFIXES)}.",
        )
    return write_text_atomic(path, maker(header, rows))


def write_ranking(ranking: Sequence[Mapping[str, Any]], path: Path) -> Path:
    """Write what :func:`gelato.comparison.summary.rank_models` returns.

    LaTeX and Markdown show percent as people print them; csv has shares, with the
    limits of intervals in columns of their own.
    """
    if path.suffix.lower() == ".csv":
        return write_paper_table(*_plain_ranking(ranking), path)
    against = next((e["against"] for e in ranking if e["difference"]["ap"]), None)
    header = ["method", "AP"]
    header += [] if against is None else [f"against {against}"]
    header += [_TITLES.get(name, name) for name in _BESIDE]
    rows = []
    for entry in ranking:
        name = f"{entry['model']}{protocol_mark(entry['protocol'])}"
        mean = entry["mean"]
        row = [name, percent_margin(mean["ap"], entry["interval"]["ap"])]
        if against is not None:
            row.append(paired_difference(entry["difference"]["ap"]))
        rows.append([*row, *(percent(mean[key]) for key in _BESIDE)])
    return write_paper_table(header, rows, path)


def _plain_ranking(
    ranking: Sequence[Mapping[str, Any]],
) -> tuple[list[str], list[list[str]]]:
    header = ["method", "protocol", "runs", "splits", "seeds", "ap", "ap_low"]
    header += ["ap_high", "against", "difference", "difference_low"]
    header += ["difference_high", "verdict", *_BESIDE, "random_ap"]
    rows = []
    for entry in ranking:
        limits = entry["interval"]["ap"] or {}
        other = entry["difference"]["ap"] or {}
        cells = [
            *(entry[name] for name in ("model", "protocol", "runs", "splits", "seeds")),
            *(entry["mean"]["ap"], limits.get("low"), limits.get("high")),
            entry["against"],
            *(other.get(name) for name in ("value", "low", "high", "verdict")),
            *(entry["mean"][name] for name in _BESIDE),
            entry["random_ap"],
        ]
        rows.append(["" if cell is None else str(cell) for cell in cells])
    return header, rows


def _csv(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([header, *rows])
    return text.getvalue()


def _markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    cells = ([re.sub(r"([|\\`*_<])", r"\\\1", cell) for cell in line] for line in rows)
    shown = [lines[0], lines[1], *cells]
    return "".join(f"| {' | '.join(line)} |\n" for line in shown)


def _latex(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def line(cells: Sequence[str]) -> str:
        escaped = ("".join(_TEX.get(c, c) for c in cell) for cell in cells)
        return f"  {' & '.join(escaped)} \\\\\n"

    # Rules of the package booktabs.
    return (
        f"\\begin{{tabular}}{{l{'r' * (len(header) - 1)}}}\n  \\toprule\n"
        f"{line(header)}  \\midrule\n{''.join(map(line, rows))}"
        "  \\bottomrule\n\\end{tabular}\n"
    )
