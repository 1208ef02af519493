"""``gelato fit`` and the verbs on its folders, end to end on a small graph."""

from __future__ import annotations

import json
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest

import gelato as library
from gelato.cli import run_folders
from gelato.errors import OutputError
from gelato.io.locking import locked_folder
from gelato.training.loop import CHECKPOINT
from support.refusals import refused

EPOCHS = 3
# What a run folder says itself.
BESIDE = (
    ("--dataset", "citeseer"),
    ("--model", "ac"),
    ("--set", "t=2"),
    ("--preset", "cora"),
    ("--seed", "1"),
    ("--directed",),
)


def data_of(small):
    return (
        *("--edges", small.edges, "--source", "from", "--target", "to"),
        *("--attributes", small.attributes),
    )


def fit_of(small, *more):
    return ("fit", *data_of(small), "--set", f"epochs={EPOCHS}", *more)


def without_seconds(value):
    if isinstance(value, dict):
        return {k: without_seconds(v) for k, v in value.items() if k != "seconds"}
    return value


@pytest.fixture
def fitted(gelato, small):
    outcome = gelato(*fit_of(small))
    assert outcome.code == 0, outcome.err
    return outcome


@contextmanager
def held_elsewhere(folder):
    """Another writer holds a folder: a thread, which counts as another process."""
    held, done = Event(), Event()

    def hold():
        with locked_folder(folder):
            held.set()
            done.wait()

    thread = Thread(target=hold)
    thread.start()
    held.wait()
    try:
        yield
    finally:
        done.set()
        thread.join()


def test_the_checkpoint_has_the_name_that_the_loop_gives_it():
    assert run_folders.CHECKPOINT == CHECKPOINT


