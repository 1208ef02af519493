"""What reading did, as data: for people to check and for machines to store."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class ColumnChoice:
    """How one column of an attribute table became attributes.

    Parameters
    ----------
    name : str
        The column.
    kind : str
        ``numeric``, ``numeric-raw``, ``date``, ``category``, ``text``, ``list`` or
        ``drop``.
    width : int
        How many attributes it became.
    reason : str
        Why, for people to read.
    """

    name: str
    kind: str
    width: int
    reason: str


@dataclass(frozen=True)
class ReadReport:
    """What was read, assumed, dropped and missing.

    Parameters
    ----------
    edges, attributes : str or None
        Names of the files or tables.
    edge_rows, attribute_rows : int
        Rows read, headers not counted.
    edges_header, attributes_header : bool or None
        Whether the first row was taken as column names (``None``: no such table).
    columns : dict
        Role (``source``, ``target``, ``weight``, ``time``, ``id``, ``labels``) to
        the column used.
    id_type : str
        ``int``, ``text`` or ``mixed``.
    num_nodes, num_edges, num_attributes : int
        The size of the graph.
    self_loops, zero_weights, repeated_edges : int
        Rows dropped (loops, weight 0) or merged into another.
    times_are_dates : bool
        Whether the times of the edges are seconds since 1970, read from dates.
    rows_without_id : int
        Rows of either table that were dropped because an id was missing.
    nodes_without_edges, nodes_without_attributes : int
        Isolated nodes, and nodes whose attributes were filled with zeros.
    bipartite : bool
        Whether every edge joins two sides, and no side has edges of its own.
    column_choices : tuple of ColumnChoice
        One per column of the attribute table.
    scales : dict
        Attribute to the centre and the spread by which its numbers were scaled.
    notes : tuple of str
        The same and more in sentences; also in ``graph.notes``.
    """

    edges: str
    attributes: str | None
    edge_rows: int
    attribute_rows: int
    edges_header: bool | None
    attributes_header: bool | None
    columns: dict[str, str]
    id_type: str
    num_nodes: int
    num_edges: int
    num_attributes: int
    self_loops: int
    zero_weights: int
    repeated_edges: int
    nodes_without_edges: int
    nodes_without_attributes: int
    rows_without_id: int = 0
    times_are_dates: bool = False
    bipartite: bool = False
    column_choices: tuple[ColumnChoice, ...] = ()
    scales: dict[str, tuple[float, float]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists, dictionaries, numbers and text, fit for JSON."""
        plain = asdict(self)
        plain["column_choices"] = [asdict(choice) for choice in self.column_choices]
        plain["notes"] = list(self.notes)
        plain["scales"] = {name: list(scale) for name, scale in self.scales.items()}
        return plain
