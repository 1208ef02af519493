"""Consume the near pairs of walk scores while they are walked, without listing them.

Each kernel walks one row at a time in arrays of the size of the graph and touches only
the nodes that are reached. The scores are, to the last bit, those that
:func:`gelato.kernels.near_walks.near_rows` and ``finish_scores`` list.

A node has a *site*: its index in arrays of memory. On large graphs, nodes that walks
reach together have sites close to each other, so that what a row reads is still in the
cache from the row before. Node numbers decide everything else: which pairs are above
the diagonal, and in which order lists are read and walks are summed. So sites change
the time, and never a bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gelato.kernels.compiled import kernel
from gelato.kernels.counting import allowed, bin_of, tally_row

# Not plain numbers: numba would compile a kernel anew for every literal it is given.
_NONE, _ALL = np.int64(0), np.int64(-1)
_ONE = np.uint64(1)
_EMPTY = np.int32(-1)
_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2 ** 64 over the golden ratio
_KEYED_NODES = 500_000
"""Nodes from which on a row is summed in a table of keys: arrays leave the cache."""
_KEYS = 1 << 17
"""Places of that table; a row that may fill more than half of it does without."""


@kernel()
def reach_bounds(indptr, indices, steps):
    """Bound the number of nodes that each node reaches in exactly ``steps`` edges.

    The number of walks, capped by n; the sum over rows bounds memory and time.
    """
    n = indptr.size - 1
    walks = np.ones(n)
    for _ in range(steps):
        following = np.zeros(n)
        for u in range(n):
            total = 0.0
            for slot in range(indptr[u], indptr[u + 1]):
                total += walks[indices[slot]]
            following[u] = min(total, float(n))
        walks = following
    return walks.astype(np.int64)


@kernel()
def nearby_nodes(indptr, indices):
    """Return all nodes breadth first, from the one with most edges on.

    Neighbours of a node follow each other, and so do nodes that share a neighbour.
    Degrees in ascending order, reverse Cuthill-McKee and communities were no better.
    """
    n = indptr.size - 1
    order, seen = np.empty(n, dtype=np.int32), np.zeros(n, dtype=np.bool_)
    done, filled = 0, 0
    first = np.argmax(indptr[1:] - indptr[:-1])
    for seed in range(-1, n):
        start = first if seed < 0 else seed
        if not seen[start]:
            seen[start] = True
            order[filled] = start
            filled += 1
        while done < filled:
            u = order[done]
            done += 1
            for slot in range(indptr[u], indptr[u + 1]):
                v = indices[slot]
                if not seen[v]:
                    seen[v] = True
                    order[filled] = v
                    filled += 1
    return order


HEAD = np.dtype([("start", np.int64), ("factor", np.float64)], align=True)
"""Where a row begins, and its number in the diagonal of F: read together."""


@kernel()
def _push(heads, ends, data, site, value, above, out, touched, count):
    """Add ``value * A[site, v]`` to every v above a bound; list new entries.

    Rows are sorted by node, so that walking them from the end stops at the bound.
    """
    stride = np.uint64(data.size > 1)
    slot = np.uint64(heads[site + 1]["start"])
    start = np.uint64(heads[site]["start"])
    while slot > start:
        slot -= _ONE
        if ends[slot, 1] <= above:
            break
        v = np.uint32(ends[slot, 0])  # unsigned: numba asks others for their sign
        before = out[v]
        after = before + value * data[slot * stride]
        out[v] = after
        # Without a branch: the entry is kept only where it was empty before.
        touched[count] = v
        count += (before == 0.0) & (after > 0.0)
    return count


@kernel()
def _push_unlisted(heads, ends, data, site, value, above, out):
    """Add what :func:`_push` adds, and list nothing."""
    stride = np.uint64(data.size > 1)
    slot = np.uint64(heads[site + 1]["start"])
    start = np.uint64(heads[site]["start"])
    while slot > start:
        slot -= _ONE
        if ends[slot, 1] <= above:
            break
        out[np.uint32(ends[slot, 0])] += value * data[slot * stride]


# Not compiled: numpy asks for large pages of memory, numba does not.
def work_arrays(num_nodes: int) -> tuple[Any, ...]:
    """Return what walking a row needs: two arrays of values, two of sites, a count.

    The values are all 0 between rows; who reads them sets them back to 0.
    """
    values = (np.zeros(num_nodes), np.zeros(num_nodes))
    size = num_nodes + 1
    sites = (np.empty(size, dtype=np.int32), np.empty(size, dtype=np.int32))
    return (*values, *sites, np.int64(0))


def key_table(num_nodes: int) -> tuple[Any, Any]:
    """Return an empty table of keys with their sums; without places on small graphs."""
    size = _KEYS if num_nodes >= _KEYED_NODES else 0
    return np.full(size, _EMPTY), np.zeros(size)


@kernel()
def walk_from(u, walks, done, steps, above, work):
    """Walk on from a site, or go on with a walk that has come ``done`` steps.

    Parameters
    ----------
    u : int
        Where walks start.
    walks : (heads, ends, data, site_of, node_at)
        CSR of A, one row per site: where it begins with its number in F
        (:data:`HEAD`), the sites of its columns and beside them their nodes
        (ascending), and its values (positive; one if all are equal). The site of every
        node and the node at every site.
    done, steps : int
        Steps that ``work`` holds already, if any, and how many it is to hold.
    above : int
        The last step only reaches nodes above this one; -1 for all.
    work : (values, values, sites, sites, count)
        What :func:`work_arrays` made, or this function returned.

    Returns
    -------
    values, spare, touched, spare_touched, count
        ``values`` of the first ``count`` sites in ``touched`` are filled.
    """
    heads, ends, data, _, _ = walks
    current, following, touched, touched_next, count = work
    if done == 0:
        current[u] = 1.0
        touched[0] = u
        count = 1
    for step in range(done, steps):
        bound = above if step == steps - 1 else _ALL
        count_next = _NONE
        for j in range(count):
            k = touched[j]
            value = current[k] if step == 0 else current[k] * heads[k]["factor"]
            current[k] = 0.0
            count_next = _push(
                heads, ends, data, k, value, bound, following, touched_next, count_next
            )
        current, following = following, current
        touched, touched_next = touched_next, touched
        count = count_next
    return current, following, touched, touched_next, count


@kernel()
def _last_step(u, walks, steps, above, work, ahead):
    """Take the last step of a row that is counted, in whatever order.

    Where it visits more entries (``ahead``) than there are nodes, it is quicker to look
    at all of these afterwards than to list those that are new: all then count as
    touched.
    """
    heads, ends, data, _, _ = walks
    if ahead < work[0].size:
        return walk_from(u, walks, steps - 1, steps, above, work)
    current, following, touched, touched_next, count = work
    for j in range(count):
        k = touched[j]
        value = current[k] if steps == 1 else current[k] * heads[k]["factor"]
        current[k] = 0.0
        _push_unlisted(heads, ends, data, k, value, above, following)
    return following, current, touched_next, touched, np.int64(current.size)


@kernel(inline="always")
def _place(v, keys, shift, mask):
    """Return where a site is in a table of keys, or the empty place that it takes."""
    at = (np.uint64(v) * _SPREAD) >> shift
    while keys[at] != v and keys[at] != _EMPTY:
        at = (at + _ONE) & mask
    return at


@kernel()
def _last_step_by_keys(walks, steps, above, work, table, ahead):
    """Take the last step into a small table of keys instead of an array of all nodes.

    A row of a large graph reaches few of its nodes, far apart in memory: in a table
    they are close together. Sums are added in the same order, so they are the same.

    Returns
    -------
    work : tuple
        As :func:`walk_from` returns it, but with places in the table for sites.
    shift, mask : uint64
        What :func:`_place` needs.
    """
    heads, ends, data, _, _ = walks
    keys, sums = table
    current, following, touched, places, count = work
    size, shift = _ONE, np.uint64(64)
    while size < 2 * ahead:
        size, shift = size << _ONE, shift - _ONE
    mask, found = size - _ONE, _NONE
    stride = np.uint64(data.size > 1)
    for j in range(count):
        k = touched[j]
        value = current[k] if steps == 1 else current[k] * heads[k]["factor"]
        current[k] = 0.0
        slot, start = np.uint64(heads[k + 1]["start"]), np.uint64(heads[k]["start"])
        while slot > start:
            slot -= _ONE
            if ends[slot, 1] <= above:
                break
            at = _place(ends[slot, 0], keys, shift, mask)
            places[found] = at
            found += keys[at] == _EMPTY
            keys[at] = ends[slot, 0]
            sums[at] += value * data[slot * stride]
    return (current, following, places, touched, found), shift, mask


@kernel()
def near_rows(rows, walks, work, steps, upper, out_indptr, out_columns, out_walks):
    """Write the columns each row reaches, with the weight of the walks.

    Parameters
    ----------
    rows : (b,) int64
        Sites of the rows to score.
    walks, work : tuple
        As for :func:`walk_from`.
    steps : int
        Number of edges of a walk, at least 1.
    upper : bool
        Only columns larger than the row.
    out_indptr : (b + 1,) int64
        Filled with the extent of every row.
    out_columns, out_walks
        Filled with sites and weights; as large as the sum of :func:`reach_bounds` over
        the rows.
    """
    filled = 0
    out_indptr[0] = 0
    for i in range(rows.size):
        u = rows[i]
        above = np.int64(walks[4][u]) if upper else _ALL
        work = walk_from(u, walks, _NONE, steps, above, work)
        values, _, touched, _, count = work
        for j in range(count):
            v = touched[j]
            if v != u:
                out_columns[filled] = v
                out_walks[filled] = values[v]
                filled += 1
            values[v] = 0.0
        out_indptr[i + 1] = filled


# Scores keep 40 significant bits (relative error 5e-13). The same walks summed in
# another order differ in their last bits; rounding makes such pairs the ties that
# they are, in whatever order they were summed.
_DROPPED_BITS = 52 - 40
HALF = np.int64(1) << (_DROPPED_BITS - 1)
KEPT = ~((np.int64(1) << _DROPPED_BITS) - 1)
"""The bits of a rounded score are ``(bits + HALF) & KEPT``."""


@kernel()
def finish_scores(rows, indptr, columns, values, multiplier, scale, left, right):
    """Turn walk weights into scores: ``multiplier * walks + scale * l_u * r_v``.

    Rows and columns are sites, and so are the places in ``left`` and ``right``.
    """
    bits = values.view(np.int64)
    for i in range(rows.size):
        u = rows[i]
        for slot in range(indptr[i], indptr[i + 1]):
            far = scale * (left[u] * right[columns[slot]])
            values[slot] = multiplier * values[slot] + far
            bits[slot] = (bits[slot] + HALF) & KEPT


@kernel()
def pick_near(indptr, columns, scores, pair_rows, pair_columns, out):
    """Fill ``out`` with the scores of pairs that are in a near block.

    ``pair_rows`` holds positions within the block, ascending. Entries of pairs that
    are not near are left as they are.
    """
    n = 0
    for slot in range(indptr[-1]):
        n = max(n, columns[slot] + 1)
    place = np.full(n, -1, dtype=np.int64)
    p = 0
    while p < pair_rows.size:
        i = pair_rows[p]
        for slot in range(indptr[i], indptr[i + 1]):
            place[columns[slot]] = slot
        while p < pair_rows.size and pair_rows[p] == i:
            v = pair_columns[p]
            if v < n and place[v] >= 0:
                out[p] = scores[place[v]]
            p += 1
        for slot in range(indptr[i], indptr[i + 1]):
            place[columns[slot]] = -1


@kernel()
def _near_candidates(u, walks, work, steps, above, rule, unrestricted, table, sums):
    """Walk a row; list the sites of its candidates in ``work``, and fill their sums.

    Returns
    -------
    work : tuple
        As :func:`walk_from` returns it, nothing left in its values.
    """
    work = walk_from(u, walks, _NONE, steps - 1, _ALL, work)
    ahead = _walks_above(walks, work, above)
    if 0 < ahead <= table[0].size >> 1:
        work, shift, mask = _last_step_by_keys(walks, steps, above, work, table, ahead)
        kept = _take_by_keys(u, walks, work, rule, table, shift, mask, sums)
    else:
        work = _last_step(u, walks, steps, above, work, ahead)
        kept = _take(u, walks, work, rule, sums)
    values, spare, touched, spare_touched, _ = work
    if not unrestricted:
        kept = _admitted(walks[4][u], kept, walks, touched, rule, sums)
    return values, spare, touched, spare_touched, np.int64(kept)


@kernel()
def _take(u, walks, work, rule, sums):
    """Move what was walked to a list of sites and their sums, known pairs left out."""
    values, _, touched, _, count = work
    site_of = walks[3]
    node = walks[4][u]
    values[u] = 0.0
    for slot in range(rule[0][node], rule[0][node + 1]):
        values[site_of[rule[1][slot]]] = 0.0
    kept = 0
    if 2 * count > values.size:
        # Most columns are near: go through all of them in the order of memory.
        for v in range(values.size):
            touched[kept], sums[kept] = v, values[v]
            kept += values[v] > 0.0
            values[v] = 0.0
    else:
        for j in range(count):
            v = touched[j]
            touched[kept], sums[kept] = v, values[v]
            kept += values[v] > 0.0
            values[v] = 0.0
    return kept


@kernel()
def _take_by_keys(u, walks, work, rule, table, shift, mask, sums):
    """Do what :func:`_take` does with a table of keys, and empty it."""
    keys, held = table
    touched, count = work[2], work[4]
    node = walks[4][u]
    at = _place(np.int32(u), keys, shift, mask)
    held[at] = 0.0
    for slot in range(rule[0][node], rule[0][node + 1]):
        at = _place(walks[3][rule[1][slot]], keys, shift, mask)
        held[at] = 0.0
    kept = 0
    for j in range(count):
        at = np.uint64(touched[j])
        value = held[at]
        touched[kept], sums[kept] = keys[at], value
        kept += value > 0.0
        keys[at], held[at] = _EMPTY, 0.0
    return kept


@kernel()
def _admitted(node, count, walks, touched, rule, sums):
    """Keep the columns that the node sets admit."""
    kept = 0
    for j in range(count):
        if allowed(node, walks[4][touched[j]], rule[2], rule[3], rule[4]):
            touched[kept], sums[kept] = touched[j], sums[j]
            kept += 1
    return kept


@kernel()
def _count_by_class(u, count, touched, form, classes, table, bins, scores):
    """Count the candidates of a row; pairs of classes take out the far ones.

    ``scores`` holds the sums of walks, and their scores afterwards.
    """
    multiplier, scale, far_left, _ = form
    left_class, right_class, rights, class_counts = classes
    bits, left = scores.view(np.int64), far_left[u]
    partners = class_counts[left_class[u]]
    for j in range(count):
        c = right_class[touched[j]]
        partners[c] += 1
        scores[j] = multiplier * scores[j] + scale * (left * rights[c])
    for j in range(count):
        bits[j] = (bits[j] + HALF) & KEPT
        bins[bin_of(scores[j], bits[j], table)] += 1


@kernel()
def _count_singly(u, count, touched, form, table, bins, scores):
    """Count the candidates of a row, each at its score and no longer as a far one.

    ``scores`` holds the sums of walks, and their scores afterwards.
    """
    multiplier, scale, far_left, far_right = form
    bits, left = scores.view(np.int64), far_left[u]
    far = np.empty(count)
    far_bits = far.view(np.int64)
    for j in range(count):
        far[j] = scale * (left * far_right[touched[j]])
    for j in range(count):
        bins[bin_of(far[j], far_bits[j], table)] -= 1
    for j in range(count):
        scores[j] = multiplier * scores[j] + far[j]
        bits[j] = (bits[j] + HALF) & KEPT
    for j in range(count):
        bins[bin_of(scores[j], bits[j], table)] += 1


@kernel()
def count_walks(
    rows, walks, work, keys, steps, upper, rule, form, classes, table, tally, bins
):
    """Add near candidates to the bins and take them out of the far ones.

    Every candidate is counted elsewhere as if it were far; a near one is therefore
    subtracted at its closed-form score and added at its own. Returns how many near
    candidates there were.

    Parameters
    ----------
    rows : (b,) int64
        Nodes whose rows to count; quickest by site.
    walks, work : tuple
        As for :func:`gelato.kernels.near_walks.walk_from`.
    keys : tuple
        What :func:`key_table` made.
    steps : int
        Number of edges of a walk, at least 1.
    upper : bool
        Only columns larger than the row.
    rule : (indptr, indices, left, right, ordered)
        Excluded pairs in CSR, and the two node sets: nodes, not sites.
    form : (multiplier, scale, left, right)
        A score is ``multiplier * walks + scale * (left[u] * right[v])``; by site.
    classes : (left classes, right classes, rights, counts)
        Sites of equal ``left`` or ``right``, the values of ``right`` and room to count
        the pairs of two classes; the caller takes them out of the bins. Without room,
        closed-form scores are taken out one by one.
    table
        What :func:`gelato.kernels.counting.threshold_table` made.
    tally
        What :func:`gelato.kernels.counting.tally_row` takes; empty if lists of single
        nodes are not counted.
    bins : (2 t + 1,) int64
        Changed in place.
    """
    scores, site_of = np.empty(walks[0].size), walks[3]
    unrestricted = rule[2].all() and rule[3].all()
    size = classes[2].size
    visited = 0
    for i in range(rows.size):
        u = np.int64(site_of[rows[i]])
        above = rows[i] if upper else _ALL
        work = _near_candidates(
            u, walks, work, steps, above, rule, unrestricted, keys, scores
        )
        touched, count = work[2], work[4]
        if size:
            _count_by_class(u, count, touched, form, classes, table, bins, scores)
        else:
            _count_singly(u, count, touched, form, table, bins, scores)
        if tally[0].size:
            near = (touched, count, scores, walks[4])
            tally_row(u, near, form, rule[4], work[3], tally)
        visited += count
    return visited


@kernel()
def keep_walks(
    rows,
    walks,
    work,
    keys,
    steps,
    upper,
    rule,
    form,
    bound,
    room,
    out_rows,
    out_columns,
    out_scores,
):
    """Copy the near candidates that score at least ``bound``, as many rows as fit.

    Parameters
    ----------
    rows, walks, work, keys, steps, upper, rule, form
        As for :func:`count_walks`.
    bound : float
        Scores below it are left out.
    room : (b,) int64
        A bound on the near columns of every row; the first one's fits.
    out_rows, out_columns, out_scores
        Filled.

    Returns
    -------
    done, kept : int
        How many rows were walked, and how many candidates they gave.
    """
    score, sums = np.empty(1), np.empty(walks[0].size)
    bits = score.view(np.int64)
    multiplier, scale, far_left, far_right = form
    unrestricted = rule[2].all() and rule[3].all()
    # No rounding lifts a score from below this one to the bound.
    surely_below = bound - 1e-11 * abs(bound)
    kept = 0
    for i in range(rows.size):
        if kept + room[i] > out_scores.size:
            return i, kept
        u = np.int64(walks[3][rows[i]])
        above = rows[i] if upper else _ALL
        work = _near_candidates(
            u, walks, work, steps, above, rule, unrestricted, keys, sums
        )
        touched, count = work[2], work[4]
        left = far_left[u]
        for j in range(count):
            v = touched[j]
            exact = multiplier * sums[j] + scale * (left * far_right[v])
            if exact < surely_below:
                continue
            score[0] = exact
            bits[0] = (bits[0] + HALF) & KEPT
            if score[0] >= bound:
                out_rows[kept] = rows[i]
                out_columns[kept] = walks[4][v]
                out_scores[kept] = score[0]
                kept += 1
    return rows.size, kept


@kernel()
def pick_walks(pairs, walks, work, back, steps, form, out):
    """Fill ``out`` with the scores of the near ones among given pairs.

    The last step of a walk is taken back from the column wherever that is cheaper, in
    the order in which the row would take it. Other entries stay as they are.

    Parameters
    ----------
    pairs : (p, 2) int64
        Sites; those of one row follow each other.
    walks, work, steps, form
        As for :func:`count_walks`.
    back : (heads, ends, data)
        The transpose of A, likewise.
    out : (p,) float64
        Changed in place.
    """
    n = walks[0].size - 1
    incoming = np.zeros(n)
    score = np.empty(1)
    bits = score.view(np.int64)
    multiplier, scale, far_left, far_right = form
    start = 0
    while start < pairs.shape[0]:
        u, stop = pairs[start, 0], start
        while stop < pairs.shape[0] and pairs[stop, 0] == u:
            stop += 1
        work = walk_from(u, walks, _NONE, steps - 1, _ALL, work)
        whole = _walks_above(walks, work, _ALL) < _gathering_cost(
            pairs[start:stop], back, work
        )
        if whole:
            work = walk_from(u, walks, steps - 1, steps, _ALL, work)
        for p in range(start, stop):
            v = pairs[p, 1]
            if whole:
                weight = work[0][v]
            else:
                weight = _gather(v, walks[0], back, steps, work, incoming)
            if weight > 0.0 and u != v:
                score[0] = multiplier * weight + scale * (far_left[u] * far_right[v])
                bits[0] = (bits[0] + HALF) & KEPT
                out[p] = score[0]
        values, _, touched, _, count = work
        for j in range(count):
            values[touched[j]] = 0.0
        start = stop


@kernel()
def _walks_above(walks, work, above):
    """Bound the entries above a node that one more step would visit.

    The ends of all lists are read at once, before any of them is walked: that takes a
    fraction of the time that the same reads take one after the other.
    """
    heads, ends, _, _, _ = walks
    total = 0
    for j in range(work[4]):
        k = work[2][j]
        start, stop = heads[k]["start"], heads[k + 1]["start"]
        if stop > start:
            total += (stop - start) * (ends[stop - 1, 1] > above)
    return total


@kernel()
def _gathering_cost(pairs, back, work):
    """Return how many entries gathering all columns would visit."""
    total = 0
    for p in range(pairs.shape[0]):
        v = pairs[p, 1]
        total += work[4] + 2 * (back[0][v + 1]["start"] - back[0][v]["start"])
    return total


@kernel()
def _gather(v, heads, back, steps, work, incoming):
    """Return the weight of the walks of a row that end at a column.

    The sum runs over the last nodes before it in the order of the row's list.
    """
    firsts, ends, data = back
    values, _, touched, _, count = work
    start, stop = firsts[v]["start"], firsts[v + 1]["start"]
    stride = np.int64(data.size > 1)
    for slot in range(start, stop):
        incoming[ends[slot, 0]] = data[slot * stride]
    total = 0.0
    for j in range(count):
        k = touched[j]
        if incoming[k] != 0.0:
            value = values[k] if steps == 1 else values[k] * heads[k]["factor"]
            total = total + value * incoming[k]
    for slot in range(start, stop):
        incoming[ends[slot, 0]] = 0.0
    return total


@kernel()
def take_out_classes(class_counts, scale, lefts, rights, table, bins):
    """Take the pairs of two classes of nodes out of the bins of their scores."""
    score = np.empty(1)
    bits = score.view(np.int64)
    for i in range(lefts.size):
        for j in range(rights.size):
            if class_counts[i, j]:
                score[0] = scale * (lefts[i] * rights[j])
                bins[bin_of(score[0], bits[0], table)] -= class_counts[i, j]
