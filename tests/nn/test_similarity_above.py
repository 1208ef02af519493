"""A threshold found before gives back the pairs that it was found with."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp

from gelato.nn.similarity import similarity_above, similarity_edges


@pytest.mark.parametrize("share", [0.05, 0.6])
@pytest.mark.parametrize("sign", [1, -1])
def test_equal_to_the_search_by_count(share, sign):
    random = np.random.default_rng(0)
    values = random.integers(1, 4, (30, 8)) * (random.random((30, 8)) < share)
    values[0] *= sign
    attributes = sp.csr_array(values.astype(np.float32))
    found = similarity_edges(attributes, 61)
    again = similarity_above(attributes, found.threshold)
    np.testing.assert_array_equal(again.pairs, found.pairs)
    np.testing.assert_array_equal(again.similarity, found.similarity)


def test_an_infinite_threshold_gives_no_pairs():
    assert len(similarity_above(np.eye(3), math.inf).pairs) == 0
