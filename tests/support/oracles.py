"""Slow, obvious twins of the fast paths, over whole dense matrices."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from sklearn.metrics import average_precision_score, roc_auc_score

from gelato.graph import Graph


def adjacency(graph: Graph) -> Any:
    return graph.adjacency.toarray()


def dense_two_steps(graph: Graph, weight_of_degree) -> Any:
    """Sum over common neighbours k of A[u,k] * weight(d_k) * A[k,v], by loops."""
    A = adjacency(graph)
    n = len(A)
    degrees = A.sum(axis=1)
    scores = np.zeros((n, n))
    for u, v in itertools.permutations(range(n), 2):
        for k in range(n):
            if A[u, k] and A[k, v]:
                scores[u, v] += A[u, k] * weight_of_degree(degrees[k]) * A[k, v]
    return scores


def dense_autocovariance(graph: Graph, t: int, self_loops: str) -> Any:
    """D/vol (D^-1 A)^t - d d^T / vol^2 by explicit matrix power."""
    A = adjacency(graph).copy()
    out = A.sum(axis=1)
    for i in range(len(A)):
        if self_loops == "all" or out[i] == 0:
            A[i, i] += 1
    out, into = A.sum(axis=1), A.sum(axis=0)
    volume = out.sum()
    walk = np.linalg.matrix_power(A / out[:, None], t)
    return out[:, None] / volume * walk - np.outer(out, into) / volume**2


def dense_cosine(attributes: Any) -> Any:
    X = np.asarray(
        attributes.todense() if hasattr(attributes, "todense") else attributes
    )
    X = X.astype(np.float64)
    norms = np.linalg.norm(X, axis=1)
    scale = np.where(norms > 0, norms, 1.0)
    return np.where(np.outer(norms, norms) > 0, (X @ X.T) / np.outer(scale, scale), 0.0)


def candidate_list(graph: Graph, known, admits=lambda u, v: True) -> list:
    hidden = {tuple(pair) for pair in np.asarray(known).tolist()}
    n = graph.num_nodes
    pairs = (
        itertools.permutations(range(n), 2)
        if graph.directed
        else itertools.combinations(range(n), 2)
    )
    return [pair for pair in pairs if pair not in hidden and admits(*pair)]


def ranking_numbers(scores: Any, candidates: list, positives: Any) -> dict:
    """All metrics from a list of every candidate."""
    is_positive = {tuple(pair) for pair in np.asarray(positives).tolist()}
    values = np.array([scores[u, v] for u, v in candidates])
    truth = np.array([pair in is_positive for pair in candidates])
    negatives = np.sort(values[~truth])[::-1]
    positive = values[truth]
    above = np.array([(negatives > s).sum() for s in positive])
    tied = np.array([(negatives == s).sum() for s in positive])

    def hits(k: int) -> float:
        if k > len(negatives):
            return 1.0
        return float(np.mean(positive > negatives[k - 1]))

    def precision(k: int) -> float:
        total, taken = 0.0, 0
        for value in np.unique(values)[::-1]:
            group = values == value
            room = min(k - taken, group.sum())
            if room <= 0:
                break
            total += room * truth[group].mean()
            taken += room
        return total / k

    return {
        "ap": average_precision_score(truth, values),
        "auc": roc_auc_score(truth, values),
        "mrr": float(np.mean(1 / (1 + above + tied / 2))),
        "tied_share": float(np.mean(tied > 0)),
        "precision": precision,
        "hits": hits,
    }


def best_of(scores: Any, candidates: list, k: int) -> list:
    """The k best candidates, equal scores in the order of the pairs."""
    return sorted(candidates, key=lambda pair: (-scores[pair], pair))[:k]
