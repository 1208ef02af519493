"""Products counted by staircases against all products, listed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gelato.graph import Graph
from gelato.kernels.counting import product_bounds
from gelato.ranking import all_pairs
from gelato.ranking.counts import far_bins
from gelato.ranking.scorers import ClosedForm

SCALES = [-1.0, -3e-7, 0.0, 1.0, 7.3e-9]
whole = st.integers(0, 4).map(float)  # so that many products tie
broken = st.floats(0.0, 9.0, allow_subnormal=False)


def plain_bins(scores, thresholds):
    """Put every score into its bin, one by one."""
    bins = np.zeros(2 * len(thresholds) + 1, dtype=np.int64)
    for score in scores:
        place = np.searchsorted(thresholds, score)
        tie = place < len(thresholds) and thresholds[place] == score
        bins[2 * place + tie] += 1
    return bins


@settings(deadline=None)
@given(
    st.lists(st.one_of(whole, broken), min_size=2, max_size=25),
    st.sampled_from(SCALES),
    st.data(),
)
@pytest.mark.parametrize("mirrored", [True, False])
def test_staircases_count_every_product(mirrored, values, scale, data):
    left = np.array(values)
    right = left if mirrored else np.array(data.draw(st.permutations(values))) + 0.5
    n = len(left)
    u, v = np.triu_indices(n, 1)
    if not mirrored:
        u, v = np.nonzero(~np.eye(n, dtype=bool))
    far = ClosedForm(scale, left, right)
    scores = scale * (left[u] * right[v])
    some = data.draw(st.lists(st.sampled_from(scores.tolist()), max_size=30))
    others = data.draw(st.lists(st.floats(-90.0, 90.0), max_size=5))
    thresholds = np.unique(np.array([*some, *others, *(scale * x for x in others)]))
    graph = Graph.from_indices(n, [], directed=not mirrored)
    bins = far_bins(far, all_pairs(graph, np.empty((0, 2), np.int64)), thresholds)
    np.testing.assert_array_equal(bins, plain_bins(scores, thresholds))


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("strict", [True, False])
def test_bounds_are_the_last_products_that_reach_a_threshold(scale, strict):
    random = np.random.default_rng(0)
    products = random.random(200) * 50
    thresholds = np.sort(np.append(scale * products[:100], [0.0, -1e-300, 1e300]))
    sign = 1 if scale <= 0 else -1
    bounds = product_bounds(scale, thresholds, strict=strict)
    scores = scale * products[:, None]
    reached = scores > thresholds if strict else scores >= thresholds
    np.testing.assert_array_equal(sign * products[:, None] <= bounds, reached)
