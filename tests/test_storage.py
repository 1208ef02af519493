"""Run folders: equal scores elsewhere, every wrong file named, never a mixture."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import gelato
from gelato import storage
from gelato.errors import OutputError, StoredFileError
from gelato.models.gelato import Gelato
from gelato.splits import split_edges
from support.small_graphs import community_graph

ROWS = np.arange(40)
STRINGS = [f"node {i}" for i in range(40)]
FILES = [
    storage.CONFIG,
    storage.GRAPH,
    storage.SPLIT,
    storage.WEIGHTS,
    "enhanced.parquet",
    storage.METRICS,
    storage.ENVIRONMENT,
    storage.HISTORY,
]


def fitted(ids=None, **given):
    options = {"epochs": 2, "batches": 2, "hidden": 8, "eta": 0.5, "alpha": 0.5}
    graph = community_graph(ids=ids, weighted=True)
    return Gelato(**options | given).fit(split_edges(graph, valid=0.1, test=0.1))


@pytest.fixture(scope="module")
def model():
    return fitted(STRINGS)


@pytest.fixture(scope="module")
def saved(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("stored") / "run"
    return model.save(folder, metrics={"ap": np.float64(0.25), "k": np.int64(3)})


@pytest.fixture
def run(saved, tmp_path):
    return Path(shutil.copytree(saved, tmp_path / "run"))


class TestRoundTrip:
    @pytest.mark.slow
    def test_a_fresh_process_scores_equally(self, model, saved, tmp_path):
        folder = Path(shutil.copytree(saved, tmp_path / "elsewhere"))
        script = (
            "import sys, numpy, gelato; model = gelato.load(sys.argv[1]); "
            "numpy.save(sys.argv[2], model.score_rows(numpy.arange(40)))"
        )
        out = tmp_path / "scores.npy"
        subprocess.run(
            [sys.executable, "-c", script, str(folder), str(out)],
            check=True,
            cwd=tmp_path,
        )
        np.testing.assert_array_equal(np.load(out), model.score_rows(ROWS))

    @pytest.mark.parametrize("heuristic", ["cn", "mixture"])
    def test_of_other_heuristics(self, heuristic, tmp_path):
        one = fitted(heuristic=heuristic)
        two = gelato.load(one.save(tmp_path))
        np.testing.assert_array_equal(two.score_rows(ROWS), one.score_rows(ROWS))

    def test_of_directed_graphs(self, tmp_path):
        graph = community_graph(directed=True)
        split = split_edges(graph, valid=0.1, test=0.1)
        one = Gelato(epochs=2, batches=2, hidden=8).fit(split)
        two = gelato.load(one.save(tmp_path))
        np.testing.assert_array_equal(two.score_rows(ROWS), one.score_rows(ROWS))

    @pytest.mark.parametrize("ids", [STRINGS, list(range(100, 140)), None])
    def test_of_ids(self, ids, tmp_path):
        one = fitted(ids)
        two = gelato.load(one.save(tmp_path))
        known = one.graph_.node_ids.tolist()
        assert two.graph_.node_ids.tolist() == known
        pair = [(known[3], known[8])]
        assert two.score_pairs(pair) == one.score_pairs(pair)

    def test_what_people_read_is_there(self, model, run):
        assert sorted(path.name for path in run.iterdir()) == sorted(FILES)
        assert json.loads((run / "metrics.json").read_text()) == {"ap": 0.25, "k": 3}
        assert "torch" in json.loads((run / "environment.json").read_text())["packages"]
        again = gelato.load(run)
        assert again.training_ == model.training_
        assert again.notes_ == model.notes_
        table = pl.read_parquet(run / "enhanced.parquet")
        columns = ["source", "target", "weight", "similarity", "is_edge"]
        assert table.columns == columns
        edges = table.filter("is_edge").select("source", "target").rows()
        names = model.graph_.node_ids
        assert set(edges) == {(names[u], names[v]) for u, v in model.graph_.edges}
        assert not table["is_edge"].all()
        assert (table["weight"] > 0).all()

    def test_learned_pairs_are_stored_and_not_searched_again(self, model, run):
        again = gelato.load(run)
        np.testing.assert_array_equal(again.similar_.pairs, model.similar_.pairs)
        assert again.similar_.threshold == model.similar_.threshold

    def test_numbers_of_numpy_are_parameters_too(self, tmp_path):
        one = fitted(seed=np.int64(3), lr=np.float32(0.01))
        assert gelato.load(one.save(tmp_path)).seed == 3


class TestWrongFolders:
    @pytest.mark.parametrize("name", FILES)
    @pytest.mark.parametrize("how", ["missing", "empty", "cut", "noise"])
    def test_every_file_is_checked(self, name, how, run):
        path = run / name
        data = path.read_bytes()
        if how == "missing":
            path.unlink()
        else:
            noise = bytes(np.random.default_rng(0).integers(128, 256, 500).tolist())
            changed = {"empty": b"", "cut": data[: len(data) // 2], "noise": noise}
            path.write_bytes(changed[how])
        with pytest.raises(StoredFileError, match=name) as caught:
            gelato.load(run)
        assert caught.value.hint

    @pytest.mark.parametrize("name", [storage.GRAPH, storage.SPLIT, storage.WEIGHTS])
    def test_a_file_of_another_run_is_refused(self, name, run, tmp_path):
        other = fitted(STRINGS, seed=5)
        other.split_ = split_edges(other.graph_, valid=0.2, test=0.1, seed=9)
        other.graph_ = other.split_.train_graph
        other.split_ = split_edges(other.graph_, valid=0.2, test=0.1)
        other.save(tmp_path / "other")
        shutil.copy(tmp_path / "other" / name, run / name)
        with pytest.raises(StoredFileError, match=f"{name} is not the file"):
            gelato.load(run)

    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            ("format = 1", "format = 99", "format 99, newer.*Install a newer"),
            ("format = 1", 'format = "1"', "does not describe a run"),
            ('model = "gelato"', 'model = "gelatto"', "no model called 'gelatto'"),
            ('model = "gelato"', 'model = "cn"', "no parameter"),
            ("eta = 0.5", "eta = -0.5", "eta is -0.5"),
            ("hidden = 8", "hidden = 9", "do not fit the model"),
            ("[files]", "[others]", "does not describe a run"),
            ("[files]", '[files]\n"../x" = "0"', "does not describe a run"),
        ],
    )
    def test_a_config_that_cannot_be_right(self, old, new, message, run):
        path = run / storage.CONFIG
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))
        with pytest.raises(StoredFileError, match=message) as caught:
            gelato.load(run)
        assert caught.value.hint

    def test_no_folder(self, tmp_path):
        with pytest.raises(StoredFileError, match="no run folder"):
            gelato.load(tmp_path / "nothing")
        with pytest.raises(StoredFileError, match=r"config\.toml is missing"):
            gelato.load(tmp_path)


class TestSavingAgain:
    def test_replaces_the_run_and_keeps_other_files(self, run):
        (run / "checkpoint.safetensors").write_bytes(b"mine")
        (run / ".writing-left").mkdir()
        heuristic = gelato.make("ac").fit(community_graph())
        heuristic.save(run)
        left = {path.name for path in run.iterdir()}
        assert "checkpoint.safetensors" in left
        assert not {storage.WEIGHTS, storage.SPLIT, "enhanced.parquet"} & left
        assert ".writing-left" not in left
        again = gelato.load(run)
        np.testing.assert_array_equal(
            again.score_rows(ROWS), heuristic.score_rows(ROWS)
        )

    @pytest.mark.parametrize("ids", [[(i, "a") for i in range(40)], [*STRINGS[:-1], 7]])
    def test_ids_that_cannot_be_stored_are_refused_before_writing(
        self, ids, run, tmp_path, model
    ):
        odd = fitted(ids)
        with pytest.raises(OutputError, match="ids") as caught:
            odd.save(tmp_path / "new" / "run")
        assert ".writing" not in str(caught.value)
        assert not (tmp_path / "new" / "run").exists()
        with pytest.raises(OutputError, match="ids"):
            odd.save(run)
        again = gelato.load(run)  # the old run is as it was
        np.testing.assert_array_equal(again.score_rows(ROWS), model.score_rows(ROWS))
        assert sorted(path.name for path in run.iterdir()) == sorted(FILES)

    @pytest.mark.parametrize("moved", range(9))
    def test_an_interruption_never_leaves_a_mixture(self, moved, run, monkeypatch):
        """Stop after some files were exchanged: no run, or the old or new one."""
        other = fitted(STRINGS, seed=5)
        usual, count = Path.replace, 0

        def interrupted(path, target):
            nonlocal count
            if path.parent.name.startswith(".writing") and "tmp" not in path.suffix:
                count += 1
                if count > moved:
                    raise KeyboardInterrupt
            return usual(path, target)

        with monkeypatch.context() as patch:
            patch.setattr(Path, "replace", interrupted)
            if moved < len(FILES):
                with pytest.raises(KeyboardInterrupt):
                    other.save(run)
            else:
                other.save(run)
        if moved < len(FILES):
            with pytest.raises(StoredFileError, match=r"config\.toml is missing"):
                gelato.load(run)
        other.save(run)
        np.testing.assert_array_equal(
            gelato.load(run).score_rows(ROWS), other.score_rows(ROWS)
        )

    def test_a_full_disk_leaves_the_old_run(self, run, model, monkeypatch):
        def full(*args, **kwargs):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        other = fitted(STRINGS, seed=5)
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            with pytest.raises(OutputError, match="No space left"):
                other.save(run)
        again = gelato.load(run)
        np.testing.assert_array_equal(again.score_rows(ROWS), model.score_rows(ROWS))

    def test_a_place_that_cannot_be_written(self, model, tmp_path):
        file = tmp_path / "file"
        file.touch()
        with pytest.raises(OutputError, match="Cannot write into the folder"):
            model.save(file)
        with pytest.raises(OutputError, match="plain data"):
            model.save(tmp_path / "run", metrics={"ap": object()})
        assert not (tmp_path / "run").exists()
