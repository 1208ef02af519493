"""Counting candidates between the scores of the positives, without listing them.

With T distinct thresholds in ascending order a score falls into one of 2T + 1
bins: bin 2i lies strictly between thresholds i - 1 and i, bin 2i + 1 holds what
ties with threshold i. The bins give, for every positive, how many candidates
score above it and how many tie with it, which is all that ranking needs.

A rule says which pairs are candidates: CSR of excluded pairs (``indptr``, ``indices``),
two sets of nodes (``left``, ``right``, bool), and whether pairs are ordered.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gelato.kernels.chunks import mix
from gelato.kernels.compiled import kernel

# The bit pattern of a magnitude, cut to its leading bits, indexes a table that
# narrows the search to a few thresholds: neighbouring floats have neighbouring
# patterns. A plain binary search would mispredict at every step, and so would one
# that asks for the sign first.
_MOST_CELLS = 1 << 18
_CELLS_PER_THRESHOLD = 32
_LEAST_CELLS = 1 << 8
_MAGNITUDE = np.int64(0x7FFFFFFFFFFFFFFF)
_FEW_THRESHOLDS = 8
"""Of one list; up to there all of its scores are compared with each."""


def _magnitude_cells(magnitudes: Any, most: int) -> tuple[int, int, Any]:
    """Cut ascending positive magnitudes into cells of equal leading bits.

    Returns ``(base, shift, starts)``: a bit pattern ``b`` from ``base`` on belongs to
    cell ``(b - base) >> shift``, and ``starts[cell]`` magnitudes lie in cells before.
    """
    if magnitudes.size == 0:
        return 0, 62, np.zeros(2, dtype=np.int64)
    bits = magnitudes.view(np.int64)
    base, spread = int(bits[0]), int(bits[-1] - bits[0])
    shift = 0
    while spread >> shift >= most:
        shift += 1
    counts = np.bincount((bits - base) >> shift)
    return base, shift, np.concatenate(([0], np.cumsum(counts)))


# Not compiled: a few calls of numpy, and numba would take seconds over them.
def threshold_table(thresholds: Any) -> tuple[Any, Any, Any]:
    """Return what :func:`bin_of` looks scores up in, from ascending thresholds.

    Returns
    -------
    heads : (2, 5) int64
        For positive and for negative scores: smallest bit pattern, shift, cell of
        the smallest magnitudes, last cell counted from there, and which way to count.
    firsts : (cells + 1,) int32
        Where the thresholds of a cell begin; cells are in the order of scores.
    padded : (t + 1,) float64
        The thresholds, and a last one that equals nothing.
    """
    most = max(_LEAST_CELLS, min(_MOST_CELLS, _CELLS_PER_THRESHOLD * thresholds.size))
    negative = np.searchsorted(thresholds, 0.0, side="left")
    first = np.searchsorted(thresholds, 0.0, side="right")
    base, shift, starts = _magnitude_cells(thresholds[first:], most)
    low_base, low_shift, low_starts = _magnitude_cells(
        -thresholds[:negative][::-1], most
    )
    above, below = starts.size - 1, low_starts.size - 1
    # A threshold of 0 is found from the smallest cell of positive scores.
    firsts = np.concatenate(
        [negative - low_starts[:0:-1], [negative], first + starts[1:]]
    )
    heads = np.array(
        [
            [base, shift, below, above - 1, 1],
            [low_base, low_shift, below - 1, below - 1, -1],
        ],
        dtype=np.int64,
    )
    return heads, firsts.astype(np.int32), np.append(thresholds, np.nan)


@kernel(inline="always")
def bin_of(score, bits, table):
    """Return the bin of a score, given with its bit pattern.

    Only the number of halvings can be mispredicted; there are few.
    """
    heads, firsts, thresholds = table
    sign = np.int64(score < 0.0)
    cell = ((bits & _MAGNITUDE) - heads[sign, 0]) >> heads[sign, 1]
    cell = max(np.int64(0), min(cell, heads[sign, 3]))
    cell = heads[sign, 2] + heads[sign, 4] * cell
    low = np.int64(firsts[cell])
    length = np.int64(firsts[cell + 1]) - low
    if length == 0:
        # No threshold has these leading bits, so that none needs a look.
        return 2 * low
    while length > 0:
        half = (length + 1) >> 1
        low += half * np.int64(thresholds[low + half - 1] < score)
        length -= half
    return 2 * low + np.int64(thresholds[low] == score)


@kernel()
def mark_row(marks, stamp, row, indptr, indices):
    """Stamp the columns of one CSR row."""
    for slot in range(indptr[row], indptr[row + 1]):
        marks[indices[slot]] = stamp


@kernel(inline="always")
def allowed(u, v, left, right, ordered):
    """Whether the node sets admit a pair; in either order unless ``ordered``."""
    return (left[u] and right[v]) or (not ordered and left[v] and right[u])


@kernel(inline="always")
def _count_at(score, x, starts, thresholds):
    """Return where a score is counted that reaches the first threshold of a list."""
    low = np.int64(starts[x])
    length = np.int64(starts[x + 1]) - low
    while length > 1:
        half = length >> 1
        low += half * np.int64(thresholds[low + half] <= score)
        length -= half
    return 2 * low + np.int64(thresholds[low] < score)


@kernel()
def tally_node(x, score, amount, tally):
    """Count a score that a node's list holds, if it reaches one of its thresholds."""
    least, starts, thresholds, counts = tally
    if score >= least[x]:
        counts[_count_at(score, x, starts, thresholds)] += amount


