"""Whether the first row of a text table holds column names.

A wrong guess costs either a bogus node or a lost row, so the rules ask for evidence
and every guess is told in a note; ``header=True`` or ``False`` overrides it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from gelato.io.tables import Table

if TYPE_CHECKING:
    import polars as pl

# Words that are names of columns and hardly ever ids; single letters are left out,
# since they are ids as often as names.
_EDGE_NAMES = frozenset(
    {
        *("source", "target", "src", "dst", "from", "to", "start", "end", "head"),
        *("tail", "source_id", "target_id", "from_id", "to_id", "node1", "node2"),
        *("node_1", "node_2", "id1", "id2", "id_1", "id_2", "fromnodeid", "tonodeid"),
        *("from_node", "to_node", "weight", "time", "timestamp", "date", "score"),
        *("user", "item", "user_id", "item_id", "userid", "itemid", "customer"),
        *("product", "friend", "friend_id", "person1", "person2", "author", "paper"),
        *("person", "colleague", "member", "follower", "followee", "sender"),
        *("receiver", "recipient", "caller", "callee", "buyer", "seller", "citing"),
        *("cited", "protein1", "protein2", "gene1", "gene2", "left", "right"),
    }
)
_ID_NAMES = frozenset(
    {"id", "ids", "node", "nodes", "node_id", "nodeid", "name", "key", "vertex"}
)
_SAMPLE = 1000
_UNNAMED = re.compile(r"column_\d+")


def with_edge_header(
    table: Table, header: bool | None, wanted: Sequence[str | int | None]
) -> tuple[Table, list[str]]:
    """Return an edge table with its header decided, and notes."""
    return _decide(table, header, wanted, lambda cells: _edge_evidence(table, cells))


def with_attribute_header(
    table: Table,
    header: bool | None,
    wanted: Sequence[str | int | None],
    known: Callable[[], Collection[str]],
) -> tuple[Table, list[str]]:
    """Return an attribute table with its header decided by the known ids, and notes."""
    return _decide(
        table, header, wanted, lambda cells: _id_evidence(table, cells, known())
    )


def _decide(
    table: Table,
    header: bool | None,
    wanted: Sequence[str | int | None],
    evidence: Callable[[list[str]], bool | None],
) -> tuple[Table, list[str]]:
    if table.has_header is not None:
        return table, []
    if header is not None:
        return table.headed(header), []
    cells = [(cell or "").strip() for cell in table.frame.row(0)]
    named = [name for name in wanted if isinstance(name, str)]
    asked = any(name in cells or not _UNNAMED.fullmatch(name) for name in named)
    found = True if asked else evidence(cells)
    headed = table.headed(bool(found))
    if found:
        names = ", ".join(headed.frame.columns[:6])
        return headed, [f"{table.place(0)}: read as column names ({names})"]
    if found is None:
        return headed, [f"{table.place(0)}: read as data, not as column names"]
    return headed, []


def _edge_evidence(table: Table, cells: list[str]) -> bool | None:
    if sum(cell.casefold() in _EDGE_NAMES for cell in cells) >= 2:
        return True
    if _names_above_numbers(table.frame, cells):
        return True
    if any(_is_number(cell) for cell in cells):
        return False
    return True if _names_above_ids(table.frame, cells) else None


def _names_above_ids(frame: pl.DataFrame, cells: list[str]) -> bool:
    """Tell whether the first row looks like no id below: never there, and not alike.

    A known name of a column is unlike an id; so are words without a digit above ids
    that all have one (``person`` above ``p17``).
    """
    if frame.height < 2 or frame.width < 2 or not all(cells[:2]):
        return False
    import polars as pl

    ends = [frame.to_series(k)[1:].drop_nulls().str.strip_chars() for k in (0, 1)]
    below = pl.concat([end.alias("id") for end in ends])
    if not below.len() or below.is_in(cells[:2]).any():
        return False
    if any(cell.casefold() in _EDGE_NAMES for cell in cells[:2]):
        return True
    worded = not any(character.isdigit() for cell in cells[:2] for character in cell)
    return worded and bool(below.str.contains(r"\d").all())


def _id_evidence(table: Table, cells: list[str], known: Collection[str]) -> bool | None:
    if cells[0] in known:
        return False
    if cells[0].casefold() in _ID_NAMES or (not cells[0] and len(cells) > 1):
        return True
    if _names_above_numbers(table.frame, cells):
        return True
    if any(_is_number(cell) for cell in cells):
        return False
    below = table.frame.to_series(0)[1:_SAMPLE].str.strip_chars()
    return True if below.len() and below.is_in(list(known)).all() else None


def _names_above_numbers(frame: pl.DataFrame, cells: list[str]) -> bool:
    """Tell whether no first cell is a number although a whole column below is."""
    if frame.height < 2 or any(_is_number(cell) for cell in cells):
        return False
    import polars as pl

    for cell, column in zip(cells, frame[1:_SAMPLE].iter_columns(), strict=True):
        filled = column.drop_nulls().str.strip_chars()
        numbers = filled.cast(pl.Float64, strict=False)
        if cell and filled.len() and numbers.null_count() == 0:
            return True
    return False


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def with_pair_header(
    table: Table,
    wanted: Sequence[str | int | None],
    is_known: Callable[[str], bool],
    ends: int = 2,
) -> Table:
    """Return a table of pairs (or nodes) with its header decided by the known ids.

    The first row is only taken as names where it names columns and no known id: an
    unknown id in it should be reported, not lost.
    """

    def evidence(cells: list[str]) -> bool:
        if any(is_known(cell) for cell in cells[:ends]):
            return False
        names = _EDGE_NAMES if ends > 1 else _ID_NAMES | _EDGE_NAMES
        named = sum(cell.casefold() in names for cell in cells)
        return named >= ends or _names_above_numbers(table.frame, cells)

    return _decide(table, None, wanted, evidence)[0]
