from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

from gelato.errors import InputError, UsageError
from gelato.kernels.chunks import balanced_chunks, run_chunks, use_threads
from gelato.kernels.near_pairs import near_bits
from gelato.kernels.walk_structure import PairLists, WalkStructure
from gelato.kernels.walk_training import pull_gradients, score_pairs
from support.walk_graphs import Case, cases, make_case


def lists_of(case: Case, seed: int, count: int = 40):
    n = case.structure.num_nodes
    pairs = np.random.default_rng(seed).integers(0, n, (count, 2))
    return pairs, *case.structure.sort_pairs(pairs)


def passes(case: Case, lists, gradients, *, dtype=np.float64, near=None):
    matrix = case.structure.step(case.weights.numpy().astype(dtype), case.mask)
    scores, squares = score_pairs(matrix, lists, t=case.t, near=near)
    gradient = pull_gradients(
        matrix,
        lists,
        scores,
        tuple(g.astype(dtype) for g in gradients),
        case.structure.num_edges,
        t=case.t,
        near=near,
    )
    return scores, squares, gradient


@given(case=cases, seed=st.integers(0, 1000))
def test_scores_and_gradients_equal_the_dense_matrix(case: Case, seed: int) -> None:
    (one, first, order1), (two, second, order2) = (
        lists_of(case, seed),
        lists_of(case, seed + 1, 7),
    )
    random = np.random.default_rng(seed)
    g1, g2 = random.standard_normal(len(one)), random.standard_normal(len(two))
    scores, _, gradient = passes(case, (first, second), (g1[order1], g2[order2]))

    weights = case.weights.clone().requires_grad_()
    dense = case.dense(weights)
    at_one, at_two = dense[one[:, 0], one[:, 1]], dense[two[:, 0], two[:, 1]]
    loss = at_one @ torch.from_numpy(g1) + at_two @ torch.from_numpy(g2)
    np.testing.assert_allclose(scores[0], at_one.detach()[order1], atol=1e-13)
    np.testing.assert_allclose(scores[1], at_two.detach()[order2], atol=1e-13)
    if case.structure.num_edges:
        (expected,) = torch.autograd.grad(loss, weights)
        np.testing.assert_allclose(gradient, expected, rtol=1e-8, atol=1e-11)


@given(case=cases, seed=st.integers(0, 1000), dtype=st.sampled_from(["f4", "f8"]))
def test_passing_over_far_pairs_changes_no_bit(case: Case, seed: int, dtype) -> None:
    _, lists, order = lists_of(case, seed, 120)
    everything = case.structure.all_pairs()
    random = np.random.default_rng(seed)
    g = [random.standard_normal(size) for size in (len(order), len(everything))]
    given = (case, (lists, everything), g)
    near = near_bits(case.structure, case.t)
    found, expected = (passes(*given, dtype=dtype, near=n) for n in (near, None))
    for ours, theirs in zip(found[0], expected[0], strict=True):
        assert ours.tobytes() == theirs.tobytes()
    assert found[1].tobytes() == expected[1].tobytes()
    np.testing.assert_array_equal(found[2], expected[2])


@given(case=cases)
def test_sum_of_squares_counts_every_entry_of_the_matrix(case: Case) -> None:
    n = case.structure.num_nodes
    none = PairLists.empty(n, np.uint16)
    everything = case.structure.all_pairs()
    assert len(everything) == n * (n + 1) // 2
    assert len(everything.columns) == n
    matrix = case.structure.step(case.weights.numpy(), case.mask)
    _, squares = score_pairs(matrix, (none, everything), t=case.t)
    expected = float(case.dense(case.weights).square().sum())
    assert squares[0] == 0
    assert squares[1] == pytest.approx(expected, rel=1e-10, abs=1e-15)


@pytest.mark.parametrize("t", [1, 2, 3, 4])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_results_do_not_depend_on_threads(t: int, dtype) -> None:
    case = make_case(200, 0.05, 3, loops="isolated", masked=20, t=t)
    _, lists, order = lists_of(case, 0, 3000)
    gradient = np.random.default_rng(1).standard_normal(len(order))
    none = PairLists.empty(200, np.uint16)
    results = []
    for threads in (1, 2, 5):
        with use_threads(threads):
            found = passes(case, (lists, none), (gradient, gradient[:0]), dtype=dtype)
        results.append(found)
    for scores, squares, by_edge in results[1:]:
        assert scores[0].tobytes() == results[0][0][0].tobytes()
        assert squares.tobytes() == results[0][1].tobytes()
        assert by_edge.tobytes() == results[0][2].tobytes()


def test_sparse_graph_with_few_pairs_clears_its_buffers() -> None:
    # Rows whose walks are short are cleared entry by entry rather than at once.
    case = make_case(600, 0.004, 5, loops="isolated", masked=0, t=3)
    pairs, lists, order = lists_of(case, 2, 900)
    none = PairLists.empty(600, np.uint16)
    g = np.random.default_rng(0).standard_normal(900)
    scores, _, gradient = passes(case, (lists, none), (g[order], g[:0]))
    weights = case.weights.clone().requires_grad_()
    at = case.dense(weights)[pairs[:, 0], pairs[:, 1]]
    (expected,) = torch.autograd.grad(at @ torch.from_numpy(g), weights)
    np.testing.assert_allclose(scores[0], at.detach()[order], atol=1e-15)
    np.testing.assert_allclose(gradient, expected, atol=1e-12)


