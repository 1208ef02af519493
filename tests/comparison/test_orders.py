"""How the order of models changes with the protocol."""

from __future__ import annotations

import pytest

import gelato
from gelato.comparison.orders import protocol_orders
from gelato.comparison.summary import rank_models
from support.small_graphs import community_graph


def entry(model, protocol, ap, mrr=0.0):
    return {"model": model, "protocol": protocol, "mean": {"ap": ap, "mrr": mrr}}


def test_places_and_rank_correlation_by_hand():
    orders = protocol_orders(
        [
            *(entry(name, "all", ap) for name, ap in (("a", 3), ("b", 2), ("c", 1))),
            *(entry(n, "heart", 0, m) for n, m in (("a", 1), ("b", 1), ("c", 5))),
        ]
    )
    assert orders["models"] == ["a", "b", "c"]
    assert orders["protocols"]["heart"]["places"] == {"a": 2.5, "b": 2.5, "c": 1.0}
    assert orders["protocols"]["all"]["kendall_tau"] is None
    tau = orders["protocols"]["heart"]["kendall_tau"]
    assert tau == pytest.approx(-2 / 6**0.5)  # tau-b: one tie in one of the orders


def test_a_comparison_under_four_protocols():
    split = gelato.split_edges(community_graph(), test=0.2)
    names = ("all", "sampled", "degree-corrected", "heart")
    table = gelato.compare(split, ["cn", "pa", "ac"], protocols=names)
    assert table["protocol"].to_list() == [*names] * 3
    ranking = rank_models(table.to_dicts())
    assert [e["biased"] for e in ranking] == [False] * 3 + [True] * 9
    orders = protocol_orders(ranking)
    assert {*orders["protocols"]} == {*names}
    assert sorted(orders["models"]) == ["ac", "cn", "pa"]
