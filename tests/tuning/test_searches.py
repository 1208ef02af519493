"""Which values are tried, in which order; every search against a plain twin."""

from __future__ import annotations

import itertools
import math
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gelato
from gelato.errors import UnknownNameError, UsageError
from gelato.models.registry import facts_of, parameter_names, unregister
from gelato.parameters import SEARCHES
from gelato.tuning import Dimension
from gelato.tuning.plan import make_plan
from gelato.tuning.result import TrialRecord, best_of, point, table_of
from gelato.tuning.searches import FreeSearch, GridSearch, LineSearch
from gelato.tuning.spaces import space_of


def run(search, objective, most=1000):
    """Run a search to its end on a function in place of a model."""
    done: list[TrialRecord] = []
    while len(done) < most:
        parameters = search.next(done)
        if parameters is None:
            break
        value = objective(parameters)
        state = "failed" if value is None else "complete"
        done.append(TrialRecord(len(done), parameters, value, None, 0.0, state))
    return done


def naive_line(space, start, objective):
    """Coordinate ascent, written down as one would do it by hand."""
    tried, present = [], dict(start)
    score = lambda p: -math.inf if objective(p) is None else objective(p)  # noqa: E731
    while True:
        before = dict(present)
        for name, dimension in space.items():
            line = [present | {name: value} for value in dimension.values]
            tried += [one for one in line if one not in tried]
            best = max(line, key=score)
            if score(best) > score(present):
                present = best
        if present == before:
            return tried, present


spaces = st.lists(st.integers(1, 4), min_size=1, max_size=3)


@given(spaces, st.randoms(use_true_random=False))
def test_line_search_is_coordinate_ascent(sizes, random):
    space = {f"p{k}": Dimension(tuple(range(n))) for k, n in enumerate(sizes)}
    start = {name: random.choice(x.values) for name, x in space.items()}
    values: dict[tuple[str, ...], float | None] = {}

    def objective(parameters):
        return values.setdefault(
            point(parameters), random.choice([None, 0.1, 0.2, 0.3, 0.4])
        )

    done = run(LineSearch(space, start), objective)
    tried, end = naive_line(space, start, objective)
    assert [record.parameters for record in done] == tried
    best = best_of(done)
    if best is not None and objective(end) is not None:
        assert best.value == objective(end)


@given(spaces, st.integers(0, 5))
def test_grid_search_tries_everything_once(sizes, seed):
    space = {f"p{k}": Dimension(tuple(range(n))) for k, n in enumerate(sizes)}
    done = run(GridSearch(space, seed), lambda _: 0.0)
    found = [tuple(record.parameters.values()) for record in done]
    assert sorted(found) == sorted(itertools.product(*map(range, sizes)))
    assert found == [tuple(x.values()) for x in GridSearch(space, seed).points], (
        "the order follows from the seed alone"
    )


def test_a_grid_beyond_all_measure_is_refused():
    space = {f"p{k}": Dimension(tuple(range(10))) for k in range(6)}
    with pytest.raises(UsageError, match="1,000,000 combinations"):
        GridSearch(space, 0)


def test_free_search_starts_at_the_defaults_and_ends_when_all_is_tried():
    search = FreeSearch({"t": Dimension((1, 2))}, {"t": 2})
    records = [TrialRecord(k, {"t": 2 - k}, 0.0, None, 0.0, "complete") for k in (0, 1)]
    assert search.next([]) == {"t": 2}
    assert search.next(records[:1]) == "drawn"
    assert search.next(records) is None
    endless = FreeSearch({"lr": Dimension((0.1,), 0.01, 1.0)}, {"lr": 0.1})
    assert endless.expected() is None


