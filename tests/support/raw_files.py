"""Write graphs as the benchmarks' raw files: the converters, run backwards."""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from gelato.graph import Graph

NUM_TEST = 8


def random_graph(seed: int, *, binary: bool) -> Graph:
    rng = np.random.default_rng(seed)
    values = (rng.random((30, 7)) < 0.4) * (1.0 if binary else rng.random((30, 7)))
    edges = rng.integers(0, 30, (60, 2))
    graph = Graph.from_indices(
        30,
        edges[edges[:, 0] != edges[:, 1]],
        attributes=sp.csr_array(values.astype(np.float32)),
        labels=rng.integers(0, 3, 30),
    )
    return Graph(
        num_nodes=30,
        edges=graph.edges,
        attributes=graph.attributes,
        labels=graph.labels,
    )


def _dump(path: Path, content: object) -> None:
    """Pickle as Python 2 did: with the names that modules had then."""
    data = pickle.dumps(content, protocol=3)
    for now, then in (
        (b"numpy._core.multiarray\n", b"numpy.core.multiarray\n"),
        (b"scipy.sparse._csr\n", b"scipy.sparse.csr\n"),
        (b"builtins\n", b"__builtin__\n"),
    ):
        data = data.replace(now, then)
    path.write_bytes(data)


def write_planetoid(
    folder: Path, name: str, graph: Graph, seed: int, *, leave_out: Sequence[int] = ()
) -> None:
    """Write test nodes in random order, edges in both directions, a loop, a double."""
    rng = np.random.default_rng(seed)
    known = graph.num_nodes - NUM_TEST
    index = [i for i in rng.permutation(np.arange(known, 30)) if i not in leave_out]
    attributes, one_hot = sp.csr_matrix(graph.attributes), np.eye(3)[graph.labels]
    lists = defaultdict(list)
    for u, v in graph.edges.tolist():
        lists[u].append(v)
        lists[v].append(u)
    u, v = graph.edges[0].tolist()
    lists[u] += [v, u]
    pieces = {
        "allx": attributes[:known],
        "ally": one_hot[:known],
        "tx": attributes[index],
        "ty": one_hot[index],
        "graph": lists,
    }
    for piece, content in pieces.items():
        _dump(folder / f"ind.{name}.{piece}", content)
    text = "".join(f"{i}\n" for i in index)
    (folder / f"ind.{name}.test.index").write_text(text)


def write_amazon(path: Path, graph: Graph, seed: int) -> None:
    """Write each edge in a random direction or both, a loop, and object arrays."""
    rng = np.random.default_rng(seed)
    way = rng.integers(0, 3, graph.num_edges)
    u, v = graph.edges.T
    rows = np.r_[u[way != 0], v[way != 1], 3]
    columns = np.r_[v[way != 0], u[way != 1], 3]
    shape = (graph.num_nodes, graph.num_nodes)
    ones = np.ones(len(rows), dtype=np.float32)
    adjacency = sp.csr_array(sp.coo_array((ones, (rows, columns)), shape=shape))
    attributes = graph.attributes * np.float32(2)  # the converter makes it binary
    arrays = {
        f"{kind}_{part}": getattr(matrix, part)
        for kind, matrix in (("adj", adjacency), ("attr", attributes))
        for part in ("data", "indices", "indptr", "shape")
    }
    names = np.array([f"item {i}" for i in range(graph.num_nodes)], dtype=object)
    np.savez(path, **arrays, labels=graph.labels, node_names=names)
