"""Random-walk scores at chosen pairs, and their exact gradient, row by row.

Notation: A symmetric weights with loops, d its row sums, vol = sum d, and
N = D^-1/2 A D^-1/2, the symmetric form of the walk, so that

    R[u, v] = sqrt(d_u d_v) / vol * (N^t)[u, v] - d_u d_v / vol^2.

With c = row u of N^(t-1), the middle factor is the sum over the neighbours l of v of
c[l] N[l, v]: a gather over one end of the pair. One array of values serves the walk,
the gather and the gradient, and the gradient with respect to the degrees inside N
follows at the very end from the one with respect to N (see :func:`fold_chunks`).

The gradient is one-sided: each pair is visited once, at its row. Memory is O(n) per
thread, plus one gradient of N per chunk. Nothing here knows about torch, masks or
losses; ``kernels.walk_structure`` prepares the matrix and ``nn.autocovariance``
gives the functions their autograd form.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gelato.kernels.chunks import NUM_CHUNKS, balanced_chunks, run_rows
from gelato.kernels.compiled import kernel
from gelato.kernels.walk_structure import PairLists, StepMatrix

# Multiply and add may be one instruction; sums keep their order. Row bounds and
# columns are unsigned throughout: numba then leaves out the test for negative
# indices, which costs a third of the time here.
_FAST = {"contract"}
_SIX, _LOW, _ONE = np.uint64(6), np.uint64(63), np.uint64(1)  # 64 bits to a word


@kernel(fastmath=_FAST, inline="always")
def _push(indptr, indices, values, k, factor, into):
    """Add ``factor`` times row k of a matrix to a dense buffer."""
    for s in range(indptr[k], indptr[k + 1]):
        into[indices[s]] += factor * values[s]


@kernel()
def _two_hop_cost(indptr, indices, u):
    cost = 0
    for s in range(indptr[u], indptr[u + 1]):
        k = indices[s]
        cost += indptr[k + 1] - indptr[k]
    return cost


@kernel(fastmath=_FAST)
def _walk_row(matrix, u, t, levels):
    """Fill ``levels[i]`` with row u of N^(i+1), for the levels that are used.

    Row ``t - 2`` of ``levels`` is c; for t = 1, where c is the unit vector, it is
    row 0. Rows must be zero on entry. Level 0 is left out for t > 2, being row u of
    N itself.
    """
    indptr, indices, values = matrix[0], matrix[1], matrix[2]
    if t == 1:
        levels[0, u] = 1
    elif t == 2:
        _push(indptr, indices, values, u, 1, levels[0])
    else:
        c = levels[1]
        for s in range(indptr[u], indptr[u + 1]):
            _push(indptr, indices, values, indices[s], values[s], c)
        for i in range(2, t - 1):
            for k in range(levels.shape[1]):
                if levels[i - 1, k] != 0:
                    _push(indptr, indices, values, k, levels[i - 1, k], levels[i])


@kernel()
def _clear_walk(matrix, u, t, levels):
    """Zero what ``_walk_row`` wrote, at the lesser of two costs."""
    indptr, indices = matrix[0], matrix[1]
    c = levels[max(0, t - 2)]
    if t > 3:
        levels[:] = 0
    elif _two_hop_cost(indptr, indices, u) > c.shape[0] // 8:
        c[:] = 0
    else:
        c[u] = 0
        for s in range(indptr[u], indptr[u + 1]):
            k = indices[s]
            c[k] = 0
            for r in range(indptr[k], indptr[k + 1]):
                c[indices[r]] = 0


@kernel(inline="always")
def _is_near(near, v):
    """Tell whether the bit of a node is set in a row of :func:`near_bits`."""
    return (near[v >> _SIX] >> np.uint64(v & _LOW)) & _ONE


@kernel(fastmath=_FAST)
def _score_row(matrix, u, c, near, begin, columns, out):
    """Write R[u, v] for the row's pairs; return the sum of (2 - [u = v]) R^2.

    No walk ends at a far node, so that all it would gather is 0.
    """
    indptr, indices, values, roots, volume = matrix
    factor = c.dtype.type(roots[u] / volume)
    shift = c.dtype.type(roots[u] * roots[u] / (volume * volume))
    squares = 0.0
    for i in range(out.shape[0]):
        v = columns[begin + i]
        total = c.dtype.type(0)
        if _is_near(near, v):
            for s in range(indptr[v], indptr[v + 1]):
                total += c[indices[s]] * values[s]
        root = c.dtype.type(roots[v])
        score = root * (factor * total - shift * root)
        out[i] = score
        squares += (1.0 if v == u else 2.0) * (np.float64(score) * np.float64(score))
    return squares


@kernel()
def _wanted(pairs, u):
    total = 0
    for _, offsets, _ in pairs:
        total += offsets[u + 1] - offsets[u]
    return total


@kernel()
def forward_rows(first, last, matrix, t, near, pairs, out, squares):
    """Score the pairs of rows ``first .. last - 1``.

    Parameters
    ----------
    first, last : int
        Bounds of the rows.
    matrix : tuple
        ``(indptr, indices, values, roots, volume)``: N with its loops, and the
        square roots of the degrees.
    t : int
        Length of the walk.
    near : (n, words) uint64
        Bits of the nodes that walks from each row can reach, and of the row itself;
        a single row of them serves all. Pairs outside are not walked.
    pairs : two tuples (begin, offsets, columns)
        Lists of pairs by row: the pairs of row u have the columns
        ``columns[begin[u] : begin[u] + offsets[u + 1] - offsets[u]]``.
    out : two (K,) arrays
        Scores of each list, row u at ``offsets[u]``.
    squares : (2, n) float64
        Per list and row, sum of R^2, counted twice off the diagonal.
    """
    levels = np.zeros((max(1, t - 1), matrix[0].shape[0] - 1), matrix[2].dtype)
    c = levels[max(0, t - 2)]
    stride = np.int64(near.shape[0] > 1)
    for u in range(first, last):
        if _wanted(pairs, u) == 0:
            continue
        _walk_row(matrix, u, t, levels)
        reached = near[u * stride]
        begin, offsets, columns = pairs[0]
        row = out[0][offsets[u] : offsets[u + 1]]
        squares[0, u] = _score_row(matrix, u, c, reached, begin[u], columns, row)
        begin, offsets, columns = pairs[1]
        row = out[1][offsets[u] : offsets[u + 1]]
        squares[1, u] = _score_row(matrix, u, c, reached, begin[u], columns, row)
        _clear_walk(matrix, u, t, levels)


@kernel(fastmath=_FAST)
def _scatter_row(
    matrix, u, c, near, begin, columns, scores, gradient, q, by_slot, by_node
):
    """Fold the gradients of a row's pairs into q = dL/dc and the last step.

    With a = g (R - d_u d_v / vol^2), adds a to node v and returns the sum of a. Next
    to a far node c is 0, and no walk reads q.
    """
    indptr, indices, values, roots, volume = matrix
    factor = c.dtype.type(roots[u] / volume)
    shift = roots[u] * roots[u] / (volume * volume)
    total = 0.0
    for i in range(gradient.shape[0]):
        v = columns[begin + i]
        if _is_near(near, v):
            g = gradient[i] * factor * c.dtype.type(roots[v])
            for s in range(indptr[v], indptr[v + 1]):
                l = indices[s]  # noqa: E741 - the formulas call it l
                q[l] += g * values[s]
                by_slot[s] += g * c[l]
        a = gradient[i] * (scores[i] - shift * roots[v] * roots[v])
        by_node[v] += a
        total += a
    return total


@kernel(fastmath=_FAST)
def _pull_first_steps(matrix, u, q, by_slot):
    """Pass q back through the second step and the first one (t >= 3)."""
    indptr, indices, values = matrix[0], matrix[1], matrix[2]
    for first in range(indptr[u], indptr[u + 1]):
        k = indices[first]
        factor = values[first]
        total = q.dtype.type(0)
        for s in range(indptr[k], indptr[k + 1]):
            value = q[indices[s]]
            total += values[s] * value
            by_slot[s] += factor * value
        by_slot[first] += total


@kernel(fastmath=_FAST)
def _pull_level(matrix, earlier, q, by_slot, scratch):
    """Pass q back through one step of a long walk."""
    indptr, indices, values = matrix[0], matrix[1], matrix[2]
    for k in range(q.shape[0]):
        total = q.dtype.type(0)
        for s in range(indptr[k], indptr[k + 1]):
            value = q[indices[s]]
            total += values[s] * value
            by_slot[s] += earlier[k] * value
        scratch[k] = total
    # One by one: checking shapes takes numba seconds to compile.
    for k in range(q.shape[0]):
        q[k] = scratch[k]


@kernel()
def _pull_row(matrix, u, t, levels, q, scratch, by_slot):
    """Traverse the walk of row u backwards, from q down to its first step."""
    for i in range(t - 2, 1, -1):
        _pull_level(matrix, levels[i - 1], q, by_slot, scratch)
    if t >= 3:
        _pull_first_steps(matrix, u, q, by_slot)
    elif t == 2:
        for s in range(matrix[0][u], matrix[0][u + 1]):
            by_slot[s] += q[matrix[1][s]]


@kernel()
def _clear_columns(matrix, pairs, u, t, q):
    """Zero q, entry by entry where the row's pairs are few."""
    indptr, indices = matrix[0], matrix[1]
    if t > 3 or _wanted(pairs, u) > q.shape[0] // 64:
        q[:] = 0
        return
    for begin, offsets, columns in pairs:
        for i in range(offsets[u + 1] - offsets[u]):
            v = columns[begin[u] + i]
            for s in range(indptr[v], indptr[v + 1]):
                q[indices[s]] = 0


