"""The pruned search and the approximate one, against every pair compared."""

from __future__ import annotations

import ast
import inspect
import re
import sys
import types
from importlib.metadata import PackageNotFoundError, distribution

import numpy as np
import pytest
import scipy.sparse as sp

from gelato.datasets import make_synthetic_graph
from gelato.errors import MissingExtraError, UsageError
from gelato.nn import similar_search
from gelato.nn.similarity import similarity_above, similarity_edges


def skewed_rows(n, seed):
    """Attributes that nearly everybody has beside rare ones; stored zeros; no rows."""
    rng = np.random.default_rng(seed)
    chance = np.concatenate([np.full(3, 0.8), np.full(60, 0.05)])
    values = (rng.random((n, 63)) < chance) * rng.integers(1, 3, (n, 63))
    values[::17] = 0
    matrix = sp.csr_array(values.astype(np.float32))
    matrix.data[:: max(1, matrix.nnz // 7)] = 0
    return matrix


def dense_cosines(matrix):
    x = matrix.toarray().astype(np.float64)
    squares = (x * x).sum(1)
    norms = np.sqrt(squares[:, None] * squares[None, :])
    return np.divide(x @ x.T, norms, out=np.zeros(norms.shape), where=norms > 0)


@pytest.mark.parametrize("way", ["whole", "pruned", "counted"])
@pytest.mark.parametrize("count", [1, 40, 900, 30_000, 150_000])
def test_all_ways_give_every_pair_above_the_threshold(monkeypatch, way, count):
    monkeypatch.setattr(similar_search, "_SAMPLE_ROWS", 40)
    monkeypatch.setattr(similar_search, "_COMPARE", -1e9 if way == "pruned" else 1e9)
    monkeypatch.setattr(similar_search, "_COUNT", -1e6 if way == "counted" else 1e6)
    monkeypatch.setattr(similar_search, "_BLOCK_VISITS", 5000)
    matrix = skewed_rows(400, count)
    if way == "counted":
        matrix = (matrix > 0).astype(np.float32)
    cosines = dense_cosines(matrix)
    np.fill_diagonal(cosines, 0)
    threshold = np.sort(cosines.ravel())[::-1][count - 1]
    expected = np.argwhere(np.triu(cosines > threshold, 1))
    found = similarity_edges(matrix, count)
    assert found.threshold == threshold
    np.testing.assert_array_equal(found.pairs, expected)
    np.testing.assert_array_equal(found.similarity, cosines[tuple(expected.T)])
    again = similarity_above(matrix, threshold)
    np.testing.assert_array_equal(again.pairs, expected)


def test_a_sample_that_promises_too_much_is_found_out(monkeypatch):
    monkeypatch.setattr(similar_search, "_SAMPLE_ROWS", 40)
    matrix = skewed_rows(300, 1)
    expected = similarity_edges(matrix, 2000)
    monkeypatch.setattr(
        similar_search.SparseSearch, "_sampled_threshold", lambda *_: 0.999
    )
    found = similarity_edges(matrix, 2000)
    np.testing.assert_array_equal(found.pairs, expected.pairs)
    assert found.threshold == expected.threshold


def test_threads_do_not_change_a_bit(monkeypatch):
    monkeypatch.setattr(similar_search, "_BLOCK_VISITS", 2000)
    matrix = skewed_rows(300, 2)
    one = similarity_edges(matrix, 500)
    monkeypatch.setenv("GELATO_THREADS", "4")
    many = similarity_edges(matrix, 500)
    np.testing.assert_array_equal(one.pairs, many.pairs)
    np.testing.assert_array_equal(one.similarity, many.similarity)


def test_without_the_extra_one_line_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynndescent", None)
    with pytest.raises(MissingExtraError, match=r"gelato-lp\[big\]"):
        similarity_edges(skewed_rows(60, 0), 20, method="approximate")


def test_wrong_methods_are_refused():
    with pytest.raises(UsageError, match="called 'fast'"):
        similarity_edges(np.eye(3), 1, method="fast")
    with pytest.raises(UsageError, match="Only cosine"):
        similarity_edges(
            np.eye(3), 1, similarity=lambda x, a, b: x[a:b], method="approximate"
        )


class Neighbours:
    """What pynndescent offers, in plain numpy: the nearest rows, some of them lost.

    The library itself compiles for minutes.
    """

    def __init__(self, matrix, *, metric, n_neighbors, random_state, n_jobs):
        assert metric == "cosine"
        nearest = np.argsort(-dense_cosines(matrix), axis=1)[:, :n_neighbors]
        lost = np.random.default_rng(random_state).random(nearest.shape) < 0.1
        self.neighbor_graph = np.where(lost, -1, nearest), None


def test_the_approximate_search_finds_most_and_measures_how_many(monkeypatch):
    library = types.SimpleNamespace(NNDescent=Neighbours)
    monkeypatch.setitem(sys.modules, "pynndescent", library)
    matrix = make_synthetic_graph(300, words=15, seed=1).attributes
    exact = similarity_edges(matrix, 600)
    found = similarity_edges(matrix, 600, method="approximate")
    keys = [{tuple(pair) for pair in x.pairs.tolist()} for x in (exact, found)]
    recall = len(keys[0] & keys[1]) / len(keys[0])
    assert 0.8 < recall < 1  # a pair is lost if both of its ends lose it
    told = float(re.search(r"([\d.]+)% were found", found.note)[1]) / 100
    assert told == pytest.approx(recall, abs=0.05)
    assert not exact.note


def test_the_library_takes_what_it_is_given():
    try:
        library = distribution("pynndescent")
    except PackageNotFoundError:
        pytest.skip("pynndescent is not installed")
    # Read and not imported: that compiles for half a minute.
    code = library.locate_file("pynndescent/pynndescent_.py").read_text("utf-8")
    (made,) = (
        method
        for kind in ast.parse(code).body
        if isinstance(kind, ast.ClassDef) and kind.name == "NNDescent"
        for method in kind.body
        if isinstance(method, ast.FunctionDef) and method.name == "__init__"
    )
    asked = inspect.signature(Neighbours.__init__).parameters
    known = {argument.arg for argument in made.args.args}
    assert set(asked) - {"self", "matrix"} <= known
