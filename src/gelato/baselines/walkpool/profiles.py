"""WalkPool's profiles of pairs: learned walks with and without the pair's own edge.

A walk of several steps is followed on one subgraph at a time. Its matrix R (rows are
targets and sum to 1; the transpose of the paper's P) has few entries per row, so that
R^2, R^3 and R^4 are three products of sparse rows with dense ones. All that is asked of
R^5 .. R^8 are traces and four entries: those of R, R^2, R^3 and R^4 times R^4.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np

from gelato.baselines.shared_layers.subgraphs import PUT_IN, forget, gather, induce
from gelato.kernels.compiled import kernel
from gelato.kernels.tiles import rows_times

HEADS, POWERS = 2, 7
"""Attention heads, and lengths of walks: 2 to 8 steps."""
PER_HEAD = 5 * POWERS + 1
"""Numbers per head: returns and crossings with and without the pair's own edge, what
the edge adds to all returns, each by length; and the pair's own attention."""
SLOPE = 0.2
"""Of the leaky activation."""
# Pairs whose classifier runs at once: a multiple of a tile's rows.
_GROUP = 48
# Rows and columns of a block of a matrix that is transposed.
_BLOCK = 16
_FAST = {"reassoc", "contract"}  # sums by vectors, always in the same order


@kernel(fastmath=_FAST)
def _dot(a, b):
    total = np.float32(0.0)
    for k in range(a.size):
        total += a[k] * b[k]
    return total


@kernel()
def _turn(a, out):
    """Write the transpose, by blocks that stay in the cache."""
    count = a.shape[0]
    for top in range(0, count, _BLOCK):
        for left in range(0, count, _BLOCK):
            for j in range(left, min(left + _BLOCK, count)):
                for i in range(top, min(top + _BLOCK, count)):
                    out[j, i] = a[i, j]


@kernel()
def step(rows, columns, values, right, out):
    """Write ``R @ right``."""
    for i in range(out.shape[0]):
        for k in range(out.shape[1]):
            out[i, k] = np.float32(0.0)
        for slot in range(rows[i], rows[i + 1]):
            value, source = values[slot], columns[slot]
            for k in range(out.shape[1]):
                out[i, k] += value * right[source, k]


@kernel()
def _square(rows, columns, values, out):
    """Write ``R @ R``."""
    for i in range(out.shape[0]):
        for k in range(out.shape[1]):
            out[i, k] = np.float32(0.0)
        for slot in range(rows[i], rows[i + 1]):
            j = columns[slot]
            for other in range(rows[j], rows[j + 1]):
                out[i, columns[other]] += values[slot] * values[other]


@kernel()
def follow(rows, columns, values, flat, out):
    """Write returns, crossings and traces of R^2 .. R^8, ``(3, POWERS)``.

    Parameters
    ----------
    rows, columns, values
        CSR of R, the ends of the pair at 0 and 1.
    flat : (4, any) float32
        Room for four matrices of the size of R.
    out : (3, POWERS) float32
        By length of the walk.
    """
    count = rows.size - 1
    size = count * count
    two = flat[0, :size].reshape(count, count)
    three = flat[1, :size].reshape(count, count)
    four = flat[2, :size].reshape(count, count)
    turned = flat[3, :size].reshape(count, count)
    _square(rows, columns, values, two)
    step(rows, columns, values, two, three)
    step(rows, columns, values, three, four)
    _turn(four, turned)
    for place, power in enumerate((two, three, four)):
        out[0, place] = power[0, 0] + power[1, 1]
        out[1, place] = power[0, 1] + power[1, 0]
        total = np.float32(0.0)
        for i in range(count):
            total += power[i, i]
        out[2, place] = total
        out[0, 4 + place] = _dot(power[0], turned[0]) + _dot(power[1], turned[1])
        out[1, 4 + place] = _dot(power[0], turned[1]) + _dot(power[1], turned[0])
        total = np.float32(0.0)
        for i in range(count):
            total += _dot(power[i], turned[i])
        out[2, 4 + place] = total
    back = across = total = np.float32(0.0)
    for i in range(count):
        for slot in range(rows[i], rows[i + 1]):
            value, source = values[slot], columns[slot]
            total += value * four[source, i]
            if i < 2:
                back += value * four[source, i]
                across += value * four[source, 1 - i]
    out[0, 3], out[1, 3], out[2, 3] = back, across, total