@kernel()
def backward_rows(
    first, last, matrix, t, near, pairs, scores, gradients, by_slot, by_node
):
    """Add the gradient of rows ``first .. last - 1`` to two buffers.

    Parameters
    ----------
    first, last, matrix, t, near, pairs
        As for :func:`forward_rows`.
    scores, gradients : two (K,) arrays each
        R at each list's pairs, and the gradient with respect to it.
    by_slot : (nnz,) array
        Gradient with respect to each slot of N.
    by_node : (n,) float64
        Per node, the sum of a = g (R - d_u d_v / vol^2) over the pairs it ends:
        2 d_k times the gradient with respect to d_k outside N and vol.
    """
    n = matrix[0].shape[0] - 1
    levels = np.zeros((max(1, t - 1), n), matrix[2].dtype)
    c = levels[max(0, t - 2)]
    q = np.zeros(n, matrix[2].dtype)
    scratch = np.zeros(n if t > 3 else 0, matrix[2].dtype)
    stride = np.int64(near.shape[0] > 1)
    for u in range(first, last):
        if _wanted(pairs, u) == 0:
            continue
        _walk_row(matrix, u, t, levels)
        reached = near[u * stride]
        begin, offsets, columns = pairs[0]
        r = scores[0][offsets[u] : offsets[u + 1]]
        g = gradients[0][offsets[u] : offsets[u + 1]]
        total = _scatter_row(
            matrix, u, c, reached, begin[u], columns, r, g, q, by_slot, by_node
        )
        begin, offsets, columns = pairs[1]
        r = scores[1][offsets[u] : offsets[u + 1]]
        g = gradients[1][offsets[u] : offsets[u + 1]]
        total += _scatter_row(
            matrix, u, c, reached, begin[u], columns, r, g, q, by_slot, by_node
        )
        by_node[u] += total  # only now: a pair (u, u) has changed it meanwhile
        _pull_row(matrix, u, t, levels, q, scratch, by_slot)
        _clear_walk(matrix, u, t, levels)
        _clear_columns(matrix, pairs, u, t, q)


