"""The training loop: selection, skipped steps, checkpoints that resume to the bit."""

from __future__ import annotations

import errno
import json
import math
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from gelato.errors import GelatoError, OutputError, StoredFileError, UsageError
from gelato.kernels.chunks import use_threads
from gelato.models.gelato import Gelato
from gelato.splits import split_edges
from gelato.training import loop
from gelato.training.budget import TimeLimit
from gelato.training.checkpoints import Snapshot, load_checkpoint
from gelato.training.loop import (
    CHECKPOINT,
    Clock,
    FitOptions,
    StopTraining,
    TrainSettings,
)
from support import TESTS
from support.small_graphs import community_graph


def train(task, settings, *, identity=None, **options):
    return loop.train(task, settings, FitOptions(**options), identity=identity)


class Toy:
    """Fits a line through noise of its own; validation values can be given."""

    metrics = ("value",)

    def __init__(self, values=None, *, bad=(), batches=3):
        torch.manual_seed(5)
        self.module = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
        self.module.insert(2, nn.Dropout(0.5))
        self.batches, self.clock = batches, Clock()
        self.values, self.bad = values, set(bad)
        self.validated = []

    def loss(self, epoch, batch):
        self.at = epoch
        points = torch.randn(8, 2)  # torch's generator: the loop must seed it
        if (epoch, batch) in self.bad:
            points = points * float("inf")
        return (self.module(points).squeeze() - points.sum(dim=1)).square().mean()

    def validate(self):
        self.validated.append(self.at)
        if self.values is not None:
            return {"value": self.values[self.at - 1]}
        return {"value": -float(self.module(torch.ones(1, 2)).square())}


def settings(**given):
    return TrainSettings(**{"metric": "value", "lr": 0.01, "epochs": 4} | given)


def states_equal(one, two):
    return one.keys() == two.keys() and all(torch.equal(one[k], two[k]) for k in one)


def plain(history):
    """A history without its timings."""
    return [
        {k: v for k, v in entry.items() if k not in ("seconds", "phases")}
        for entry in history
    ]


class TestSelection:
    def test_the_first_of_equal_epochs_is_kept(self):
        task, kept = Toy([0.1, 0.5, 0.3, 0.5]), {}

        def on_epoch(entry, progress):
            state = task.module.state_dict()
            kept[entry["epoch"]] = {k: v.clone() for k, v in state.items()}

        result = train(task, settings(), on_epoch=on_epoch)
        assert (result.best_epoch, result.best_value) == (2, 0.5)
        assert states_equal(task.module.state_dict(), kept[2])
        assert not states_equal(kept[2], kept[4])
        assert [entry["epoch"] for entry in result.history] == [1, 2, 3, 4]
        assert result.seconds == sum(entry["seconds"] for entry in result.history)

    def test_validation_comes_at_its_interval_and_at_the_end(self):
        task = Toy([0.9, 0.1, 0.8, 0.2, 0.3])
        result = train(task, settings(epochs=5, validate_every=2))
        assert task.validated == [2, 4, 5]
        assert result.best_epoch == 5
        assert "value" not in result.history[0]

    def test_patience_ends_the_training(self):
        task = Toy([0.1, 0.5, 0.4, 0.5, 0.9])
        assert len(train(task, settings(epochs=5, patience=2)).history) == 4
        task = Toy([0.1, 0.5, 0.4, 0.5, 0.9])
        assert train(task, settings(epochs=5, patience=3)).best_epoch == 5

    def test_values_that_are_no_numbers_never_win(self):
        task = Toy([float("nan"), 0.2, float("nan"), 0.1])
        assert train(task, settings()).best_epoch == 2
        with pytest.raises(GelatoError, match="No epoch gave a validation value"):
            train(Toy([float("nan")] * 4), settings())

    def test_unknown_metrics_are_refused_before_the_first_step(self):
        task = Toy([0.0] * 4)
        with pytest.raises(UsageError, match=r"'colour'.*value"):
            train(task, settings(metric="colour"))
        assert not hasattr(task, "at")

    @pytest.mark.parametrize(
        "given",
        [
            {"epochs": 0},
            {"validate_every": 0},
            {"patience": 0},
            {"lr": 0.0},
            {"lr": -1.0},
            {"lr": float("nan")},
            {"weight_decay": -1.0},
        ],
    )
    def test_settings_out_of_range(self, given):
        with pytest.raises(UsageError, match=next(iter(given))):
            TrainSettings(**given)


