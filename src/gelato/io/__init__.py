"""Outside formats to graphs and back; each format's library is imported when used."""

from gelato.io.attributes import rescale
from gelato.io.formats import (
    from_networkx,
    from_pyg,
    from_scipy,
    to_networkx,
    to_pyg,
    to_scipy,
)
from gelato.io.npz import read_npz, write_npz
from gelato.io.pair_files import read_nodes, read_pairs
from gelato.io.read import as_graph, read_graph, read_graph_with_report, with_sides
from gelato.io.report import ColumnChoice, ReadReport
from gelato.io.write import (
    to_frame,
    write_bytes_atomic,
    write_graph,
    write_table,
    write_text_atomic,
)

__all__ = [
    "ColumnChoice",
    "ReadReport",
    "as_graph",
    "from_networkx",
    "from_pyg",
    "from_scipy",
    "read_graph",
    "read_graph_with_report",
    "read_nodes",
    "read_npz",
    "read_pairs",
    "rescale",
    "to_frame",
    "to_networkx",
    "to_pyg",
    "to_scipy",
    "with_sides",
    "write_bytes_atomic",
    "write_graph",
    "write_npz",
    "write_table",
    "write_text_atomic",
]
