"""Splits of a graph's edges into training, validation and test parts.

Every number that the package reports stands on one of these. A split therefore
checks itself for leakage whenever one is made or loaded, and its fingerprint says
whether two results were measured on the same one. Nothing here samples negatives:
the candidates of a part are all pairs that were not known before it.
"""

from gelato.splits.edge_split import PARTS, EdgeSplit, Part
from gelato.splits.splitters import (
    as_data,
    as_split,
    split_by_time,
    split_edges,
    split_given,
    split_many,
    split_rolling,
)

__all__ = [
    "PARTS",
    "EdgeSplit",
    "Part",
    "as_data",
    "as_split",
    "split_by_time",
    "split_edges",
    "split_given",
    "split_many",
    "split_rolling",
]