@kernel()
def tally_pair(u, v, score, amount, ordered, tally):
    """Count the score of a pair in the lists of its ends; of the first if ordered.

    Parameters
    ----------
    u, v, score
        The pair.
    amount : int
        What it counts.
    ordered : bool
        Whether it only stands in the list of u.
    tally : (least, starts, thresholds, counts)
        Thresholds of every node, ascending, in CSR, and the smallest of each
        (infinite where there is none). Of two counts per threshold the first is what
        ties with it, the second what lies between it and the next of the node.
    """
    tally_node(u, score, amount, tally)
    if not ordered:
        tally_node(v, score, amount, tally)


@kernel()
def _tally_own(x, scores, amount, tally):
    """Count scores in one list; of few thresholds, without a branch per score."""
    least, starts, thresholds, counts = tally
    first, last = np.int64(starts[x]), np.int64(starts[x + 1])
    if last - first > _FEW_THRESHOLDS:
        for j in range(scores.size):
            if scores[j] >= least[x]:
                counts[_count_at(scores[j], x, starts, thresholds)] += amount
        return
    higher = np.int64(0)
    for p in range(last - 1, first - 1, -1):
        threshold = thresholds[p]
        above, at_least = np.int64(0), np.int64(0)
        for j in range(scores.size):
            above += np.int64(scores[j] > threshold)
            at_least += np.int64(scores[j] >= threshold)
        counts[2 * p] += amount * (at_least - above)
        counts[2 * p + 1] += amount * (above - higher)
        higher = at_least


@kernel(inline="always")
def _far_ceiling(scale):
    """Return what no closed-form score exceeds: most lists then need no look at it."""
    return 0.0 if scale <= 0.0 else np.finfo(np.float64).max


@kernel()
def _tally_others(u, near, form, picked, tally):
    """Count scores, and take out far ones, each in the list of its column.

    Most reach no threshold there: those that do are picked first, as a branch would be
    mispredicted often.
    """
    least, starts, thresholds, counts = tally
    sites, count, scores, nodes = near
    _, scale, far_left, far_right = form
    left, ceiling = far_left[u], _far_ceiling(scale)
    found = 0
    for j in range(count):
        needed = least[nodes[sites[j]]]
        picked[found] = j
        found += (scores[j] >= needed) | (ceiling >= needed)
    for i in range(found):
        site, score = sites[picked[i]], scores[picked[i]]
        v, far = nodes[site], scale * (left * far_right[site])
        needed = least[v]
        at = _count_at(score, v, starts, thresholds)
        counts[at] += np.int64(score >= needed)
        at = _count_at(far, v, starts, thresholds)
        counts[at] -= np.int64(far >= needed)