@pytest.mark.slow
def test_graph_with_more_nodes_than_16_bits_can_number() -> None:
    n, random = 70_000, np.random.default_rng(0)
    edges = np.unique(np.sort(random.integers(0, n, (40_000, 2)), axis=1), axis=0)
    edges = edges[edges[:, 0] < edges[:, 1]]
    structure = WalkStructure(n, edges)
    assert structure.column_dtype == np.uint32
    pairs = np.concatenate([edges[:200], random.integers(0, n, (200, 2))])
    lists, order = structure.sort_pairs(pairs)
    matrix = structure.step(np.ones(len(edges)))
    none = PairLists.empty(n, np.uint32)
    scores, _ = score_pairs(matrix, (lists, none))
    u, v = np.r_[edges, edges[:, ::-1]].T
    A = sp.csr_array((np.ones(len(u)), (u, v)), shape=(n, n))
    A = A + sp.diags_array((A.sum(axis=1) == 0).astype(float))
    d = A.sum(axis=1)
    S = sp.csr_array(A @ sp.diags_array(1 / d) @ A @ sp.diags_array(1 / d) @ A)
    at = pairs[order]
    walked = np.array([S[i, j] for i, j in at])
    expected = walked / d.sum() - d[at[:, 0]] * d[at[:, 1]] / d.sum() ** 2
    np.testing.assert_allclose(scores[0], expected, rtol=1e-9, atol=1e-20)


def test_masked_edge_has_no_gradient_and_no_influence() -> None:
    case = make_case(15, 0.4, 1, loops="isolated", masked=3, t=3)
    _, lists, order = lists_of(case, 0)
    none = PairLists.empty(15, np.uint16)
    g = np.ones(len(order))
    before = passes(case, (lists, none), (g, g[:0]))
    assert np.all(before[2][case.mask] == 0)
    case.weights[case.mask] *= 100
    after = passes(case, (lists, none), (g, g[:0]))
    assert before[0][0].tobytes() == after[0][0].tobytes()


def test_a_node_that_masking_isolates_gets_a_loop() -> None:
    structure = WalkStructure(3, np.array([[0, 1], [1, 2]]))
    matrix = structure.step(np.array([0.5, 0.25]), masked=[0])
    degrees = matrix.roots[structure.inside] ** 2
    np.testing.assert_allclose(degrees, [1.0, 0.25, 0.25])


def test_weight_zero_still_has_a_gradient() -> None:
    # An edge of weight 0 is not a masked one: raising it must show.
    case = make_case(8, 0.6, 2, loops="all", masked=0, t=3)
    case.weights[0] = 0
    pairs, lists, _ = lists_of(case, 1)
    none = PairLists.empty(8, np.uint16)
    _, _, gradient = passes(case, (lists, none), (np.ones(40), np.ones(0)))
    weights = case.weights.clone().requires_grad_()
    total = case.dense(weights)[pairs[:, 0], pairs[:, 1]].sum()
    (expected,) = torch.autograd.grad(total, weights)
    assert gradient[0] == pytest.approx(float(expected[0]), rel=1e-9)
    assert gradient[0] != 0


def test_relabelling_puts_the_end_with_more_neighbours_first() -> None:
    case = make_case(40, 0.2, 7, loops="isolated", masked=0, t=3)
    structure = case.structure
    sizes = np.bincount(structure.edges.ravel(), minlength=40)
    assert np.all(np.diff(sizes[structure.outside]) <= 0)
    assert np.array_equal(structure.inside[structure.outside], np.arange(40))
    pairs, lists, order = lists_of(case, 0)
    rows, columns = lists.rows(), lists.listed_columns()
    ends = np.sort(structure.inside[pairs[order]], axis=1)
    assert np.array_equal(np.stack([rows, columns], axis=1), ends)
    assert np.array_equal(lists.diagonal(), rows == columns)


def test_structure_refuses_what_it_cannot_use() -> None:
    with pytest.raises(InputError, match="u < v"):
        WalkStructure(3, np.array([[1, 0]]))
    with pytest.raises(InputError, match=r"0\.\.2"):
        WalkStructure(3, np.array([[1, 3]]))
    with pytest.raises(UsageError, match="self_loops"):
        WalkStructure(3, np.array([[0, 1]]), self_loops="none")
    with pytest.raises(UsageError, match="weights"):
        WalkStructure(3, np.array([[0, 1]])).step(np.ones(2))


@given(
    cost=st.lists(st.floats(0, 1e6), min_size=1, max_size=50),
    count=st.integers(1, 20),
)
def test_chunks_cover_all_rows_in_order(cost: list[float], count: int) -> None:
    bounds = balanced_chunks(np.array(cost), count)
    assert len(bounds) == count + 1
    assert bounds[0] == 0
    assert bounds[-1] == len(cost)
    assert np.all(np.diff(bounds) >= 0)


def test_run_chunks_visits_each_and_passes_errors_on() -> None:
    seen: list[int] = []
    with use_threads(3):
        run_chunks(seen.append, 9)
    assert sorted(seen) == list(range(9))

    def fail(chunk: int) -> None:
        raise InputError(f"chunk {chunk}")

    with pytest.raises(InputError, match="chunk 0"), use_threads(2):
        run_chunks(fail, 4)
    with pytest.raises(UsageError, match="threads"), use_threads(0):
        pass