Floats = npt.NDArray[Any]
Bits = npt.NDArray[np.uint64]


def every_node(num_nodes: int) -> Bits:
    """Return one row of bits for all rows: any node may be near."""
    return np.full((1, num_nodes // 64 + 1), ~np.uint64(0))


def score_pairs(
    matrix: StepMatrix,
    lists: tuple[PairLists, PairLists],
    *,
    t: int = 3,
    near: Bits | None = None,
) -> tuple[tuple[Floats, Floats], npt.NDArray[np.float64]]:
    """Return R at two lists of pairs, and each list's sum of squares.

    Pairs off the diagonal count twice in the sums, as both (u, v) and (v, u) are
    entries of R. Two lists, because a step has two: pairs that stay (edges and
    diagonal) and pairs that change (negatives); a row's walk then serves both.
    ``near`` is what :func:`gelato.kernels.near_pairs.near_bits` returned for the
    pattern and t, and saves time; the result is the same without.
    """
    dtype = matrix.values.dtype
    out = (np.empty(len(lists[0]), dtype), np.empty(len(lists[1]), dtype))
    squares = np.zeros((2, matrix.num_nodes))
    bounds = row_bounds(matrix, lists)
    pairs = (lists[0].arrays, lists[1].arrays)
    near = every_node(matrix.num_nodes) if near is None else near
    run_rows(forward_rows, bounds, matrix.arrays, t, near, pairs, out, squares)
    return out, squares.sum(axis=1)


def pull_gradients(
    matrix: StepMatrix,
    lists: tuple[PairLists, PairLists],
    scores: tuple[Floats, Floats],
    gradients: tuple[Floats, Floats],
    num_edges: int,
    *,
    t: int = 3,
    near: Bits | None = None,
    at_nodes: npt.NDArray[np.float64] | None = None,
) -> npt.NDArray[np.float64]:
    """Return the gradient with respect to the weight of every edge.

    Parameters
    ----------
    matrix, lists, t, near
        As given to :func:`score_pairs`.
    scores : pair of arrays
        What :func:`score_pairs` returned.
    gradients : pair of arrays
        Gradient with respect to R at the pairs of each list.
    num_edges : int
        Number of edges M, masked ones included (their gradient is 0).
    at_nodes : (n,) float64, optional
        Gradient of pairs outside the lists that no walk joins: 2 d_k times that with
        respect to d_k, vol apart, which is the sum of 2 g R over node k's pairs.
    """
    by_slot = np.zeros((NUM_CHUNKS, len(matrix.values)), matrix.values.dtype)
    by_node = np.zeros((NUM_CHUNKS, matrix.num_nodes))
    bounds = row_bounds(matrix, lists)
    near = every_node(matrix.num_nodes) if near is None else near
    pairs = (lists[0].arrays, lists[1].arrays)
    given = (matrix.arrays, t, near, pairs, scores, gradients)
    run_rows(backward_rows, bounds, *given, own=(by_slot, by_node))
    return fold_chunks(matrix, by_slot, by_node, num_edges, at_nodes)


def fold_chunks(
    matrix: StepMatrix,
    by_slot: Floats,
    by_node: npt.NDArray[np.float64],
    num_edges: int,
    at_nodes: npt.NDArray[np.float64] | None,
) -> npt.NDArray[np.float64]:
    """Sum the buffers of all chunks, in their order, into gradients of edges.

    ``by_slot`` and ``by_node`` have a row per chunk, as
    :func:`gelato.kernels.walk_training.backward_rows` fills them.
    """
    total = by_node.sum(axis=0)
    if at_nodes is not None:
        total += at_nodes
    slots = matrix.slot_edge
    return np.asarray(_fold_slots(matrix.arrays, slots, by_slot, total, num_edges))


def row_bounds(
    matrix: StepMatrix, lists: tuple[PairLists, PairLists]
) -> npt.NDArray[np.int64]:
    """Return the bounds of chunks of rows that cost about the same."""
    counts = np.diff(lists[0].offsets) + np.diff(lists[1].offsets)
    cost = np.where(counts > 0, matrix.two_hop_cost, 0.0) + counts * (
        matrix.tail_size + 4.0
    )
    return balanced_chunks(cost)


@kernel()
def _fold_slots(matrix, slot_edge, by_slot, by_node, num_edges):
    """Turn gradients of N's slots into gradients of the edges' weights.

    N_kl = A_kl / sqrt(d_k d_l), so a slot passes by / sqrt(d_k d_l) to its weight
    and -by N / (2 d) to each of its two degrees; ``by_node`` holds 2 d times the
    gradient of the degrees outside N, half of its sum times -1 / vol is that of vol.
    An edge then takes what its two slots and its two degrees have.
    """
    indptr, indices, values, roots, volume = matrix
    total = np.zeros(values.shape[0])
    for chunk in range(by_slot.shape[0]):
        for s in range(values.shape[0]):
            total[s] += by_slot[chunk, s]
    by_degree = by_node.copy()
    for u in range(roots.shape[0]):
        for s in range(indptr[u], indptr[u + 1]):
            through = total[s] * values[s]
            by_degree[u] -= through
            by_degree[indices[s]] -= through
    by_volume = -0.5 * by_node.sum() / volume
    for u in range(roots.shape[0]):
        by_degree[u] = 0.5 * by_degree[u] / (roots[u] * roots[u]) + by_volume
    gradient = np.zeros(num_edges)
    for u in range(roots.shape[0]):
        for s in range(indptr[u], indptr[u + 1]):
            if slot_edge[s] >= 0:
                by_weight = total[s] / (roots[u] * roots[indices[s]])
                gradient[slot_edge[s]] += by_weight + by_degree[u]
    return gradient


@kernel(fastmath={"contract"})
def score_neighbours(first, last, matrix, pairs, out):
    """Score the pairs of rows ``first .. last - 1``.

    Parameters
    ----------
    first, last : int
        Bounds of the rows.
    matrix : tuple
        ``(indptr, indices, weights, f)``.
    pairs : tuple
        ``(begin, offsets, columns)``, as in ``walk_training``.
    out : (K,) array
        Scores, row u at ``offsets[u]``.
    """
    indptr, indices, weights, f = matrix
    begin, offsets, columns = pairs
    c = np.zeros(f.shape[0], weights.dtype)
    for u in range(first, last):
        for s in range(indptr[u], indptr[u + 1]):
            c[indices[s]] = weights[s] * f[indices[s]]
        for i in range(offsets[u + 1] - offsets[u]):
            v = columns[begin[u] + i]
            total = weights.dtype.type(0)
            for s in range(indptr[v], indptr[v + 1]):
                total += c[indices[s]] * weights[s]
            out[offsets[u] + i] = total
        for s in range(indptr[u], indptr[u + 1]):
            c[indices[s]] = 0


@kernel(fastmath={"contract"})
def pull_neighbours(first, last, matrix, pairs, gradient, by_slot, by_node):
    """Add the gradient with respect to slots of A, and to f, to two buffers."""
    indptr, indices, weights, f = matrix
    begin, offsets, columns = pairs
    c = np.zeros(f.shape[0], weights.dtype)
    q = np.zeros(f.shape[0], weights.dtype)
    for u in range(first, last):
        for s in range(indptr[u], indptr[u + 1]):
            c[indices[s]] = weights[s] * f[indices[s]]
        for i in range(offsets[u + 1] - offsets[u]):
            v = columns[begin[u] + i]
            g = gradient[offsets[u] + i]
            for s in range(indptr[v], indptr[v + 1]):
                q[indices[s]] += g * weights[s]
                by_slot[s] += g * c[indices[s]]
        for s in range(indptr[u], indptr[u + 1]):
            k = indices[s]
            by_slot[s] += f[k] * q[k]
            by_node[k] += weights[s] * q[k]
            c[k] = 0
        for i in range(offsets[u + 1] - offsets[u]):
            v = columns[begin[u] + i]
            for s in range(indptr[v], indptr[v + 1]):
                q[indices[s]] = 0
