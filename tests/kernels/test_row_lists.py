"""The best values of rows, beside a plain sort."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from gelato.kernels.row_lists import best_of_rows
from gelato.stacking.lists import last_of_best


def best(rows, most):
    out = np.empty((len(rows), most), dtype=np.float32)
    best_of_rows(rows, out)
    return np.sort(out, axis=1)


FLOATS = st.floats(width=32, allow_nan=False, allow_subnormal=True)


@given(
    arrays.arrays(
        np.float32, st.tuples(st.integers(1, 4), st.integers(1, 40)), elements=FLOATS
    ),
    st.data(),
)
def test_best_values_are_those_of_a_sort(rows, data):
    most = data.draw(st.integers(1, rows.shape[1]))
    assert np.array_equal(best(rows, most), np.sort(rows, axis=1)[:, -most:])
    assert last_of_best(rows, most) == np.sort(rows.ravel())[-most]


@pytest.mark.parametrize("filled", [0.0, 0.02, 0.5, 1.0])
def test_long_rows_with_many_equal_values(filled):
    rng = np.random.default_rng(0)
    rows = np.where(rng.random((20, 3000)) < filled, rng.normal(size=(20, 3000)), 0.0)
    rows = rows.astype(np.float32)
    rows[:, 3:50] = -np.inf
    assert np.array_equal(best(rows, 256), np.sort(rows, axis=1)[:, -256:])