@kernel()
def _average(count, rows, columns, scale, y, out):
    """Write averages over neighbours and the node itself."""
    for i in range(count):
        for k in range(y.shape[1]):
            out[i, k] = scale[i] * y[i, k]
        for slot in range(rows[i], rows[i + 1]):
            j = columns[slot]
            for k in range(y.shape[1]):
                out[i, k] += scale[j] * y[j, k]
        for k in range(y.shape[1]):
            out[i, k] *= scale[i]


@kernel()
def _convolve(count, nodes, rows, columns, net, work):
    """Fill the outputs of both graph convolutions."""
    first, _, _, second, biases = net[:5]
    y, one, two, scale = work[:4]
    for i in range(count):
        scale[i] = np.float32(1.0) / np.sqrt(np.float32(rows[i + 1] - rows[i] + 1))
        for k in range(y.shape[1]):
            y[i, k] = first[nodes[i], k]
    _average(count, rows, columns, scale, y, one)
    for i in range(count):
        for k in range(y.shape[1]):
            one[i, k] += biases[0, k]
            two[i, k] = max(one[i, k], np.float32(0.0))
    rows_times(two, second, y, 0, count)
    _average(count, rows, columns, scale, y, two)
    for i in range(count):
        for k in range(y.shape[1]):
            two[i, k] += biases[1, k]


@kernel()
def _attend(count, nodes, side, net, work):
    """Fill queries (side 0) or keys (side 1) of the nodes."""
    of_nodes, inner, outer, biases = net[1:3][side], net[5], net[6], net[7]
    y, one, two, _, part, sides = work
    rows_times(one, inner[side, 0], y, 0, count)
    rows_times(two, inner[side, 1], part, 0, count)
    for i in range(count):
        for k in range(y.shape[1]):
            value = y[i, k] + part[i, k] + of_nodes[nodes[i], k]
            leaky = np.float32(SLOPE) * value
            y[i, k] = value if value > np.float32(0.0) else leaky
    rows_times(y, outer[side], sides[side], 0, count)
    for i in range(count):
        for k in range(sides.shape[2]):
            sides[side, i, k] += biases[side, k]


@kernel()
def _normalise(count, rows, scores, joined, values):
    """Write the softmax of every row; without the pair's own edge if not ``joined``."""
    for i in range(count):
        first = rows[i] + (1 if i < 2 and not joined else 0)
        if first > rows[i]:
            values[rows[i]] = np.float32(0.0)
        top = -np.inf
        for slot in range(first, rows[i + 1]):
            top = max(top, scores[slot])
        total = 0.0
        for slot in range(first, rows[i + 1]):
            total += np.exp(scores[slot] - top)
        for slot in range(first, rows[i + 1]):
            values[slot] = np.float32(np.exp(scores[slot] - top) / total)


@kernel()
def _profile(count, rows, columns, sides, flat, out):
    """Write the profile of a pair, given queries and keys of its nodes."""
    width = sides.shape[2] // HEADS
    scores = np.empty(rows[count], np.float64)
    values = np.empty(rows[count], np.float32)
    found = np.empty((2, 3, POWERS), np.float32)
    for head in range(HEADS):
        own = slice(head * width, (head + 1) * width)
        for j in range(count):
            for slot in range(rows[j], rows[j + 1]):
                product = _dot(sides[0, columns[slot], own], sides[1, j, own])
                scores[slot] = product / np.sqrt(width)
        for graph in range(2):
            _normalise(count, rows, scores, graph == 0, values)
            follow(rows[: count + 1], columns, values, flat, found[graph])
        base = head * PER_HEAD
        for power in range(POWERS):
            for graph in range(2):
                out[base + graph * POWERS + power] = found[graph, 0, power]
                out[base + (2 + graph) * POWERS + power] = found[graph, 1, power]
            out[base + 4 * POWERS + power] = found[0, 2, power] - found[1, 2, power]
        # The pair's own edge is the first entry of both ends' rows.
        out[base + 5 * POWERS] = np.float32(
            1.0 / (1.0 + np.exp(-scores[rows[0]]))
            + 1.0 / (1.0 + np.exp(-scores[rows[1]]))
        )


