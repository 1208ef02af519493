"""Heuristics that count walks: cn, aa, ra, pa, l3, local path and autocovariance.

Each function turns a graph into a scorer. Weighted graphs are welcome: a common
neighbour counts with the product of its two weights.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from gelato.errors import InputError, UsageError
from gelato.graph import FloatArray, Graph
from gelato.heuristics.declared import heuristic
from gelato.parameters import Dimension, choice, number, whole
from gelato.ranking.scorers import ClosedForm, SumScorer, WalkScorer

SelfLoops = Literal["isolated", "all"]
SELF_LOOPS: tuple[SelfLoops, ...] = ("isolated", "all")


@heuristic("cn", "common neighbours", undirected=True)
def common_neighbours(graph: Graph) -> WalkScorer:
    """Score a pair by its common neighbours (the weight of its two-step walks)."""
    graph.require_undirected("Common neighbours (cn)")
    return _walks(graph, np.ones(graph.num_nodes))


@heuristic("aa", "Adamic-Adar", undirected=True)
def adamic_adar(graph: Graph) -> WalkScorer:
    """Score a pair by its common neighbours, each divided by ln(degree).

    A neighbour of degree 1 or less counts 0. On a weighted graph the divisor is
    ``ln(1 + degree)``, so that degrees below e are harmless.
    """
    graph.require_undirected("Adamic-Adar (aa)")
    degrees = graph.degrees
    if graph.is_weighted:
        divisor = np.log1p(degrees)
    else:
        divisor = np.log(np.maximum(degrees, 1.0))
    return _walks(graph, _inverse(divisor))


@heuristic("ra", "resource allocation", undirected=True)
def resource_allocation(graph: Graph) -> WalkScorer:
    """Score a pair by its common neighbours, each divided by its degree."""
    graph.require_undirected("Resource allocation (ra)")
    return _walks(graph, _inverse(graph.degrees))


@heuristic("pa", "preferential attachment: product of degrees")
def preferential_attachment(graph: Graph) -> WalkScorer:
    """Score a pair by the product of its degrees (out- and in-degree if directed)."""
    far = ClosedForm(1.0, graph.degrees, _column_sums(graph.adjacency))
    return WalkScorer(graph.adjacency, np.ones(graph.num_nodes), 0, 1.0, far)


@heuristic(
    "l3", "paths of length three, over the roots of the degrees", undirected=True
)
def l3(graph: Graph) -> WalkScorer:
    """Score a pair by its walks of three steps (Kovacs et al. 2019).

    Each middle node counts one over the root of its degree, each edge its weight.
    """
    graph.require_undirected("Paths of length three (l3)")
    return _walks(graph, np.sqrt(_inverse(graph.degrees)), 3)


@heuristic(
    "local-path",
    "walks of two steps, and some of three",
    undirected=True,
    parameters={"epsilon": number(least=0)},
    search_space={"epsilon": (0.01, 0.001, 0.1)},
)
def local_path(graph: Graph, *, epsilon: float = 0.01) -> SumScorer:
    """Score a pair by ``A^2 + epsilon A^3`` (Lu, Jin and Zhou 2009).

    Parameters
    ----------
    graph : Graph
        The known edges; a walk counts the product of its weights.
    epsilon : float
        What a walk of three steps counts.
    """
    graph.require_undirected("Local path (local-path)")
    ones = np.ones(graph.num_nodes)
    parts = (_walks(graph, ones, 2), _walks(graph, ones, 3))
    return SumScorer(("two steps", "three steps"), (1.0, epsilon), parts, 0.0)


@heuristic(
    "ac",
    "autocovariance of random walks",
    parameters={"t": whole(least=0), "self_loops": choice(names=SELF_LOOPS)},
    search_space={"t": Dimension((3, 2, 4)), "self_loops": Dimension(SELF_LOOPS)},
)
def autocovariance(
    graph: Graph, *, t: int = 3, self_loops: SelfLoops = "isolated"
) -> WalkScorer:
    """Score a pair by autocovariance: walks of length t against chance.

    ``R = D/vol (D^-1 A)^t - d d^T / vol^2``. A directed graph walks along its edges:
    out-degrees divide, and ``d_out d_in^T / vol^2`` is subtracted.

    Parameters
    ----------
    graph : Graph
        The known edges.
    t : int
        Length of a walk, at least 0.
    self_loops : {"isolated", "all"}
        Where to add loops of weight 1: on nodes without (out-)edges, or on all.
    """
    return autocovariance_of(graph.adjacency, t=t, self_loops=self_loops)


def autocovariance_of(
    adjacency: sp.csr_array, *, t: int = 3, self_loops: SelfLoops = "isolated"
) -> WalkScorer:
    """Score by autocovariance on a weighted adjacency matrix without loops.

    See :func:`autocovariance`.
    """
    if t < 0 or int(t) != t:
        raise UsageError(f"The walk length t is {t}, but must be 0 or more.")
    adjacency = with_self_loops(adjacency, self_loops)
    outgoing = np.asarray(adjacency.sum(axis=1), dtype=np.float64).ravel()
    volume = float(outgoing.sum())
    if volume == 0:
        raise InputError("The graph has no nodes, so there is nothing to score.")
    far = ClosedForm(-1.0 / volume**2, outgoing, _column_sums(adjacency))
    return WalkScorer(adjacency, _inverse(outgoing), int(t), 1.0 / volume, far)


def with_self_loops(adjacency: sp.csr_array, self_loops: SelfLoops) -> sp.csr_array:
    """Return an adjacency matrix with loops of weight 1 added by rule."""
    if self_loops not in ("isolated", "all"):
        raise UsageError(
            f"self_loops is {self_loops!r}, which is not a rule.",
            hint='Use "isolated" (nodes without edges) or "all".',
        )
    sums = np.asarray(adjacency.sum(axis=1), dtype=np.float64).ravel()
    loops = np.ones(len(sums)) if self_loops == "all" else (sums == 0).astype(float)
    if not loops.any():
        return adjacency
    looped: Any = sp.csr_array(adjacency + sp.diags_array(loops, format="csr"))
    looped.eliminate_zeros()
    looped.sort_indices()
    return looped


def _walks(graph: Graph, factor: FloatArray, steps: int = 2) -> WalkScorer:
    far = ClosedForm.zero(graph.num_nodes)
    return WalkScorer(graph.adjacency, factor, steps, 1.0, far)


def _column_sums(adjacency: sp.csr_array) -> FloatArray:
    """Return column sums, added up in the order in which row sums are.

    Sums of a symmetric matrix by rows and by columns must agree to the last bit:
    counting far pairs relies on their scores being the same in both orders.
    """
    transposed = sp.csr_array(adjacency.T)
    transposed.sort_indices()
    sums: FloatArray = np.asarray(transposed.sum(axis=1), dtype=np.float64).ravel()
    return sums


def _inverse(values: FloatArray) -> FloatArray:
    return np.divide(1.0, values, out=np.zeros_like(values), where=values > 0)
