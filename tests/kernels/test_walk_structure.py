"""Lists of pairs by row."""

from __future__ import annotations

import numpy as np

from gelato.kernels.walk_structure import PairLists


def test_apart_from_others_the_pairs_are_the_same() -> None:
    columns = np.arange(100, dtype=np.uint16)
    lists = PairLists(np.array([60, 10, 0]), np.array([0, 3, 3, 5]), columns)
    apart = lists.apart()
    assert apart.columns.tolist() == [60, 61, 62, 0, 1]
    assert apart.columns.dtype == np.uint16
    assert apart.rows().tolist() == lists.rows().tolist() == [0, 0, 0, 2, 2]
    assert apart.listed_columns().tolist() == lists.listed_columns().tolist()


def test_columns_that_rows_share_are_not_repeated() -> None:
    every = PairLists(np.zeros(3, np.int64), np.array([0, 3, 6, 9]), np.arange(3))
    assert every.apart() is every
