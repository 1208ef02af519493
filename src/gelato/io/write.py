"""Tables and graphs into csv, tsv, Parquet, json and jsonl files."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import scipy.sparse as sp

from gelato.errors import GelatoError, OutputError, UsageError
from gelato.graph import Graph
from gelato.io.delimited import guarded
from gelato.io.tables import read_table

if TYPE_CHECKING:
    import polars as pl


def write_bytes_atomic(path: str | os.PathLike[str], data: bytes) -> Path:
    """Write bytes to a file, completely or not at all.

    Raises
    ------
    OutputError
        With the path and the reason; nothing half-written is left behind.
    """
    return write_file_atomic(path, lambda file: file.write(data))


def write_file_atomic(
    path: str | os.PathLike[str], write: Callable[[BinaryIO], object]
) -> Path:
    """Let something write to a file, completely or not at all.

    For what should never be in memory as a whole; else see
    :func:`write_bytes_atomic`.
    """
    try:
        target = Path(path).resolve()  # a link keeps pointing to the written file
        _refuse_unwritable(target, path)
        _replace(target, write)
    except (OSError, ValueError) as error:
        if isinstance(error, OutputError):
            raise
        reason = getattr(error, "strerror", None) or str(error)
        raise OutputError(
            f"{path} cannot be written: {reason}.",
            hint="Choose another place, or check its rights and free space.",
        ) from error
    return Path(path)


def write_text_atomic(path: str | os.PathLike[str], text: str) -> Path:
    """Write UTF-8 text to a file, completely or not at all."""
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise OutputError(
            f"{path} cannot be written: the text holds {error.object[error.start]!r}, "
            "which is no character.",
            hint="Fix the ids or names that it comes from.",
        ) from None
    return write_bytes_atomic(path, data)


def _refuse_unwritable(target: Path, path: str | os.PathLike[str]) -> None:
    if target.is_dir():
        raise OutputError(
            f"{path} is a directory.", hint="Name a file inside it, with a suffix."
        )
    if not target.parent.is_dir():
        raise OutputError(
            f"{path} cannot be written: there is no folder {target.parent}.",
            hint="Create the folder first.",
        )
    if target.exists() and not target.is_file():
        raise OutputError(f"{path} is not a file.", hint="Name a file.")
    if target.exists() and not os.access(target, os.W_OK):
        raise OutputError(
            f"{path} is write-protected.", hint="Choose another name or change it."
        )


def _replace(target: Path, write: Callable[[BinaryIO], object]) -> None:
    # Not tempfile: its files are private, while a result should follow the umask.
    name = f".{target.name[:100]}.{secrets.token_hex(6)}.tmp"
    temporary = target.with_name(name)
    try:
        with temporary.open("xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, temporary)
        temporary.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def write_table(table: Any, path: str | os.PathLike[str]) -> Path:
    """Write a table in the format of the suffix, completely or not at all.

    Parameters
    ----------
    table : polars or pandas frame, or mapping of columns
        Values that no file format knows (tuples, mixed types) are written as text.
    path : path
        With the suffix .csv, .tsv, .parquet, .json (a list of records) or .jsonl.

    Returns
    -------
    Path
        The file written.

    Notes
    -----
    In csv and tsv, text cells that start with ``= + - @``, tab or carriage return get
    a leading apostrophe, so that no spreadsheet runs an id as a formula;
    :func:`read_graph` and :func:`read_pairs` take it away again. Numbers stay as they
    are. A csv file keeps no types: ids "1", "2" come back as numbers. Parquet does.

    Raises
    ------
    OutputError
        If the file cannot be written.
    UsageError
        If the suffix is not known.
    """
    suffix = Path(path).suffix.lower()
    writer = _WRITERS.get(suffix)
    if writer is None:
        raise UsageError(
            f"{path}: the suffix {suffix!r} is not known.",
            hint=f"Choose one of: {', '.join(_WRITERS)}.",
        )
    frame = _plain_frame(table)

    def write(file: BinaryIO) -> None:
        try:
            writer(frame, file)
        except GelatoError:
            raise
        except Exception as error:  # whatever a serialiser finds wrong
            _refuse_system_error(error)
            raise OutputError(
                f"{path} cannot be written: {error}.", hint="Check the table's columns."
            ) from error

    return write_file_atomic(path, write)


def _refuse_system_error(error: Exception) -> None:
    """Raise what the system said, a full disk for one, where polars reworded it."""
    found = re.search(r"os error (\d+)", str(error))
    if found is not None:
        number = int(found[1])
        raise OSError(number, os.strerror(number)) from error
    if isinstance(error, OSError):
        raise error


def _plain_frame(table: Any) -> pl.DataFrame:
    """Return a polars frame without columns of Python objects."""
    import polars as pl

    frame = read_table(table, "the table").frame
    objects = [
        pl.Series(
            column.name,
            [None if value is None else str(value) for value in column.to_list()],
            dtype=pl.String,
        )
        for column in frame.iter_columns()
        if column.dtype == pl.Object
    ]
    return frame.with_columns(objects)


def _delimited(frame: pl.DataFrame, file: BinaryIO, separator: str) -> None:
    import polars as pl

    lists = [
        pl.col(name).cast(pl.List(pl.String)).list.join(";")
        for name, dtype in frame.schema.items()
        if isinstance(dtype, pl.List)
    ]
    safe = guarded(frame.with_columns(lists))
    safe = safe.rename(dict(zip(safe.columns, _guarded_names(safe), strict=True)))
    safe.write_csv(file, separator=separator)


def _guarded_names(frame: pl.DataFrame) -> list[str]:
    import polars as pl

    names: list[str] = (
        guarded(pl.DataFrame({"name": frame.columns}, schema={"name": pl.String}))
        .to_series()
        .to_list()
    )
    return names


_WRITERS: Mapping[str, Callable[[pl.DataFrame, Any], None]] = {
    ".csv": lambda frame, file: _delimited(frame, file, ","),
    ".tsv": lambda frame, file: _delimited(frame, file, "\t"),
    ".parquet": lambda frame, file: frame.write_parquet(file),
    ".json": lambda frame, file: frame.write_json(file),
    ".jsonl": lambda frame, file: frame.write_ndjson(file),
}


def to_frame(graph: Graph) -> pl.DataFrame:
    """Return the edges as a polars frame: source, target, and weight, time if any.

    Examples
    --------
    >>> to_frame(Graph.from_edges([("a", "b")])).rows()
    [('a', 'b')]
    """
    import polars as pl

    ids = graph.node_ids
    columns = {"source": ids[graph.edges[:, 0]], "target": ids[graph.edges[:, 1]]}
    series = [id_series(name, values) for name, values in columns.items()]
    if graph.weights is not None:
        series.append(pl.Series("weight", graph.weights))
    if graph.times is not None:
        series.append(pl.Series("time", graph.times))
    return pl.DataFrame(series)


def id_series(name: str, values: np.ndarray[Any, Any]) -> pl.Series:
    """Return ids as a series of numbers or text, or of Python objects if mixed."""
    import polars as pl

    if values.dtype.kind in "iu":
        return pl.Series(name, values)
    listed = values.tolist()
    if all(type(value) is str for value in listed):
        return pl.Series(name, listed, dtype=pl.String)
    if listed and all(type(value) is float for value in listed):
        return pl.Series(name, listed, dtype=pl.Float64)
    return pl.Series(name, listed, dtype=pl.Object)


def write_graph(
    graph: Graph,
    path_edges: str | os.PathLike[str],
    path_attributes: str | os.PathLike[str] | None = None,
) -> None:
    """Write the edges and, if asked, one row per node with its attributes.

    The attribute file also keeps nodes without edges, and labels in a column
    ``label``: read them back with ``labels="label"``. Whether the graph is directed is
    not stored. Use :func:`write_npz` for everything in one file.

    Parameters
    ----------
    graph : Graph
        The graph to write.
    path_edges, path_attributes : path
        Files as for :func:`write_table`.
    """
    write_table(to_frame(graph), path_edges)
    if path_attributes is not None:
        write_table(_node_frame(graph), path_attributes)


def _node_frame(graph: Graph) -> pl.DataFrame:
    import polars as pl

    series = [id_series("id", graph.node_ids)]
    taken = {"id", "label"}
    if graph.labels is not None:
        series.append(pl.Series("label", graph.labels))
    attributes = graph.attributes
    if attributes is None:
        return pl.DataFrame(series)
    if sp.issparse(attributes):
        attributes = attributes.tocsc()
    names = graph.attribute_names or [f"x{k}" for k in range(graph.num_attributes)]
    for k, name in enumerate(names):
        unique = name
        while unique in taken:
            unique += "_"
        taken.add(unique)
        column = attributes[:, [k]]
        values = column.toarray() if sp.issparse(column) else column
        series.append(pl.Series(unique, np.ascontiguousarray(values.ravel())))
    return pl.DataFrame(series)
