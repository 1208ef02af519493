"""Small attributed graphs whose links follow communities, for tests of training."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from gelato.graph import Graph


def community_graph(n=40, seed=0, *, weighted=False, directed=False, ids=None):
    """Two communities, binary attributes that follow them, two isolated nodes."""
    random = np.random.default_rng(seed)
    block = np.arange(n) % 2
    chance = np.where(block[:, None] == block[None, :], 0.25, 0.03)
    drawn = random.random((n, n)) < chance
    np.fill_diagonal(drawn, False)
    drawn[-2:] = drawn[:, -2:] = False
    edges = np.argwhere(drawn if directed else np.triu(drawn))
    shares = 0.1 + 0.5 * (np.arange(12) % 2 == block[:, None])
    attributes = (random.random((n, 12)) < shares).astype(np.float32)
    weights = random.choice([0.5, 1.0, 2.0, 3.0], len(edges)) if weighted else None
    return Graph.from_indices(
        n,
        edges,
        weights=weights,
        attributes=sp.csr_array(attributes),
        directed=directed,
        ids=ids,
    )