@kernel()
def tally_row(u, near, form, ordered, picked, tally):
    """Count near pairs of a row at their scores, and no longer as far ones.

    What :func:`tally_pair` does, for a whole row.

    Parameters
    ----------
    u : int
        Site of the row.
    near : (sites, count, scores, nodes)
        The first ``count`` columns by site, with their scores; the node at every site.
    form : (multiplier, scale, left, right)
        Far scores are ``scale * (left[u] * right[v])``, no factor below 0 but scale.
    ordered, tally
        As for :func:`tally_pair`.
    picked : int32
        Room for as many as there are columns.
    """
    sites, count, scores, nodes = near
    least, node = tally[0], nodes[u]
    if least[node] < np.inf:
        _tally_own(node, scores[:count], np.int64(1), tally)
        if _far_ceiling(form[1]) >= least[node]:
            fars = np.empty(count)
            for j in range(count):
                fars[j] = form[1] * (form[2][u] * form[3][sites[j]])
            _tally_own(node, fars, np.int64(-1), tally)
    if not ordered:
        _tally_others(u, near, form, picked, tally)


@kernel()
def tally_scores(nodes, scores, amount, tally):
    """Count scores, each in the list of a node."""
    for i in range(nodes.size):
        tally_node(nodes[i], scores[i], amount, tally)


@kernel()
def tally_products(nodes, scale, lefts, values, totals, tally):
    """Count, in the list of each node, a product with each of some values.

    ``values`` are ordered so that ``scale * (left * value)`` rises along them, and
    ``totals[c]`` is how often the first c occur. Rounding is monotone, so that two
    searches per threshold are exact.
    """
    _, starts, thresholds, counts = tally
    every = totals[values.size]
    for i in range(nodes.size):
        x = nodes[i]
        left, higher = lefts[x], 0
        for p in range(np.int64(starts[x + 1]) - 1, np.int64(starts[x]) - 1, -1):
            low, high = 0, values.size
            while low < high:
                middle = (low + high) >> 1
                if scale * (left * values[middle]) < thresholds[p]:
                    low = middle + 1
                else:
                    high = middle
            at_least, high = every - totals[low], values.size
            while low < high:
                middle = (low + high) >> 1
                if scale * (left * values[middle]) <= thresholds[p]:
                    low = middle + 1
                else:
                    high = middle
            above = every - totals[low]
            counts[2 * p] += at_least - above
            counts[2 * p + 1] += above - higher
            higher = at_least


@kernel()
def count_near(rows, near, rule, form, table, tally, bins):
    """Add near candidates to the bins and take them out of the far ones.

    Every candidate is counted elsewhere as if it were far; a near one is therefore
    subtracted at its closed-form score and added at its own. ``near`` is a block as
    CSR, ``form`` (scale, left, right), ``tally`` what :func:`tally_pair` takes. Returns
    how many near candidates there were.
    """
    indptr, columns, scores = near
    excluded_indptr, excluded_indices, left, right, ordered = rule
    scale, far_left, far_right = form
    marks = np.zeros(left.size, dtype=np.int32)
    bits = scores.view(np.int64)
    unrestricted = left.all() and right.all()
    far = np.zeros(1)
    far_bits = far.view(np.int64)
    count = 0
    for i in range(rows.size):
        u = rows[i]
        mark_row(marks, i + 1, u, excluded_indptr, excluded_indices)
        for slot in range(indptr[i], indptr[i + 1]):
            v = columns[slot]
            if marks[v] == i + 1:
                continue
            if not unrestricted and not allowed(u, v, left, right, ordered):
                continue
            bins[bin_of(scores[slot], bits[slot], table)] += 1
            far[0] = scale * (far_left[u] * far_right[v])
            bins[bin_of(far[0], far_bits[0], table)] -= 1
            count += 1
            if tally[0].size:
                tally_pair(u, v, scores[slot], 1, ordered, tally)
                tally_pair(u, v, far[0], -1, ordered, tally)
    return count


