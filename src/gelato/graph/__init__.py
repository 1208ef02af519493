"""The graph that everything works on: checked once, then never changed.

A :class:`Graph` holds canonical edges over nodes ``0..n-1`` together with the
user's own node ids, optional weights, times, attributes and labels. It reads no
files: ``gelato.io`` turns outside formats into graphs and back.
"""

from gelato.graph.graph import (
    LONGEST_FIXED_ID,
    Attributes,
    FloatArray,
    Graph,
    IntArray,
    as_id_array,
    canonical_pairs,
    find_pairs,
    is_canonical,
    pair_keys,
    unknown_node,
)

__all__ = [
    "LONGEST_FIXED_ID",
    "Attributes",
    "FloatArray",
    "Graph",
    "IntArray",
    "as_id_array",
    "canonical_pairs",
    "find_pairs",
    "is_canonical",
    "pair_keys",
    "unknown_node",
]
