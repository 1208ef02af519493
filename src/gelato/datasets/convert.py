"""Convert the benchmarks' raw files into graphs, equal to PyTorch Geometric's.

The planetoid files are Python 2 pickles. Callers check their sha256 first; even so,
the unpickler here builds arrays, sparse matrices and a dictionary of lists and
refuses every other name. Nothing is fetched here.
"""

from __future__ import annotations

import pickle
import warnings
import zipfile
import zlib
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from gelato.errors import StoredFileError
from gelato.graph import Graph, IntArray

PLANETOID_PIECES = ("allx", "ally", "tx", "ty", "graph", "test.index")

_NOT_NPZ = (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile, zlib.error)


class _CsrState:
    """Stands in for scipy's csr_matrix, whose inner layout changed since 2016."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        shape = state.get("_shape", state.get("shape"))
        parts = (state["data"], state["indices"], state["indptr"])
        self.matrix = sp.csr_array(parts, shape=shape, dtype=np.float32)


# Every name that the six files mention, and what it may become.
_ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy", "dtype"): np.dtype,
    ("numpy", "ndarray"): np.ndarray,
    # numpy's own rebuilding function, found without naming a private module
    ("numpy.core.multiarray", "_reconstruct"): np.empty(0).__reduce__()[0],
    ("scipy.sparse.csr", "csr_matrix"): _CsrState,
    ("collections", "defaultdict"): defaultdict,
    ("__builtin__", "list"): list,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(
                f"it asks for {module}.{name}, which such a file has no use for"
            ) from None


def convert_planetoid(folder: Path, name: str) -> Graph:
    """Build a graph from the files ``ind.NAME.*`` in a folder.

    Row i of ``tx`` belongs to node ``test.index[i]``; test nodes that no index names
    (citeseer has 15) get all-zero attributes and label 0. The adjacency lists hold
    each edge twice, some more often, and a few self-loops; each edge is kept once.
    """
    raw = {piece: _read(folder / f"ind.{name}.{piece}") for piece in PLANETOID_PIECES}
    try:
        return _assemble(raw)
    except (TypeError, AttributeError, ValueError, LookupError) as error:
        raise StoredFileError(
            f"The files ind.{name}.* in {folder} do not fit together: {error}.",
            hint="Delete them and fetch them again.",
        ) from error


def _assemble(raw: dict[str, Any]) -> Graph:
    index: IntArray = raw["test.index"]
    known = raw["allx"].shape[0]
    n = max(known, int(index.max()) + 1)
    # Where each row of the stacked (allx, tx) goes.
    place = np.concatenate([np.arange(known, dtype=np.int64), index])
    stacked = sp.coo_array(sp.vstack([raw["allx"], raw["tx"]]))
    attributes = sp.coo_array(
        (stacked.data, (place[stacked.row], stacked.col)), shape=(n, stacked.shape[1])
    )
    labels = np.zeros(n, dtype=np.int64)
    labels[place] = np.concatenate([raw["ally"], raw["ty"]]).argmax(axis=1)
    return Graph.from_indices(
        n, _edges_of_lists(raw["graph"]), attributes=attributes, labels=labels
    )


def convert_amazon(path: Path) -> Graph:
    """Build an undirected graph from one npz file of CSR arrays.

    Directions and self-loops are dropped and attributes made binary, as PyTorch
    Geometric does. Only numeric arrays are read, so nothing is ever unpickled.
    """
    try:
        with path.open("rb") as stream, np.load(stream) as arrays:
            adjacency, attributes = (
                sp.csr_array(
                    tuple(arrays[f"{kind}_{p}"] for p in ("data", "indices", "indptr")),
                    shape=tuple(arrays[f"{kind}_shape"].tolist()),
                )
                for kind in ("adj", "attr")
            )
            labels = arrays["labels"]
    except _NOT_NPZ as error:
        raise StoredFileError(
            f"{path} is not a file of the Amazon benchmark: {error}.",
            hint="Delete it and fetch it again.",
        ) from error
    links = sp.coo_array(adjacency)
    present = links.data != 0
    return Graph.from_indices(
        adjacency.shape[0],
        _distinct_pairs(links.row[present], links.col[present]),
        attributes=attributes > 0,
        labels=labels,
    )


def _edges_of_lists(lists: dict[int, list[int]]) -> IntArray:
    """Return the distinct pairs u < v of adjacency lists."""
    sources = np.repeat(list(lists), [len(ends) for ends in lists.values()])
    targets = np.concatenate([np.asarray(ends, dtype=int) for ends in lists.values()])
    return _distinct_pairs(sources, targets)


def _distinct_pairs(u: npt.NDArray[Any], v: npt.NDArray[Any]) -> IntArray:
    """Return the distinct undirected pairs without self-loops, sorted."""
    pairs = np.sort(np.column_stack([u, v]).astype(np.int64), axis=1)
    return np.unique(pairs[pairs[:, 0] < pairs[:, 1]], axis=0)


def _read(path: Path) -> Any:
    """Return the object in one raw file."""
    try:
        if path.name.endswith(".test.index"):
            return np.array(path.read_text().split(), dtype=np.int64)
        with path.open("rb") as stream, warnings.catch_warnings():
            # numpy warns of how old pickles spell a dtype, not of what they hold
            warnings.simplefilter("ignore")
            found = _Unpickler(stream, encoding="latin1").load()
    except (pickle.UnpicklingError, EOFError, ValueError, LookupError) as error:
        raise StoredFileError(
            f"{path} is not a file of the planetoid benchmark: {error}.",
            hint="Delete it and fetch it again.",
        ) from error
    return found.matrix if isinstance(found, _CsrState) else found
