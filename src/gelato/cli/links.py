"""Predicted links as the user sees them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from gelato.cli import numbers
from gelato.cli.screen import Screen, make_table, shortened

if TYPE_CHECKING:
    import polars as pl

SHOWN = 20  # rows on the screen; files and JSON get all of them

# What is left out first where a line would be too long.
_OPTIONAL = ("attribute_similarity", "common_neighbours", "expected_precision")
_TITLES = {
    "expected_precision": "exp. prec.",
    "common_neighbours": "common",
    "attribute_similarity": "similarity",
}


def show_links(screen: Screen, links: pl.DataFrame, file: Path | None) -> None:
    """Print the best links, and where the others are."""
    screen.show("", links_table(screen, links))
    if links.height > SHOWN and file is None:
        rest = links.height - SHOWN
        screen.show("", f"{rest:,} more: write all of them with -o links.csv")


def links_table(screen: Screen, links: pl.DataFrame, most: int = SHOWN) -> Any:
    """Return the first rows, with as many columns as fit."""
    links = links.head(most)
    some = [name for name in _OPTIONAL if links[name].null_count() < links.height]
    table = _table(links, some)
    while some and not screen.fits(table):
        some = some[1:]
        table = _table(links, some)
    return table


def _table(links: pl.DataFrame, optional: list[str]) -> Any:
    known = "known" in links.columns
    # From the column that is left out last to the one that is left out first.
    shown = optional[::-1]
    titles = [_TITLES[name] for name in shown]
    rows = []
    for link in links.iter_rows(named=True):
        row = [
            numbers.count(link["rank"]),
            shortened(link["source"]),
            shortened(link["target"]),
            numbers.score(link["score"]),
            *(_cell(name, link[name]) for name in shown),
            f"{numbers.degree(link['source_degree'])} and "
            f"{numbers.degree(link['target_degree'])}",
        ]
        rows.append([*row, "yes" if link["known"] else ""] if known else row)
    columns = ["rank", "source", "target", "score", *titles, "degrees"]
    table = make_table(*columns, *(["an edge"] if known else []), rows=rows, text=3)
    table.columns[0].justify = "right"
    return table


def _cell(name: str, value: float | None) -> str:
    if value is None:
        return "-"
    if name == "expected_precision":
        return f"{numbers.percent(value)} %"
    return numbers.count(value) if name == "common_neighbours" else f"{value:.3f}"


def write_links(screen: Screen, links: pl.DataFrame, file: Path | None) -> None:
    """Write all links to a file, if one is named."""
    if file is None:
        return
    from gelato.io import write_table

    write_table(links, file)
    screen.note(f"wrote {numbers.plural(links.height, 'link')} to {file}")
