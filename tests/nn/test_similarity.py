"""Blocked similarity pairs against the dense n x n way."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from gelato.errors import InputError, UsageError
from gelato.nn import similar_search
from gelato.nn import similarity as block_search
from gelato.nn.similarity import (
    pair_similarity,
    similarity_count,
    similarity_edges,
)


def dense_cosine(attributes):
    x = np.asarray(attributes, dtype=np.float64)
    squares = (x * x).sum(1)
    norms = np.sqrt(squares[:, None] * squares[None, :])
    cosine = np.divide(x @ x.T, norms, out=np.zeros(norms.shape), where=norms > 0)
    np.fill_diagonal(cosine, 0)
    return cosine


def dense_pairs(matrix, count):
    """The paper's way: sort all n^2 entries, keep what is strictly larger."""
    if count == 0:
        return np.empty((0, 2), dtype=np.int64)
    threshold = np.sort(matrix.ravel())[::-1][count - 1]
    return np.argwhere(np.triu(matrix > threshold, 1))


def random_attributes(kind, n, r, seed):
    rng = np.random.default_rng(seed)
    filled = rng.random((n, r)) < (0.6 if kind.startswith("dense") else 0.1)
    values = {
        "binary": np.ones((n, r)),
        "dense binary": np.ones((n, r)),
        "counts": rng.integers(1, 4, (n, r)),
        "dense signed": rng.integers(-2, 3, (n, r)),
        "signed": rng.integers(-2, 3, (n, r)),
    }[kind]
    return (filled * values).astype(np.float32)


KINDS = ["binary", "dense binary", "counts", "signed", "dense signed"]


@given(
    kind=st.sampled_from(KINDS),
    n=st.integers(1, 25),
    r=st.integers(1, 12),
    seed=st.integers(0, 2**32 - 1),
    share=st.floats(0, 1),
    sparse=st.booleans(),
    block=st.sampled_from([1, 60, 1 << 20]),
    samples=st.sampled_from([1, 3, 300]),
    pruned=st.booleans(),
)
def test_equals_the_dense_way(kind, n, r, seed, share, sparse, block, samples, pruned):
    # Whole numbers: exact dot products, so that ties are ties in both ways.
    attributes = random_attributes(kind, n, r, seed)
    count = int(share * n * n)
    expected = dense_cosine(attributes)
    given_as = sp.csr_array(attributes) if sparse else attributes
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(block_search, "BLOCK_ENTRIES", block)
        patch.setattr(similar_search, "_BLOCK_PAIRS", block)
        patch.setattr(similar_search, "_BLOCK_VISITS", block)
        patch.setattr(similar_search, "_SAMPLE_ROWS", samples)
        patch.setattr(similar_search, "_COMPARE", -1e9 if pruned else 1e9)
        found = similarity_edges(given_as, count)
        values = pair_similarity(given_as, found.pairs)
    assert np.array_equal(found.pairs, dense_pairs(expected, count))
    assert np.array_equal(found.similarity, expected[tuple(found.pairs.T)])
    assert np.array_equal(values, found.similarity)


@pytest.mark.parametrize(
    ("name", "eta"),
    [("cora", 0.5), pytest.param("citeseer", 0.75, marks=pytest.mark.slow)],
)
def test_equals_the_dense_way_on_benchmarks(benchmark, name, eta):
    graph = benchmark(name)
    count = similarity_count(int(0.85 * graph.num_edges), eta)
    found = similarity_edges(graph.attributes, count)
    matrix = dense_cosine(graph.attributes.toarray())
    assert np.array_equal(found.pairs, dense_pairs(matrix, count))
    assert 0 < len(found.pairs) <= count // 2


def test_real_values_agree_to_rounding():
    rng = np.random.default_rng(0)
    for fill in (0.1, 0.9):
        attributes = (rng.random((60, 20)) * (rng.random((60, 20)) < fill)).astype("f4")
        matrix = dense_cosine(attributes)
        found = similarity_edges(attributes, 500)
        assert np.array_equal(found.pairs, dense_pairs(matrix, 500))
        np.testing.assert_allclose(found.similarity, matrix[tuple(found.pairs.T)])


def test_any_block_function_can_be_the_similarity():
    attributes = random_attributes("dense signed", 30, 5, 3)

    def dot(rows, start, stop):
        return rows[start:stop] @ rows.T

    matrix = (attributes @ attributes.T).astype(np.float64)
    np.fill_diagonal(matrix, 0)
    for count in (1, 100, 500, 850, 900):
        found = similarity_edges(attributes, count, similarity=dot)
        assert np.array_equal(found.pairs, dense_pairs(matrix, count))
        values = pair_similarity(attributes, found.pairs, similarity=dot)
        assert np.array_equal(values, found.similarity)


def test_all_zero_rows_have_cosine_0():
    attributes = np.array([[0, 0], [1, 1], [0, 0], [1, 0]], dtype=np.float32)
    pairs = np.array([[0, 1], [0, 2], [1, 3]])
    assert pair_similarity(attributes, pairs).tolist() == [0, 0, 1 / np.sqrt(2)]


def test_count_follows_the_protocol():
    assert similarity_count(4488, 0.5) == 4488
    assert similarity_count(3, 0.5) == 3
    assert similarity_count(3, 0.4) == 2
    assert similarity_count(3, 0.5, directed=True) == 1
    assert similarity_edges(np.eye(3), 0).pairs.shape == (0, 2)


def test_wrong_arguments_are_refused():
    rows = np.eye(3, dtype=np.float32)
    with pytest.raises(UsageError, match="eta"):
        similarity_count(3, -0.1)
    with pytest.raises(UsageError, match="eta"):
        similarity_count(3, float("nan"))
    with pytest.raises(UsageError, match="9 entries"):
        similarity_edges(rows, 10)
    with pytest.raises(UsageError, match="jaccard"):
        similarity_edges(rows, 1, similarity="jaccard")
    with pytest.raises(InputError, match="shape"):
        similarity_edges(rows, 1, similarity=lambda x, start, stop: x[start:stop, :2])
    with pytest.raises(InputError, match="finite"):
        similarity_edges(
            rows, 1, similarity=lambda x, a, b: np.full((b - a, 3), np.nan)
        )
