"""Rank counts as Parquet files, so that nobody has to count again.

A file says which split was ranked. One that another version wrote, or that belongs to
another split, is left aside: counts can always be made again.
"""

from __future__ import annotations

import io
import logging
from pathlib import Path

import numpy as np
import polars as pl
from polars.exceptions import PolarsError

from gelato.io import write_bytes_atomic
from gelato.ranking.counts import RankCounts

logger = logging.getLogger(__name__)

FORMAT, FORMAT_VERSION = "gelato-rank-counts", 1
_COLUMNS = {
    "score": pl.Float64,
    "positives": pl.Int64,
    "above": pl.Int64,
    "tied": pl.Int64,
}


def write_counts(path: Path, counts: RankCounts, split: str) -> None:
    """Write counts to a file that appears whole or not at all.

    Parameters
    ----------
    path : Path
    counts : RankCounts
    split : str
        Fingerprint of the split whose edges were ranked.
    """
    columns = (counts.scores, counts.positives, counts.above, counts.tied)
    frame = pl.DataFrame(
        dict(zip(_COLUMNS, columns, strict=True)), schema_overrides=_COLUMNS
    )
    header = {
        "format": FORMAT,
        "version": str(FORMAT_VERSION),
        "split": split,
        "num_negatives": str(counts.num_negatives),
    }
    buffer = io.BytesIO()
    frame.write_parquet(buffer, metadata=header)
    write_bytes_atomic(path, buffer.getvalue())


def read_counts(path: Path, split: str) -> RankCounts | None:
    """Return the counts of a file, or None if it is of no use for a split."""
    try:
        header = pl.read_parquet_metadata(path)
        frame = pl.read_parquet(path)
    except (OSError, PolarsError) as error:
        logger.info("%s cannot be read: %s", path, error)
        return None
    expected = {"format": FORMAT, "version": str(FORMAT_VERSION), "split": split}
    fits = all(header.get(name) == value for name, value in expected.items())
    negatives = header.get("num_negatives", "")
    if not fits or not negatives.isdecimal() or dict(frame.schema) != _COLUMNS:
        logger.info("%s is of another version or split", path)
        return None
    columns = {name: frame[name].to_numpy() for name in _COLUMNS}
    return RankCounts(
        scores=columns["score"].astype(np.float64),
        positives=columns["positives"].astype(np.int64),
        above=columns["above"].astype(np.int64),
        tied=columns["tied"].astype(np.int64),
        num_negatives=int(negatives),
    )
