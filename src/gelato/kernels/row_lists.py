"""What is kept of a row of scores: its best values, and pairs worth a look."""

from __future__ import annotations

import numpy as np

from gelato.kernels.compiled import kernel
from gelato.kernels.ridge_walks import sparse_ridge_row


@kernel()
def hide_known(rows, graph, scores):
    """Set the scores of a row with itself and with its neighbours to -inf."""
    indptr, indices = graph
    for i in range(rows.size):
        u = rows[i]
        scores[i, u] = -np.inf
        for a in range(indptr[u], indptr[u + 1]):
            scores[i, indices[a]] = -np.inf


_DIGITS = ((21, 11), (10, 11), (0, 10))  # shift and width, from the leading bits on


@kernel()
def best_of_rows(scores, out):
    """Write the largest values of every row, in no order.

    Values are told apart digit by digit of their bits, which are in the order of the
    values once those of negative numbers are turned round. Quicker than a partition by
    comparisons, the more so where many values are equal.

    Parameters
    ----------
    scores : (b, n) float32
    out : (b, most) float32
        Filled; at most n columns.
    """
    n, most = scores.shape[1], out.shape[1]
    bits, taken = scores.view(np.uint32), out.view(np.uint32)
    sign, shorter = np.uint32(0x80000000), np.uint32(31)
    counts = np.empty(1 << 11, dtype=np.int64)
    keys = np.empty(n, dtype=np.uint32)
    for i in range(scores.shape[0]):
        for v in range(n):
            key = bits[i, v]
            keys[v] = ~key if key >> shorter else key | sign
        filled, left = 0, n
        for shift, width in _DIGITS:
            places = np.uint32((1 << width) - 1)
            counts[: 1 << width] = 0
            for j in range(left):
                counts[(keys[j] >> np.uint32(shift)) & places] += 1
            digit, needed = (1 << width) - 1, most - filled
            while counts[digit] < needed:
                needed -= counts[digit]
                digit -= 1
            # Larger digits are taken; of equal ones the next digit decides.
            equal = 0
            for j in range(left):
                key = keys[j]
                own = int((key >> np.uint32(shift)) & places)
                taken[i, filled] = key
                filled += own > digit
                keys[equal] = key
                equal += own == digit
            left = equal
        while filled < most:  # what is left is all equal
            taken[i, filled] = keys[0]
            filled += 1
        for j in range(most):
            key = taken[i, j]
            taken[i, j] = key ^ sign if key >> shorter else ~key


@kernel()
def worthwhile(rows, scores, tenth, most, bounds, out):
    """Write the keys of pairs that are among the best of a row, or of all rows.

    Parameters
    ----------
    rows : (b,) int64
    scores : (b, n) float32
        With -inf where a pair is known.
    tenth : (b,) float32
        The ``most``-th best score of each row.
    most : int
        How many of each row to keep; ties go by column.
    bounds : (floor, everywhere)
        Scores up to the floor are never kept; above ``everywhere`` always.
    out : int64
        Keys ``min * n + max``; filled.

    Returns
    -------
    int
        How many keys were filled; more than fit are not written.
    """
    floor, everywhere = bounds
    n = scores.shape[1]
    count = 0
    for i in range(rows.size):
        u, row, last = rows[i], scores[i], tenth[i]
        room = most
        for v in range(n):
            if row[v] > last:
                room -= 1
        least = min(last, everywhere)
        for v in range(n):
            # Nearly all scores end here: they are neither.
            if row[v] < least or row[v] <= floor:
                continue
            keep = row[v] > everywhere or row[v] > last
            if row[v] == last and room > 0:
                room -= 1
                keep = True
            if keep and count < out.size:
                out[count] = min(u, v) * n + max(u, v)
                count += 1
    return count


@kernel()
def levels(nodes, scores, lists, grid, out):
    """Write the rank of scores in lists, and what share of the best score they are.

    Parameters
    ----------
    nodes : (p,) int64
        Whose list.
    scores : (p,) float32
    lists : (n, g) float32
        The scores at the ranks of the grid, descending.
    grid : (g,) float32
        Ranks.
    out : (p, 2) float32
        Rank (of the first place that is not better), and score / best score.
    """
    for p in range(nodes.size):
        best = lists[nodes[p]]
        # Rows and pairs are summed in different orders: equal up to a few bits.
        score = scores[p] + np.float32(1e-5) * abs(scores[p])
        low, high = 0, grid.size
        while low < high:
            middle = (low + high) // 2
            if best[middle] > score:
                low = middle + 1
            else:
                high = middle
        out[p, 0] = grid[low] if low < grid.size else 2 * grid[-1]
        top = best[0]
        out[p, 1] = scores[p] / top if top > 0 and np.isfinite(top) else 0.0