@kernel()
def count_dense(rows, scores, rule, table, tally, bins):
    """Add the candidates of dense rows to the bins, and to a tally if there is one."""
    excluded_indptr, excluded_indices, left, right, ordered = rule
    n = left.size
    marks = np.zeros(n, dtype=np.int32)
    bits = scores.view(np.int64)
    for i in range(rows.size):
        u = rows[i]
        mark_row(marks, i + 1, u, excluded_indptr, excluded_indices)
        for v in range(0 if ordered else u + 1, n):
            if v == u or marks[v] == i + 1 or not allowed(u, v, left, right, ordered):
                continue
            bins[bin_of(scores[i, v], bits[i, v], table)] += 1
            if tally[0].size:
                tally_pair(u, v, scores[i, v], 1, ordered, tally)


@kernel()
def count_scores(scores, table, bins, amount):
    """Add ``amount`` to the bin of every score."""
    bits = scores.view(np.int64)
    for i in range(scores.size):
        bins[bin_of(scores[i], bits[i], table)] += amount


# Not compiled: a few calls of numpy.
def product_bounds(scale: float, thresholds: Any, *, strict: bool) -> Any:
    """Return the last products p whose score ``scale * p`` reaches each threshold.

    Products come in the order of falling scores: ascending where ``scale`` is negative
    or 0, else descending, and are then negated. Rounding is monotone, so that a score
    reaches a threshold (exceeds it, if ``strict``) up to a certain product and never
    after it.
    """
    if scale == 0:
        reached = thresholds < 0 if strict else thresholds <= 0
        return np.where(reached, np.inf, -np.inf)
    # Bit patterns of products, from 0 to infinity, with one before and one behind.
    low = np.full(thresholds.shape, -1, dtype=np.int64)
    high = np.full(thresholds.shape, np.float64(np.inf).view(np.int64) + 1)
    while np.any(high - low > 1):
        middle = low + (high - low) // 2
        scores = scale * middle.view(np.float64)
        reached = scores > thresholds if strict else scores >= thresholds
        up = reached == (scale < 0)
        low, high = np.where(up, middle, low), np.where(up, high, middle)
    if scale < 0:
        return np.where(low < 0, -np.inf, low.view(np.float64))
    return -high.view(np.float64)


_ABREAST = 8  # thresholds that go along the products together


