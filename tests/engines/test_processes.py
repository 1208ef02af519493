"""Worker processes: order, shared memory, errors, and workers that die."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from gelato.engines import (
    ThreadEngine,
    current_engine,
    make_engine,
    process_worker,
    use_engine,
)
from gelato.engines.packing import pack, unpack
from gelato.engines.processes import MAX_ATTEMPTS, ProcessEngine
from gelato.errors import EngineError, InputError, UnknownNameError, UsageError
from support import TESTS
from support import engine_tasks as tasks


class TestMap:
    def test_results_come_in_the_order_of_the_items(self, processes):
        assert list(processes.map(tasks.late, None, range(7))) == list(range(7))

    def test_work_happens_elsewhere_and_on_one_thread(self, processes):
        found = list(processes.map(tasks.scaled, {"factor": 3}, range(6)))
        assert [value for value, _, _ in found] == [0, 3, 6, 9, 12, 15]
        assert os.getpid() not in {pid for _, pid, _ in found}
        assert {threads for _, _, threads in found} == {"1"}

    def test_arrays_are_shared_and_equal(self, processes):
        array = np.random.default_rng(0).random(1000)
        parts = [slice(k, k + 100) for k in range(0, 1000, 100)]
        found = list(processes.map(tasks.total, {"array": array}, parts))
        assert found == [float(array[part].sum()) for part in parts]

    def test_items_are_consumed_a_few_ahead(self, processes):
        seen = []

        def items():
            for k in range(50):
                seen.append(k)
                yield k

        results = processes.map(tasks.late, None, items())
        assert next(results) == 0
        assert len(seen) <= 2 * processes.workers + 1
        results.close()

    def test_nothing_to_do(self, processes):
        assert list(processes.map(tasks.late, None, [])) == []

    def test_a_map_that_was_left_disturbs_no_later_one(self, processes):
        first = processes.map(tasks.late, None, range(9))
        next(first)
        first.close()
        assert list(processes.map(tasks.late, None, range(3))) == [0, 1, 2]

    def test_one_map_at_a_time(self, processes):
        first = processes.map(tasks.late, None, range(3))
        next(first)
        with pytest.raises(UsageError, match="at work already"):
            next(processes.map(tasks.late, None, range(3)))
        assert list(first) == [1, 2]

    def test_nothing_is_left_in_shared_memory(self):
        with ProcessEngine(1) as engine:
            list(engine.map(tasks.late, None, [1]))
            folder = Path(engine._place())
            assert folder.is_dir()
            assert not list(folder.iterdir())
        assert not folder.exists()


class TestErrors:
    def test_errors_of_ours_arrive_as_they_are(self, processes):
        with pytest.raises(InputError, match="is odd") as caught:
            list(processes.map(tasks.refuse, "gelato", range(4)))
        assert caught.value.hint == "Mend it."

    def test_other_errors_too(self, processes):
        with pytest.raises(ZeroDivisionError):
            list(processes.map(tasks.refuse, "", range(4)))

    def test_an_error_that_cannot_be_sent_is_told(self, processes):
        with pytest.raises(EngineError, match="failed with OddError: a"):
            list(processes.map(tasks.refuse, "odd", range(4)))

    def test_results_before_the_error_are_kept(self, processes):
        results = processes.map(tasks.refuse, "", range(4))
        assert [next(results), next(results)] == [0, 1]

    def test_a_function_without_a_name_is_refused(self, processes):
        with pytest.raises(UsageError, match="cannot be sent"):
            list(processes.map(lambda shared, item: item, None, [1]))

    def test_full_memory_is_told(self, processes, monkeypatch):
        def full(self, lines):
            raise OSError(28, "No space left on device")

        packed = pack(np.zeros(10))
        monkeypatch.setattr(type(packed), "chunks", lambda self: full(self, None))
        with pytest.raises(EngineError, match="No space left on device"):
            list(processes.map(tasks.late, np.zeros(10), [1]))

    @pytest.mark.parametrize("kind", [ProcessEngine, ThreadEngine])
    def test_no_workers(self, kind):
        with pytest.raises(UsageError, match="workers is 0"):
            kind(0)


class TestDeath:
    def test_a_worker_that_dies_is_replaced_and_its_work_redone(
        self, processes, tmp_path, caplog
    ):
        work = tasks.DieOnce(tasks.scaled, tmp_path / "died", at=2)
        with caplog.at_level(logging.INFO, "gelato"):
            found = list(processes.map(work, {"factor": 2}, range(12)))
        assert [value for value, _, _ in found] == list(range(0, 24, 2))
        assert (tmp_path / "died").exists()
        assert caplog.text.count("its work is redone") == 1

    def test_work_that_kills_every_worker_is_given_up(self):
        with (
            ProcessEngine(1) as engine,
            pytest.raises(EngineError, match=f"{MAX_ATTEMPTS} worker processes died"),
        ):
            list(engine.map(tasks.die, None, range(3)))

    def test_workers_end_with_their_driver_and_tidy_up(self, tmp_path):
        script = tmp_path / "driver.py"
        script.write_text(
            "import os, signal, sys\n"
            f"sys.path.insert(0, {str(TESTS)!r})\n"
            "from support import engine_tasks\n"
            "from gelato.engines.processes import ProcessEngine\n"
            'if __name__ == "__main__":\n'
            "    engine = ProcessEngine(1)\n"
            "    found = engine.map(engine_tasks.scaled, {'factor': 1}, range(3))\n"
            "    print(next(found)[1], engine._place(), flush=True)\n"
            "    os.kill(os.getpid(), signal.SIGKILL)\n"
        )
        told = subprocess.run(
            [sys.executable, str(script)], capture_output=True, text=True, check=False
        )
        worker, folder = told.stdout.split()
        assert _within(120, lambda: not Path(folder).exists())
        assert _within(120, lambda: not _alive(int(worker)))

    @pytest.mark.parametrize("broken", ["recv", "send_bytes"])
    def test_a_dead_driver_is_noticed_by_either_end_of_the_line(
        self, broken, tmp_path, monkeypatch
    ):
        """The line may break before the thread that follows the driver wakes up."""

        def fail(*_):
            raise BrokenPipeError

        message = SimpleNamespace(path="", item=b"")
        line = {"recv": lambda: message, "send_bytes": lambda _: None} | {broken: fail}
        dead = SimpleNamespace(join=lambda seconds=None: None, is_alive=lambda: False)
        monkeypatch.setattr(process_worker, "parent_process", lambda: dead)
        for name in ("be_a_worker", "_follow_driver"):
            monkeypatch.setattr(process_worker, name, lambda *_: None)
        monkeypatch.setattr(process_worker, "perform", lambda *_: None)
        monkeypatch.setattr(process_worker.signal, "signal", lambda *_: None)
        folder = tmp_path / "folder"
        folder.mkdir()
        process_worker.serve(SimpleNamespace(**line), str(folder))
        assert not folder.exists()


def _alive(pid):
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    return "State:\tZ" not in status


def _within(seconds, holds):
    end = time.monotonic() + seconds
    while not holds() and time.monotonic() < end:
        time.sleep(0.05)
    return holds()


class TestPacking:
    def test_what_is_unpacked_is_equal_and_shares_memory(self):
        value = {"a": np.arange(7.0), "none": np.empty((0, 2)), "b": "text"}
        packed = pack(value)
        memory = packed.to_array()
        found = unpack(memory, packed.spans)
        assert found["a"].tolist() == value["a"].tolist()
        assert found["none"].shape == (0, 2)
        assert found["b"] == "text"
        assert np.shares_memory(found["a"], memory)
        assert b"".join(bytes(chunk) for chunk in packed.chunks()) == memory.tobytes()


class TestChoice:
    def test_by_name(self):
        assert make_engine("local", workers=3).workers == 3
        with make_engine("processes", workers=2) as engine:
            assert (engine.name, engine.workers) == ("processes", 2)

    def test_unknown_names_and_addresses(self):
        with pytest.raises(UnknownNameError, match="Did you mean 'processes'"):
            make_engine("process")
        with pytest.raises(UsageError, match="no use for the address"):
            make_engine("local", address="a:1")

    def test_the_engine_in_use(self):
        assert current_engine() is None
        with use_engine("local") as engine, use_engine(None) as same:
            assert current_engine() is engine is same
        assert current_engine() is None