@kernel()
def merge_near(rows, near, own, upper, out):
    """Put scores of listed pairs in the place of near ones, or beside them.

    Parameters
    ----------
    rows : (b,) int64
    near : (indptr, columns, scores)
        Near columns of the rows.
    own : (indptr, columns, scores)
        CSR over all nodes: the listed pairs, in both directions.
    upper : bool
        Only columns above the row.
    out : (indptr, columns, scores)
        Filled; room for the near and the listed columns of the rows.
    """
    indptr, columns, scores = near
    own_indptr, own_columns, own_scores = own
    out_indptr, out_columns, out_scores = out
    place = np.full(own_indptr.size - 1, -1, dtype=np.int64)
    filled = 0
    out_indptr[0] = 0
    for i in range(rows.size):
        for slot in range(indptr[i], indptr[i + 1]):
            out_columns[filled] = columns[slot]
            out_scores[filled] = scores[slot]
            place[columns[slot]] = filled
            filled += 1
        for slot in range(own_indptr[rows[i]], own_indptr[rows[i] + 1]):
            v = own_columns[slot]
            if upper and v < rows[i]:
                continue
            at = place[v]
            if at < 0:
                at = filled
                out_columns[at] = v
                filled += 1
            out_scores[at] = own_scores[slot]
        for slot in range(indptr[i], indptr[i + 1]):
            place[columns[slot]] = -1
        out_indptr[i + 1] = filled


@kernel()
def _walked_to(u, graph, values, hub, sources, out):
    """Let walks at ``sources`` take a step; list the nodes they reach.

    ``values`` are what the sources hand on. Nodes with more than ``hub`` neighbours
    hand on nothing.
    """
    indptr, indices, data = graph
    reached, stamp, nodes = out
    count = 0
    for j in range(sources.size):
        k = sources[j]
        if indptr[k + 1] - indptr[k] > hub:
            continue
        for slot in range(indptr[k], indptr[k + 1]):
            v = indices[slot]
            if stamp[v] != u:
                stamp[v] = u
                reached[v] = 0.0
                nodes[count] = v
                count += 1
            reached[v] += values[k] * data[slot]
    return count


@kernel()
def _wanted(nodes, scores, known, u):
    """Return the nodes that are no neighbours of u and score above 0."""
    kept = np.empty(nodes.size, dtype=np.int32)
    values = np.empty(nodes.size, dtype=np.float32)
    count = 0
    for j in range(nodes.size):
        if scores[j] > 0.0 and known[nodes[j]] != u:
            kept[count] = nodes[j]
            values[count] = scores[j]
            count += 1
    return kept[:count], values[:count]


@kernel()
def near_room(n):
    """Return buffers for :func:`near_row`: whoever walks a row again needs new ones."""
    stamps = np.full((4, n), -1, dtype=np.int64)
    return np.zeros((6, n)), stamps, np.empty((3, n), dtype=np.int32)