@kernel()
def count_products(
    lefts, left_counts, padded, totals, symmetric, bounds, above, at_least
):
    """Count, for every threshold, the products of a left and a right that reach it.

    One staircase per threshold, exact since rounding is monotone. Several go abreast:
    neighbouring thresholds have similar stairs.

    Parameters
    ----------
    lefts, left_counts : (l,)
        Distinct non-negative values, in the order of falling scores, and how often
        each occurs.
    padded : (r + 1,)
        0, then the rights likewise; negated where ``scale`` is positive.
    totals : (r + 1,)
        How often the first c rights occur.
    symmetric : bool
        Whether the rights are the lefts: then half of a staircase tells the other.
    bounds : (loose, strict)
        As :func:`product_bounds` makes them, of thresholds in ascending order.
    above, at_least : (t,) int64
        Filled.
    """
    loose, strict, ends = np.empty(_ABREAST), np.empty(_ABREAST), _room()
    square, many, ties = _room(), _room(), _room()
    for start in range(0, above.size, _ABREAST):
        for k in range(_ABREAST):
            i = min(start + k, above.size - 1)  # the last one may go several times
            loose[k], strict[k] = bounds[0][i], bounds[1][i]
            ends[k] = _stair(lefts[0], padded, loose[k])
            square[k], many[k], ties[k] = 0, 0, 0
        for j in range(lefts.size):
            left, occurs = lefts[j], left_counts[j]
            floor = j if symmetric else 0
            _descend(left, padded, loose, ends)
            tied, alive = np.int64(0), np.int64(0)
            for k in range(_ABREAST):
                end = np.uint64(ends[k])
                goes = np.int64(ends[k] > floor)
                tied += goes & np.int64(left * padded[end] > strict[k])
                square[k] += occurs * goes
                many[k] += occurs * goes * totals[end]
                alive += goes
            if not alive:
                break
            if tied:
                for k in range(_ABREAST):
                    span = (_stair(left, padded, strict[k]), ends[k])
                    ties[k] += _tied(j, left_counts, totals, span, symmetric)
        for k in range(min(_ABREAST, above.size - start)):
            found = many[k]
            if symmetric:  # both halves hold the square between them
                found = 2 * found - square[k] * square[k]
            at_least[start + k] = found
            above[start + k] = found - ties[k]


@kernel()
def _descend(left, padded, bounds, ends):
    """Lower every end to the last right whose product with ``left`` is up to a bound.

    Steps are arithmetic, not branches: nothing about them could be predicted.
    """
    moved = np.int64(1)
    while moved:
        moved = np.int64(0)
        for k in range(_ABREAST):
            end = np.uint64(ends[k])
            lower = np.int64((left * padded[end] > bounds[k]) & (ends[k] > 0))
            ends[k] -= lower
            moved += lower


@kernel()
def _room():
    return np.zeros(_ABREAST, np.int64)


@kernel()
def _stair(left, padded, bound):
    """Return how many rights have a product with ``left`` up to a bound."""
    low, high = 0, padded.size - 1
    while low < high:
        middle = (low + high + 1) >> 1
        if left * padded[middle] > bound:
            high = middle - 1
        else:
            low = middle
    return low


@kernel()
def _tied(j, left_counts, totals, span, symmetric):
    """Count what left j ties with; from j on, and both ways, if symmetric."""
    first, end = span
    if not symmetric:
        return left_counts[j] * (totals[end] - totals[first])
    other = max(first, j + 1)
    found = 2 * left_counts[j] * (totals[max(end, other)] - totals[other])
    if first <= j < end:
        found += left_counts[j] * left_counts[j]
    return found


@kernel()
def keep_near(rows, near, rule, bound, out):
    """Copy the near candidates that score at least ``bound``; return how many."""
    indptr, columns, scores = near
    excluded_indptr, excluded_indices, left, right, ordered = rule
    out_rows, out_columns, out_scores = out
    marks = np.zeros(left.size, dtype=np.int32)
    kept = 0
    for i in range(rows.size):
        u = rows[i]
        mark_row(marks, i + 1, u, excluded_indptr, excluded_indices)
        for slot in range(indptr[i], indptr[i + 1]):
            v = columns[slot]
            if scores[slot] < bound or marks[v] == i + 1:
                continue
            if allowed(u, v, left, right, ordered):
                out_rows[kept], out_columns[kept] = u, v
                out_scores[kept] = scores[slot]
                kept += 1
    return kept


@kernel()
def keep_dense(rows, scores, rule, upper, bound, out):
    """Copy the candidates of dense rows that score at least ``bound``."""
    excluded_indptr, excluded_indices, left, right, ordered = rule
    out_rows, out_columns, out_scores = out
    n = left.size
    marks = np.zeros(n, dtype=np.int32)
    kept = 0
    for i in range(rows.size):
        u = rows[i]
        mark_row(marks, i + 1, u, excluded_indptr, excluded_indices)
        for v in range(u + 1 if upper else 0, n):
            if v == u or scores[i, v] < bound or marks[v] == i + 1:
                continue
            if allowed(u, v, left, right, ordered):
                out_rows[kept], out_columns[kept] = u, v
                out_scores[kept] = scores[i, v]
                kept += 1
    return kept


