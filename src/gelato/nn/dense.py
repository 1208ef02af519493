"""Dense twins in plain torch: n x n matrices, any device, ordinary autograd.

For small graphs, other devices, directed graphs, the published one-sided masking,
and as the slow and obvious counterpart of the kernels in tests.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from gelato.errors import UnsupportedGraphError, UsageError

Masking = Literal["both", "one-sided"]
DENSE_LIMIT = 3_000
"""Largest directed graph, in nodes, that the dense twin accepts."""


def dense_adjacency(
    weights: Tensor,
    edges: Tensor,
    num_nodes: int,
    *,
    self_loops: str = "isolated",
    mask: Tensor | None = None,
    masking: Masking = "both",
    directed: bool = False,
) -> Tensor:
    """Return the weighted adjacency matrix with its loops, differentiable.

    Parameters
    ----------
    weights : (M,) Tensor
        Weight of every edge.
    edges : (M, 2) int64 Tensor
        u < v, or u -> v in a directed graph.
    num_nodes : int
        Number of nodes n.
    self_loops : {"isolated", "all"}
        Loops of weight 1 on nodes whose row sums to 0, or on every node.
    mask : (P,) int64 Tensor, optional
        Edges to remove, as positions in ``edges``.
    masking : {"both", "one-sided"}
        Remove both directions, or only A[u, v] with u < v, as the published code
        does: A[v, u] then still shows the edge, and R is not symmetric.
    directed : bool
        Whether edges have a direction.
    """
    if masking not in ("both", "one-sided"):
        raise UsageError(f"masking is {masking!r}, expected 'both' or 'one-sided'.")
    kept = torch.ones_like(weights)
    if mask is not None:
        kept[mask] = 0
    u, v = edges.to(weights.device).T
    shape = (num_nodes, num_nodes)
    upper = weights.new_zeros(shape).index_put((u, v), weights * kept)
    matrix = upper
    if not directed:
        back = weights if masking == "one-sided" else weights * kept
        matrix = upper + weights.new_zeros(shape).index_put((v, u), back)
    if self_loops == "all":
        loops = weights.new_ones(num_nodes)
    elif self_loops == "isolated":
        loops = (matrix.detach().sum(dim=1) == 0).to(weights.dtype)
    else:
        raise UsageError(f"self_loops is {self_loops!r}, not 'isolated' or 'all'.")
    return matrix + torch.diag(loops)


def dense_autocovariance(
    adjacency: Tensor, *, t: int = 3, directed: bool = False
) -> Tensor:
    """Return R = D/vol (D^-1 A)^t - d d^T/vol^2 as an (n, n) Tensor.

    In a directed graph the walk leaves along the edges with out-degrees, and
    d_out d_in^T/vol^2 is subtracted; ``R[u, v]`` scores the ordered pair u -> v.

    Parameters
    ----------
    adjacency : (n, n) Tensor
        Weights with loops; every row sums to more than 0.
    t : int
        Length of the walk, at least 1.
    directed : bool
        Whether columns and rows may sum to different values.

    Raises
    ------
    UnsupportedGraphError
        For a directed graph with more than 3,000 nodes.
    """
    if t < 1:
        raise UsageError(f"The walk's length t must be at least 1, not {t}.")
    n = len(adjacency)
    if directed and n > DENSE_LIMIT:
        raise UnsupportedGraphError(
            f"Walks on directed graphs use dense {n:,} x {n:,} matrices, and this "
            f"graph has more than {DENSE_LIMIT:,} nodes.",
            hint="Ignore directions with graph.symmetrised(), or --symmetrise.",
        )
    out_degree = adjacency.sum(dim=1)
    in_degree = adjacency.sum(dim=0) if directed else out_degree
    volume = out_degree.sum()
    walked = adjacency
    step = adjacency / out_degree[:, None]
    for _ in range(t - 1):
        walked = walked @ step  # D (D^-1 A)^t = A (D^-1 A)^(t-1)
    return walked / volume - torch.outer(out_degree, in_degree) / volume**2


def dense_standardise(scores: Tensor) -> Tensor:
    """Return (R - mean) / deviation over all entries, the deviation with n^2 - 1.

    Gradients flow through both.
    """
    return (scores - scores.mean()) / scores.std(correction=1)