def test_steps_without_a_finite_gradient_are_skipped_counted_and_reported(caplog):
    task = Toy(bad=[(1, 1), (3, 0), (3, 1), (3, 2)])
    result = train(task, settings())
    assert result.skipped == 4
    assert [entry["skipped"] for entry in result.history] == [0 + 1, 0, 3, 0]
    assert result.history[2]["loss"] is None
    assert "4 steps were skipped" in caplog.text
    for value in task.module.state_dict().values():
        assert torch.isfinite(value).all()  # running statistics too


@pytest.mark.parametrize(
    "values",
    [[], [1.0], [3e38, 3e38], [1.0, math.nan], [math.inf, -math.inf], [math.inf]],
)
def test_finite_entries_even_if_their_sum_overflows(values):
    tensor = torch.tensor(values)
    assert loop.all_finite(tensor) == bool(torch.isfinite(tensor).all())


def test_the_optimiser_of_large_modules_takes_the_same_steps(monkeypatch):
    small = train(Toy(), settings(weight_decay=0.1))
    monkeypatch.setattr(loop, "_LARGE", 0)
    large = train(Toy(), settings(weight_decay=0.1))
    losses = [[entry["loss"] for entry in run.history] for run in (small, large)]
    np.testing.assert_allclose(*losses, rtol=1e-5)


class TestCheckpoints:
    def straight(self, epochs=5):
        task = Toy()
        return task, train(task, settings(epochs=epochs))

    def stop_after(self, epoch, folder, **given):
        def on_epoch(entry, progress):
            if entry["epoch"] == epoch:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            train(
                Toy(),
                settings(epochs=5),
                folder=folder,
                on_epoch=on_epoch,
                identity={"lr": 0.01},
                **given,
            )

    def resume(self, folder, identity=None, task=None):
        task = Toy() if task is None else task
        given = {"lr": 0.01} if identity is None else identity
        options = {"folder": folder, "resume": True, "identity": given}
        return task, train(task, settings(epochs=5), **options)

    @pytest.mark.parametrize("epoch", [1, 3, 5])
    def test_resuming_gives_the_same_bits(self, epoch, tmp_path):
        task, expected = self.straight()
        self.stop_after(epoch, tmp_path)
        resumed, result = self.resume(tmp_path)
        assert states_equal(task.module.state_dict(), resumed.module.state_dict())
        assert plain(result.history) == plain(expected.history)
        assert result.best_epoch == expected.best_epoch

    def test_an_interrupted_epoch_is_not_kept(self, tmp_path):
        task, expected = self.straight()

        def on_step(epoch, batch):
            if (epoch, batch) == (3, 1):
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            train(
                Toy(),
                settings(epochs=5),
                folder=tmp_path,
                on_step=on_step,
                identity={"lr": 0.01},
            )
        resumed, result = self.resume(tmp_path)
        assert states_equal(task.module.state_dict(), resumed.module.state_dict())
        assert plain(result.history) == plain(expected.history)

    def test_interruptions_between_copies(self, monkeypatch, tmp_path):
        monkeypatch.setattr(loop, "_COPY_SECONDS", 1e9)  # the first epoch only

        def stop(epoch, batch=None):
            if (epoch, batch) == (3, 1):
                raise KeyboardInterrupt

        for where, name, kept in (("on_step", "step", 1), ("on_epoch", "epoch", 3)):
            folder = tmp_path / name
            folder.mkdir()
            if where == "on_epoch":
                self.stop_after(3, folder)
            else:
                with pytest.raises(KeyboardInterrupt):
                    train(Toy(), settings(epochs=5), folder=folder, on_step=stop)
            module = Toy().module
            state = load_checkpoint(
                folder / CHECKPOINT, module, torch.optim.Adam(module.parameters()),
                {"lr": 0.01},
            )  # fmt: skip
            assert state.epoch == kept

    def test_slow_writing_is_done_less_often(self, monkeypatch, tmp_path):
        """By a clock that stands still except while writing: machines are noisy."""
        written, now = [], 0.0

        def slowly(snapshot, path):
            nonlocal now
            written.append(snapshot.header["epoch"])
            now += 1.0

        def pass_time(entry, state):
            nonlocal now
            now += 7.0

        clock = SimpleNamespace(monotonic=lambda: now, perf_counter=time.perf_counter)
        monkeypatch.setattr(loop, "time", clock)
        monkeypatch.setattr(Snapshot, "write", slowly)
        train(
            Toy(),
            settings(epochs=6, checkpoint_seconds=5.0),
            folder=tmp_path,
            on_epoch=pass_time,
        )
        assert written == [2, 5, 6]  # a write of 1 s is followed by 20 s of training

    def test_a_finished_training_resumes_to_its_result(self, tmp_path):
        _, first = self.resume(tmp_path)
        task, again = self.resume(tmp_path)
        assert again.history == first.history
        assert task.validated == []

    def test_torch_is_left_as_it_was(self):
        task = Toy()
        torch.manual_seed(11)
        before = torch.get_rng_state()
        train(task, settings())
        assert torch.equal(before, torch.get_rng_state())

    def test_another_training_is_refused_by_the_difference(self, tmp_path):
        self.stop_after(2, tmp_path)
        with pytest.raises(StoredFileError, match=r"its lr is 0\.01, not 0\.5"):
            self.resume(tmp_path, {"lr": 0.5})

    def test_another_module_is_refused(self, tmp_path):
        self.stop_after(2, tmp_path)
        other = Toy()
        other.module.append(nn.Linear(1, 1))
        with pytest.raises(StoredFileError, match="does not fit the model"):
            self.resume(tmp_path, task=other)

    @pytest.mark.parametrize("cut", [0, 7, 100, -10])
    def test_a_damaged_checkpoint_is_refused_with_advice(self, cut, tmp_path):
        self.stop_after(2, tmp_path)
        path = tmp_path / CHECKPOINT
        path.write_bytes(path.read_bytes()[:cut])
        with pytest.raises(StoredFileError, match=r"checkpoint.*Delete it"):
            self.resume(tmp_path)

    def test_foreign_and_newer_checkpoints_are_refused(self, tmp_path):
        path = tmp_path / CHECKPOINT
        save_file({"x": torch.zeros(1)}, path)
        with pytest.raises(StoredFileError, match="not a checkpoint of gelato"):
            self.resume(tmp_path)
        header = {"kind": "gelato checkpoint", "format": 99}
        save_file({"x": torch.zeros(1)}, path, {"gelato": json.dumps(header)})
        with pytest.raises(StoredFileError, match="format 99"):
            self.resume(tmp_path)
        header["format"] = 1
        save_file({"x": torch.zeros(1)}, path, {"gelato": json.dumps(header)})
        with pytest.raises(StoredFileError, match="lacks its identity"):
            self.resume(tmp_path)

    @pytest.mark.parametrize("call", ["replace", "write"])
    def test_a_full_disk_leaves_the_checkpoint_before(
        self, call, tmp_path, monkeypatch
    ):
        task, expected = self.straight()
        self.stop_after(2, tmp_path)
        before = (tmp_path / CHECKPOINT).read_bytes()

        def full(*args, **kwargs):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with monkeypatch.context() as patch:
            if call == "replace":
                patch.setattr(Path, "replace", full)
            else:
                patch.setattr(os, "fsync", full)
            with pytest.raises(OutputError, match=r"epoch 5.*No space.*resume"):
                self.resume(tmp_path)
        assert (tmp_path / CHECKPOINT).read_bytes() == before
        assert [path.name for path in tmp_path.iterdir()] == [CHECKPOINT]
        resumed, result = self.resume(tmp_path)
        assert states_equal(task.module.state_dict(), resumed.module.state_dict())
        assert plain(result.history) == plain(expected.history)

    def test_a_full_disk_speaks_of_no_checkpoint_where_there_was_none(
        self, tmp_path, monkeypatch
    ):
        def full(*args, **kwargs):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(OutputError, match=r"No space.*start again"):
            train(Toy(), settings(checkpoint_seconds=0.0), folder=tmp_path)

    def test_checkpoints_are_written_now_and_then(self, tmp_path):
        seen = []
        train(
            Toy(),
            settings(checkpoint_seconds=0.0),
            folder=tmp_path,
            on_epoch=lambda *_: seen.append((tmp_path / CHECKPOINT).exists()),
        )
        assert seen == [True] * 4


