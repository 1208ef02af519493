"""The fused pair MLP against the plain torch layers it stands for."""

import copy
import gc
import weakref

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from gelato.errors import InputError, UsageError
from gelato.graph import Graph
from gelato.kernels.chunks import use_threads
from gelato.kernels.vectors import HAS_BFLOAT
from gelato.nn import first_layer as pair_terms
from gelato.nn import pair_mlp
from gelato.nn.first_layer import PairFeatures
from gelato.nn.pair_mlp import PairMLP


def make_attributes(kind, n=40, r=23, seed=0):
    rng = np.random.default_rng(seed)
    if kind == "binary":  # some attributes rare, some nearly everywhere
        dense = rng.random((n, r)) < np.linspace(0.05, 0.95, r)
    elif kind == "values":
        dense = rng.random((n, r)) * (rng.random((n, r)) < 0.2)
    elif kind == "signed":
        dense = rng.normal(size=(n, r)) * (rng.random((n, r)) < 0.2)
    else:
        dense = rng.normal(size=(n, r))
    return dense.astype(np.float32)


def make_pairs(n=40, m=211, seed=1):
    rng = np.random.default_rng(seed)
    pairs = np.argwhere(np.triu(np.ones((n, n)), 1))
    return pairs[np.sort(rng.choice(len(pairs), m, replace=False))]


def plain_features(attributes, pairs, *, directed=False):
    exact = attributes.astype(np.float64)  # float32 sums would round
    u, v = exact[pairs[:, 0]], exact[pairs[:, 1]]
    parts = (u, v) if directed else (u + v, np.abs(u - v))
    return torch.from_numpy(np.concatenate(parts, axis=1))


def plain_twin(mlp):
    """Return torch's own layers with copies of the weights; dropout left out."""
    return copy.deepcopy(
        nn.Sequential(
            mlp.hidden1,
            nn.ReLU(),
            mlp.norm1,
            mlp.hidden2,
            nn.ReLU(),
            mlp.norm2,
            mlp.output,
            nn.Softmax(dim=1),
        )
    ).train(mlp.training)


def run_twin(twin, features, chunk):
    parts = [twin(part)[:, 1] for part in features.split(chunk)]
    return torch.cat(parts)


KINDS = ["binary", "values", "signed", "dense", "directed"]


def case(kind, dtype=torch.float64, hidden=70, chunk=50, **options):
    attributes, pairs = make_attributes(kind), make_pairs()
    directed = kind == "directed"
    features = PairFeatures(attributes, pairs, directed=directed)
    mlp = PairMLP(features.width, hidden=hidden, chunk=chunk, dtype=dtype, **options)
    with torch.no_grad():  # away from the special values of the start
        for norm in (mlp.norm1, mlp.norm2):
            norm.weight.uniform_(0.5, 1.5, generator=torch.manual_seed(3))
            norm.bias.uniform_(-0.5, 0.5)
    return features, mlp, plain_features(attributes, pairs, directed=directed).to(dtype)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("training", [True, False])
def test_equals_plain_torch(kind, training):
    features, mlp, plain = case(kind, dropout=0.0)
    with torch.no_grad():
        mlp.norm1.running_mean.fill_(0.3)
        mlp.norm2.running_var.fill_(0.7)
    mlp.train(training)
    twin = plain_twin(mlp)
    ours, theirs = mlp(features), run_twin(twin, plain, 50)
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)

    upstream = torch.randn(len(plain), dtype=torch.float64)
    ours.backward(upstream)
    theirs.backward(upstream)
    pairs = zip(mlp.parameters(), twin.parameters(), strict=True)
    for (name, _), (mine, plain_one) in zip(mlp.named_parameters(), pairs, strict=True):
        torch.testing.assert_close(
            mine.grad, plain_one.grad, rtol=1e-8, atol=1e-9, msg=name
        )
    for mine, plain_one in ((mlp.norm1, twin[2]), (mlp.norm2, twin[5])):
        torch.testing.assert_close(mine.running_mean, plain_one.running_mean)
        torch.testing.assert_close(mine.running_var, plain_one.running_var)
        assert mine.num_batches_tracked == plain_one.num_batches_tracked


def in_blocks(monkeypatch, chunks, *, kept=0):
    """Let blocks have so many chunks of 50 pairs and 70 units (float64)."""
    monkeypatch.setattr(pair_mlp, "WHOLE_BYTES", 0)
    monkeypatch.setattr(pair_mlp, "_BLOCK_BYTES", chunks * 50 * 70 * 8 * 3)
    monkeypatch.setattr(pair_mlp, "KEPT_BYTES", kept)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("training", [True, False])
