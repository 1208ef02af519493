"""Write what networks reached, from the recorded runs, into their pages in the docs.

A page of ``docs/models`` named after a method holds its table between two comments:
``<!-- recorded -->`` and ``<!-- end of recorded -->``. What stands outside of them is
written by hand.

    python scripts/write_reached.py
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from gelato.experiments.document import paper_text, seed_text, spread
from gelato.experiments.paper import Experiment, read_experiment
from gelato.experiments.tables import Cell, cells
from gelato.io import write_text_atomic

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "docs" / "models"
RESULTS = ROOT / "results"
_TRAININGS = {
    "ap": "biased",
    "ap-unbiased": "unbiased",
    "gnn-n-pair": "unbiased, N-pair",
}
_BLOCK = re.compile(
    r"(?<=<!-- recorded -->\n).*?(?=<!-- end of recorded -->)", flags=re.S
)
_HEADER = "| training | graph | AP, % | paper | AUC, % | paper | seeds |"


def pages() -> list[Path]:
    """Return the pages that have a table."""
    every = sorted(PAGES.glob("*.md"))
    return [page for page in every if _BLOCK.search(page.read_text("utf-8"))]


def table(method: str) -> str:
    """Return the recorded runs of a method beside the paper's numbers."""
    rows = [row for name in _TRAININGS for row in _rows(name, method)]
    if not rows:
        return "\nNothing is recorded yet.\n\n"
    lines = [_HEADER, "|---|---|---:|---:|---:|---:|---|", *rows]
    return "\n" + "\n".join(lines) + "\n\n"


def _rows(name: str, method: str) -> Iterator[str]:
    experiment = read_experiment(name).of([method])
    auc = {(c.dataset, c.label): c for c in _cells(read_experiment("auc"), method)}
    for cell in cells(experiment, RESULTS, "ap"):
        if not cell.values:
            continue
        (area,) = cells(experiment.on([cell.dataset]), RESULTS, "auc")
        published = auc.get((cell.dataset, cell.label)) if name == "ap" else None
        shown = area if published is None else published
        label = f" ({cell.label})" if cell.label else ""
        parts = (
            _TRAININGS[name] + label,
            cell.dataset,
            *_numbers(cell),
            *_numbers(shown),
            seed_text(cell.seeds),
        )
        yield f"| {' | '.join(parts)} |"


def _cells(experiment: Experiment, method: str) -> list[Cell]:
    return cells(experiment.of([method]), RESULTS)


def _numbers(cell: Cell) -> tuple[str, str]:
    """Return ours, marked where it is outside of the tolerance, and the paper's."""
    ours = spread(cell.mean, cell.deviation)
    mark = f" **{cell.verdict}**" if cell.verdict in ("above", "below") else ""
    return ours + mark, paper_text(cell).replace("*", "\\*")


def refreshed(page: Path) -> str:
    """Return the text of a page with its table up to date."""
    return _BLOCK.sub(lambda _: table(page.stem), page.read_text("utf-8"))


def main() -> None:
    """Write all pages."""
    for page in pages():
        write_text_atomic(page, refreshed(page))
        print(page.relative_to(ROOT))


if __name__ == "__main__":
    main()
