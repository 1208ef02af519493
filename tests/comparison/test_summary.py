"""What a table of runs tells: against loops over small tables with known answers."""

from __future__ import annotations

import math
import statistics

import numpy as np
import polars as pl
import pytest
from scipy import stats

import gelato
from gelato.comparison import summary as wording
from gelato.comparison.summary import rank_models
from gelato.errors import UsageError
from support.small_graphs import community_graph


def row(model, ap, split="a", seed=None, **more):
    return {
        "model": model,
        "split": split,
        "seed": seed,
        "protocol": "all",
        **dict.fromkeys(("ap", "prec@100%", "hits@100", "mrr", "auc"), ap),
        "random_ap": 0.01,
        "train_edges": 80,
        "test_edges": 20,
        **more,
    }


def draws(seed, mean):
    return np.random.default_rng(seed).normal(mean, 0.02, 200).tolist()


def of(table, model):
    return next(x for x in table.to_dicts() if x["model"] == model)


def test_several_splits_average_seeds_and_pair_by_split():
    rng = np.random.default_rng(0)
    one = {(s, k): 0.4 + 0.1 * rng.random() for s in "abc" for k in (1, 2)}
    other = {s: 0.4 + 0.1 * rng.random() for s in "abc"}
    rows = [row("net", ap, s, k) for (s, k), ap in one.items()]
    rows += [row("cn", ap, s) for s, ap in other.items()]
    found = gelato.summarise_comparison(pl.DataFrame(rows), against="cn")
    means = {s: (one[s, 1] + one[s, 2]) / 2 for s in "abc"}
    gains = [means[s] - other[s] for s in "abc"]
    quantile = stats.t.ppf(0.975, 2) * math.sqrt(1 / 3 + 20 / 80)
    net = of(found, "net")
    assert net["mean"] == pytest.approx(statistics.fmean(means.values()))
    assert (net["runs"], net["splits"], net["seeds"]) == (6, 3, 2)
    expected = quantile * statistics.stdev(means.values())
    assert net["high"] - net["mean"] == pytest.approx(expected)
    assert net["mean"] - net["low"] == pytest.approx(expected)
    assert net["difference"] == pytest.approx(statistics.fmean(gains))
    expected = quantile * statistics.stdev(gains)
    assert net["difference_high"] - net["difference"] == pytest.approx(expected)
    assert of(found, "cn")["difference"] is None
    assert set(found["against"]) == {"cn"}


def test_one_split_draws_links_again_and_adds_the_seeds():
    rows = [
        row("net", 0.30, seed=1, ap_resampled=draws(1, 0.30)),
        row("net", 0.34, seed=2, ap_resampled=draws(2, 0.34)),
        row("cn", 0.20, ap_resampled=draws(3, 0.20)),
    ]
    net = of(gelato.summarise_comparison(pl.DataFrame(rows)), "net")
    cn = of(gelato.summarise_comparison(pl.DataFrame(rows)), "cn")
    both = (np.array(draws(1, 0.30)) + draws(2, 0.34)) / 2
    parts = [
        (np.var(both, ddof=1) * 20 / 19, 19),
        (statistics.variance([0.3, 0.34]) / 2, 1),
    ]
    total = sum(v for v, _ in parts)
    freedom = total**2 / sum(v**2 / df for v, df in parts)
    expected = stats.t.ppf(0.975, freedom) * math.sqrt(total)
    assert net["high"] - net["mean"] == pytest.approx(expected)
    gap = np.array(draws(3, 0.20)) - both
    parts[0] = (np.var(gap, ddof=1) * 20 / 19, 19)
    total = sum(v for v, _ in parts)
    freedom = total**2 / sum(v**2 / df for v, df in parts)
    expected = stats.t.ppf(0.975, freedom) * math.sqrt(total)
    assert cn["difference"] == pytest.approx(0.20 - 0.32)
    assert cn["difference_high"] - cn["difference"] == pytest.approx(expected)


def test_seeds_that_both_have_are_paired():
    same = [0.30, 0.34, 0.38]
    rows = [row("a", ap, seed=k, ap_resampled=[ap] * 9) for k, ap in enumerate(same)]
    rows += [
        row("b", ap - 0.01, seed=k, ap_resampled=[ap - 0.01] * 9)
        for k, ap in enumerate(same)
    ]
    b = of(gelato.summarise_comparison(rows), "b")
    # Both move alike with the seed: the difference is the same for all of them.
    assert b["difference"] == pytest.approx(-0.01)
    assert b["difference_high"] - b["difference"] == pytest.approx(0, abs=1e-9)
    assert b["verdict"] == "worse"