def test_pairs_beyond_the_memory_are_worked_off_in_blocks(monkeypatch, kind, training):
    in_blocks(monkeypatch, 2, kept=100 * 70 * 8 * 3)  # one of three keeps its buffers
    test_equals_plain_torch(kind, training)


def test_blocks_drop_different_units(monkeypatch):
    features, mlp, _ = case("binary", dropout=0.5)
    pairs = np.concatenate([features.pairs[:50]] * 4)
    features = PairFeatures(make_attributes("binary"), pairs)
    in_blocks(monkeypatch, 1)
    said = mlp(features).reshape(4, 50)
    assert len({tuple(block.tolist()) for block in said}) == 4


def test_a_single_pair_is_not_a_block(monkeypatch):
    features, mlp, _ = case("binary", dropout=0.0)
    features = PairFeatures(make_attributes("binary"), make_pairs()[:101])
    whole = mlp(features)
    in_blocks(monkeypatch, 1)
    assert [len(block) for block in features.blocks(50)] == [50, 51]
    torch.testing.assert_close(mlp(features), whole)


def test_float32_equals_plain_torch_to_float_tolerance():
    features, mlp, plain = case("binary", torch.float32, hidden=128, dropout=0.0)
    twin = plain_twin(mlp)
    ours, theirs = mlp(features), run_twin(twin, plain, 50)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    ours.square().sum().backward()
    theirs.square().sum().backward()
    for mine, plain_one in zip(mlp.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, plain_one.grad, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("binary", "binary"),
        ("values", "values"),
        ("signed", "values"),
        ("dense", "dense"),
        ("directed", "nodes"),
    ],
)
def test_path_is_chosen_by_the_attributes(kind, path):
    assert case(kind)[0].path == path


@pytest.mark.parametrize("path", ["binary", "values", "dense"])
@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array])
def test_every_path_gives_the_same(path, convert):
    attributes, pairs = make_attributes("binary"), make_pairs()
    results = []
    for chosen in (None, path):
        features = PairFeatures(convert(attributes), pairs, path=chosen)
        mlp = PairMLP(features.width, hidden=8, dtype=torch.float64)
        weights = mlp(features)
        weights.sum().backward()
        results.append((weights.detach(), mlp.hidden1.weight.grad))
    torch.testing.assert_close(results[0], results[1])


@pytest.mark.parametrize("kind", ["binary", "signed", "dense", "directed"])
@pytest.mark.parametrize("training", [True, False])
def test_gradcheck_with_dropout(kind, training):
    features = PairFeatures(
        make_attributes(kind, n=12, r=6),
        make_pairs(n=12, m=30),
        directed=kind == "directed",
    )
    mlp = PairMLP(
        12, hidden=3, chunk=20, dropout=0.3, seed=5, dtype=torch.float64
    ).train(training)
    parameters = [p.detach().requires_grad_() for p in mlp._ordered()]

    def run(*values):
        names = [name for name, _ in mlp.named_parameters()]
        mlp.steps.zero_()  # the same masks every time
        return torch.func.functional_call(
            mlp, dict(zip(names, values, strict=True)), (features,)
        )

    assert torch.autograd.gradcheck(run, parameters, eps=1e-7, atol=1e-5)


def test_second_backward_pass_gives_the_same():
    features, mlp, _ = case("binary", dropout=0.5)
    weights = mlp(features)
    first = torch.autograd.grad(weights.sum(), mlp.parameters(), retain_graph=True)
    mlp(features).sum().backward()  # uses the buffers in between
    second = torch.autograd.grad(weights.sum(), mlp.parameters())
    for one, two in zip(first, second, strict=True):
        assert torch.equal(one, two)


def test_graphs_that_are_dropped_leave_no_buffers_behind():
    features, mlp, _ = case("binary")
    gc.disable()  # reference counts alone must do
    try:
        weights = mlp(features)
        watched = weakref.ref(weights)
        del weights
        assert watched() is None
    finally:
        gc.enable()


def test_second_derivatives_are_refused():
    features, mlp, _ = case("binary")
    gradient = torch.autograd.grad(
        mlp(features).square().sum(), mlp.hidden1.weight, create_graph=True
    )[0]
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()


