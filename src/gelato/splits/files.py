"""Splits as Parquet files: pairs and parts as columns, the rest as metadata.

A file says which graph it belongs to and which version wrote it, so that a split
is never applied, unnoticed, to nodes that it was not made for.
"""

from __future__ import annotations

import hashlib
import io
from pathlib import Path

import numpy as np
import polars as pl
from polars.exceptions import PolarsError

from gelato.errors import InputError, StoredFileError
from gelato.graph import Graph, IntArray
from gelato.io import write_bytes_atomic
from gelato.splits.pairs import PARTS, Part

FORMAT = "gelato-split"
FORMAT_VERSION = 1
_FIELDS = (
    "fingerprint",
    "kind",
    "seed",
    "num_nodes",
    "num_edges",
    "directed",
    "node_ids",
)
_COLUMNS = {"source": pl.Int64, "target": pl.Int64, "part": pl.String}


def describe_graph(graph: Graph) -> dict[str, str]:
    """Return what a split's file records of its graph: size, kind and node ids."""
    ids = "\n".join(map(repr, graph.node_ids.tolist()))
    return {
        "num_nodes": str(graph.num_nodes),
        "num_edges": str(graph.num_edges),
        "directed": str(graph.directed).lower(),
        "node_ids": hashlib.sha256(ids.encode()).hexdigest()[:16],
    }


def write_parts(
    path: Path, parts: dict[Part, IntArray], metadata: dict[str, str]
) -> None:
    """Write the parts to a file that appears whole or not at all."""
    pairs = np.concatenate([parts[part] for part in PARTS])
    names = [part for part in PARTS for _ in range(len(parts[part]))]
    columns = {"source": pairs[:, 0], "target": pairs[:, 1], "part": names}
    frame = pl.DataFrame(columns, schema=_COLUMNS)
    header = {"format": FORMAT, "version": str(FORMAT_VERSION), **metadata}
    buffer = io.BytesIO()
    frame.write_parquet(buffer, metadata=header)
    write_bytes_atomic(path, buffer.getvalue())


def read_parts(path: Path) -> tuple[dict[Part, IntArray], dict[str, str]]:
    """Return the parts and the metadata of a file, or raise naming what is wrong."""
    if not path.is_file():
        raise InputError(f"There is no split file {path}.")
    try:
        metadata = pl.read_parquet_metadata(path)
        frame = pl.read_parquet(path)
    except (OSError, PolarsError) as error:
        raise stored_error(path, f"cannot be read as Parquet: {error}.") from error
    _check_header(path, metadata)
    if dict(frame.schema) != _COLUMNS or frame.null_count().sum_horizontal().item():
        raise stored_error(path, f"has other columns than {', '.join(_COLUMNS)}.")
    foreign = set(frame["part"].unique()) - set(PARTS)
    if foreign:
        raise stored_error(path, f"names the unknown part {min(foreign)!r}.")
    parts: dict[Part, IntArray] = {}
    for part in PARTS:
        rows = frame.filter(pl.col("part") == part)
        parts[part] = np.column_stack([rows["source"], rows["target"]])
    return parts, metadata


def refuse_other_graph(path: Path, metadata: dict[str, str], graph: Graph) -> None:
    """Raise unless the file was written for a graph of this size, kind and ids."""
    ours = describe_graph(graph)
    phrases = {
        "num_nodes": "{} nodes",
        "directed": "directed = {}",
        "node_ids": "node ids of hash {}",
    }
    if metadata["kind"] != "given":  # its missing edges are added
        phrases["num_edges"] = "{} edges"
    for name, phrase in phrases.items():
        if metadata[name] != ours[name]:
            raise stored_error(
                path,
                f"was made for a graph with {phrase.format(metadata[name])}; this "
                f"one has {phrase.format(ours[name])}.",
            )


def stored_error(path: Path, reason: str) -> StoredFileError:
    """Return the error that says why a stored split is of no use."""
    return StoredFileError(
        f"The split {path} {reason}",
        hint="Give the graph that it was made of, or make the split again.",
    )


def _check_header(path: Path, metadata: dict[str, str]) -> None:
    if metadata.get("format") != FORMAT:
        raise stored_error(path, "was not written by EdgeSplit.save.")
    version = metadata.get("version", "")
    if version != str(FORMAT_VERSION):
        raise stored_error(
            path,
            f"has format version {version or 'unknown'}; this program reads version "
            f"{FORMAT_VERSION}.",
        )
    missing = [name for name in _FIELDS if name not in metadata]
    if missing:
        raise stored_error(path, f"lacks the metadata {', '.join(missing)}.")
