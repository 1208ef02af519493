"""Returns, crossings and traces of learned walks, with gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gelato.kernels.chunks import balanced_chunks, run_chunks
from gelato.kernels.subgraphs import Packed
from gelato.kernels.walk_gradients import follow_packed, unfollow_packed
from gelato.kernels.walk_profiles import POWERS


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


class _WalkSums(torch.autograd.Function):
    """Sums of walks on packed subgraphs, of entries ``(channels, e)``."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, packed: Packed) -> Tensor:
        out = values.new_empty(len(packed.start) - 1, len(values), 3, POWERS)
        _by_chunks(packed, follow_packed, (values,), out)
        ctx.packed = packed
        ctx.save_for_backward(values)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (values,) = ctx.saved_tensors
        out = torch.empty_like(values)
        _by_chunks(ctx.packed, unfollow_packed, (values, gradient.contiguous()), out)
        return out, None


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
    found: Tensor = _WalkSums.apply(  # type: ignore[no-untyped-call]
        values.T.contiguous(), packed
    )
    return found


def _by_chunks(
    packed: Packed, kernel: Any, given: tuple[Tensor, ...], out: Tensor
) -> None:
    """Run a kernel on chunks of subgraphs that cost about the same."""
    csr = packed.start, packed.rows, packed.columns
    arrays, found = [tensor.detach().numpy() for tensor in given], out.numpy()
    entries = np.diff(packed.rows[packed.start])
    bounds = balanced_chunks(entries * np.diff(packed.start).astype(np.float64))

    def work(chunk: int) -> None:
        kernel(csr, *arrays, bounds[chunk], bounds[chunk + 1], found)

    run_chunks(work, len(bounds) - 1)