def test_two_forward_passes_before_backward_do_not_disturb_each_other():
    features, mlp, _ = case("binary", dropout=0.0)
    alone = torch.autograd.grad(mlp(features).sum(), mlp.hidden1.weight)[0]
    one, two = mlp(features), mlp(features)
    both = torch.autograd.grad(one.sum() + two.sum(), mlp.hidden1.weight)[0]
    torch.testing.assert_close(both, 2 * alone)


def test_parameters_of_the_paper_on_photo():
    mlp = PairMLP(2 * 745, hidden=128)
    assert sum(parameter.numel() for parameter in mlp.parameters()) == 208_130


def test_initial_weights_are_torchs_and_leave_the_global_generator_alone():
    torch.manual_seed(11)
    expected = [
        nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Linear(4, 4), nn.BatchNorm1d(4),
        nn.Linear(4, 2),
    ]  # fmt: skip
    before = torch.random.get_rng_state()
    mlp = PairMLP(6, hidden=4, seed=11)
    assert torch.equal(before, torch.random.get_rng_state())
    layers = (mlp.hidden1, mlp.norm1, mlp.hidden2, mlp.norm2, mlp.output)
    for mine, theirs in zip(layers, expected, strict=True):
        assert torch.equal(mine.weight, theirs.weight)
        assert torch.equal(mine.bias, theirs.bias)


