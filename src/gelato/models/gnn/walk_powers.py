"""Returns, crossings and traces of learned walks, with gradients.

Subgraphs of about the same size go through batched products together: sizes are
rounded up to multiples of 16, and what is added is 0 throughout.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from gelato.graph import IntArray
from gelato.kernels.subgraphs import Packed
from gelato.kernels.walk_profiles import POWERS

_ROUND = 16


def row_softmax(scores: Tensor, rows: Tensor, count: int, without: Tensor) -> Tensor:
    """Return the softmax of scores over the entries of each row.

    Parameters
    ----------
    scores : (e, heads) Tensor
        One row of numbers per entry.
    rows : (e,) int64 Tensor
        The row of each entry.
    count : int
        Number of rows.
    without : (k,) int64 Tensor
        Entries that are masked; a row of none but these is 0.
    """
    masked = scores.index_fill(0, without, -torch.inf)
    top = masked.new_full((count, scores.shape[1]), -torch.inf)
    index = rows[:, None].expand_as(scores)
    top = top.scatter_reduce(0, index, masked.detach(), "amax").nan_to_num(neginf=0.0)
    terms = (masked - top.index_select(0, rows)).exp()
    sums = terms.new_zeros(top.shape).index_add(0, rows, terms)
    return terms / sums.index_select(0, rows).clamp_min(1e-16)


def walk_sums(packed: Packed, values: Tensor) -> Tensor:
    """Return returns, crossings and traces of walks of 2 to 8 steps.

    Parameters
    ----------
    packed : Packed
        Subgraphs whose rows are the targets of steps.
    values : (e, channels) Tensor
        Entries of the matrix of each channel.

    Returns
    -------
    (p, channels, 3, POWERS) Tensor
        By pair and channel.
    """
    sizes = np.diff(packed.start)
    rounded = -(-sizes // _ROUND) * _ROUND
    channels = values.shape[1]
    entry_rows = np.repeat(np.arange(len(packed.nodes)), np.diff(packed.rows))
    owners = packed.owners
    parts, order = [], []
    for size in np.unique(rounded):
        pairs = np.flatnonzero(rounded == size)
        entries = np.flatnonzero(rounded[owners[entry_rows]] == size)
        cells = _cells(packed, pairs, entry_rows[entries], entries, int(size))
        chosen = values.index_select(0, torch.from_numpy(entries))
        flat = chosen.new_zeros(len(pairs) * int(size) ** 2, channels)
        flat = flat.index_copy(0, torch.from_numpy(cells), chosen)
        matrices = flat.T.reshape(channels * len(pairs), int(size), int(size))
        found = _sums(matrices).view(channels, len(pairs), 3, POWERS)
        parts.append(found.transpose(0, 1))
        order.append(pairs)
    back = np.argsort(np.concatenate(order))
    return torch.cat(parts).index_select(0, torch.from_numpy(back))


def _cells(
    packed: Packed, pairs: IntArray, rows: IntArray, entries: IntArray, size: int
) -> IntArray:
    """Return where entries lie in matrices of one size, one after another."""
    place = np.zeros(len(packed.start) - 1, np.int64)
    place[pairs] = np.arange(len(pairs))
    owner = packed.owners[rows]
    start = packed.start[owner]
    cells: IntArray = (place[owner] * size + rows - start) * size
    return cells + packed.columns[entries] - start


def _sums(one: Tensor) -> Tensor:
    """Return ``(b, 3, POWERS)`` of matrices ``(b, s, s)``, by three products."""
    two = torch.bmm(one, one)
    three, four = torch.bmm(two, one), torch.bmm(two, two)
    corners = [power[:, :2, :2] for power in (two, three, four)]
    traces = [power.diagonal(dim1=1, dim2=2).sum(dim=1) for power in (two, three, four)]
    for a, b in ((one, four), (three, three), (three, four), (four, four)):
        corners.append(torch.bmm(a[:, :2, :], b[:, :, :2]))
        traces.append((a * b.transpose(1, 2)).sum(dim=(1, 2)))
    corner = torch.stack(corners, dim=1)
    back = corner[:, :, 0, 0] + corner[:, :, 1, 1]
    across = corner[:, :, 0, 1] + corner[:, :, 1, 0]
    return torch.stack([back, across, torch.stack(traces, dim=1)], dim=1)
