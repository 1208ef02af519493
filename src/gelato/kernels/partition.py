"""Cut a graph into communities of bounded size by label propagation."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from gelato.kernels.walk_structure import WalkStructure


@numba.njit(cache=True, nogil=True)
def _propagate(indptr, indices, order, labels, sizes, limit):
    """Move each node, in order, to the commonest label around it that has room."""
    counts = np.zeros(labels.shape[0], np.int64)
    moved = 0
    for u in order:
        best, most = labels[u], 0
        for s in range(indptr[u], indptr[u + 1]):
            label = labels[indices[s]]
            counts[label] += 1
            room = label == labels[u] or sizes[label] < limit
            more = counts[label] > most
            if room and (more or (counts[label] == most and label == labels[u])):
                best, most = label, counts[label]
        for s in range(indptr[u], indptr[u + 1]):
            counts[labels[indices[s]]] = 0
        if best != labels[u]:
            sizes[labels[u]] -= 1
            sizes[best] += 1
            labels[u] = best
            moved += 1
    return moved


def partition_nodes(
    structure: WalkStructure, *, parts: int = 32, rounds: int = 20, seed: int = 0
) -> npt.NDArray[np.int64]:
    """Return a community per node, each of at most about n / parts nodes.

    Size-constrained label propagation: every node starts alone and repeatedly joins
    the community that most of its neighbours belong to, if that has room.

    Parameters
    ----------
    structure : WalkStructure
        The graph.
    parts : int
        Communities hold at most ceil(n / parts) nodes; there are at least so many.
    rounds : int
        Stop after so many passes, or when no node moves.
    seed : int
        Decides the order of the nodes.

    Returns
    -------
    (n,) int64
        Labels 0 .. number of communities - 1, in the graph's own node order.
    """
    n = structure.num_nodes
    generator = np.random.default_rng([seed, n])
    labels: npt.NDArray[Any] = np.arange(n)
    sizes = np.ones(n, np.int64)
    limit = max(2, -(-n // parts))
    for _ in range(rounds):
        order = generator.permutation(n)
        graph = (structure.indptr, structure.indices)
        if not _propagate(*graph, order, labels, sizes, limit):
            break
    return np.unique(labels[structure.inside], return_inverse=True)[1].astype(np.int64)