KILLED = """
    import os, signal, sys
    from dataclasses import replace
    sys.path.insert(0, {tests!r})
    from gelato.models.gelato import Gelato
    from gelato.splits import split_edges
    from support.small_graphs import community_graph

    def on_step(epoch, batch):
        if (epoch, batch) == (4, 1):
            os.kill(os.getpid(), signal.SIGKILL)

    usual = Gelato._train_settings
    Gelato._train_settings = lambda model: replace(usual(model), checkpoint_seconds=0)
    Gelato(epochs=6, batches=2, hidden=8, eta=0.5, alpha=0.5).fit(
        split_edges(community_graph(), valid=0.1, test=0.1),
        folder=sys.argv[1],
        on_step=on_step,
    )
"""


@pytest.mark.slow
def test_a_killed_process_resumes_to_the_same_bits(tmp_path):
    script = textwrap.dedent(KILLED).format(tests=str(TESTS))
    ended = subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    assert ended.returncode == -signal.SIGKILL
    split = split_edges(community_graph(), valid=0.1, test=0.1)
    options = {"epochs": 6, "batches": 2, "hidden": 8, "eta": 0.5, "alpha": 0.5}
    told = []
    resumed = Gelato(**options).fit(
        split,
        folder=tmp_path,
        resume=True,
        on_epoch=lambda entry, _: told.append(entry["epoch"]),
    )
    assert told == [4, 5, 6]
    straight = Gelato(**options).fit(split)
    assert states_equal(resumed.module_.state_dict(), straight.module_.state_dict())
    ours, theirs = resumed.training_, straight.training_
    assert plain(ours.history) == plain(theirs.history)
    with pytest.raises(StoredFileError, match=r"its eta is 0\.5, not 0\.25"):
        Gelato(**options | {"eta": 0.25}).fit(split, folder=tmp_path, resume=True)


