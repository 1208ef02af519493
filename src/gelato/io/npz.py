"""Graphs as npz files: one compressed file, numbers only, every array checked.

Required: ``edge_index`` (2, m) and ``num_nodes``. Optional: ``attr_data``,
``attr_indices``, ``attr_indptr``, ``attr_shape`` (CSR, float32), ``labels``; and,
beyond the benchmark files, ``weights``, ``times``, ``ids``, ``directed``,
``attribute_names``, ``attr_dense`` (whether the attributes were an array), ``sides``,
``ends``, ``notes`` and ``reading`` (how the graph was read, as JSON).
"""

from __future__ import annotations

import io
import json
import os
import struct
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from gelato.errors import InputError, OutputError
from gelato.graph import Graph, is_canonical
from gelato.io.delimited import read_bytes
from gelato.io.write import write_file_atomic

Arrays = dict[str, np.ndarray[Any, Any]]
_CSR = ("attr_data", "attr_indices", "attr_indptr", "attr_shape")


def read_npz(path: str | os.PathLike[str]) -> Graph:
    """Read a graph from an npz file.

    Raises
    ------
    InputError
        If the file is damaged, lacks an array, or an array is not what it should be.
    """
    file = Path(path)
    arrays = _load(file)
    for name in ("edge_index", "num_nodes"):
        if name not in arrays:
            raise _wrong(file, f"there is no array {name!r}")
    num_nodes = _scalar(arrays, "num_nodes", file)
    edges = _integers(arrays, "edge_index", file)
    if edges.ndim != 2 or edges.shape[0] != 2:
        raise _wrong(file, f"edge_index has shape {edges.shape}, not (2, m)")
    flag = _scalar(arrays, "directed", file) if "directed" in arrays else 0
    per_edge = {
        name: _per_row(arrays, name, edges.shape[1], file)
        for name in ("weights", "times")
    }
    # Edges that a graph wrote need no merging, and no second copy.
    ready = _ready(edges.T, num_nodes, per_edge, directed=bool(flag))
    given = {"edges": edges.T, **per_edge}
    try:
        graph = Graph.from_indices(
            num_nodes,
            **(given if ready is None else {"edges": ()}),
            attributes=_attributes(arrays, num_nodes, file),
            ids=_ids(arrays, num_nodes, file),
            directed=bool(flag),
            labels=_labels(arrays, num_nodes, file),
            attribute_names=_listed(arrays, "attribute_names", file),
            notes=_listed(arrays, "notes", file) or (),
        )
        sides, ends = _sides(arrays, num_nodes, file), arrays.get("ends")
        if "across" in arrays and sides is not None:  # as it was written once
            ends = np.stack([sides == 0, sides == 1])
        if ends is not None and ends.dtype != bool:
            raise _wrong(file, "ends is not an array of truth values")
        more: dict[str, Any] = {"sides": sides, "ends": ends}
        more |= {"reading": _reading(arrays, file)} | (ready or {})
        return replace(graph, **more)
    except InputError as error:
        if str(file) in error.problem:
            raise
        raise InputError(f"{file}: {error.problem}", hint=error.hint) from error


def npz_bytes(path: Path) -> int:
    """Return the memory that the arrays of an npz file take."""
    try:
        with zipfile.ZipFile(path) as stored:
            return sum(entry.file_size for entry in stored.infolist())
    except (OSError, zipfile.BadZipFile):
        return 0  # whoever reads it will say why


def _ready(
    pairs: np.ndarray[Any, Any], n: int, per_edge: dict[str, Any], *, directed: bool
) -> dict[str, Any] | None:
    """Return edges, weights and times as a graph keeps them, if that is what they are.

    Not the weights and times that no graph has: they are refused elsewhere.
    """
    if not pairs.flags.c_contiguous or not is_canonical(pairs, n, directed=directed):
        return None
    ready: dict[str, Any] = {"edges": pairs}
    for name, values in per_edge.items():
        if values is None:
            continue
        least = 0 if name == "weights" else -np.inf
        if not np.all((values > least) & (values < np.inf)):
            return None
        ready[name] = values.astype(np.float64, copy=False)
    return ready


def _load(path: Path) -> Arrays:
    regular = path.is_file()  # a pipe is read once, from its start to its end
    data = read_bytes(path, 2 if regular else -1)
    if data[:2] != b"PK":
        raise _wrong(path, "it is not an npz file")
    try:
        with (
            path.open("rb") if regular else io.BytesIO(data) as source,
            np.load(source, allow_pickle=False) as stored,
        ):
            if not regular:
                return {name: stored[name] for name in stored.files}
            return {name: _array(path, stored, name) for name in stored.files}
    except Exception as error:  # zip, zlib and numpy each fail in their own ways
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise _wrong(path, f"it is damaged ({reason})") from error


