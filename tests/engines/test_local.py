"""Threads of this process: order, and items a few ahead."""

from __future__ import annotations

import pytest

from gelato.engines import ThreadEngine
from gelato.errors import UsageError
from support import engine_tasks as tasks


class TestThreads:
    def test_results_come_in_the_order_of_the_items(self):
        assert list(ThreadEngine(2).map(tasks.late, None, range(7))) == list(range(7))

    def test_items_are_consumed_a_few_ahead(self):
        seen = []

        def items():
            for k in range(50):
                seen.append(k)
                yield k

        results = ThreadEngine(2).map(tasks.late, None, items())
        assert next(results) == 0
        assert len(seen) <= 5
        results.close()

    def test_no_workers(self):
        with pytest.raises(UsageError, match="workers is 0"):
            ThreadEngine(0)
