"""Lists of shared attributes against sets, by bits and by merging."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from gelato.kernels.pair_attributes import count_bits
from gelato.nn import first_layer as meetings
from gelato.nn.first_layer import Meetings


def rows(lists):
    return np.split(lists.indices.astype(int), lists.indptr[1:-1])


@given(
    columns=st.sampled_from([1, 63, 64, 65, 200]),
    fill=st.sampled_from([0.0, 0.1, 0.9]),
    seed=st.integers(0, 2**32 - 1),
)
def test_bits_and_merging_list_what_sets_share(columns, fill, seed):
    random = np.random.default_rng(seed)
    dense = random.random((7, columns)) < fill
    sparse = sp.csr_array(dense, dtype=np.float32)
    pairs = random.integers(0, 7, (20, 2))
    expected = [np.flatnonzero(dense[u] & dense[v]) for u, v in pairs]
    for words in (0, np.inf):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(meetings, "_MOST_WORDS", words)
            both = Meetings(sparse, binary=True)
        assert both._as_bits == (words > 0 and sparse.nnz > 0)
        found = both.lists(pairs)
        for ours, theirs in zip(rows(found), expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)
        assert both.lists(pairs, most=len(found.indices) - 1) is None


def test_numbers_are_never_compared_as_bits():
    sparse = sp.csr_array(np.array([[1.0, -2.0, 3.0], [2.0, 1.0, 0.5]], np.float32))
    found = Meetings(sparse, binary=False).lists(np.array([[0, 1]]))
    assert found.indices.tolist() == [0, 2]
    assert found.values(np.float32).tolist() == [1.0, 0.5]


@given(st.integers(0, 2**64 - 1))
def test_bits_of_a_word(word):
    assert count_bits(np.uint64(word)) == word.bit_count()
