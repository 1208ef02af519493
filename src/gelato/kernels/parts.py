"""Cut rows into fixed parts inside fixed chunks, and share the parts among threads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from gelato.kernels.chunks import default_threads, run_chunks

# A part's rows of 128 float32 fill half a second-level cache of 512 KB; the number is
# a multiple of the rows of a matrix tile.
_PART_ROWS = 504
# More shares than threads, so that a thread held up elsewhere does not hold up all.
_SHARES_PER_THREAD = 3


@dataclass(frozen=True)
class Parts:
    """Rows ``start[p]..start[p + 1] - 1`` make part p, which lies in ``chunk[p]``."""

    start: npt.NDArray[np.int64]
    chunk: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]
    """Rows of each chunk."""

    @classmethod
    def cut(cls, rows: int, chunk_rows: int) -> Parts:
        """Cut rows into chunks and those into parts.

        A last chunk of a single row joins the one before it: one row has no variance.

        Examples
        --------
        >>> Parts.cut(7, 3).sizes.tolist()
        [3, 4]
        """
        bounds = [*range(0, rows, chunk_rows), rows]
        if len(bounds) > 2 and bounds[-1] - bounds[-2] == 1:
            del bounds[-2]
        start, chunk = [0], []
        for index, (low, high) in enumerate(pairwise(bounds)):
            cuts = [*range(low + _PART_ROWS, high, _PART_ROWS), high]
            start.extend(cuts)
            chunk.extend([index] * len(cuts))
        return cls(
            np.array(start, dtype=np.int64),
            np.array(chunk, dtype=np.int64),
            np.diff(bounds).astype(np.int64),
        )

    def __len__(self) -> int:
        return len(self.chunk)

    def by_chunk(self, sums: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Add up the parts' sums (first axis) chunk by chunk, in order."""
        total = np.zeros((len(self.sizes), *sums.shape[1:]))
        np.add.at(total, self.chunk, sums)
        return total


def run_shares(
    work: Callable[[int, int], object], count: int, threads: int | None = None
) -> None:
    """Call ``work(start, stop)`` on shares of ``0..count-1`` until all are done.

    Parameters
    ----------
    work : callable
        Handles ``start..stop-1`` and writes only to places that belong to them, so
        that the result does not depend on the shares.
    count : int
        Number of things to do.
    threads : int, optional
        How many threads; default: all that the process may use.
    """
    if count == 0:
        return
    threads = default_threads() if threads is None else threads
    shares = 1 if threads <= 1 else min(count, threads * _SHARES_PER_THREAD)
    bounds = [count * i // shares for i in range(shares + 1)]

    def task(share: int) -> None:
        work(bounds[share], bounds[share + 1])

    run_chunks(task, shares, threads)
