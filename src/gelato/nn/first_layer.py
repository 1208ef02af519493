"""Lists of the attributes in which two nodes meet, for any pairs of nodes."""

from __future__ import annotations

import warnings
from copy import copy
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch

from gelato.errors import InputError, UsageError
from gelato.kernels.chunks import Parts, run_shares
from gelato.kernels.pair_attributes import (
    WORD,
    count_meetings,
    count_shared,
    fill_meetings,
    list_shared,
    pack_rows,
    pair_layer,
    sum_at_nodes,
)
from gelato.kernels.tiles import Array, RememberingRows, SparseRows, index_type, tiled

# Words of bits per filled entry up to which 0/1 attributes are compared as bits: these
# then take about the memory of the lists, and a tenth of their time or less.
_MOST_WORDS = 2


class Meetings:
    """Node attributes, prepared to be compared.

    Parameters
    ----------
    sparse : (n, r) CSR float32
        The attributes, columns ascending.
    binary : bool
        Whether all are 0 or 1.

    Examples
    --------
    >>> both = Meetings(sp.csr_array(np.eye(3)[[0, 0, 1]]), binary=True)
    >>> both.lists(np.array([[0, 1], [1, 2]])).indptr.tolist()
    [0, 1, 1]
    """

    def __init__(self, sparse: sp.csr_array, *, binary: bool) -> None:
        self.num_columns, self.binary = sparse.shape[1], binary
        self._matrix: tuple[Array, ...] = (sparse.indptr, sparse.indices, sparse.data)
        words = -(-sparse.shape[1] // WORD)
        self._as_bits = binary and sparse.shape[0] * words <= _MOST_WORDS * sparse.nnz
        if self._as_bits:
            bits = np.zeros((sparse.shape[0], words), np.uint64)
            pack_rows(sparse.indptr, sparse.indices, bits)
            self._matrix = (bits,)

    def lists(self, pairs: Array, most: float = np.inf) -> SparseRows | None:
        """Return what each pair shares, or None if that is more than ``most`` in all.

        Parameters
        ----------
        pairs : (M, 2) int64
            Nodes.
        most : float
            Entries of all lists.
        """
        counts = np.zeros(len(pairs), dtype=np.int64)
        count = count_shared if self._as_bits else count_meetings
        run_shares(partial(count, *self._matrix, pairs, counts), len(pairs))
        if counts.sum() > most:
            return None
        indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        indices = np.empty(indptr[-1], index_type(self.num_columns))
        values = None if self.binary else np.empty(indptr[-1], np.float32)
        fill: Any = partial(
            fill_meetings, *self._matrix, pairs, indptr, indices, values
        )
        if self._as_bits:
            fill = partial(list_shared, *self._matrix, pairs, indptr, indices)
        run_shares(fill, len(pairs))
        return SparseRows(indptr, indices, values, self.num_columns)


# Lists of numbers are 3 times as fast as blocked dense products at a quarter filled
# entries, and no faster above a half, where they also take more memory. Lists of 0/1
# attributes are always faster: turning round the common ones keeps them short.
_MOST_FILL = {"binary": 1.0, "values": 0.5}
_BLOCK_ENTRIES = 1 << 21  # of |x_u - x_v| at a time: 8 MB of float32
# A dense matrix this large and this full is used where it lies, perhaps on disk: lists
# of its entries would take three times its memory, only to be found too full.
_LARGE_ENTRIES, _FULL = 1 << 24, 0.75


@dataclass(frozen=True)
class Tables:
    """What a layer adds up: ``first[u] + second[v] + lists x pair + constant``."""

    first: Array
    second: Array
    pair: Array
    constant: Array


class PairTerms(Protocol):
    """One way to compute the layer; W1 and W2 are given transposed, (r, h)."""

    @property
    def path(self) -> str:
        """Name of the way."""

    @property
    def fill(self) -> float:
        """Share of the pairs' own term that is not 0."""

    @property
    def lists(self) -> SparseRows | None:
        """What each pair adds rows of ``Tables.pair`` for, if anything."""

    def tables(self, w1: Array, w2: Array) -> Tables:
        """Return the tables whose rows are added up."""

    def write_pair_term(self, w2: Array, out: Array) -> bool:
        """Write the pairs' own term to ``out`` unless ``lists`` stand for it."""

    def gradients(self, at_nodes: list[Array], gradient: Array) -> tuple[Array, Array]:
        """Return the gradients of w1 and w2 from those at nodes and at pairs."""

    def part(self, start: int, stop: int) -> PairTerms:
        """Return the same of pairs ``start..stop-1`` alone, in the same memory."""


class BinaryTerms:
    """0/1 attributes: lists of what both nodes have, or both lack."""

    path = "binary"

    def __init__(self, nodes: SparseRows, flipped: Array, lists: SparseRows) -> None:
        self.nodes, self.lists, self.fill = nodes, lists, lists.fill
        self.flipped = flipped
        self.sign = np.where(flipped, -1.0, 1.0).astype(np.float32)[:, None]

    def tables(self, w1: Array, w2: Array) -> Tables:
        """Return the tables; W1 x = W1 1 - W1 (1 - x) where columns are flipped."""
        nodes = self.nodes.times(self.sign * w1 + w2)
        constant = 2 * w1[self.flipped].sum(axis=0)
        return Tables(nodes, nodes, -2 * w2, constant)

    def write_pair_term(self, w2: Array, out: Array) -> bool:
        """Leave the pairs' own term to the lists."""
        return False

    def gradients(self, at_nodes: list[Array], gradient: Array) -> tuple[Array, Array]:
        """Return the gradients of w1 and w2."""
        nodes = self.nodes.transposed_times(at_nodes[0])
        pairs = self.lists.transposed_times(gradient)
        # Every pair was summed at both of its ends: this is twice the pairs' sum.
        ends = at_nodes[0].sum(axis=0)
        w1 = self.sign * nodes
        w1[self.flipped] += ends
        return w1, nodes - 2 * pairs

    def part(self, start: int, stop: int) -> BinaryTerms:
        """Return the same of some pairs."""
        return BinaryTerms(self.nodes, self.flipped, self.lists.part(start, stop))


class ValueTerms:
    """Sparse numbers: lists of the attributes that both nodes have, with values."""

    path = "values"

    def __init__(
        self, nodes: SparseRows, absolute: SparseRows | None, lists: SparseRows
    ) -> None:
        self.nodes, self.lists, self.fill = nodes, lists, lists.fill
        self.absolute = absolute  # None where no attribute is negative

    def tables(self, w1: Array, w2: Array) -> Tables:
        """Return the tables."""
        if self.absolute is None:
            nodes = self.nodes.times(w1 + w2)
        else:
            nodes = self.nodes.times(w1) + self.absolute.times(w2)
        return Tables(nodes, nodes, -2 * w2, np.zeros(w1.shape[1], w1.dtype))

    def write_pair_term(self, w2: Array, out: Array) -> bool:
        """Leave the pairs' own term to the lists."""
        return False

    def gradients(self, at_nodes: list[Array], gradient: Array) -> tuple[Array, Array]:
        """Return the gradients of w1 and w2."""
        w1 = self.nodes.transposed_times(at_nodes[0])
        w2 = w1
        if self.absolute is not None:
            w2 = self.absolute.transposed_times(at_nodes[0])
        return w1, w2 - 2 * self.lists.transposed_times(gradient)

    def part(self, start: int, stop: int) -> ValueTerms:
        """Return the same of some pairs."""
        return ValueTerms(self.nodes, self.absolute, self.lists.part(start, stop))


class DenseTerms:
    """Dense attributes: ``|x_u - x_v|`` block by block, multiplied by torch."""

    path = "dense"
    lists = None

    def __init__(self, nodes: _DenseRows, pairs: Array) -> None:
        self.nodes = nodes
        self.pairs = torch.from_numpy(pairs)
        self.fill = 1.0
        self.block = max(1, _BLOCK_ENTRIES // max(1, nodes.num_columns))

    def tables(self, w1: Array, w2: Array) -> Tables:
        """Return the tables."""
        nodes = self.nodes.times(w1)
        return Tables(nodes, nodes, w2, np.zeros(w1.shape[1], w1.dtype))

    def _blocks(self, dtype: torch.dtype) -> Any:
        rows = self.nodes.rows(dtype)
        for start in range(0, len(self.pairs), self.block):
            part = slice(start, start + self.block)
            u, v = self.pairs[part].T
            yield part, (rows[u] - rows[v]).abs_()

    def write_pair_term(self, w2: Array, out: Array) -> bool:
        """Write ``W2 |x_u - x_v|`` to ``out``."""
        weight, target = torch.from_numpy(w2), torch.from_numpy(out)
        for part, block in self._blocks(weight.dtype):
            torch.mm(block, weight, out=target[part])
        return True

    def gradients(self, at_nodes: list[Array], gradient: Array) -> tuple[Array, Array]:
        """Return the gradients of w1 and w2."""
        upstream = torch.from_numpy(gradient)
        shape = (self.nodes.num_columns, gradient.shape[1])
        w2 = torch.zeros(shape, dtype=upstream.dtype)
        for part, block in self._blocks(upstream.dtype):
            w2.addmm_(block.T, upstream[part])
        return self.nodes.transposed_times(at_nodes[0]), w2.numpy()

    def part(self, start: int, stop: int) -> DenseTerms:
        """Return the same of some pairs."""
        return DenseTerms(self.nodes, self.pairs[start:stop].numpy())


class NodeTerms:
    """Ordered pairs ``[x_u ; x_v]``: nothing belongs to the pair alone."""

    path = "nodes"
    lists = None
    fill = 0.0

    def __init__(self, nodes: SparseRows | _DenseRows) -> None:
        self.nodes = nodes

    def tables(self, w1: Array, w2: Array) -> Tables:
        """Return the tables."""
        first, second = self.nodes.times(w1), self.nodes.times(w2)
        return Tables(first, second, w2, np.zeros(w1.shape[1], w1.dtype))

    def write_pair_term(self, w2: Array, out: Array) -> bool:
        """Leave the pairs' own term to the lists, of which there are none."""
        return False

    def gradients(self, at_nodes: list[Array], gradient: Array) -> tuple[Array, Array]:
        """Return the gradients of w1 and w2."""
        first, second = (self.nodes.transposed_times(g) for g in at_nodes)
        return first, second

    def part(self, start: int, stop: int) -> NodeTerms:
        """Return the same of some pairs, which is nothing."""
        return self


class _DenseRows:
    """A dense matrix with the products of :class:`SparseRows`, done by torch."""

    def __init__(self, matrix: Array) -> None:
        with warnings.catch_warnings():
            # Nobody writes to it, so that a file mapped to be read will do.
            warnings.filterwarnings("ignore", "The given NumPy array is not writable")
            self._matrix = torch.from_numpy(np.ascontiguousarray(matrix))
        self.num_columns = matrix.shape[1]

    def rows(self, dtype: torch.dtype) -> torch.Tensor:
        return self._matrix.to(dtype)

    def times(self, table: Array) -> Array:
        dense = torch.from_numpy(table)
        return np.asarray(torch.mm(self.rows(dense.dtype), dense).numpy())

    def transposed_times(self, dense: Array) -> Array:
        right = torch.from_numpy(dense)
        return np.asarray(torch.mm(self.rows(right.dtype).T, right).numpy())


class AttributeRows:
    """Node attributes, prepared once for any number of lists of pairs.

    Parameters
    ----------
    attributes : (n, r) CSR or dense
        Node attributes.
    directed : bool
        Whether pairs are ordered.
    path : {"binary", "values", "dense", "nodes"}, optional
        How to compute. Default: chosen by the attributes and measured density.
    ends : (n,) int, optional
        How often each node will be an end of a pair; default: all alike. 0/1
        attributes that most ends have are turned round.

    Attributes
    ----------
    sparse : CSR float32
        The attributes, columns turned round where ``flipped`` says so.
    flipped : (r,) bool
        Columns replaced by one minus themselves.
    """

    def __init__(
        self,
        attributes: Any,
        *,
        directed: bool = False,
        path: str | None = None,
        ends: Array | None = None,
    ) -> None:
        if path not in (None, "binary", "values", "dense", "nodes"):
            raise UsageError(
                f"There is no path {path!r}: binary, values, dense or nodes."
            )
        if directed != (path == "nodes") and path is not None:
            raise UsageError(
                "The path 'nodes' is for ordered pairs, and only for them."
            )
        self.attributes, self.directed = attributes, directed
        self.flipped = np.zeros(attributes.shape[1], dtype=bool)
        self.limit = 1.0
        self._full = path in (None, "dense") and _is_large_and_full(attributes)
        if self._full:
            self.kind = "dense"
            return
        sparse = _as_lists(attributes)
        binary = bool(np.all(sparse.data == 1))
        if path == "binary" and not binary:
            raise UsageError("The path 'binary' needs attributes that are all 0 or 1.")
        self.kind = path or ("binary" if binary else "values")
        self.limit = 1.0 if path else _MOST_FILL[self.kind]
        if self.kind == "binary" and not directed:
            if ends is None:
                ends = np.ones(sparse.shape[0])
            self.flipped = sparse.T @ ends > ends.sum() / 2
            sparse = _flip(sparse, self.flipped)
        self.sparse = sparse

    @cached_property
    def sparse(self) -> sp.csr_array:
        """The attributes as CSR; of a large full matrix only if it is asked for."""
        return _as_lists(self.attributes)

    @property
    def shape(self) -> tuple[int, int]:
        """Nodes and attributes."""
        rows, columns = self.attributes.shape
        return int(rows), int(columns)

    @cached_property
    def nodes(self) -> SparseRows:
        """The attributes as lists."""
        return RememberingRows.from_scipy(self.sparse)

    def terms(self, pairs: Array) -> PairTerms:
        """Return the fastest way for these pairs, or the one asked for."""
        if self.directed:
            entries = max(1, self.shape[0] * self.shape[1])
            wide = self._full or self.sparse.nnz / entries > _MOST_FILL["values"]
            return NodeTerms(self._dense if wide else self.nodes)
        listed = None if self.kind == "dense" else self._listed(pairs)
        return DenseTerms(self._dense, pairs) if listed is None else listed

    def tables(self, w1: Array, w2: Array) -> Tables:
        """Return what a layer adds up, by lists whatever the density (undirected)."""
        empty = SparseRows(
            np.zeros(1, np.int64), np.empty(0, np.uint16), None, self.shape[1]
        )
        return self._of_lists(empty).tables(w1, w2)

    @cached_property
    def _dense(self) -> _DenseRows:
        if self._full:
            return _DenseRows(np.asarray(self.attributes, dtype=np.float32))
        return _DenseRows(self.sparse.toarray())

    @cached_property
    def _absolute(self) -> SparseRows | None:
        """Absolute values, where any attribute is negative."""
        negative = bool(np.any(self.sparse.data < 0))
        return RememberingRows.from_scipy(abs(self.sparse)) if negative else None

    def _of_lists(self, lists: SparseRows) -> BinaryTerms | ValueTerms:
        if self.kind == "binary":
            return BinaryTerms(self.nodes, self.flipped, lists)
        return ValueTerms(self.nodes, self._absolute, lists)

    def _listed(self, pairs: Array) -> BinaryTerms | ValueTerms | None:
        """Return lists of meeting attributes, or None if they are filled too much."""
        lists = self._meetings.lists(pairs, self.limit * len(pairs) * self.shape[1])
        return None if lists is None else self._of_lists(lists)

    @cached_property
    def _meetings(self) -> Meetings:
        return Meetings(self.sparse, binary=self.kind == "binary")


def choose_terms(
    attributes: Any, pairs: Array, directed: bool, path: str | None
) -> PairTerms:
    """Return the fastest way for these attributes and pairs, or the one asked for."""
    ends = np.bincount(pairs.ravel(), minlength=attributes.shape[0])
    rows = AttributeRows(attributes, directed=directed, path=path, ends=ends)
    return rows.terms(pairs)


def _as_lists(attributes: Any) -> sp.csr_array:
    sparse = sp.csr_array(attributes, dtype=np.float32)
    sparse.sum_duplicates()
    sparse.eliminate_zeros()
    sparse.sort_indices()
    return sparse


def _is_large_and_full(attributes: Any) -> bool:
    """Tell whether a dense matrix is best left as it is; looks at it in blocks."""
    if sp.issparse(attributes) or np.size(attributes) < _LARGE_ENTRIES:
        return False
    step = max(1, _BLOCK_ENTRIES // attributes.shape[1])
    filled = sum(
        int(np.count_nonzero(attributes[start : start + step]))
        for start in range(0, attributes.shape[0], step)
    )
    return filled > _FULL * np.size(attributes)


def _flip(sparse: sp.csr_array, flipped: Array) -> sp.csr_array:
    """Return a 0/1 matrix with some columns replaced by one minus themselves."""
    if not flipped.any():
        return sparse
    blocks = []
    for start in range(0, sparse.shape[0], 1024):
        block = sparse[start : start + 1024].toarray() != flipped
        blocks.append(sp.csr_array(block, dtype=np.float32))
    return sp.csr_array(sp.vstack(blocks, format="csr"))


IntArray = npt.NDArray[np.int64]


class PairFeatures:
    """Attributes of pairs of nodes, as the first layer of a pair model reads them.

    A pair (u, v) has the features ``[x_u + x_v ; |x_u - x_v|]``, which do not depend
    on the order of its nodes; in a directed graph ``[x_u ; x_v]``. They are never
    stored as a matrix.

    Parameters
    ----------
    attributes : (n, r) CSR or dense, or AttributeRows
        Node attributes; prepared ones save time where there are many lists of pairs,
        and say themselves whether pairs are ordered and how to compute.
    pairs : (M, 2) int
        Node indices.
    directed : bool
        Whether a pair is ordered.
    path : {"binary", "values", "dense", "nodes"}, optional
        How to compute. Default: chosen by measured density.

    Attributes
    ----------
    path : str
        "binary": lists of the attributes that both nodes have; "values": the same
        lists with numbers; "dense": blocks of ``|x_u - x_v|``; "nodes": one product
        per node and end is all (directed).
    fill : float
        Share of the pair's own term that is not 0.

    Examples
    --------
    >>> PairFeatures(np.eye(3, dtype=np.float32), [(0, 1), (1, 2)]).path
    'binary'
    """

    def __init__(
        self,
        attributes: Any,
        pairs: npt.ArrayLike,
        *,
        directed: bool = False,
        path: str | None = None,
    ) -> None:
        if attributes is None or attributes.shape[1] == 0:
            raise UsageError(
                "A pair model needs node attributes, and this graph has none.",
                hint="Use a heuristic such as 'ac', or give attributes.",
            )
        self.num_nodes, self.num_attributes = map(int, attributes.shape)
        self.pairs: IntArray = np.ascontiguousarray(pairs, dtype=np.int64)
        self.pairs = self.pairs.reshape(-1, 2)
        if self.pairs.size and not 0 <= self.pairs.min() <= self.pairs.max() < (
            self.num_nodes
        ):
            raise InputError(
                f"A pair names node {self.pairs.max()} (smallest {self.pairs.min()}), "
                f"but there are attributes for {self.num_nodes} nodes."
            )
        self._terms: PairTerms
        if isinstance(attributes, AttributeRows):
            self.attributes, self.directed = attributes.attributes, attributes.directed
            self._terms = attributes.terms(self.pairs)
        else:
            self.attributes, self.directed = attributes, directed
            self._terms = choose_terms(attributes, self.pairs, directed, path)
        self.path, self.fill = self._terms.path, self._terms.fill

    def __len__(self) -> int:
        return len(self.pairs)

    def blocks(self, rows: int) -> list[PairFeatures]:
        """Return the pairs in blocks of so many; a single last one joins its neighbour.

        The blocks share the memory of the whole, and are made once.
        """
        known = self._blocks.get(rows)
        if known is None:
            starts = list(range(0, max(1, len(self) - 1), rows))
            bounds = pairwise([*starts, len(self)])
            known = self._blocks[rows] = [self._part(*bound) for bound in bounds]
        return known

    @cached_property
    def _blocks(self) -> dict[int, list[PairFeatures]]:
        return {}

    def _part(self, start: int, stop: int) -> PairFeatures:
        part = copy(self)
        vars(part).pop("_incident", None)
        part.pairs = self.pairs[start:stop]
        part._terms = self._terms.part(start, stop)
        part._blocks = {}
        return part

    @property
    def width(self) -> int:
        """Number of features of a pair, 2r."""
        return 2 * self.num_attributes

    @cached_property
    def _incident(self) -> list[tuple[Array, Array]]:
        ends = self.pairs.T if self.directed else self.pairs.reshape(1, -1)
        return [_incidence(end, self.num_nodes, len(ends)) for end in ends]

    def relu_layer(
        self,
        weight: Array,
        bias: Array,
        parts: Parts,
        *,
        out: Array,
        sums: Array,
    ) -> None:
        """Compute ``relu(weight @ features + bias)`` of every pair.

        Parameters
        ----------
        weight : (h, 2r)
            float32 or float64; the work is done in this type.
        bias : (h,)
        parts : Parts
            A fixed partition of the pairs.
        out : (M, h)
            Where the result goes.
        sums : (parts, 2, h) float64
            Where each part's sums of the results and of their squares go.
        """
        r = self.num_attributes
        upper, lower = (
            np.ascontiguousarray(w.T) for w in (weight[:, :r], weight[:, r:])
        )
        tables = self._terms.tables(upper, lower)
        lists = self._terms.lists
        dense = self._terms.write_pair_term(lower, out)
        if lists is None:
            empty = np.zeros(0, np.uint16)
            indptr, indices, values = np.zeros(len(self) + 1, np.int64), empty, None
            tiles = tiled(np.zeros((1, weight.shape[0]), weight.dtype))
        else:
            indptr, indices = lists.indptr, lists.indices
            values, tiles = lists.values(weight.dtype), tiled(tables.pair)
        offset = (bias + tables.constant).astype(weight.dtype)
        own = ((indptr, indices, values), tiles, (tables.first, tables.second))
        given = (*own, self.pairs, offset, parts.start, dense, out, sums)
        run_shares(partial(pair_layer, *given), len(parts))

    def weight_gradient(self, gradient: Array) -> Array:
        """Return the gradient (h, 2r) of the weight, given that of the layer (M, h)."""
        at_nodes = []
        for indptr, incident in self._incident:
            out = np.empty((self.num_nodes, gradient.shape[1]), gradient.dtype)
            work = partial(sum_at_nodes, indptr, incident, gradient, out)
            run_shares(work, self.num_nodes)
            at_nodes.append(out)
        halves = self._terms.gradients(at_nodes, gradient)
        return np.concatenate([half.T for half in halves], axis=1)

    def dense(self, start: int, stop: int) -> Array:
        """Return the feature matrix of pairs ``start..stop-1``, (stop - start, 2r)."""
        u, v = (_rows(self.attributes, end) for end in self.pairs[start:stop].T)
        parts = (u, v) if self.directed else (u + v, np.abs(u - v))
        return np.concatenate(parts, axis=1)


def _incidence(ends: Array, num_nodes: int, kinds: int) -> tuple[Array, Array]:
    """List the pairs at each node; ends alternate u, v unless there are two kinds."""
    order = np.argsort(ends, kind="stable")
    indptr = np.searchsorted(ends[order], np.arange(num_nodes + 1)).astype(np.int64)
    incident = order if kinds == 2 else order // 2
    return indptr, incident.astype(index_type(len(ends)))


def _rows(attributes: Any, nodes: Array) -> Array:
    rows = attributes[nodes]
    return np.asarray(rows.toarray() if sp.issparse(rows) else rows)