# Arrays of so many bytes are mapped where they are not compressed: processes share
# them, and there is no second copy. Smaller ones are checked against their sums.
_MAPPED = 1 << 24
_PER_EDGE = ("edge_index", "weights", "times")


def _array(path: Path, stored: Any, name: str) -> np.ndarray[Any, Any]:
    """Return an array of an npz file, mapped into memory if it is large."""
    entry = stored.zip.NameToInfo.get(f"{name}.npy")
    plain = entry is not None and entry.compress_type == zipfile.ZIP_STORED
    if name not in _PER_EDGE or not plain or entry.file_size < _MAPPED:
        return np.asarray(stored[name])
    with path.open("rb") as file:
        file.seek(entry.header_offset + 26)  # the lengths of the name and of extras
        file.seek(sum(struct.unpack("<HH", file.read(4))), os.SEEK_CUR)
        if np.lib.format.read_magic(file) != (1, 0):
            return np.asarray(stored[name])
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
        start = file.tell()
    # Copied on write: whoever changes it changes no file and no other process.
    return np.asarray(
        np.memmap(path, dtype, "c", start, shape, "F" if fortran else "C")
    )


def _wrong(path: Path, problem: str) -> InputError:
    return InputError(
        f"{path} cannot be read as a graph: {problem}.",
        hint="Copy it again, or write it with gelato.io.write_npz.",
    )


def _integers(arrays: Arrays, name: str, path: Path) -> np.ndarray[Any, Any]:
    array = arrays[name]
    if array.dtype.kind not in "iu":
        raise _wrong(path, f"{name} holds {array.dtype}, not integers")
    if array.size and array.dtype.kind == "u" and int(array.max()) >= 2**63:
        raise _wrong(path, f"{name} holds {array.max()}, which is too large")
    return array.astype(np.int64, copy=False)


def _scalar(arrays: Arrays, name: str, path: Path) -> int:
    array = arrays[name]
    if array.dtype.kind == "b":
        array = array.astype(np.int64)
    if array.size != 1 or array.dtype.kind not in "iu":
        raise _wrong(path, f"{name} is not one whole number")
    value = int(array.ravel()[0])
    # An edge is numbered u * n + v in 64 bits, so n must stay below 2**31.
    if not 0 <= value < 2**31:
        raise _wrong(path, f"{name} is {value}")
    return value


def _per_row(
    arrays: Arrays, name: str, count: int, path: Path
) -> np.ndarray[Any, Any] | None:
    array = arrays.get(name)
    if array is None:
        return None
    if array.shape != (count,) or array.dtype.kind not in "iuf":
        raise _wrong(path, f"{name} must hold {count} numbers, not {array.shape}")
    return array


def _attributes(arrays: Arrays, num_nodes: int, path: Path) -> Any:
    present = [name for name in _CSR if name in arrays]
    if not present:
        return None
    if len(present) < len(_CSR):
        lacking = ", ".join(name for name in _CSR if name not in arrays)
        raise _wrong(path, f"there is no {lacking}")
    values = arrays["attr_data"]
    indices, indptr, shape = (_integers(arrays, name, path) for name in _CSR[1:])
    if shape.shape != (2,) or shape[0] != num_nodes or not 0 <= shape[1] < 2**31:
        raise _wrong(path, f"attr_shape is {shape.tolist()} for {num_nodes} nodes")
    _check_csr(values, indices, indptr, shape, path)
    stored = (values.astype(np.float32), indices, indptr)
    matrix = sp.csr_array(stored, shape=tuple(shape.tolist()))
    if "attr_dense" in arrays and _scalar(arrays, "attr_dense", path):
        return matrix.toarray()
    return matrix


def _check_csr(
    values: np.ndarray[Any, Any],
    indices: np.ndarray[Any, Any],
    indptr: np.ndarray[Any, Any],
    shape: np.ndarray[Any, Any],
    path: Path,
) -> None:
    if values.ndim != 1 or values.dtype.kind not in "iufb":
        raise _wrong(path, "attr_data is not a list of numbers")
    if not np.all(np.isfinite(values)):
        raise _wrong(path, "attr_data holds missing or infinite numbers")
    if indices.shape != values.shape:
        raise _wrong(path, "attr_indices and attr_data differ in length")
    if indptr.shape != (shape[0] + 1,) or indptr[0] != 0 or indptr[-1] != len(values):
        raise _wrong(path, "attr_indptr does not fit attr_data")
    if np.any(np.diff(indptr) < 0):
        raise _wrong(path, "attr_indptr decreases")
    if len(indices) and (indices.min() < 0 or indices.max() >= shape[1]):
        raise _wrong(path, f"attr_indices leave 0..{shape[1] - 1}")