@kernel()
def _classify(count, profiles, layers, room, out):
    """Write the logits of profiles by linear layers with ReLUs in between."""
    left = profiles
    for layer in range(len(layers)):
        tiles, bias = layers[layer]
        size = _GROUP * bias.size
        right = room[layer % 2, :size].reshape(_GROUP, bias.size)
        rows_times(left, tiles, right, 0, count)
        final = layer == len(layers) - 1
        for p in range(count):
            for k in range(bias.size):
                value = right[p, k] + bias[k]
                right[p, k] = value if final else max(value, np.float32(0.0))
        left = right
    for p in range(count):
        out[p] = left[p, 0]


@kernel()
def _make_work(most, net):
    width = net[0].shape[1]
    return (
        np.empty((most, width), np.float32),
        np.empty((most, width), np.float32),
        np.empty((most, width), np.float32),
        np.empty(most, np.float32),
        np.empty((most, width), np.float32),
        np.empty((2, most, net[7].shape[1]), np.float32),
    )


@kernel()
def score_pairs(pairs, graph, cut, net, layers, out):
    """Write the logits of pairs.

    Parameters
    ----------
    pairs : (p, 2) int64
        Two different nodes each.
    graph : (indptr, indices)
        CSR of the edges, int64 and int32.
    cut : (hops, limit, most)
        How subgraphs are cut out, and a bound on their nodes.
    net : tuple
        Rows of all nodes for the first convolution, for queries and for keys; tiles of
        the second convolution; biases of both; tiles of queries' and keys' inner layer
        by convolution, and of their outer layer; biases of the latter.
    layers : tuple of (tiles, bias)
        Of the classifier.
    out : (p,) float64
        Logits.
    """
    hops, limit, most = cut
    n = graph[0].size - 1
    place, nodes = np.zeros(n, np.int32), np.empty(n, np.int32)
    rows, columns = np.empty(most + 1, np.int64), np.empty(1, np.int32)
    work = _make_work(most, net)
    flat = np.empty((4, most * most), np.float32)
    widest = 1
    for layer in range(len(layers)):
        widest = max(widest, layers[layer][1].size)
    room = np.empty((2, _GROUP * widest), np.float32)
    profiles = np.empty((_GROUP, HEADS * PER_HEAD), np.float32)
    for p in range(pairs.shape[0]):
        nodes[0], nodes[1] = pairs[p]
        count = gather(2, graph, hops, limit, place, nodes)
        columns = induce(count, graph, place, nodes, PUT_IN, rows, columns)
        forget(count, place, nodes)
        _convolve(count, nodes, rows, columns, net, work)
        for side in range(2):
            _attend(count, nodes, side, net, work)
        slot = p % _GROUP
        _profile(count, rows, columns, work[5], flat, profiles[slot])
        if slot == _GROUP - 1 or p == pairs.shape[0] - 1:
            _classify(slot + 1, profiles, layers, room, out[p - slot : p + 1])


_LONGEST = POWERS + 1


@kernel()
def _trace_gradient(rows, columns, values, g, flat):
    """Return the transposed gradient of the traces: the sum of t g_t R^(t-1)."""
    count = rows.size - 1
    size = count * count
    now = flat[0, :size].reshape(count, count)
    then = flat[1, :size].reshape(count, count)
    now[:] = 0
    factor = _LONGEST * g[POWERS - 1]
    for i in range(count):
        for slot in range(rows[i], rows[i + 1]):
            now[i, columns[slot]] = factor * values[slot]
    for length in range(POWERS, 1, -1):
        for i in range(count):
            now[i, i] += length * g[length - 2]
        step(rows, columns, values, now, then)
        now, then = then, now
    return now


