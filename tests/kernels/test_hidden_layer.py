"""The compiled loops behind the pair MLP against obvious numpy."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

from gelato.kernels import hidden_layer as kernels
from gelato.kernels import tiles
from gelato.kernels import tiles as sparse_rows
from gelato.kernels.chunks import Parts, derive_key, run_shares, use_threads
from gelato.kernels.tiles import RememberingRows, SparseRows, index_type, tiled
from gelato.kernels.vectors import HAS_BFLOAT


def random_sparse(rows, columns, fill, seed, *, binary):
    rng = np.random.default_rng(seed)
    dense = rng.random((rows, columns)) < fill
    values = dense if binary else dense * rng.normal(size=dense.shape)
    return sp.csr_array(values.astype(np.float32))


@given(
    rows=st.integers(0, 300),
    columns=st.integers(1, 20),
    width=st.sampled_from([1, 63, 64, 65, 130]),
    fill=st.sampled_from([0.0, 0.02, 0.3, 1.0]),
    binary=st.booleans(),
    dtype=st.sampled_from([np.float32, np.float64]),
    threads=st.sampled_from([1, 2]),
    seed=st.integers(0, 2**32 - 1),
)
def test_sparse_products_equal_scipys(
    rows, columns, width, fill, binary, dtype, threads, seed
):
    matrix = random_sparse(rows, columns, fill, seed, binary=binary)
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(columns, width)).astype(dtype)
    dense = rng.normal(size=(rows, width)).astype(dtype)
    lists = SparseRows.from_scipy(matrix)
    close = {"rtol": 1e-4, "atol": 1e-4}
    with use_threads(threads):
        found, back = lists.times(table), lists.transposed_times(dense)
    np.testing.assert_allclose(found, matrix @ table, **close)
    np.testing.assert_allclose(back, matrix.T @ dense, **close)


def test_remembered_products_are_those_of_the_table_asked_for():
    matrix = random_sparse(20, 9, 0.4, 0, binary=False)
    plain, remembering = (
        SparseRows.from_scipy(matrix),
        RememberingRows.from_scipy(matrix),
    )
    table = np.random.default_rng(1).normal(size=(9, 5)).astype(np.float32)
    first = remembering.times(table)
    assert remembering.times(table.copy()) is first
    for other in (table.astype(np.float64), table * 2):
        found = remembering.times(other)
        np.testing.assert_array_equal(found, plain.times(other))
        assert found.dtype == other.dtype
    table[:] = 0  # weights change in place
    assert not remembering.times(table).any()


def test_many_groups_of_blocks_change_nothing_but_rounding(monkeypatch):
    matrix = random_sparse(3000, 9, 0.3, 0, binary=True)
    dense = np.random.default_rng(1).normal(size=(3000, 5))
    lists = SparseRows.from_scipy(matrix)
    one = lists.transposed_times(dense)
    monkeypatch.setattr(sparse_rows, "_GROUP_BYTES", 1)
    np.testing.assert_allclose(lists.transposed_times(dense), one, atol=1e-10)


def test_many_columns_use_wide_indices():
    assert index_type(65_535) is np.uint16
    assert index_type(65_536) is np.uint32
    matrix = sp.csr_array(
        (np.ones(3, np.float32), ([0, 0, 1], [0, 69_999, 5])), shape=(2, 70_000)
    )
    table = np.arange(70_000.0)[:, None]
    assert SparseRows.from_scipy(matrix).times(table).ravel().tolist() == [69_999, 5]


def test_tiles_are_padded_with_0():
    padded = tiled(np.ones((2, 65), np.float32))
    assert padded.shape == (2, 2, 64)
    assert padded.sum() == 130


@given(
    rows=st.integers(1, 400),
    left=st.sampled_from([1, 6, 17, 128]),
    right=st.sampled_from([1, 16, 33, 128]),
    dtype=st.sampled_from([np.float32, np.float64]),
    seed=st.integers(0, 2**32 - 1),
)
def test_dense_products_equal_numpys(rows, left, right, dtype, seed):
    rng = np.random.default_rng(seed)
    start, stop = rows // 3, rows
    one = rng.normal(size=(rows, left)).astype(dtype)
    two = rng.normal(size=(left, right)).astype(dtype)
    out = np.zeros((rows, right), dtype)
    tiles.rows_times(one, tiles.column_tiles(two), out, start, stop)
    close = {"rtol": 1e-4, "atol": 1e-4}
    np.testing.assert_allclose(out[start:], one[start:] @ two, **close)
    assert not out[:start].any()

    other = rng.normal(size=(rows, right)).astype(dtype)
    sums = np.zeros(tiles.inner_shape(left, right), dtype)
    tiles.add_inner_product(one, other, sums, start, stop)
    np.testing.assert_allclose(
        tiles.from_inner_tiles(sums, left, right),
        one[start:].T @ other[start:],
        **close,
    )


@pytest.mark.skipif(not HAS_BFLOAT, reason="this processor has no bfloat16")
@given(
    rows=st.integers(1, 400),
    left=st.sampled_from([1, 6, 17, 128]),
    right=st.sampled_from([1, 16, 33, 128]),
    seed=st.integers(0, 2**32 - 1),
)
def test_products_of_bfloat16_equal_those_of_rounded_numbers(rows, left, right, seed):
    rng = np.random.default_rng(seed)
    start, stop = rows // 3, rows
    one, two, other = (
        rng.normal(size=shape).astype(np.float32)
        for shape in ((rows, left), (left, right), (rows, right))
    )
    rounded = [
        torch.from_numpy(x).bfloat16().double().numpy() for x in (one, two, other)
    ]
    out = np.zeros((rows, right), np.float32)
    tiles.bfloat_rows_times(one, tiles.bfloat_tiles(two), out, start, stop)
    close = {"rtol": 1e-4, "atol": 1e-4}
    np.testing.assert_allclose(out[start:], rounded[0][start:] @ rounded[1], **close)
    assert not out[:start].any()

    sums = np.zeros(tiles.inner_shape(left, right, bfloat=True), np.float32)
    tiles.add_bfloat_product(one, other, sums, start, stop)
    np.testing.assert_allclose(
        tiles.from_inner_tiles(sums, left, right),
        rounded[0][start:].T @ rounded[2][start:],
        **close,
    )


@given(st.integers(1, 5000), st.integers(2, 3000))
def test_parts_cover_the_rows_within_chunks(rows, chunk):
    parts = Parts.cut(rows, chunk)
    assert parts.start[0] == 0
    assert parts.start[-1] == rows
    assert np.all(np.diff(parts.start) > 0)
    assert parts.sizes.sum() == rows
    assert rows == 1 or parts.sizes.min() > 1
    ends = np.cumsum(parts.sizes)
    assert set(ends) <= set(parts.start)
    middle = parts.start[:-1]
    assert np.array_equal(parts.chunk, np.searchsorted(ends, middle, side="right"))


def test_no_parts_are_no_work():
    assert len(Parts.cut(0, 5)) == 0
    run_shares(lambda start, stop: pytest.fail("called"), 0)


def masks(drop, rows=4000, width=96, key=1):
    keep = np.empty((rows, (width + 63) // 64 * 64))
    dropout = (derive_key(key), *kernels.keep_chance(drop, np.float64))
    for row in range(rows):
        kernels.keep_row(dropout, row, keep[row])
    return keep[:, :width]


@pytest.mark.parametrize("drop", [0.0, 0.1, 0.25, 0.5, 0.9])
def test_dropout_keeps_the_right_share(drop):
    keep = masks(drop)
    assert np.all((keep == 0) | (keep == 1 / (1 - drop)))
    kept = keep > 0
    deviation = np.sqrt(drop * (1 - drop) / kept.size)
    assert abs(kept.mean() - (1 - drop)) <= 5 * deviation
    # Neither columns nor neighbouring rows or columns know of each other.
    column = np.sqrt(drop * (1 - drop) / len(kept))
    assert np.abs(kept.mean(axis=0) - (1 - drop)).max() <= 5 * column
    for one, two in ((kept[1:], kept[:-1]), (kept[:, 1:], kept[:, :-1])):
        both = (one & two).mean()
        assert abs(both - (1 - drop) ** 2) <= 5 * deviation + 1e-12


def test_dropout_masks_differ_by_key_alone():
    assert np.array_equal(masks(0.5, rows=50), masks(0.5, rows=50))
    assert not np.array_equal(masks(0.5, rows=50), masks(0.5, rows=50, key=2))
    assert derive_key(1, 2) != derive_key(2, 1)


def test_gradient_may_overwrite_its_input():
    rng = np.random.default_rng(0)
    x, gradient = rng.normal(size=(2, 700, 70))
    parts = Parts.cut(700, 300)
    statistics = tuple(rng.normal(size=(5, len(parts.sizes), 70)))
    dropout = (derive_key(3), *kernels.keep_chance(0.5, np.float64))
    places = (parts.start, parts.chunk)
    results = []
    for out in (np.empty_like(x), x.copy(), gradient.copy()):
        sums = np.empty((len(parts), 70))
        source = out if len(results) == 1 else x
        upstream = out if len(results) == 2 else gradient
        given = (upstream, source, statistics, places, dropout)
        kernels.gradient_through(*given, out, sums, 0, len(parts))
        results.append(out)
        np.testing.assert_allclose(sums.sum(axis=0), out.sum(axis=0), atol=1e-9)
    assert np.array_equal(results[0], results[1])
    assert np.array_equal(results[0], results[2])
