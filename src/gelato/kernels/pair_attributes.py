"""Attributes of given pairs: sums over shared ones, products of low-rank factors."""

from __future__ import annotations

from typing import Any

import numpy as np

from gelato.kernels.compiled import kernel


@kernel()
def shared_sums(pairs: Any, attributes: Any, columns: Any, out: Any) -> None:
    """Write sums over the attributes that both nodes of pairs have.

    Parameters
    ----------
    pairs : (p, 2) int64
        Sorted by the first node.
    attributes : (indptr, indices, data)
        CSR of the attributes.
    columns : (r, 2) float64
        Per attribute: a factor on the product of both values, and a term that counts
        once where both nodes have the attribute.
    out : (p, 3) float64
        Sum of the products, sum of factor times product, sum of the terms.
    """
    indptr, indices, data = attributes
    value = np.zeros(len(columns))
    p = 0
    while p < len(pairs):
        u = pairs[p, 0]
        for a in range(indptr[u], indptr[u + 1]):
            value[indices[a]] = data[a]
        while p < len(pairs) and pairs[p, 0] == u:
            v = pairs[p, 1]
            dot, weighted, terms = 0.0, 0.0, 0.0
            for a in range(indptr[v], indptr[v + 1]):
                x = indices[a]
                if value[x] != 0.0:
                    product = value[x] * data[a]
                    dot += product
                    weighted += product * columns[x, 0]
                    terms += columns[x, 1]
            out[p, 0], out[p, 1], out[p, 2] = dot, weighted, terms
            p += 1
        for a in range(indptr[u], indptr[u + 1]):
            value[indices[a]] = 0.0


@kernel(fastmath={"reassoc"})
def factor_dots(pairs: Any, left: Any, right: Any, out: Any) -> None:
    """Write ``left[u] . right[v]`` of pairs."""
    for p in range(len(pairs)):
        one, other = left[pairs[p, 0]], right[pairs[p, 1]]
        total = np.float32(0.0)
        for k in range(one.size):
            total += one[k] * other[k]
        out[p] = total