class RoundedProduct(torch.autograd.Function):
    """A linear layer without bias that rounds all it multiplies to bfloat16."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return rounded(x) @ rounded(weight).T

    @staticmethod
    def backward(ctx, upstream):
        x, weight = map(rounded, ctx.saved_tensors)
        return rounded(upstream) @ weight, rounded(upstream).T @ x


def rounded(tensor):
    return tensor.bfloat16().to(tensor.dtype)


@pytest.mark.skipif(not HAS_BFLOAT, reason="this processor has no bfloat16")
class TestBfloat16:
    @pytest.mark.parametrize("kind", ["binary", "dense"])
    def test_equals_plain_torch_with_rounded_factors(self, kind):
        options = {"dropout": 0.0, "precision": "bfloat16"}
        features, mlp, plain = case(kind, torch.float32, **options)
        one, relu, norm1, two, _, norm2, head, softmax = plain_twin(mlp)
        parts = []
        for part in plain.split(50):
            x = norm1(relu(one(part)))
            x = norm2(relu(RoundedProduct.apply(x, two.weight) + two.bias))
            parts.append(softmax(head(x))[:, 1])
        ours, theirs = mlp(features), torch.cat(parts)
        # A number in the middle of two may be rounded to either.
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-3)
        upstream = torch.randn(len(plain), generator=torch.manual_seed(0))
        ours.backward(upstream)
        theirs.backward(upstream)
        layers = (one, norm1, two, norm2, head)
        pairs = [(p.grad, q.grad) for p, q in zip(
            mlp.parameters(), (p for layer in layers for p in layer.parameters()),
            strict=True,
        )]  # fmt: skip
        for mine, expected in pairs:
            assert float((mine - expected).norm()) < 5e-3 * float(expected.norm())

    def test_evaluation_is_that_of_single_precision(self):
        features, plain, _ = case("binary", torch.float32)
        _, mlp, _ = case("binary", torch.float32, precision="bfloat16")
        assert not torch.equal(mlp(features), plain(features))
        mlp.load_state_dict(plain.state_dict())
        assert torch.equal(mlp.eval()(features), plain.eval()(features))

    def test_the_same_bits_for_any_number_of_threads(self):
        with use_threads(1):
            one = train(precision="bfloat16").state_dict()
        with use_threads(3):
            three = train(precision="bfloat16").state_dict()
        for name, tensor in one.items():
            assert torch.equal(tensor, three[name]), name

    def test_weights_that_are_no_numbers_are_not_hidden(self):
        features, mlp, _ = case("binary", torch.float32, precision="bfloat16")
        with torch.no_grad():
            mlp.hidden2.weight[0, 0] = torch.inf
        assert not bool(mlp(features).isfinite().all())


def test_a_processor_without_bfloat16_evaluates_but_does_not_train(monkeypatch):
    monkeypatch.setattr("gelato.nn.pair_mlp.HAS_BFLOAT", False)
    features, mlp, _ = case("binary", torch.float32, precision="bfloat16")
    with pytest.raises(UsageError, match="avx512_bf16"):
        mlp(features)
    assert len(mlp.eval()(features)) == len(features)


def train(seed=4, steps=3, kind="binary", **options):
    attributes, pairs = make_attributes(kind, n=120), make_pairs(n=120, m=2345)
    features = PairFeatures(attributes, pairs)
    mlp = PairMLP(features.width, hidden=20, chunk=900, seed=seed, **options)
    optimiser = torch.optim.Adam(mlp.parameters())
    for _ in range(steps):
        optimiser.zero_grad()
        mlp(features).square().sum().backward()
        optimiser.step()
    return mlp


@pytest.mark.parametrize("kind", ["binary", "values", "dense"])
def test_the_same_bits_for_any_number_of_threads(kind):
    with use_threads(1):
        one = train(kind=kind).state_dict()
    with use_threads(3):
        three = train(kind=kind).state_dict()
    for name, tensor in one.items():
        assert torch.equal(tensor, three[name]), name


def test_seed_decides_and_steps_differ():
    features, mlp, _ = case("binary", dropout=0.5, seed=1)
    other = copy.deepcopy(mlp)
    first, second = mlp(features), mlp(features)
    assert not torch.equal(first, second)
    assert torch.equal(other(features), first)
    other.seed = 2
    other.steps.zero_()
    assert not torch.equal(other(features), first)


def test_state_resumes_with_the_same_masks():
    trained = train(steps=2)
    resumed = PairMLP(46, hidden=20, chunk=900, seed=4)
    resumed.load_state_dict(trained.state_dict())
    features = PairFeatures(make_attributes("binary", n=120), make_pairs(n=120))
    assert torch.equal(trained(features), resumed(features))
    assert "steps" in trained.state_dict()
    assert "hidden1.weight" in trained.state_dict()


def test_dropout_in_training_only_and_unbiased():
    features, mlp, _ = case("binary", torch.float32, hidden=64, dropout=0.5)
    mlp.eval()
    assert torch.equal(mlp(features), mlp(features))
    assert mlp.steps == 0


@settings(max_examples=25, deadline=None)
@given(
    m=st.integers(1, 60),
    hidden=st.sampled_from([1, 7, 64, 65, 130]),
    chunk=st.integers(2, 30),
    seed=st.integers(0, 2**63 - 1),
)
def test_any_shape_gives_weights_between_0_and_1(m, hidden, chunk, seed):
    features = PairFeatures(make_attributes("binary"), make_pairs(m=m))
    mlp = PairMLP(features.width, hidden=hidden, chunk=chunk, seed=seed)
    weights = mlp(features)
    weights.sum().backward()
    assert weights.shape == (m,)
    assert bool(((weights > 0) & (weights < 1)).all())
    assert all(bool(p.grad.isfinite().all()) for p in mlp.parameters())
    assert all(bool(tensor.isfinite().all()) for tensor in mlp.state_dict().values())


def test_no_pairs_give_no_weights():
    features = PairFeatures(make_attributes("binary"), np.empty((0, 2)))
    assert PairMLP(features.width, hidden=4)(features).shape == (0,)


def test_non_finite_weights_are_not_hidden():
    features, mlp, _ = case("binary")
    with torch.no_grad():
        mlp.hidden1.bias[0] = torch.nan
    assert not bool(mlp(features).isfinite().any())


def test_features_of_a_pair_ignore_its_order_unless_directed():
    attributes, pairs = make_attributes("values"), make_pairs()
    for directed in (False, True):
        one = PairFeatures(attributes, pairs, directed=directed)
        two = PairFeatures(attributes, pairs[:, ::-1], directed=directed)
        mlp = PairMLP(one.width, hidden=8).eval()
        close = torch.allclose(mlp(one), mlp(two), atol=1e-6)
        assert close != directed


def test_wrong_arguments_are_refused():
    attributes, pairs = make_attributes("dense"), make_pairs()
    with pytest.raises(UsageError, match="dropout"):
        PairMLP(4, dropout=1.0)
    with pytest.raises(UsageError, match="chunk"):
        PairMLP(4, chunk=1)
    with pytest.raises(UsageError, match="features"):
        PairMLP(0)
    with pytest.raises(UsageError, match="dtype"):
        PairMLP(4, dtype=torch.float16)
    with pytest.raises(UsageError, match="precision"):
        PairMLP(4, precision="half")
    with pytest.raises(UsageError, match="dtype"):
        PairMLP(4, precision="bfloat16", dtype=torch.float64)
    with pytest.raises(UsageError, match="CPU"):
        PairMLP(46).to("meta")(PairFeatures(attributes, pairs))
    with pytest.raises(UsageError, match="needs node attributes"):
        PairFeatures(None, pairs)
    with pytest.raises(InputError, match="names node 40"):
        PairFeatures(attributes, [(0, 40)])
    with pytest.raises(UsageError, match="path"):
        PairFeatures(attributes, pairs, path="magic")
    with pytest.raises(UsageError, match="0 or 1"):
        PairFeatures(attributes, pairs, path="binary")
    with pytest.raises(UsageError, match="made for"):
        PairMLP(4)(PairFeatures(attributes, pairs))


class GraphEncoder(nn.Module):
    """An alternative to the MLP: two graph convolutions, then a score per pair."""

    def __init__(self, num_attributes, adjacency, attributes):
        super().__init__()
        matrix = adjacency + np.eye(len(adjacency), dtype=np.float32)
        scale = 1 / np.sqrt(matrix.sum(1))
        self.propagate = torch.from_numpy(matrix * scale[:, None] * scale[None, :])
        self.attributes = torch.from_numpy(attributes)
        self.first, self.second = nn.Linear(num_attributes, 16), nn.Linear(16, 8)

    def forward(self, features):
        hidden = torch.relu(self.propagate @ self.first(self.attributes))
        nodes = self.propagate @ self.second(hidden)
        u, v = torch.from_numpy(features.pairs).T
        return torch.sigmoid((nodes[u] * nodes[v]).sum(1))


def test_another_module_can_take_the_place_of_the_mlp():
    attributes, pairs = make_attributes("binary"), make_pairs()
    features = PairFeatures(attributes, pairs)
    adjacency = np.zeros((40, 40), dtype=np.float32)
    adjacency[tuple(pairs.T)] = adjacency[tuple(pairs[:, ::-1].T)] = 1
    target = torch.rand(len(pairs), generator=torch.manual_seed(0))
    for module in (
        PairMLP(features.width, hidden=16, dropout=0.0),
        GraphEncoder(23, adjacency, attributes),
    ):
        optimiser = torch.optim.Adam(module.parameters(), lr=0.01)
        losses = []
        for _ in range(30):
            optimiser.zero_grad()
            loss = (module(features) - target).square().mean()
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
        assert losses[-1] < 0.95 * losses[0]


class TestLargeFullMatrix:
    """A large full matrix is used where it lies, also a file mapped into memory."""

    def test_it_is_not_turned_into_lists(self, monkeypatch, tmp_path):
        monkeypatch.setattr(pair_terms, "_LARGE_ENTRIES", 100)
        random = np.random.default_rng(0)
        values = random.normal(size=(30, 7)).astype(np.float32)
        np.save(tmp_path / "values.npy", values)
        mapped = np.load(tmp_path / "values.npy", mmap_mode="r")
        edges = np.stack(np.triu_indices(30, 1), axis=1)[::9]
        graph = Graph.from_indices(30, edges, attributes=mapped)
        assert np.shares_memory(graph.attributes, mapped)
        features = PairFeatures(graph.attributes, edges)
        assert features.path == "dense"
        nodes = features._terms.nodes
        assert np.shares_memory(nodes.rows(torch.float32).numpy(), mapped)
        model = PairMLP(14, hidden=4, dropout=0.0, seed=0).eval()
        expected = model(PairFeatures(values, edges, path="values"))
        torch.testing.assert_close(model(features), expected, rtol=1e-5, atol=1e-6)

    def test_a_large_matrix_with_few_entries_is(self, monkeypatch):
        monkeypatch.setattr(pair_terms, "_LARGE_ENTRIES", 100)
        values = np.eye(30, dtype=np.float32)
        assert PairFeatures(values, [(0, 1), (1, 2)]).path == "binary"

    def test_ordered_pairs(self, monkeypatch):
        monkeypatch.setattr(pair_terms, "_LARGE_ENTRIES", 100)
        values = np.random.default_rng(0).normal(size=(30, 7)).astype(np.float32)
        features = PairFeatures(values, [(0, 1), (2, 1)], directed=True)
        assert features.path == "nodes"
        model = PairMLP(14, hidden=4, dropout=0.0, seed=0).eval()
        monkeypatch.setattr(pair_terms, "_LARGE_ENTRIES", 10**6)
        small = PairFeatures(values, [(0, 1), (2, 1)], directed=True)
        torch.testing.assert_close(model(features), model(small))
