"""What is packed for workers, and what they send back."""

from __future__ import annotations

import numpy as np
import pytest

from gelato.engines.ray_cluster import pack, unpack
from gelato.errors import EngineError, InputError, UsageError
from support import engine_tasks as tasks


class TestWorkers:
    def test_arrays_are_shared_and_equal(self, workers):
        array = np.random.default_rng(0).random(1000)
        parts = [slice(k, k + 100) for k in range(0, 1000, 100)]
        found = list(workers.map(tasks.total, {"array": array}, parts))
        assert found == [float(array[part].sum()) for part in parts]

    def test_errors_of_ours_arrive_as_they_are(self, workers):
        with pytest.raises(InputError, match="is odd") as caught:
            list(workers.map(tasks.refuse, "gelato", range(4)))
        assert caught.value.hint == "Fix it."

    def test_other_errors_too(self, workers):
        results = workers.map(tasks.refuse, "", range(4))
        assert [next(results), next(results)] == [0, 1]
        with pytest.raises(ZeroDivisionError):
            next(results)

    def test_an_error_that_cannot_be_sent_is_told(self, workers):
        with pytest.raises(EngineError, match="failed with OddError: a"):
            list(workers.map(tasks.refuse, "odd", range(4)))

    def test_a_function_without_a_name_is_refused(self, workers):
        with pytest.raises(UsageError, match="cannot be sent"):
            list(workers.map(lambda shared, item: item, None, [1]))


class TestPacking:
    def test_what_is_unpacked_is_equal_and_shares_memory(self):
        value = {"a": np.arange(7.0), "none": np.empty((0, 2)), "b": "text"}
        found = unpack(pack(value))
        assert found["a"].tolist() == value["a"].tolist()
        assert found["none"].shape == (0, 2)
        assert found["b"] == "text"
        assert np.shares_memory(found["a"], value["a"])