@kernel()
def near_row(u, graph, degrees, limits, sparse, scale, room):
    """Return near nodes and scores by resource allocation, autocovariance and ridge.

    Only pairs that are no edges, with positive scores. Walks do not pass through nodes
    with more than ``hub`` neighbours.

    Parameters
    ----------
    u : int
        The row.
    graph : (indptr, indices, data)
        CSR of the symmetric adjacency matrix.
    degrees : (n,) float64
        Weighted degrees.
    limits : (hub, volume)
        Most neighbours of a node that is walked through, and the sum of all degrees.
    sparse, scale : CSR arrays, (n,) float64
        A sparse inverse P of the ridge walk, and ``-1 / P_vv``.
    room : buffers
        See :func:`near_room`.
    """
    values, stamps, nodes = room
    indptr, indices, data = graph
    hub, volume = limits
    known = stamps[3]
    known[u] = u
    step = values[0]
    for slot in range(indptr[u], indptr[u + 1]):
        k = indices[slot]
        known[k] = u
        step[k] = data[slot] / degrees[k]
    own = indices[indptr[u] : indptr[u + 1]]
    count = _walked_to(u, graph, step, hub, own, (values[1], stamps[0], nodes[0]))
    two = nodes[0, :count]
    shared = np.empty(count)
    for j in range(count):
        shared[j] = values[1, two[j]]
        step[two[j]] = shared[j] / degrees[two[j]]
    count = _walked_to(u, graph, step, hub, two, (values[2], stamps[1], nodes[1]))
    three = nodes[1, :count]
    walked = np.empty(count)
    for j in range(count):
        v = three[j]
        walked[j] = values[2, v] - degrees[u] * degrees[v] / volume
    work = (values[3], values[4], stamps[2], nodes[2])
    ridge, joined = sparse_ridge_row(u, graph, sparse, scale, work)
    return (
        _wanted(two, shared, known, u),
        _wanted(three, walked, known, u),
        _wanted(ridge, joined, known, u),
    )


@kernel()
def _keep(u, found, limits, best, out, filled):
    """Write the scores of a row at the ranks of a grid, and the keys worth keeping."""
    nodes, scores = found
    grid, most, everywhere, n = limits
    size = min(scores.size, int(grid[-1]))
    top = scores
    if size < scores.size:
        top = np.partition(scores, scores.size - size)[scores.size - size :]
    top = np.sort(top)
    for g in range(grid.size):
        place = int(grid[g])
        best[g] = top[size - place] if place <= size else -np.inf
    last = top[size - most] if most <= size else np.float32(-np.inf)
    room = most
    for j in range(scores.size):
        room -= scores[j] > last
    for j in range(scores.size):
        keep = scores[j] > last or scores[j] > everywhere
        if not keep and scores[j] == last and room > 0:
            room -= 1
            keep = True
        if keep:
            if filled < out.size:
                v = np.int64(nodes[j])
                out[filled] = min(u, v) * n + max(u, v)
            filled += 1
    return filled


@kernel()
def near_lists(rows, walks, limits, bounds, best, out):
    """Write the lists of rows by three scores, and the keys of pairs worth a look.

    Parameters
    ----------
    rows : (b,) int64
    walks : tuple
        What :func:`near_row` takes after the row, but for the buffers.
    limits : (grid, most)
        Ranks whose scores are kept, and how many pairs of each row.
    bounds : (3,) float64
        Scores above which pairs are always kept.
    best : (3, b, grid) float32
        Filled.
    out : int64
        Keys ``min * n + max``; filled, as far as there is room.

    Returns
    -------
    int
        How many keys there are.
    """
    graph, degrees, reach, sparse, scale = walks
    grid, most = limits
    n = graph[0].size - 1
    room = near_room(n)
    # Not a row of best, which need not be contiguous: one _keep is compiled for all.
    ranked = np.empty(grid.size, dtype=np.float32)
    filled = 0
    for i in range(rows.size):
        u = rows[i]
        two, three, ridge = near_row(u, graph, degrees, reach, sparse, scale, room)
        for at, found in enumerate((two, three, ridge)):
            given = (grid, most, bounds[at], n)
            filled = _keep(u, found, given, ranked, out, filled)
            for g in range(grid.size):
                best[at, i, g] = ranked[g]
    return filled


@kernel()
def block_lists(block, scores, graph, limits, best, out):
    """Write the lists of rows by scores with some columns, and keys worth a look.

    Parameters
    ----------
    block : (rows, columns)
        Nodes.
    scores : (rows, columns) float32
    graph : (indptr, indices)
        CSR pattern of the known edges.
    limits : (grid, most, bound)
        Ranks that are kept, how many pairs of each row, and the score above which
        pairs are always kept.
    best, out
        As in :func:`near_lists`, for one score.
    """
    rows, columns = block
    indptr, indices = graph
    n = indptr.size - 1
    grid, most, bound = limits
    known = np.full(n, -1, dtype=np.int64)
    filled = 0
    for i in range(rows.size):
        u = rows[i]
        known[u] = u
        for slot in range(indptr[u], indptr[u + 1]):
            known[indices[slot]] = u
        found = _wanted(columns, scores[i], known, u)
        filled = _keep(u, found, (grid, most, bound, n), best[i], out, filled)
    return filled
