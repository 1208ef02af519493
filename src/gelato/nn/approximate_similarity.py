"""Similar pairs of very many nodes: nearest neighbours by descent, recall measured.

For graphs whose exact search would take hours. Nearest neighbours are found by
pynndescent (extra ``big``); how many of the truly similar pairs are among them is
measured on a sample of nodes, exactly, and told.
"""

from __future__ import annotations

import importlib
import math
import warnings
from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

from gelato.engines import default_threads
from gelato.errors import MissingExtraError
from gelato.graph import FloatArray, IntArray, pair_keys

_LEAST_NEIGHBOURS = 15
_MOST_NEIGHBOURS = 100
_SAMPLE_ROWS = 200
_SEED = 0

ExactPartners = Callable[[int, float], tuple[IntArray, FloatArray]]
"""``partners(row, bound)`` -> all rows more similar than a bound, similarities."""


def neighbour_pairs(matrix: sp.csr_array, count: int) -> IntArray:
    """Return distinct pairs u < v of rows that are near by cosine, sorted.

    Parameters
    ----------
    matrix : CSR
        Attributes; rows of zeros have no neighbours.
    count : int
        How many pairs will be wanted: decides how many neighbours are looked for.

    Raises
    ------
    MissingExtraError
        If pynndescent is not installed.
    """
    try:
        library = importlib.import_module("pynndescent")
    except ImportError as error:
        raise MissingExtraError(
            "pynndescent", "big", "Finding similar pairs of so many nodes"
        ) from error
    filled = np.flatnonzero(np.diff(matrix.indptr))
    # Similar pairs crowd: some nodes have several times the average.
    average = 2 * count / max(1, len(filled))
    wanted = min(_MOST_NEIGHBOURS, max(_LEAST_NEIGHBOURS, math.ceil(4 * average)))
    wanted = min(wanted, len(filled) - 1)
    if wanted < 1:
        return np.empty((0, 2), dtype=np.int64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about its own settings, and numba's
        index = library.NNDescent(
            sp.csr_matrix(matrix[filled], dtype=np.float32),
            metric="cosine",
            n_neighbors=wanted + 1,
            random_state=_SEED,
            n_jobs=default_threads(),
        )
        neighbours = np.asarray(index.neighbor_graph[0])
    pairs = np.stack(
        [np.repeat(filled, neighbours.shape[1]), filled[neighbours.ravel()]], axis=1
    )
    pairs = pairs[(neighbours.ravel() >= 0) & (pairs[:, 0] != pairs[:, 1])]
    keys = np.unique(pair_keys(np.sort(pairs, axis=1), matrix.shape[0]))
    return np.stack(np.divmod(keys, matrix.shape[0]), axis=1)


def measured_recall(
    pairs: IntArray, threshold: float, num_rows: int, partners: ExactPartners
) -> tuple[float, int]:
    """Return the share of similar pairs that were found, and of how many nodes.

    Parameters
    ----------
    pairs : (k, 2) int64
        What was found, u < v, all above the threshold.
    threshold : float
        Pairs above it are similar.
    num_rows : int
        Number of nodes n.
    partners : callable
        The exact search of single rows.
    """
    drawn = np.random.default_rng(_SEED).permutation(num_rows)[:_SAMPLE_ROWS]
    found = set(pair_keys(pairs, num_rows).tolist())
    true = hit = 0
    for row in drawn.tolist():
        others = partners(row, threshold)[0].tolist()
        true += len(others)
        hit += sum(min(row, v) * num_rows + max(row, v) in found for v in others)
    return (hit / true if true else 1.0), len(drawn)


def recall_note(count: int, recall: float, sampled: int, threshold: float) -> str:
    """Return what people should know about an approximate search."""
    return (
        f"similar pairs were searched approximately: {count:,} pairs above a cosine of "
        f"{threshold:.4g}; of the true ones of {sampled:,} sampled nodes, "
        f"{recall:.1%} were found"
    )