@pytest.mark.parametrize("loss", ["n-pair", "cross-entropy"])
@pytest.mark.parametrize("heuristic", ["ac", "mixture"])
def test_threads_do_not_change_a_bit(loss, heuristic):
    split = split_edges(community_graph(), valid=0.1, test=0.1)
    states = []
    for threads in (1, 2, 3):
        model = Gelato(
            epochs=3,
            batches=2,
            hidden=8,
            eta=0.5,
            loss=loss,
            heuristic=heuristic,
        )
        with use_threads(threads):
            model.fit(split)
        states.append(model.module_.state_dict())
    assert states_equal(states[0], states[1])
    assert states_equal(states[0], states[2])
    other = Gelato(epochs=3, batches=2, hidden=8, eta=0.5, loss=loss, seed=1).fit(split)
    assert not states_equal(states[0], other.module_.state_dict())


@pytest.mark.parametrize("metric", ["ap", "hits@5", "prec@50%"])
def test_any_metric_selects_the_epoch(metric):
    split = split_edges(community_graph(), valid=0.1, test=0.1)
    model = Gelato(epochs=4, batches=2, hidden=8, lr=0.05, metric=metric).fit(split)
    values = [entry[metric] for entry in model.training_.history]
    assert model.training_.best_epoch == int(np.argmax(values)) + 1


class TestStopping:
    def test_the_best_epoch_so_far_is_kept(self):
        def stop(entry, state):
            if entry["epoch"] == 3:
                raise StopTraining

        task = Toy([0.1, 0.5, 0.2, 0.9])
        result = train(task, settings(), on_epoch=stop)
        assert result.best_epoch == 2
        assert len(result.history) == 3

    def test_before_the_first_validation_there_is_nothing_to_keep(self):
        def stop(epoch, batch):
            raise StopTraining

        with pytest.raises(StopTraining):
            train(Toy(), settings(), on_step=stop)

    def test_a_broken_epoch_does_not_count(self):
        def stop(epoch, batch):
            if (epoch, batch) == (3, 1):
                raise StopTraining

        result = train(Toy([0.1, 0.5, 0.2, 0.9]), settings(), on_step=stop)
        assert [entry["epoch"] for entry in result.history] == [1, 2]


class TestTimeLimit:
    @pytest.fixture
    def clock(self, monkeypatch):
        """A clock that a test moves."""
        now = [100.0]
        monkeypatch.setattr("gelato.training.budget.monotonic", lambda: now[0])
        return now

    def steps(self, limit, clock, seconds, count):
        for batch in range(count):
            clock[0] += seconds
            limit.on_step(1, batch)

    def test_too_few_epochs_end_a_training_after_three_steps(self, clock):
        limit = TimeLimit(130.0, 10, least_epochs=2)
        self.steps(limit, clock, 2.0, 2)
        with pytest.raises(StopTraining):
            self.steps(limit, clock, 2.0, 1)
        assert limit.epoch_seconds == pytest.approx(20.0)
        self.steps(TimeLimit(180.0, 10, least_epochs=2), clock, 2.0, 10)

    def test_a_validation_counts(self, clock):
        limit = TimeLimit(130.0, 10, validation_seconds=10.0, least_epochs=1)
        with pytest.raises(StopTraining):
            self.steps(limit, clock, 2.0, 3)

    def test_another_epoch_must_fit(self, clock):
        limit = TimeLimit(120.0, 10)
        clock[0] = 105.0
        limit.on_epoch({"epoch": 1, "seconds": 5.0}, None)
        clock[0] = 116.0
        with pytest.raises(StopTraining):
            limit.on_epoch({"epoch": 2, "seconds": 5.0}, None)
        assert limit.epochs == 2

    def test_time_is_up_in_the_middle_of_an_epoch(self, clock):
        limit = TimeLimit(110.0, 10)
        self.steps(limit, clock, 0.1, 5)
        with pytest.raises(StopTraining):
            self.steps(limit, clock, 6.0, 2)