@pytest.mark.parametrize(
    ("gains", "verdict"),
    [
        ([0.1, 0.11, 0.1], "better"),
        ([-0.1, -0.11, -0.1], "worse"),
        ([0.1, -0.1, 0.05], "no difference to be seen"),
        ([0.0, 0.0, 0.0], "no difference to be seen"),
    ],
)
def test_verdicts(gains, verdict):
    rows = [row("base", 0.5, s) for s in "abc"]
    rows += [row("new", 0.5 + gain, s) for s, gain in zip("abc", gains, strict=True)]
    found = gelato.summarise_comparison(rows, against="base")
    assert of(found, "new")["verdict"] == verdict


def test_what_the_runs_do_not_tell_is_null():
    # Without draws, without common splits, without edge counts.
    alone = [row("a", 0.3), row("b", 0.2)]
    b = of(gelato.summarise_comparison(alone), "b")
    assert (b["low"], b["difference_low"], b["verdict"]) == (None, None, None)
    assert b["difference"] == pytest.approx(-0.1)
    apart = [row("a", 0.3, "x"), row("a", 0.3, "y"), row("b", 0.2, "z")]
    assert of(gelato.summarise_comparison(apart), "b")["difference"] is None
    uncounted = [row("a", x, s, train_edges=None) for s, x in (("x", 0.1), ("y", 0.2))]
    assert of(gelato.summarise_comparison(uncounted), "a")["low"] is None
    told = wording.covered(rank_models(uncounted))
    assert "do not tell" in told


def test_biased_rows_come_last_and_have_the_reference_of_the_exact_ones():
    rows = [row("a", 0.3), row("b", 0.2)]
    rows += [row("a", 0.6, protocol="sampled"), row("b", 0.9, protocol="sampled")]
    found = gelato.summarise_comparison(rows)
    assert found["protocol"].to_list() == ["all", "all", "sampled", "sampled"]
    assert found["against"].to_list() == ["a"] * 4
    assert found["model"].to_list() == ["a", "b", "b", "a"]
    ranking = rank_models(rows)
    assert [entry["biased"] for entry in ranking] == [False, False, True, True]


def test_all_metrics_have_the_reference_of_the_first():
    rows = [row("a", 0.3, s, auc=0.5) for s in "xy"]
    rows += [row("b", 0.2, s, auc=0.9) for s in "xy"]
    entry = rank_models(rows)[1]
    assert entry["against"] == "a"
    assert entry["difference"]["auc"]["value"] == pytest.approx(0.4)
    assert entry["sd"]["ap"] == 0.0


def test_meanings_name_what_is_covered():
    one = rank_models([row("a", 0.3, ap_resampled=draws(0, 0.3))])
    assert "not other splits" in wording.covered(one)
    assert "seeds" not in wording.covered(one)
    assert "--splits 5" in wording.advice(one)
    several = rank_models([row("a", 0.3, s, k) for s in "vwxyz" for k in (1, 2)])
    assert "over 5 splits, 2 seeds averaged" in wording.covered(several)
    assert wording.advice(several) == ""
    mixed = [row("a", 0.3, s) for s in "xy"]
    mixed += [row("b", 0.2, "x", ap_resampled=draws(0, 0.2))]
    assert "one split only" in wording.covered(rank_models(mixed))
    rows = [row(m, x, s) for m, x in (("a", 0.3), ("b", 0.2), ("c", 0.3)) for s in "xy"]
    lines = wording.told_apart(rank_models(rows), str.upper)
    assert lines == ["Worse than A: B.", "No difference to be seen: A and C."]
    assert "not adjusted" in wording.unadjusted(rank_models(rows))
    assert wording.told_apart(rank_models(rows[:2]), str) == []


@pytest.mark.parametrize(
    ("rows", "options", "said"),
    [
        ([], {}, "no runs"),
        ([{"model": "a", "protocol": "all"}], {}, "'ap'"),
        ([row("a", 0.3)], {"against": "b"}, "'b'"),
        ([row("a", 0.3)], {"confidence": 95}, "95"),
        ([row("a", 0.3)], {"metric": "f1"}, "'f1'"),
    ],
)
def test_misuse(rows, options, said):
    with pytest.raises(UsageError, match=said):
        gelato.summarise_comparison(rows, **options)


def test_pandas_and_polars_tell_the_same():
    pytest.importorskip("pandas")
    table = gelato.compare(community_graph(40), ["cn", "ac"])
    found = gelato.summarise_comparison(table)
    assert found.equals(gelato.summarise_comparison(table.to_pandas()))
    assert found.to_pandas().shape == found.shape
    assert found["low"].null_count() == 0