class TestFit:
    def test_folder_is_complete_and_loads(self, fitted, small):
        names = {path.name for path in Path("run").iterdir()}
        assert {"config.toml", "metrics.json", "history.jsonl"} <= names
        assert CHECKPOINT not in names
        history = Path("run/history.jsonl").read_text().splitlines()
        assert [json.loads(line)["epoch"] for line in history] == [1, 2, 3]
        model = library.load("run")
        assert model.seed == 1
        assert model.epochs == EPOCHS

    def test_numbers_are_the_library_s(self, fitted, small):
        graph = library.read_graph(
            small.edges, small.attributes, source="from", target="to"
        )
        split = library.split_edges(graph)
        model = library.make("gelato", epochs=EPOCHS, seed=1).fit(split)
        stored = json.loads(Path("run/metrics.json").read_text())["metrics"]
        for title, part in (("validation", "valid"), ("test", "test")):
            expected = library.evaluate(model, split, part=part).to_dict()
            assert without_seconds(stored[title]) == without_seconds(expected)
        assert f"{100 * stored['test']['ap']:.2f}" in fitted.out

    def test_console(self, fitted):
        assert "3 epochs in" in fitted.out
        assert "best after epoch" in fitted.out
        assert "gelato predict run" in fitted.out
        assert "epoch 1 of 3: loss" in fitted.err
        assert "left" in fitted.err
        assert max(map(len, fitted.out.splitlines()[1:])) <= 80

    def test_json_and_quiet(self, gelato, small):
        outcome = gelato(*fit_of(small, "--json", "--quiet", "--seed", "5"))
        assert outcome.err == ""
        result = outcome.json
        assert result["run"] == "run"
        assert result["model"]["parameters"]["seed"] == 5
        assert result["training"]["epochs"] == EPOCHS
        assert result["metrics"]["test"]["part"] == "test"
        assert result["split"]["fingerprint"] == result["metrics"]["test"]["split"]

    def test_without_test_edges_only_validation_is_measured(self, gelato, small):
        result = gelato(*fit_of(small, "--test", "0", "--json")).json
        assert set(result["metrics"]) == {"validation"}
        refused(gelato("evaluate", "run"), says=["--part valid"])
        assert gelato("evaluate", "run", "--part", "valid").code == 0

    def test_preset_and_overrides(self, gelato, small):
        options = ("--preset", "citeseer", "--set", "eta=0.25", "--json")
        parameters = gelato(*fit_of(small, *options)).json["model"]["parameters"]
        assert parameters["eta"] == 0.25
        assert parameters["beta"] == 0.5
        assert parameters["self_loops"] == "all"

    def test_heuristics_are_kept_too(self, gelato, small):
        outcome = gelato("fit", *data_of(small), "-m", "ac", "-o", "ac", "--json")
        assert outcome.json["training"] is None
        assert library.load("ac").name == "ac"

    def test_no_attributes_is_a_notice(self, gelato, small):
        options = ("--edges", small.edges, "--source", "from", "--target", "to")
        outcome = gelato("fit", *options, "-m", "gelato")
        assert outcome.code == 0
        assert "reduces to its heuristic" in outcome.err
        ap = gelato("evaluate", "run", "--json").json["results"][0]["ap"]
        plain = gelato("evaluate", *options, "-m", "ac", "--json").json
        assert ap == pytest.approx(plain["results"][0]["ap"])
        forecast = gelato("fit", *options, "-m", "gelato", "--dry-run")
        assert "learns nothing" in forecast.out

    def test_dry_run_forecasts_and_writes_nothing(self, gelato, small):
        before = sorted(Path().iterdir())
        outcome = gelato(*fit_of(small, "--dry-run", "--json"))
        coming = outcome.json["training_forecast"]
        assert coming["edges"] == 68
        assert coming["pairs"] == 435
        assert coming["epochs"] == EPOCHS
        assert 0 < coming["epoch_seconds"] <= coming["seconds"]
        assert coming["peak_bytes"] > 1e7
        assert "per epoch" in gelato(*fit_of(small, "--dry-run")).out
        assert sorted(Path().iterdir()) == before

    def test_a_forecast_of_what_may_stop_early_is_the_most(self, gelato, small):
        told = gelato(*fit_of(small, "--dry-run", "-m", "gae")).out
        assert "at most" not in told
        stopping = fit_of(small, "--dry-run", "-m", "lgcn", "--set", "patience=7")
        told = " ".join(gelato(*stopping).out.split())
        assert "at most about" in told
        assert "it stops after 7 validations without gain" in told

    def test_a_forecast_counts_rankings_of_all_pairs(self, gelato, small, monkeypatch):
        name = "gelato.cli.forecasts._validation_seconds"
        monkeypatch.setattr(name, lambda *_: 1000.0)
        options = ("-m", "lgcn", "--dry-run", "--json")
        for every, times in ((2, EPOCHS // 2), (EPOCHS, 1), (EPOCHS + 1, 0)):
            given = ("--set", f"validate_exact_every={every}")
            told = gelato(*fit_of(small, *options, *given)).json["training_forecast"]
            assert 1000 * times < told["seconds"] < 1000 * times + 900
            assert told["epoch_seconds"] == pytest.approx(told["seconds"] / EPOCHS)

    def test_threads_are_not_kept(self, gelato, small):
        assert gelato(*fit_of(small, "--threads", "1")).code == 0
        assert "threads" not in library.load("run").get_params()

    def test_presets_are_suggested_for_their_graphs(self, capsys):
        from gelato.cli.console import Console
        from gelato.cli.fit import _suggest_preset
        from gelato.cli.options import DataOptions, ModelOptions, OutputOptions

        console, graph = Console(OutputOptions()), DataOptions(dataset="photo")
        _suggest_preset(console, "gelato", ModelOptions(), graph)
        assert "--preset photo" in capsys.readouterr().err
        _suggest_preset(console, "ac", ModelOptions(), graph)
        _suggest_preset(console, "gelato", ModelOptions(preset="cora"), graph)
        _suggest_preset(console, "gelato", ModelOptions(), DataOptions())
        assert capsys.readouterr().err == ""

    def test_a_terminal_gets_a_bar_and_a_word_of_long_trainings(self, monkeypatch):
        import io
        from types import SimpleNamespace

        from rich.console import Console as Terminal

        from gelato.cli import progress as training
        from gelato.cli.console import Console
        from gelato.cli.options import OutputOptions

        console, written = Console(OutputOptions()), io.StringIO()
        console._error = Terminal(file=written, force_terminal=True, width=80)
        times = iter(range(0, 10_000, 30))
        monkeypatch.setattr(training, "monotonic", lambda: next(times))
        model = SimpleNamespace(epochs=4, steps_=3, metric="ap")
        entry = {"epoch": 1, "loss": 0.25, "ap": 0.125}
        with training.watch_training(console, "mine", model) as watch:
            for batch in range(3):
                watch.on_step(1, batch)
            watch.on_epoch(entry, SimpleNamespace(best_value=0.125, best_epoch=1))
        assert "12 steps of mine take about" in written.getvalue()
        assert "epoch 1/4" in written.getvalue()
        assert "ap 12.50, best 12.50 (epoch 1)" in written.getvalue()
        assert Console(OutputOptions(quiet=True)).training_bar("x") is None


class TestInterruption:
    def test_going_on_gives_the_same_result(self, gelato, small, fitted, monkeypatch):
        from gelato.cli.progress import Watch

        told = Watch.on_epoch

        def stop(self, entry, state):
            told(self, entry, state)
            if entry["epoch"] == 2:
                raise KeyboardInterrupt

        monkeypatch.setattr("sys.argv", ["gelato", "fit", "--overwrite", "-o", "a b"])
        with monkeypatch.context() as patch:
            patch.setattr(Watch, "on_epoch", stop)
            outcome = gelato(*fit_of(small, "-o", "a b"))
        assert outcome.code == 130
        assert outcome.out == ""
        assert "Go on with: gelato fit -o 'a b' --resume\n" in outcome.err
        assert [path.name for path in Path("a b").iterdir()] == [CHECKPOINT]
        assert gelato(*fit_of(small, "-o", "a b", "--resume")).code == 0
        for name in ("weights.safetensors", "split.parquet", "graph.npz"):
            assert Path("a b", name).read_bytes() == Path("run", name).read_bytes()

    def test_before_the_first_epoch_nothing_stays(self, gelato, small, monkeypatch):
        def stop(self, epoch, batch):
            raise KeyboardInterrupt

        monkeypatch.setattr("gelato.cli.progress.Watch.on_step", stop)
        outcome = gelato(*fit_of(small))
        assert outcome.code == 130
        assert "run the same command again" in outcome.err
        assert not Path("run").exists()


class TestOccupiedFolders:
    def test_a_finished_run_is_not_touched(self, gelato, small, fitted):
        before = Path("run/config.toml").read_bytes()
        refused(gelato(*fit_of(small)), says=["finished", "--overwrite"])
        assert Path("run/config.toml").read_bytes() == before

    def test_overwrite_replaces_it(self, gelato, small, fitted):
        Path("run/mine.txt").write_text("precious")
        outcome = gelato(*fit_of(small, "--overwrite", "--seed", "2"))
        assert outcome.code == 0
        assert library.load("run").seed == 2
        assert Path("run/mine.txt").read_text() == "precious"

    def test_resuming_a_finished_run_shows_it(self, gelato, small, fitted):
        outcome = gelato(*fit_of(small, "--resume"))
        assert outcome.code == 0
        assert "finished already" in outcome.err
        assert outcome.out == fitted.out
        other = gelato(*fit_of(small, "--resume", "--seed", "2"))
        refused(other, says=["another run", "seed"])
        other = gelato(*fit_of(small, "--resume", "--split-seed", "2"))
        refused(other, says=["split"])

    def test_an_unfinished_training_asks_for_resume(self, gelato, small):
        Path("run").mkdir()
        Path("run", CHECKPOINT).write_bytes(b"")
        refused(gelato(*fit_of(small)), says=["not been finished", "--resume"])

    def test_damaged_checkpoint(self, gelato, small):
        Path("run").mkdir()
        Path("run", CHECKPOINT).write_bytes(b"not this")
        refused(gelato(*fit_of(small, "--resume")), says=[CHECKPOINT])

    def test_foreign_folders_and_files(self, gelato, small):
        refused(gelato(*fit_of(small, "-o", ".")), says=["not empty"])
        refused(gelato(*fit_of(small, "-o", small.edges)), says=["not a folder"])

    def test_a_refused_graph_leaves_no_folder(self, gelato, write):
        edges = write("edges.csv", "source,target\na,a\n")
        refused(gelato("fit", "--edges", edges))
        assert [path.name for path in Path().iterdir()] == ["edges.csv"]

    def test_overwriting_leaves_nothing_of_the_old_run(self, gelato, small):
        options = ("run", *data_of(small), "-m", "cn", "-o", "run")
        assert gelato(*options).code == 0
        Path("run/report.html").write_text("about the old run")
        Path("run/notes.txt").write_text("mine")
        options = ("fit", *data_of(small), "-m", "aa", "--overwrite")
        assert gelato(*options).code == 0
        names = {path.name for path in Path("run").iterdir()}
        assert not names & {"links.csv", "report.html"}
        assert "notes.txt" in names

    @pytest.mark.parametrize("verb", ["fit", "run"])
    def test_a_second_writer_is_refused(self, gelato, small, verb):
        Path("run").mkdir()
        options = (verb, *data_of(small), "-m", "ac", "-o", "run")
        with held_elsewhere("run"):
            refused(gelato(*options), says=["Another process is writing", "run"])
            assert list(Path("run").iterdir()) == []
        assert gelato(*options).code == 0

    def test_a_run_that_another_process_finished_meanwhile_stays(self, fitted):
        before = Path("run/config.toml").read_bytes()
        for resume in (True, False):
            claim = run_folders.claimed_folder(Path("run"), resume=resume)
            with pytest.raises(OutputError, match="finished"), claim:
                pass
        assert Path("run/config.toml").read_bytes() == before

    def test_resume_and_overwrite_exclude_each_other(self, gelato, small):
        outcome = gelato(*fit_of(small, "--resume", "--overwrite"))
        refused(outcome, code=2)


class TestSettings:
    @pytest.mark.parametrize(
        ("options", "says"),
        [
            (("--preset", "citeser"), "citeseer"),
            (("--preset", "cora", "-m", "ac"), "--preset"),
            (("--set", "layers=3"), "layers"),
            (("--set", "epochs=many"), "whole number"),
            (("--set", "epochs=1.5"), "whole number"),
            (("--set", "epochs=none"), "whole number"),
            (("--set", "eta=much"), "a number"),
            (("--set", "patience=soon"), "whole number"),
            (("--set", "loss=3"), "loss"),
            (("--set", "pair_model=mine"), "pair_model"),
            (("--set", "seed=1", "--seed", "2"), "--seed"),
            (("--seed", "1", "-m", "ac"), "seed"),
            (("--set", "epochs=0"), "epochs"),
            (("--set", "eta=-1"), "eta"),
            (("--set", "alpha=2"), "alpha"),
            (("--set", "t=0"), "t is 0"),
            (("--set", "lr=0"), "lr"),
            (("--set", "loss=hinge"), "hinge"),
            (("--set", "training=none-such"), "none-such"),
            (("--set", "metric=recall"), "recall"),
            (("--model", "gelatto"), "gelato"),
        ],
    )
    def test_misuse(self, gelato, small, options, says):
        outcome = gelato("fit", *data_of(small), *options)
        assert outcome.code == 2, outcome.err
        assert says in outcome.err
        assert outcome.out == ""
        assert not Path("run").exists()

    def test_settings_may_be_nothing(self, gelato, small):
        assert gelato(*fit_of(small, "--set", "patience=none")).code == 0


class TestRunFolders:
    def test_evaluate_measures_the_run_s_own_split(self, gelato, fitted):
        stored = json.loads(Path("run/metrics.json").read_text())["metrics"]
        for part, title in (("test", "test"), ("valid", "validation")):
            found = gelato("evaluate", "run", "--part", part, "--json").json
            assert without_seconds(found["results"][0]) == without_seconds(
                stored[title]
            )
        assert "BIASED" in gelato("evaluate", "run", "--protocol", "both").out
        assert gelato("evaluate", "run", "--dry-run").code == 0

    def test_predict_uses_all_known_edges(self, gelato, fitted, small):
        found = gelato("predict", "run", "--top", "4", "--json").json["links"]
        expected = library.load("run").predict(top=4).to_dicts()
        assert found == expected
        assert not {(x["source"], x["target"]) for x in found} & set(small.pairs)
        assert gelato("predict", "run", "--per-node", "1", "-o", "l.csv").code == 0
        assert Path("l.csv").exists()
        assert gelato("predict", "run", "--dry-run").code == 0

    def test_in_one_go(self, gelato, small, fitted):
        options = (*data_of(small), "-m", "gelato", "--set", f"epochs={EPOCHS}")
        found = gelato("evaluate", *options, "--json").json["results"][0]
        stored = json.loads(Path("run/metrics.json").read_text())["metrics"]["test"]
        assert without_seconds(found) == without_seconds(stored)
        assert gelato("predict", *options, "--top", "3").code == 0
        assert "gelato fit --dry-run" in gelato("predict", *options, "--dry-run").out

    @pytest.mark.parametrize(
        ("verb", "options"),
        [
            *((verb, option) for verb in ("evaluate", "predict") for option in BESIDE),
            # For predict it is a newer version of the run's graph, and welcome.
            ("evaluate", ("--edges", "e.csv")),
        ],
    )
    def test_mixing_with_data_or_model_is_misuse(self, gelato, verb, options):
        refused(gelato(verb, "run", *options), code=2, says=[options[0]])

    def test_a_split_beside_a_run_is_misuse(self, gelato):
        refused(gelato("evaluate", "run", "--test", "0.2"), code=2)

    @pytest.mark.parametrize("verb", ["evaluate", "predict"])
    def test_damaged_foreign_and_newer(self, gelato, fitted, verb):
        config = Path("run/config.toml")
        refused(gelato(verb, "nowhere"), says=["nowhere"])
        good = config.read_text()
        config.write_text(good.replace("format = 1", "format = 99"))
        refused(gelato(verb, "run"), says=["newer"])
        config.write_text("[[[")
        refused(gelato(verb, "run"), says=["config.toml"])
        config.write_text("title = 'a shop'\n")
        refused(gelato(verb, "run"), says=["config.toml"])
        config.write_text(good)
        weights = Path("run/weights.safetensors")
        weights.write_bytes(weights.read_bytes()[:-40])
        refused(gelato(verb, "run"), says=["weights.safetensors"])
        weights.unlink()
        refused(gelato(verb, "run"), says=["weights"])

    def test_a_model_fitted_on_all_edges_has_nothing_to_measure(self, gelato, small):
        graph = library.read_graph(small.edges, source="from", target="to")
        library.make("ac").fit(graph).save("whole")
        refused(gelato("evaluate", "whole"), says=["all edges"])
        assert gelato("predict", "whole", "--top", "2").code == 0


class TestCompare:
    def test_trained_models_with_seeds(self, gelato, small, fitted):
        options = ("--models", "gelato,ac", "--seeds", "1,2")
        outcome = gelato(
            *("compare", *data_of(small), *options),
            *("--set", f"gelato.epochs={EPOCHS}", "--json"),
        )
        runs = outcome.json["runs"]
        found = [(run["model"], run["seed"]) for run in runs]
        assert sorted(found, key=str) == [("ac", None), ("gelato", 1), ("gelato", 2)]
        stored = json.loads(Path("run/metrics.json").read_text())["metrics"]["test"]
        first = next(run for run in runs if run["seed"] == 1)
        assert first["ap"] == stored["ap"]
        entries = {entry["model"]: entry for entry in outcome.json["ranking"]}
        assert entries["gelato"]["runs"] == 2

    def test_spread_is_named(self, gelato, small):
        outcome = gelato(
            *("compare", *data_of(small), "--models", "gelato", "--seeds", "1,2"),
            *("--preset", "cora", "--set", "gelato.epochs=1"),
        )
        assert "over 2 seeds" in outcome.out

    @pytest.mark.parametrize(
        "options",
        [
            ("--models", "ac", "--preset", "cora"),
            ("--models", "ac,gelato", "--preset", "cra"),
            ("--models", "ac", "--set", "gelato.epochs=3"),
            ("--models", "ac", "--set", "t=3"),
            ("--models", "ac", "--set", "ac.t=long"),
            ("--models", "gelato", "--seeds", "one"),
        ],
    )
    def test_misuse(self, gelato, small, options):
        refused(gelato("compare", *data_of(small), *options), code=2)
