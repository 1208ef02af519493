"""Walks of all lengths: katz and rooted PageRank (ppr), as power series.

Both are ``sum_k factor^k M^k`` of a symmetric matrix M. All terms are positive, so
that small scores are as exact as large ones, and pairs with equal walks tie. Rows are
summed in blocks of some columns: memory is a few blocks, never n x n.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import eigsh

from gelato.errors import UsageError
from gelato.graph import FloatArray, Graph, IntArray
from gelato.heuristics.declared import heuristic
from gelato.heuristics.linear import normalised
from gelato.parameters import number, whole
from gelato.ranking.scorers import ClosedForm, WalkScorer, round_scores

_LEFT_OUT = 1e-10  # of all walks, where a series ends
_WIDTH = 32  # columns of a block
_TOLD = (2, 3)  # lengths of the walks that explain a score


@heuristic(
    "katz",
    "walks of all lengths, less the longer",
    undirected=True,
    parameters={
        "beta": number(above=0, optional=True),
        "steps": whole(least=2, optional=True),
    },
    search_space={"steps": (None, 3, 5)},
)
def katz(
    graph: Graph, *, beta: float | None = None, steps: int | None = None
) -> Series:
    """Score a pair by ``sum_k beta^k A^k``, which is ``(I - beta A)^-1`` off diagonal.

    Parameters
    ----------
    graph : Graph
        The known edges; a walk counts the product of its weights.
    beta : float, optional
        What a step counts; below one over the largest eigenvalue of A, or the sum is
        infinite. By default half of that, to three digits.
    steps : int, optional
        The longest walks that count; by default all do, until the rest is below
        1e-10 of the whole. With a last step any ``beta`` will do.
    """
    graph.require_undirected("Katz (katz)")
    largest = largest_eigenvalue(graph.adjacency)
    if beta is None:
        beta = float(f"{0.5 / largest:.3g}") if largest else 0.5
    if steps is None:
        if beta * largest >= 1:
            raise UsageError(
                f"Katz does not converge with beta = {beta:g}: the largest eigenvalue "
                f"of the graph is {largest:.6g}.",
                hint=f"Take beta below {1 / largest:.4g}, or set steps to sum up the "
                "walks to some length only.",
            )
        steps = _terms(beta * largest)
    return Series(graph.adjacency, beta, steps)


@heuristic(
    "ppr",
    "rooted PageRank: where walks that restart end, in both directions",
    undirected=True,
    parameters={"alpha": number(above=0, below=1)},
    search_space={"alpha": (0.85, 0.5, 0.95)},
)
def rooted_pagerank(graph: Graph, *, alpha: float = 0.85) -> Series:
    """Score a pair by the PageRank of each node, rooted at the other, added up.

    ``pi_u = (1 - alpha) sum_k alpha^k P^k`` from u, with ``P = D^-1 A``. As
    ``pi_u(v) d_u = pi_v(u) d_v``, one symmetric series gives both.

    Parameters
    ----------
    graph : Graph
        The known edges; a step takes an edge by its weight.
    alpha : float
        The chance to walk on, and not to start again.
    """
    graph.require_undirected("Rooted PageRank (ppr)")
    roots = np.sqrt(graph.degrees)
    ends = (roots, (1 - alpha) * np.divide(1.0, roots, out=roots * 0, where=roots > 0))
    return Series(normalised(graph.adjacency), alpha, _terms(alpha), ends)


def largest_eigenvalue(adjacency: sp.csr_array) -> float:
    """Return the largest eigenvalue of a symmetric matrix of weights."""
    if adjacency.nnz == 0:
        return 0.0
    if adjacency.shape[0] < 10:
        return float(np.linalg.eigvalsh(adjacency.toarray())[-1])
    # The vector sought has no negative entries: this start is never at right angles.
    start = np.ones(adjacency.shape[0])
    return float(
        eigsh(adjacency, 1, which="LA", v0=start, return_eigenvectors=False)[0]
    )


def _terms(ratio: float) -> int:
    """Return after how many terms the rest of a geometric series is negligible."""
    if ratio == 0:
        return 1
    return max(1, math.ceil(math.log(_LEFT_OUT * (1 - ratio)) / math.log(ratio)))


@dataclass(frozen=True, eq=False)
class Series:
    """``sum_k factor^k M^k`` for k from 1 to a last one, times a factor of the ends.

    Parameters
    ----------
    matrix : CSR float64
        M, symmetric.
    factor : float
        What a step counts.
    steps : int
        The longest walks.
    ends : (l, r), optional
        Entries are multiplied by ``l_u r_v + l_v r_u``.
    """

    matrix: sp.csr_array
    factor: float
    steps: int
    ends: tuple[FloatArray, FloatArray] | None = None

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return int(self.matrix.shape[0])

    @cached_property
    def _step(self) -> sp.csr_array:
        return sp.csr_array(self.factor * self.matrix)

    def score_rows(self, rows: IntArray) -> FloatArray:
        """Return scores of shape ``(len(rows), n)``."""
        rows = np.asarray(rows, dtype=np.int64)
        out = np.empty((len(rows), self.num_nodes))
        for start in range(0, len(rows), _WIDTH):
            some = rows[start : start + _WIDTH]
            term = np.zeros((self.num_nodes, len(some)))
            term[some, np.arange(len(some))] = 1.0
            total = np.zeros_like(term)
            for _ in range(self.steps):
                term = self._step @ term
                total += term
            out[start : start + _WIDTH] = self._scaled(some, total.T)
        return round_scores(out)

    def _scaled(self, rows: IntArray, sums: FloatArray) -> FloatArray:
        if self.ends is None:
            return sums
        left, right = self.ends
        ahead, back = (
            left[None, :] * right[rows, None],
            left[rows, None] * right[None, :],
        )
        scaled: FloatArray = sums * (ahead + back)
        return scaled

    def walk_parts(self, u: int, v: int) -> list[tuple[str, float, WalkScorer]]:
        """Return the shortest walks of a pair; longer ones are told as a rest."""
        scale = 1.0
        if self.ends is not None:
            left, right = self.ends
            scale = float(left[u] * right[v] + left[v] * right[u])
        n = self.num_nodes
        walks = (self.matrix, np.ones(n))
        return [
            (
                f"{steps} steps",
                scale * self.factor**steps,
                WalkScorer(*walks, steps, 1.0, ClosedForm.zero(n)),
            )
            for steps in _TOLD
            if steps <= self.steps
        ]
