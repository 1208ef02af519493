"""Random graphs and settings for the tests of walks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from gelato.kernels.walk_structure import WalkStructure
from gelato.nn.dense import dense_adjacency, dense_autocovariance


@dataclass
class Case:
    structure: WalkStructure
    weights: torch.Tensor
    mask: Any
    t: int

    def dense(self, weights: torch.Tensor) -> torch.Tensor:
        matrix = dense_adjacency(
            weights,
            torch.from_numpy(self.structure.edges),
            self.structure.num_nodes,
            self_loops=self.structure.self_loops,
            mask=None if self.mask is None else torch.from_numpy(self.mask),
        )
        return dense_autocovariance(matrix, t=self.t)


def make_case(
    n: int, share: float, seed: int, *, loops: str, masked: int, t: int
) -> Case:
    random = np.random.default_rng(seed)
    everything = np.stack(np.triu_indices(n, 1), axis=1)
    edges = everything[random.random(len(everything)) < share]
    mask = None
    if masked:
        mask = random.permutation(len(edges))[:masked]
    weights = torch.from_numpy(random.uniform(0.05, 1.5, len(edges)))
    structure = WalkStructure(n, edges, self_loops=loops)
    return Case(structure, weights, mask, t)


cases = st.builds(
    make_case,
    st.integers(2, 25),
    st.sampled_from([0.02, 0.1, 0.3, 0.9]),
    st.integers(0, 10_000),
    loops=st.sampled_from(["isolated", "all"]),
    masked=st.integers(0, 4),
    t=st.integers(1, 5),
)
