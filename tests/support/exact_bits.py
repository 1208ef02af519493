"""Digests of scores and weights, and the machine that they hold for.

Only public names of gelato are used, so that modules may move.
"""

from __future__ import annotations

import hashlib
import json
import platform
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

import llvmlite.binding
import numba
import numpy as np
import scipy.sparse as sp
import torch
from safetensors.numpy import load_file

import gelato

# Where the last bits are the machine's own, values agree to this share of the largest.
CLOSE = 1e-5
_PACKAGES = ("numpy", "scipy", "numba", "torch", "scikit-learn")
_FLAGS = ("avx2", "fma", "avx512f", "avx512vl", "avx512_bf16")


def draws(seed: int, *shape: int) -> np.ndarray:
    """Return even numbers of [0, 1) that no version of any package changes.

    The finaliser of SplitMix64, counted from a seed: plain 64-bit arithmetic.
    """
    count = int(np.prod(shape))
    z = np.arange(1, count + 1, dtype=np.uint64) + np.uint64(seed << 32)
    z *= np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return ((z >> np.uint64(11)) / 2.0**53).reshape(shape)


def block_graph(
    n: int,
    attributes: int = 16,
    *,
    kind: str = "plain",
    inside: float = 0.18,
    outside: float = 0.02,
    ids: list[str] | None = None,
) -> gelato.Graph:
    """Return a graph of three communities whose attributes follow them.

    Its last node is isolated.

    Parameters
    ----------
    n, attributes : int
        How many.
    kind : {"plain", "weighted", "directed", "bare", "dense"}
        With weights, with directions, without attributes, with dense real ones.
    inside, outside : float
        Chance of an edge in a community, and between two.
    ids : list of str, optional
        Names of the nodes.
    """
    block = np.arange(n) % 3
    chance = np.where(block[:, None] == block[None, :], inside, outside)
    drawn = draws(1, n, n) < chance
    np.fill_diagonal(drawn, False)
    drawn[-1] = drawn[:, -1] = False
    edges = np.argwhere(drawn if kind == "directed" else np.triu(drawn))
    own = np.arange(attributes)[None, :] % 3 == block[:, None]
    values: Any = (draws(2, n, attributes) < 0.08 + 0.4 * own).astype(np.float32)
    if kind == "dense":
        values = (values + draws(3, n, attributes) - 0.5).astype(np.float32)
    else:
        values = sp.csr_array(values)
    weights = np.array([0.5, 1.0, 1.5, 3.0])[np.arange(len(edges)) * 7 % 4]
    return gelato.Graph.from_indices(
        n,
        edges,
        attributes=None if kind == "bare" else values,
        weights=weights if kind == "weighted" else None,
        directed=kind == "directed",
        ids=ids,
    )


def machine() -> dict[str, Any]:
    """Return what the last bits of a result may depend on."""
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "flags": _flags(),
        "compiles for": numba.config.CPU_NAME or llvmlite.binding.get_host_cpu_name(),
        "torch uses": torch.backends.cpu.get_cpu_capability(),
        **{name: metadata.version(name) for name in _PACKAGES},
    }


def other_machine(recorded: dict[str, Any]) -> str:
    """Return why recorded bits do not bind this machine; empty if they do."""
    here = machine()
    differing = [k for k in {**recorded, **here} if recorded.get(k) != here.get(k)]
    if not differing:
        return ""
    return f"bits were recorded on another machine: {', '.join(sorted(differing))}"


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Let torch use one thread meanwhile.

    Kernels of gelato give the same bits for any number of threads. Sums of torch do
    not, and on these sizes they are also quicker on one.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def digest(array: np.ndarray) -> str:
    """Return a hash of numbers as 64-bit floats, and of their shape."""
    values = np.ascontiguousarray(array, dtype="<f8")
    found = hashlib.sha256(str(values.shape).encode())
    found.update(values.tobytes())
    return found.hexdigest()[:32]


def all_scores(model: Any, graph: gelato.Graph) -> np.ndarray:
    """Return the scores of all pairs, row by row, the diagonal left out."""
    n = graph.num_nodes
    scores = np.asarray(model.scorer(graph).score_rows(np.arange(n)), dtype=np.float64)
    assert scores.shape == (n, n)
    return scores[~np.eye(n, dtype=bool)]


def weights_of(folder: Path) -> dict[str, Any]:
    """Return the names and shapes of a run folder's weights, and a hash of all."""
    file = folder / "weights.safetensors"
    if not file.exists():
        return {"names": [], "hash": ""}
    tensors = load_file(file)
    found, names = hashlib.sha256(), []
    for name in sorted(tensors):
        value = np.ascontiguousarray(tensors[name])
        title = f"{name} {value.dtype} {list(value.shape)}"
        names.append(title)
        found.update(title.encode() + value.tobytes())
    return {"names": names, "hash": found.hexdigest()[:32]}


def saved_weights(model: Any) -> tuple[dict[str, Any], Any]:
    """Return :func:`weights_of` a model, and the model after saving and loading."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "run"
        model.save(folder)
        return weights_of(folder), gelato.load(folder)


def some(values: np.ndarray, count: int = 7) -> list[float]:
    """Return a few of many numbers, from all over."""
    places = np.linspace(0, len(values) - 1, count).astype(int)
    return [float(values[k]) for k in places]


def assert_close(
    found: Any, recorded: Any, *, scale: float | None = None, close: float = CLOSE
) -> None:
    """Raise unless numbers agree but for what machines differ in."""
    known = np.asarray(recorded, dtype=np.float64)
    largest = float(np.abs(known).max(initial=0)) if scale is None else scale
    np.testing.assert_allclose(found, known, rtol=close, atol=close * largest)


def write_json(path: Path, document: dict[str, Any]) -> None:
    """Write plain data so that differences can be read line by line."""
    path.write_text(json.dumps(document, indent=1) + "\n", "utf-8")


def _flags() -> list[str]:
    try:
        text = Path("/proc/cpuinfo").read_text("utf-8")
    except OSError:
        return [platform.processor()]
    lines = [line for line in text.splitlines() if line.startswith("flags")]
    known = set(lines[0].split()) if lines else set()
    return [flag for flag in _FLAGS if flag in known]