_FIRST_ROOM = 1024


def draw_limit(rate: float) -> np.uint64:
    """Return the largest random bits that draw a pair at a rate of at most 1."""
    return np.uint64(min(int(rate * 2.0**64), 2**64 - 1))


@kernel()
def _mark_near(marks, stamp, u, ahead):
    """Stamp the nodes that one or two edges lead to."""
    indptr, indices = ahead
    for slot in range(indptr[u], indptr[u + 1]):
        k = indices[slot]
        marks[k] = stamp
        mark_row(marks, stamp, k, indptr, indices)


@kernel()
def _with_room(pairs, near, count):
    """Return both lists, longer if the first ``count`` entries fill them."""
    if count < len(near):
        return pairs, near
    more_pairs = np.empty((2 * count, 2), np.int64)
    more_near = np.empty(2 * count, np.bool_)
    more_pairs[:count] = pairs
    more_near[:count] = near
    return more_pairs, more_near


@kernel()
def draw_rows(rows, rule, ahead, draw):
    """List the near candidates of rows and the far ones that are drawn.

    Parameters
    ----------
    rows : int64
        Rows, ascending.
    rule : tuple
        Which pairs are candidates.
    ahead : (indptr, indices)
        CSR of the edges that make pairs near.
    draw : (uint64, uint64)
        Key, and the largest bits that draw a far pair.

    Returns
    -------
    pairs : (k, 2) int64
        Sorted.
    near : (k,) bool
        Which of them are near.
    far : int
        Far candidates in all, drawn or not.
    """
    excluded_indptr, excluded_indices, left, right, ordered = rule
    n, count, far = left.size, 0, 0
    marks = np.zeros(n, np.int64)
    pairs, near = np.empty((_FIRST_ROOM, 2), np.int64), np.empty(_FIRST_ROOM, np.bool_)
    for i in range(rows.size):
        u, close, barred = rows[i], 2 * i + 1, 2 * i + 2
        _mark_near(marks, close, u, ahead)
        mark_row(marks, barred, u, excluded_indptr, excluded_indices)
        key = mix(draw[0] ^ np.uint64(u))
        for v in range(0 if ordered else u + 1, n):
            if v == u or marks[v] == barred or not allowed(u, v, left, right, ordered):
                continue
            if marks[v] != close:
                far += 1
                if mix(key ^ np.uint64(v)) > draw[1]:
                    continue
            pairs, near = _with_room(pairs, near, count)
            pairs[count, 0], pairs[count, 1] = u, v
            near[count] = marks[v] == close
            count += 1
    return pairs[:count].copy(), near[:count].copy(), far


@kernel()
def draw_listed(listed, num_nodes, ahead, draw):
    """Choose from listed candidates as :func:`draw_rows` does from rows.

    Parameters
    ----------
    listed : (k, 2) int64
        Sorted candidates.
    num_nodes : int
    ahead, draw
        As for :func:`draw_rows`.

    Returns
    -------
    kept, near : (k,) bool
        Which candidates are near or drawn, and which are near.
    """
    kept, near = np.zeros(len(listed), np.bool_), np.zeros(len(listed), np.bool_)
    marks = np.full(num_nodes, -1, np.int64)
    row, key = -1, np.uint64(0)
    for i in range(len(listed)):
        u, v = listed[i]
        if u != row:
            row, key = u, mix(draw[0] ^ np.uint64(u))
            _mark_near(marks, u, u, ahead)
        near[i] = marks[v] == u
        kept[i] = near[i] or mix(key ^ np.uint64(v)) <= draw[1]
    return kept, near
