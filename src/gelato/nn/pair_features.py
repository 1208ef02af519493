"""The pair MLP's first layer over attributes that never change, made fast.

``W [x_u + x_v ; |x_u - x_v|]`` is one product per node, gathered at the two ends of a
pair, plus a term of the pair's own that is sparse where attributes are: see
:mod:`gelato.kernels.pair_features`. Everything that depends on attributes and pairs
alone is prepared here once per run; nothing here knows about training.
"""

from __future__ import annotations

from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from gelato.errors import InputError, UsageError
from gelato.kernels.pair_features import pair_layer, sum_at_nodes
from gelato.kernels.parts import Parts, run_shares
from gelato.nn.pair_terms import AttributeRows, PairTerms, choose_terms
from gelato.nn.sparse_rows import Array, index_type, tiled

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
        threads: int | None = None,
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
        threads : int, optional
            How many threads; the result does not depend on it.
        """
        r = self.num_attributes
        upper, lower = (
            np.ascontiguousarray(w.T) for w in (weight[:, :r], weight[:, r:])
        )
        tables = self._terms.tables(upper, lower, threads)
        lists = self._terms.lists
        dense = self._terms.write_pair_term(lower, out, threads)
        if lists is None:
            empty = np.zeros(0, np.uint16)
            indptr, indices, values = np.zeros(len(self) + 1, np.int64), empty, None
            tiles = tiled(np.zeros((1, weight.shape[0]), weight.dtype))
        else:
            indptr, indices = lists.indptr, lists.indices
            values, tiles = lists.values(weight.dtype), tiled(tables.pair)
        offset = (bias + tables.constant).astype(weight.dtype)
        run_shares(
            lambda start, stop: pair_layer(
                indptr,
                indices,
                values,
                tiles,
                tables.first,
                tables.second,
                self.pairs,
                offset,
                parts.start,
                dense,
                out,
                sums,
                start,
                stop,
            ),
            len(parts),
            threads,
        )

    def weight_gradient(self, gradient: Array, threads: int | None = None) -> Array:
        """Return the gradient (h, 2r) of the weight, given that of the layer (M, h)."""
        at_nodes = []
        for indptr, incident in self._incident:
            out = np.empty((self.num_nodes, gradient.shape[1]), gradient.dtype)
            work = partial(sum_at_nodes, indptr, incident, gradient, out)
            run_shares(work, self.num_nodes, threads)
            at_nodes.append(out)
        halves = self._terms.gradients(at_nodes, gradient, threads)
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
