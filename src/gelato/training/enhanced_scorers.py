"""What scores pairs on an enhanced graph once its weights are known."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from gelato.errors import UsageError
from gelato.graph import Graph
from gelato.heuristics import walks as heuristics
from gelato.heuristics.walks import SelfLoops
from gelato.nn.enhancement import EnhancedGraph
from gelato.nn.two_steps import HeuristicMixture
from gelato.ranking.scorers import ClosedForm, RowScorer, SumScorer, WalkScorer

HeuristicName = Literal["ac", "cn", "aa", "ra", "mixture"]
HEURISTICS: tuple[str, ...] = get_args(HeuristicName)


def enhanced_scorer(
    enhanced: EnhancedGraph,
    weights: npt.NDArray[Any],
    *,
    heuristic: HeuristicName = "ac",
    t: int = 3,
    self_loops: SelfLoops = "isolated",
    mixture: HeuristicMixture | None = None,
) -> RowScorer:
    """Return the scorer of an enhanced graph.

    Parameters
    ----------
    enhanced : EnhancedGraph
        The pairs.
    weights : (M,) array
        Their weights, at least 0.
    heuristic : {"ac", "cn", "aa", "ra", "mixture"}
        What is counted on them.
    t, self_loops
        Walk length and rule for loops of "ac".
    mixture : HeuristicMixture, optional
        The trained combination, for "mixture".
    """
    graph = Graph.from_indices(
        enhanced.num_nodes, enhanced.pairs, weights=weights, directed=enhanced.directed
    )
    if heuristic == "ac":
        return heuristics.autocovariance(graph, t=t, self_loops=self_loops)
    if heuristic == "cn":
        return heuristics.common_neighbours(graph)
    if heuristic == "aa":
        return heuristics.adamic_adar(graph)
    if heuristic == "ra":
        return heuristics.resource_allocation(graph)
    if mixture is None:
        raise UsageError("A mixture of heuristics must be trained first.")
    return _mixture_scorer(graph, mixture, t, self_loops)


def _mixture_scorer(
    graph: Graph, mixture: HeuristicMixture, t: int, self_loops: SelfLoops
) -> SumScorer:
    scorers = {
        "ac": heuristics.autocovariance(graph, t=t, self_loops=self_loops),
        "cn": heuristics.common_neighbours(graph),
        "aa": _smooth_adamic_adar(graph),
        "ra": heuristics.resource_allocation(graph),
    }
    mean, variance = mixture.norm.running_mean, mixture.norm.running_var
    assert mean is not None
    assert variance is not None
    deviation = np.sqrt(variance.double().numpy() + mixture.norm.eps)
    factors = mixture.coefficients().detach().double().numpy() / deviation
    return SumScorer(
        tuple(mixture.heuristics),
        tuple(factors.tolist()),
        tuple(scorers[name] for name in mixture.heuristics),
        float(factors @ mean.double().numpy()),
    )


def _smooth_adamic_adar(graph: Graph) -> WalkScorer:
    """Adamic-Adar with 1/ln(1 + d) on any graph: the form that can be trained."""
    logarithm = np.log1p(graph.degrees)
    factor = np.divide(
        1.0, logarithm, out=np.zeros(len(logarithm)), where=logarithm > 0
    )
    zero = ClosedForm.zero(graph.num_nodes)
    return WalkScorer(graph.adjacency, factor, 2, 1.0, zero)
