"""Numbers of trainable parameters, from modules that are made and thrown away."""

from __future__ import annotations

from functools import cache

import numpy as np

from gelato.experiments.paper import read_facts
from gelato.graph import Graph
from gelato.models.presets import preset
from gelato.models.registry import make
from gelato.splits import split_edges

# All but SEAL, whose classifier depends on the sizes of subgraphs.
NAMED = (
    *("mlp", "gelato", "gae", "hgcn", "lgcn", "neo-gnn", "bscnets"),
    *("tlc-gnn", "nbfnet", "walkpool"),
)
_NODES = 40  # of the graph that stands in: no count depends on it


@cache
def count_parameters(method: str, dataset: str) -> int:
    """Return how many parameters a method trains on a benchmark graph.

    Only the number of attributes matters, so a small graph with as many stands in.

    Examples
    --------
    >>> count_parameters("gelato", "photo")
    208130
    """
    attributes = read_facts("datasets")["rows"][dataset][2]
    rng = np.random.default_rng(0)
    edges = rng.integers(0, _NODES, (4 * _NODES, 2))
    graph = Graph.from_indices(
        _NODES, edges, attributes=rng.random((_NODES, attributes))
    )
    model = make(method, **preset(dataset, method)).untrained(split_edges(graph))
    return sum(p.numel() for p in model.module_.parameters() if p.requires_grad)