def _labels(arrays: Arrays, num_nodes: int, path: Path) -> np.ndarray[Any, Any] | None:
    if "labels" not in arrays:
        return None
    labels = _integers(arrays, "labels", path)
    if labels.shape != (num_nodes,):
        raise _wrong(path, f"labels has shape {labels.shape} for {num_nodes} nodes")
    return labels


def _ids(arrays: Arrays, num_nodes: int, path: Path) -> np.ndarray[Any, Any] | None:
    ids = arrays.get("ids")
    if ids is None:
        return None
    if ids.shape != (num_nodes,) or ids.dtype.kind not in "iuU":
        raise _wrong(path, f"ids must be {num_nodes} integers or texts")
    return ids


def _listed(arrays: Arrays, name: str, path: Path) -> list[str] | None:
    texts = arrays.get(name)
    if texts is None:
        return None
    if texts.ndim != 1 or texts.dtype.kind != "U":
        raise _wrong(path, f"{name} is not a list of texts")
    return [str(text) for text in texts.tolist()]


def _sides(arrays: Arrays, num_nodes: int, path: Path) -> Any:
    if "sides" not in arrays:
        return None
    sides = _integers(arrays, "sides", path)
    if sides.shape != (num_nodes,) or np.any((sides < -1) | (sides > 1)):
        raise _wrong(path, f"sides must be {num_nodes} numbers of -1, 0 and 1")
    return sides.astype(np.int8)


def _reading(arrays: Arrays, path: Path) -> dict[str, Any] | None:
    if "reading" not in arrays:
        return None
    try:
        reading = json.loads(str(arrays["reading"].item()))
    except ValueError as error:
        raise _wrong(path, f"reading is not JSON ({error})") from error
    if not isinstance(reading, dict):
        raise _wrong(path, "reading does not tell how a graph was read")
    return reading


def write_npz(
    graph: Graph, path: str | os.PathLike[str], *, compressed: bool = True
) -> Path:
    """Write a graph to an npz file that :func:`read_npz` gives back unchanged.

    Parameters
    ----------
    graph : Graph
        The graph to write.
    path : path
        Where to.
    compressed : bool
        Whether the file is to be small. A large one that is not is written and read
        faster, and its edges are mapped into memory: processes share them.

    Raises
    ------
    OutputError
        If the file cannot be written, or the ids are neither integers nor text.
    """
    arrays: Arrays = {
        "edge_index": graph.edges.T,
        "num_nodes": np.asarray(graph.num_nodes),
        "directed": np.asarray(graph.directed),
    }
    optional = {
        "weights": graph.weights,
        "times": graph.times,
        "labels": graph.labels,
        "sides": graph.sides,
        "ends": graph.ends,
    }
    arrays |= {name: value for name, value in optional.items() if value is not None}
    if graph.attributes is not None:
        matrix = sp.csr_array(graph.attributes)
        arrays["attr_data"] = matrix.data
        arrays["attr_indices"], arrays["attr_indptr"] = matrix.indices, matrix.indptr
        arrays["attr_shape"] = np.asarray(matrix.shape, dtype=np.int64)
        arrays["attr_dense"] = np.asarray(not sp.issparse(graph.attributes))
    if graph.attribute_names is not None:
        arrays["attribute_names"] = _texts(list(graph.attribute_names), path)
    if graph.ids is not None:
        arrays["ids"] = _stored_ids(graph.ids, path)
    if graph.notes:
        arrays["notes"] = _texts([note.rstrip("\0") for note in graph.notes], path)
    if graph.reading is not None:
        arrays["reading"] = np.array(json.dumps(graph.reading))
    save = np.savez_compressed if compressed else np.savez
    return write_file_atomic(
        path, lambda file: save(file, allow_pickle=False, **arrays)
    )


def _stored_ids(
    ids: np.ndarray[Any, Any], path: str | os.PathLike[str]
) -> np.ndarray[Any, Any]:
    if ids.dtype.kind in "iu":
        return ids
    listed = ids.tolist()
    if any(type(node) is not str for node in listed):
        raise OutputError(
            f"{path} cannot be written: an npz file keeps ids that are integers or "
            "text, and this graph has others.",
            hint="Rename the nodes, or use gelato.io.write_graph with .parquet.",
        )
    return _texts(listed, path)


def _texts(texts: list[str], path: str | os.PathLike[str]) -> np.ndarray[Any, Any]:
    if any(text.endswith("\0") for text in texts):
        raise OutputError(
            f"{path} cannot be written: a name ends in a zero character.",
            hint="Rename it.",
        )
    return np.array(texts, dtype=str)
