"""Kernels are compiled when they are needed, and give the same bits before."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

SCORES = """
import hashlib, json, sys
import numpy as np
from gelato import Graph, evaluate, make, split_edges
from gelato.kernels.compiled import Kernel, compile_all

def digests():
    found = {}
    for seed, nodes, edges in ((1, 12, 20), (2, 30, 90), (3, 18, 150)):
        rng = np.random.default_rng(seed)
        pairs = [sorted(rng.choice(nodes, 2, replace=False)) for _ in range(edges)]
        graph = Graph.from_indices(nodes, np.unique(pairs, axis=0))
        split = split_edges(graph, valid=0.1, test=0.2, seed=seed)
        for name in ("cn", "aa", "ra", "pa", "ac", "ease"):
            model = make(name).fit(split)
            scores = np.asarray(model.score_rows(np.arange(nodes)))
            links = model.predict(top=15).select("source", "target", "score")
            result = evaluate(model, split)
            told = repr((links.rows(), result.ap, result.auc)).encode()
            bits = hashlib.sha256(scores.tobytes() + told)
            found[f"{seed} {name}"] = bits.hexdigest()
    return found

Kernel.seconds = float("-inf")  # however busy the machine is
plain, loaded = digests(), "numba" in sys.modules
compile_all()
print(json.dumps([loaded, Kernel.waiting, plain, digests()]))
"""


@pytest.fixture
def run(tmp_path):
    """Return what runs code in a process of its own, from a file as numba wants it."""

    def run(code):
        file = tmp_path / "code.py"
        file.write_text(code, "utf-8")
        done = subprocess.run(
            [sys.executable, "-W", "error", file],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_small_graphs_need_no_compiler_and_get_the_same_bits(run):
    loaded, waiting, plain, compiled = json.loads(run(SCORES))
    assert not loaded
    assert not waiting
    assert len(plain) == 18
    assert plain == compiled


def test_a_large_call_compiles_all_and_later_modules_at_once(run):
    said = run(
        """
import sys
import numpy as np
from gelato.kernels import chunks, deal
from gelato.kernels.compiled import Kernel, kernel

@kernel()
def total(values):
    out = 0.0
    for value in values:
        out += value
    return out

known = total  # a name that is not replaced
assert total(np.ones(5)) == 5.0
assert "numba" not in sys.modules and type(chunks.mix) is Kernel
assert known(np.ones(50_000)) == 50_000.0
assert type(total) is not Kernel and type(chunks.mix) is not Kernel
assert total(np.ones(5)) == known(np.ones(5)) == 5.0

@kernel()
def add(count, more):
    return count + more

@kernel()
def later(values):
    count = 0
    for _ in values:
        count = add(count, 1)
    return total(values) + chunks.mix(np.uint64(1)) * 0 + add(count, -3)

assert later(np.ones(3)) == 3.0
assert len(add.signatures) == 1  # and not one for 0, 1 and -3 each
print("fine")
"""
    )
    assert said == "fine\n"


def test_time_in_plain_python_is_limited(run):
    run(
        """
import sys
import numpy as np
from gelato.kernels.compiled import Kernel, kernel

@kernel()
def count(values):
    out = 0
    for _ in range(12_000_000):
        out += 1
    return out

assert count(np.ones(2)) == 12_000_000 and Kernel.waiting
assert count(np.ones(2)) == 12_000_000 and not Kernel.waiting
"""
    )


@pytest.mark.parametrize("order", ["same", "changed"])
def test_arithmetic_that_may_be_rearranged_is_always_compiled(run, order):
    options = 'fastmath={"reassoc"}' if order == "changed" else ""
    said = run(
        f"""
import numpy as np
from gelato.kernels.compiled import Kernel, kernel

@kernel({options})
def total(values):
    out = 0.0
    for value in values:
        out += value
    return out

total(np.ones(5))
print(Kernel.waiting)
"""
    )
    assert said == f"{order == 'same'}\n"