class TestSpaces:
    @pytest.mark.parametrize("name", gelato.model_names())
    def test_every_value_of_every_model_is_accepted(self, name):
        if not parameter_names(name):
            with pytest.raises(UsageError, match="no parameters"):
                make_plan(name)
            return
        for search in SEARCHES:
            plan = make_plan(name, search=search)
            for key, dimension in plan.space.items():
                ends = [x for x in (dimension.low, dimension.high) if x is not None]
                kind = type(dimension.values[0])
                for value in (*dimension.values, *map(kind, ends)):
                    model = gelato.make(name, **(plan.fixed | {key: value}))
                    if hasattr(model, "check_parameters"):
                        model.check_parameters()
                if dimension.is_range:
                    low, high = ends
                    assert all(low <= value <= high for value in dimension.values)

    def test_the_grid_of_gelato_is_the_paper_s(self):
        points = GridSearch(space_of("gelato", "grid", {}), 0).points
        assert len(points) == 5 * 4 * 4
        found = {key: {one[key] for one in points} for key in points[0]}
        assert found == {
            "eta": {0.0, 0.25, 0.5, 0.75, 1.0},
            "alpha": {0.0, 0.25, 0.5, 0.75},
            "beta": {0.25, 0.5, 0.75, 1.0},
        }
        assert list(space_of("gelato", "line", {}))[:3] == ["eta", "alpha", "beta"]

    def test_built_in_models_say_what_to_try(self):
        for name in gelato.model_names():
            known = parameter_names(name)
            assert set(facts_of(name).search_space) <= set(known)
            assert facts_of(name).search_space or not known

    def test_fixed_parameters_are_not_searched(self):
        assert list(space_of("ac", "grid", {"t": 2})) == ["self_loops"]
        with pytest.raises(UsageError, match="Nothing is left"):
            space_of("ac", "grid", {"t": 2, "self_loops": "all"})

    def test_a_model_of_one_s_own_declares_its_space(self):
        @gelato.register("mine")
        class Mine:
            search_space: ClassVar = {
                "power": (1, 2),
                "lr": Dimension((0.1,), 0.01, 1.0),
            }

            def __init__(self, *, power=1, lr=0.1): ...

        try:
            assert list(space_of("mine", "line", {})) == ["power", "lr"]
            Mine.search_space = {"other": (1, 2)}
            with pytest.raises(UsageError, match="no parameter 'other'"):
                space_of("mine", "line", {})
            del Mine.search_space
            assert list(space_of("mine", "line", {})) == ["lr"], "by common names"
            Mine.__init__ = lambda self, *, power=1: None
            with pytest.raises(UsageError, match="not known which values"):
                space_of("mine", "line", {})
        finally:
            unregister("mine")

    @pytest.mark.parametrize(
        "values", [(), "abc", 3, (float("nan"),), ([1],), (1, object())]
    )
    def test_values_that_cannot_be_tried(self, values):
        with pytest.raises(UsageError, match="'t'"):
            space_of("ac", "line", {}, {"t": values})

    def test_wrong_names(self):
        with pytest.raises(UnknownNameError, match="no search"):
            make_plan("ac", search="random")
        with pytest.raises(UnknownNameError, match="validation metric"):
            make_plan("ac", metric="accuracy")
        with pytest.raises(UnknownNameError, match="no model"):
            make_plan("acc")
        with pytest.raises(UsageError, match="no parameter"):
            make_plan("ac", parameters={"eta": 1})
        with pytest.raises(UsageError, match="epochs"):
            make_plan("gelato", parameters={"epochs": 0})


def test_epochs_are_selected_by_the_metric_unless_the_model_has_its_own_way():
    assert make_plan("gelato", metric="ap").fixed["metric"] == "ap"
    assert "metric" not in make_plan("gae", metric="ap").fixed
    kept = make_plan("gelato", metric="ap", parameters={"metric": "auc"})
    assert kept.fixed["metric"] == "auc"


def test_the_table_of_trials_and_ties():
    records = [
        TrialRecord(0, {"a": 1, "b": None}, None, None, 1.0, "failed", "why"),
        TrialRecord(1, {"a": 2, "b": "x"}, 0.5, 3, 2.0, "complete"),
        TrialRecord(2, {"a": 3, "b": "y"}, 0.5, 3, 2.0, "complete"),
        TrialRecord(3, {"a": 4, "b": "y"}, 0.9, 3, 2.0, "pruned", "low"),
    ]
    best = best_of(records)
    assert best is records[1]
    table = table_of(records, ["a", "b"])
    assert table.columns[:3] == ["number", "a", "b"]
    assert table["b"].to_list() == [None, "x", "y", "y"]
    assert table["reason"].to_list() == ["why", None, None, "low"]
    assert table_of([], ["a"]).height == 0
