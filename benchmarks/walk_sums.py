"""WalkPool's walks in training: sparse rows against batched products.

The sums of walks of a step's 32 subgraphs, and their gradient: by compiled loops over
sparse rows, and by batched products of dense matrices padded to multiples of 16 nodes,
in turn and in the same run. Both give the same. Writes
``results/benchmarks/walk_sums.json``.

    python benchmarks/walk_sums.py [DATASET ...]
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gelato.baselines.shared_layers.subgraph_model import neighbours
from gelato.baselines.shared_layers.subgraphs import Packed, pack_subgraphs
from gelato.baselines.walkpool.model import walk_sums
from gelato.baselines.walkpool.profiles import HEADS, POWERS
from gelato.datasets import load_dataset
from gelato.io import write_text_atomic
from gelato.splits import split_edges
from gelato.storage import environment
from gelato.training.negatives import NegativePairs

TARGET = (
    Path(__file__).resolve().parent.parent / "results" / "benchmarks" / "walk_sums.json"
)
ROUND, STEPS, HALF, HOPS = 16, 20, 16, 2


def padded_sums(packed: Packed, values: Tensor) -> Tensor:
    """Return :func:`walk_sums` by dense matrices, those of about one size together."""
    rounded = -(-np.diff(packed.start) // ROUND) * ROUND
    channels = values.shape[1]
    rows = np.repeat(np.arange(len(packed.nodes)), np.diff(packed.rows))
    owners = packed.owners[rows]
    first = packed.start[owners]
    parts, order = [], []
    for size in np.unique(rounded).tolist():
        pairs = np.flatnonzero(rounded == size)
        place = np.zeros(len(rounded), np.int64)
        place[pairs] = np.arange(len(pairs))
        own = np.flatnonzero(rounded[owners] == size)
        cells = (place[owners] * size + rows - first) * size + packed.columns - first
        flat = values.new_zeros(len(pairs) * size**2, channels).index_copy(
            0, torch.from_numpy(cells[own]), values[torch.from_numpy(own)]
        )
        found = dense_sums(flat.T.reshape(-1, size, size))
        parts.append(found.view(channels, len(pairs), 3, POWERS).transpose(0, 1))
        order.append(pairs)
    back = np.argsort(np.concatenate(order))
    return torch.cat(parts)[torch.from_numpy(back)]


def dense_sums(one: Tensor) -> Tensor:
    """Return returns, crossings and traces of powers 2 to 8, by three products."""
    two = one @ one
    three, four = two @ one, two @ two
    corners = [power[:, :2, :2] for power in (two, three, four)]
    traces = [power.diagonal(dim1=1, dim2=2).sum(dim=1) for power in (two, three, four)]
    for a in (one, two, three, four):
        corners.append(a[:, :2, :] @ four[:, :, :2])
        traces.append((a * four.transpose(1, 2)).sum(dim=(1, 2)))
    corner = torch.stack(corners, dim=1)
    back = corner[:, :, 0, 0] + corner[:, :, 1, 1]
    across = corner[:, :, 0, 1] + corner[:, :, 1, 0]
    return torch.stack([back, across, torch.stack(traces, dim=1)], dim=1)


def seconds(
    sums: Callable[[Packed, Tensor], Tensor], packed: Packed, values: Tensor
) -> tuple[float, Tensor]:
    """Return the time of sums with their gradient, and the gradient."""
    values = values.clone().requires_grad_()
    started = time.perf_counter()
    sums(packed, values).square().sum().backward()
    assert values.grad is not None
    return time.perf_counter() - started, values.grad


def measure(dataset: str) -> dict[str, Any]:
    split = split_edges(load_dataset(dataset), seed=1)
    graph = split.train_graph
    random = np.random.default_rng(1)
    pool = NegativePairs(graph.num_nodes, graph.edges)
    times: dict[str, list[float]] = {"sparse": [], "padded": []}
    for _ in range(STEPS + 1):
        some = graph.edges[random.permutation(graph.num_edges)[:HALF]]
        pairs = np.concatenate([some, pool.sample(HALF, random)])
        packed = pack_subgraphs(pairs, neighbours(graph), hops=HOPS, joined=True)
        degrees = np.diff(packed.rows)
        values = torch.from_numpy(np.repeat(1.0 / degrees.clip(1), degrees))
        given = values.float()[:, None].expand(-1, 2 * HEADS)
        sparse, ours = seconds(walk_sums, packed, given)
        padded, theirs = seconds(padded_sums, packed, given)
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-3)
        times["sparse"].append(sparse)
        times["padded"].append(padded)
    means = {name: float(np.mean(each[1:])) for name, each in times.items()}
    return {
        "dataset": dataset,
        "split": split.fingerprint,
        "seed": 1,
        **{f"{name}_seconds": value for name, value in means.items()},
        "ratio": means["padded"] / means["sparse"],
    }


def main() -> None:
    rows = [measure(dataset) for dataset in sys.argv[1:] or ("cora", "citeseer")]
    for row in rows:
        print(
            f"{row['dataset']}: sparse {1e3 * row['sparse_seconds']:.1f} ms, "
            f"padded {1e3 * row['padded_seconds']:.1f} ms, ratio {row['ratio']:.1f}"
        )
    content = {"environment": environment(), "rows": rows}
    write_text_atomic(TARGET, json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