@kernel()
def _walks_before(rows, columns, values, end, out):
    """Write the row of one end of R^0 .. R^7."""
    out[:] = 0
    out[0, end] = 1
    for k in range(1, _LONGEST):
        for i in range(rows.size - 1):
            for slot in range(rows[i], rows[i + 1]):
                out[k, columns[slot]] += out[k - 1, i] * values[slot]


@kernel()
def _walks_after(rows, columns, values, end, g, out):
    """Write what follows step 1 .. 8 of walks from one end, times its gradient."""
    out[:] = 0
    for k in range(_LONGEST - 1, -1, -1):
        if k < _LONGEST - 1:
            for i in range(rows.size - 1):
                total = out[k, i]
                for slot in range(rows[i], rows[i + 1]):
                    total += values[slot] * out[k + 1, columns[slot]]
                out[k, i] = total
        if k > 0:  # walks of one step are not summed
            out[k, end] += g[0, k - 1]
            out[k, 1 - end] += g[1, k - 1]


@kernel()
def _unfollow(rows, columns, values, g, flat, room, out):
    """Write the gradient at every entry of R, given that of its sums."""
    count = rows.size - 1
    traces = _trace_gradient(rows, columns, values, g[2], flat)
    for i in range(count):
        for slot in range(rows[i], rows[i + 1]):
            out[slot] = traces[columns[slot], i]
    before, after = room[0, :, :count], room[1, :, :count]
    for end in range(2):
        _walks_before(rows, columns, values, end, before)
        _walks_after(rows, columns, values, end, g, after)
        for i in range(count):
            for slot in range(rows[i], rows[i + 1]):
                j = columns[slot]
                total = out[slot]
                for k in range(_LONGEST):
                    total += before[k, i] * after[k, j]
                out[slot] = total


@kernel()
def _one(packed, pair, rows, columns):
    """Write the CSR of one subgraph with nodes from 0; return its entries' bounds."""
    start, all_rows, all_columns = packed
    first, last = start[pair], start[pair + 1]
    begin, end = all_rows[first], all_rows[last]
    for i in range(last - first + 1):
        rows[i] = all_rows[first + i] - begin
    for slot in range(begin, end):
        columns[slot - begin] = all_columns[slot] - first
    return last - first, begin, end


@kernel()
def _room(packed, first, last):
    """Return room for the largest of some subgraphs: rows, columns, nodes."""
    start, rows, _ = packed
    nodes = entries = 1
    for pair in range(first, last):
        nodes = max(nodes, start[pair + 1] - start[pair])
        entries = max(entries, rows[start[pair + 1]] - rows[start[pair]])
    return np.empty(nodes + 1, np.int64), np.empty(entries, np.int64), nodes


@kernel()
def follow_packed(packed, values, first, last, out):
    """Write returns, crossings and traces of R^2 .. R^8 of some subgraphs.

    Parameters
    ----------
    packed : (start, rows, columns)
        Subgraphs one after another: their first nodes, and the CSR of all.
    values : (channels, e)
        Entries of R, by channel.
    first, last : int
        Which subgraphs.
    out : (p, channels, 3, POWERS)
        By subgraph and channel.
    """
    rows, columns, most = _room(packed, first, last)
    flat = np.empty((4, most * most), values.dtype)
    for pair in range(first, last):
        count, begin, end = _one(packed, pair, rows, columns)
        for channel in range(values.shape[0]):
            own = values[channel, begin:end]
            follow(rows[: count + 1], columns, own, flat, out[pair, channel])


@kernel()
def unfollow_packed(packed, values, gradient, first, last, out):
    """Write the gradients ``(channels, e)`` of entries; see :func:`follow_packed`."""
    rows, columns, most = _room(packed, first, last)
    flat = np.empty((2, most * most), values.dtype)
    room = np.empty((2, _LONGEST, most), values.dtype)
    for pair in range(first, last):
        count, begin, end = _one(packed, pair, rows, columns)
        for channel in range(values.shape[0]):
            own = values[channel, begin:end]
            g = gradient[pair, channel]
            _unfollow(
                rows[: count + 1], columns, own, g, flat, room, out[channel, begin:end]
            )
