"""Every verb, end to end, on a small graph in files."""

from __future__ import annotations

import csv
from pathlib import Path

import polars as pl
import pytest

import gelato as library
from gelato.cli.app import VERBS
from gelato.heuristics.declared import listed


def data_of(small):
    return ("--edges", small.edges, "--source", "from", "--target", "to")


def ranked(small):
    """Data with a model named: choosing one takes a second, and has its own tests."""
    return (*data_of(small), "-m", "ac")


def split_of(small, **options):
    graph = library.read_graph(small.edges, source="from", target="to")
    return library.split_edges(graph, **options)


class TestStart:
    def test_without_arguments_help_is_printed(self, gelato):
        result = gelato()
        assert result.code == 0
        for verb in ("demo", "check", "evaluate", "compare", "predict", "data", "list"):
            assert verb in result.out

    @pytest.mark.parametrize("verb", VERBS)
    def test_every_verb_explains_itself(self, gelato, verb):
        result = gelato(verb, "--help")
        assert result.code == 0
        assert f"gelato {verb}" in result.out

    def test_paragraphs_of_help_fill_their_lines(self, gelato, monkeypatch):
        """Lines of the source are no lines of a terminal that is narrower."""
        monkeypatch.setenv("COLUMNS", "80")
        told = [line.strip() for line in gelato("fit", "--help").out.splitlines()]
        start = next(i for i, line in enumerate(told) if line.startswith("Without"))
        paragraph = told[start : told.index("", start)]
        assert all(len(line) > 60 for line in paragraph[:-1])

    def test_version(self, gelato):
        assert gelato("--version").out == f"gelato {library.__version__}\n"
        assert gelato("version").out.startswith(f"gelato {library.__version__}\n")
        assert set(gelato("version", "--json").json) == {
            *("gelato", "python", "system", "libraries")
        }

    @pytest.mark.parametrize("verb", ["run", "check", "fit"])
    def test_a_file_without_its_option_is_told_where_to_go(self, gelato, verb):
        result = gelato(verb, "edges.csv")
        assert result.code == 2
        assert f"gelato {verb} --edges FILE" in result.err
        assert "--edges" not in gelato("version", "edges.csv").err

    def test_list_names_all_models_and_datasets(self, gelato):
        result = gelato("list", "--json").json
        assert [model["name"] for model in result["models"]] == library.model_names()
        names = [facts["name"] for facts in result["datasets"]]
        assert names == [facts.name for facts in library.list_datasets()]
        shown = gelato("list").out
        assert all(name in shown for name in [*library.model_names(), *names])


class TestData:
    def test_list(self, gelato, monkeypatch):
        monkeypatch.delenv("GELATO_DATA", raising=False)
        assert "part of gelato" in gelato("data", "list").out
        assert len(gelato("data", "list", "--json").json["datasets"]) == 5

    def test_show(self, gelato):
        assert "3,703" in gelato("data", "show", "citeseer").out
        assert gelato("data", "show", "citeseer", "--json").json["nodes"] == 3327

    def test_path_is_a_file_and_nothing_else(self, gelato, monkeypatch):
        monkeypatch.delenv("GELATO_DATA", raising=False)
        result = gelato("data", "path", "citeseer")
        assert Path(result.out.rstrip("\n")).is_file()
        assert gelato("data", "fetch", "citeseer").out == result.out

    def test_path_of_a_graph_that_is_not_here(self, gelato, monkeypatch, tmp_path):
        monkeypatch.delenv("GELATO_DATA", raising=False)
        monkeypatch.setenv("GELATO_CACHE", str(tmp_path / "empty"))
        result = gelato("data", "path", "photo")
        assert result.code == 1
        assert "gelato data fetch photo" in result.err

    def test_unknown_name_is_misuse(self, gelato):
        result = gelato("data", "show", "citeser")
        assert result.code == 2
        assert "citeseer" in result.err


class TestCheck:
    def test_tells_what_was_read(self, gelato, small, write):
        rows = small.edges.read_text().splitlines()
        first = rows[1].split(",")
        extra = ["n05,n05,1,2000", f"{first[1]},{first[0]},1,2000"]
        write("edges.csv", "\n".join([*rows, *extra]) + "\n")
        result = gelato("check", *data_of(small), "--attributes", small.attributes)
        assert result.code == 0
        for text in (
            *("82 rows", "source = from", "1 self-loop", "1 repeated edge"),
            *("30 nodes", "80 weighted undirected edges", "category", "numeric"),
            *("68 training, 4 validation, 8 test edges", "candidate pairs"),
        ):
            assert text in result.out, text

    def test_json(self, gelato, small):
        result = gelato("check", *data_of(small), "--json").json
        assert result["reading"]["edge_rows"] == 80
        assert result["graph"]["components"] == 1
        assert result["split"]["fingerprint"] == split_of(small).fingerprint
        suited = {line["model"] for line in result["forecast"] if "pairs" in line}
        named = {one.name for one in listed().values()}
        assert suited == named - {"cos"}  # which needs attributes

    def test_directed_graphs_show_which_methods_do_not_suit(self, gelato, small):
        result = gelato("check", *data_of(small), "--directed")
        assert result.code == 0
        assert "undirected graphs only" in result.out
        symmetric = gelato("check", *data_of(small), "--directed", "--symmetrise")
        assert "undirected graphs only" not in symmetric.out

    def test_a_split_is_checked_too(self, gelato, small):
        result = gelato("check", *data_of(small), "--temporal", "--time", "year")
        assert "temporal" in result.out


class TestEvaluate:
    def test_lists_of_nodes(self, gelato, small):
        given = ("evaluate", *data_of(small), "--model", "ra", "--per-node")
        told = gelato(*given, "--json").json["results"][0]["per_node"]
        assert {"recall@10", "vcmpr@5", "map", "by_degree", "by_distance"} <= set(told)
        assert 0 < told["lists"]["coverage"] <= 1
        shown = gelato(*given).out
        assert "VCMPR" in shown
        assert "Gini" in shown

    def test_numbers_are_the_library_s(self, gelato, small):
        result = gelato(
            *("evaluate", *data_of(small), "--model", "ac", "--set", "t=2"),
            *("--test", "0.3", "--split-seed", "4", "--protocol", "both", "--json"),
        ).json
        split = split_of(small, test=0.3, seed=4)
        model = library.make("ac", t=2).fit(split)
        for found, protocol in zip(result["results"], ("all", "sampled"), strict=True):
            expected = library.evaluate(model, split, protocol=protocol).to_dict()
            del found["seconds"], expected["seconds"]
            assert found == expected
        assert result["model"]["parameters"] == {"t": 2, "self_loops": "isolated"}
        assert result["split"]["fingerprint"] == split.fingerprint

    def test_table_has_random_numbers_and_labels_the_biased_ones(self, gelato, small):
        result = gelato("evaluate", "-m", "ac", *data_of(small), "--protocol", "both")
        assert result.code == 0
        split = split_of(small)
        ap = library.evaluate(library.make("ac").fit(split), split)
        line = next(x for x in result.out.splitlines() if x.startswith("AP "))
        assert line.split()[1:3] == [f"{100 * ap.ap:.2f}", f"{100 * ap.random_ap:.2f}"]
        assert "BIASED, sampled" in result.out
        only = gelato("evaluate", "-m", "ac", *data_of(small), "--protocol", "sampled")
        assert "BIASED" in only.out
        assert "BIASED" not in gelato("evaluate", "-m", "ac", *data_of(small)).out

    def test_saved_split_gives_the_same_numbers(self, gelato, small, tmp_path):
        kept = tmp_path / "split.parquet"
        options = ("evaluate", *ranked(small), "--json")
        first = gelato(*options, "--split-seed", "7", "--save-split", kept).json
        again = gelato(*options, "--split-file", kept).json
        assert again["split"] == first["split"]
        assert again["results"][0]["ap"] == first["results"][0]["ap"]

    def test_given_parts(self, gelato, small, write):
        lines = [f"{a},{b}" for a, b in small.pairs]
        train = write("train.csv", "\n".join(lines[:60]) + "\n")
        held = write("test.csv", "\n".join(lines[60:]) + "\n")
        alone = gelato(
            "evaluate",
            "--train",
            train,
            "--test-edges",
            held,
            "--model",
            "cn",
            "--json",
        ).json
        assert alone["split"]["kind"] == "given"
        assert alone["split"]["train"] == 60
        beside = gelato(
            "evaluate", *data_of(small), "--test-edges", held, "-m", "cn", "--json"
        ).json
        assert beside["split"]["test"] == 20
        # The weights of the full table count; the pairs are the same.
        assert beside["results"][0]["positives"] == alone["results"][0]["positives"]

    def test_narrow_candidates_say_what_they_leave_out(self, gelato, small):
        options = ("evaluate", *data_of(small), "--test", "0.4", "-m", "cn")
        result = gelato(*options, "--candidates", "hops:2", "--json").json
        full = gelato(*options, "--json").json
        left_out = result["candidates"]["positives_left_out"]
        assert left_out > 0
        positives = full["results"][0]["positives"]
        assert result["results"][0]["positives"] == positives - left_out
        shown = gelato(*options, "--candidates", "hops:2").out
        assert f"{left_out} of {positives} test edges are no candidates" in shown
        assert "all pairs" not in shown

    def test_validation_part_and_sides(self, gelato, small, write):
        left = write("left.txt", "\n".join(small.names[:15]) + "\n")
        result = gelato(
            *("evaluate", *ranked(small), "--part", "valid", "--valid", "0.3"),
            *("--left", left, "--json"),
        ).json
        assert result["results"][0]["part"] == "valid"
        assert result["candidates"]["positives_left_out"] > 0

    def test_dry_run_only_forecasts(self, gelato, small, tmp_path):
        kept = tmp_path / "split.parquet"
        options = ("evaluate", *data_of(small), "--dry-run", "--save-split", kept)
        result = gelato(*options)
        assert result.code == 0
        assert "memory" in result.out
        assert "AP" not in result.out
        assert not kept.exists()
        forecast = gelato(*options, "--json").json["forecast"]
        split = split_of(small)
        assert forecast[0]["pairs"] == split.num_candidates("test")

    def test_notes_go_to_stderr_and_quiet_keeps_them_away(self, gelato, small):
        loud = gelato("evaluate", *data_of(small), "--json")  # and chooses a model
        assert "note: " in loud.err
        assert loud.json
        assert gelato("evaluate", *ranked(small), "--quiet").err == ""


class TestPredict:
    def test_links_are_the_library_s(self, gelato, small):
        result = gelato(
            "predict", *data_of(small), "-m", "ac", "--top", "7", "--json"
        ).json
        graph = library.read_graph(small.edges, source="from", target="to")
        # Held-out edges only tell the precision to expect; scores use all edges.
        split = library.split_edges(graph, test=0.0)
        expected = library.make("ac").fit(split).predict(top=7)
        assert result["links"] == expected.to_dicts()
        assert expected["expected_precision"].null_count() == 0
        plain = library.make("ac").fit(graph).predict(top=7)
        assert expected["score"].equals(plain["score"])

    @pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet", "json", "jsonl"])
    def test_files_hold_all_links(self, gelato, small, tmp_path, suffix):
        path = tmp_path / f"links.{suffix}"
        result = gelato("predict", *ranked(small), "--top", "30", "-o", path)
        assert result.code == 0
        assert "wrote 30 links" in result.err
        readers = {
            "csv": pl.read_csv,
            "tsv": lambda file: pl.read_csv(file, separator="\t"),
            "parquet": pl.read_parquet,
            "json": pl.read_json,
            "jsonl": pl.read_ndjson,
        }
        assert readers[suffix](path).height == 30

    def test_console_shows_twenty_and_says_so(self, gelato, small):
        result = gelato("predict", *ranked(small), "--top", "30")
        assert "10 more" in result.out
        assert "\n  20  " in result.out
        assert "\n  21  " not in result.out

    def test_per_node_of_chosen_nodes(self, gelato, small, write):
        nodes = write("nodes.txt", "n03\nn07\n")
        links = gelato(
            *("predict", *ranked(small), "--per-node", "2", "--nodes", nodes, "--json")
        ).json["links"]
        assert [link["source"] for link in links] == ["n03", "n03", "n07", "n07"]
        assert [link["rank"] for link in links] == [1, 2, 1, 2]

    def test_given_pairs(self, gelato, small, write):
        a, b = small.pairs[0]
        pairs = write("pairs.csv", f"{a},{b}\nn00,n20\n")
        options = ("predict", *ranked(small), "--pairs", pairs)
        links = gelato(*options, "--json").json["links"]
        assert {link["target"]: link["known"] for link in links} == {
            b: True,
            "n20": False,
        }
        assert "an edge" in gelato(*options).out

    def test_excluded_pairs_are_not_predicted(self, gelato, small, write):
        options = ("predict", *ranked(small), "--top", "5", "--json")
        before = gelato(*options).json["links"]
        rows = "".join(f"{x['source']},{x['target']}\n" for x in before)
        after = gelato(*options, "--exclude", write("no.csv", rows)).json["links"]
        ends = [
            {(x["source"], x["target"]) for x in links} for links in (before, after)
        ]
        assert not ends[0] & ends[1]

    def test_candidates_from_a_file(self, gelato, small, write):
        pairs = write("pairs.csv", "n00,n15\nn01,n16\nn02,n17\n")
        result = gelato(
            *("predict", *ranked(small), "--candidates", f"file:{pairs}", "--json")
        ).json
        assert result["candidates"] == 3
        assert len(result["links"]) == 3

    def test_a_graph_in_an_npz_file(self, gelato, small, tmp_path):
        from gelato.io import write_npz

        graph = library.read_graph(small.edges, source="from", target="to")
        write_npz(graph, tmp_path / "graph.npz")
        stored = gelato(
            "predict", "--edges", "graph.npz", "-m", "ac", "--top", "3", "--json"
        ).json
        direct = gelato("predict", *ranked(small), "--top", "3", "--json").json
        assert stored["links"] == direct["links"]

    def test_dry_run_writes_nothing(self, gelato, small, tmp_path):
        path = tmp_path / "links.csv"
        result = gelato("predict", *data_of(small), "-o", path, "--dry-run")
        assert result.code == 0
        assert not path.exists()

    @pytest.mark.parametrize(
        "options",
        [
            ("--top", "3", "--per-node", "2"),
            ("--nodes", "nodes.txt"),
            ("--pairs", "p.csv", "--candidates", "hops:2"),
            ("-m", "ac", "--candidates", "near"),
            ("-m", "ac", "--candidates", "hops:1"),
            ("--candidates", "hops:2", "--left", "l.txt"),
            ("--set", "t"),
            ("--set", "t=long"),
            ("--set", "walks=3"),
            ("--set", "t=-1"),
            ("-m", "ac", "--top", "0"),
            ("--model", "acc"),
        ],
    )
    def test_misuse(self, gelato, small, options):
        result = gelato("predict", *data_of(small), *options)
        assert result.code == 2, result.err
        assert result.err.startswith("error: ") or "\nerror: " in result.err
        assert result.out == ""


class TestDemo:
    def test_heuristics(self, gelato, tmp_path, monkeypatch):
        monkeypatch.delenv("GELATO_DATA", raising=False)
        result = gelato("demo", "--no-train", "--output", tmp_path / "here")
        assert result.code == 0
        # The paper's numbers, best first, and the biased one beside them.
        names = [line.split()[0] for line in result.out.splitlines()[4:11]]
        assert names == ["ac", "ease", "cos", "aa", "ra", "cn", "pa"]
        assert "2.65" in result.out
        assert "0.0082" in result.out
        assert "BIASED AP" in result.out
        assert "gelato predict --edges FILE" in result.out
        assert max(map(len, result.out.splitlines()[:20])) <= 80
        written = sorted(path.name for path in (tmp_path / "here").iterdir())
        assert written == ["links.csv", "ranking.csv", "ranking.png", "ranking.svg"]
        with (tmp_path / "here" / "links.csv").open() as file:
            assert len(list(csv.DictReader(file))) == 100

    @pytest.mark.slow
    def test_training(self, gelato, tmp_path, monkeypatch):
        monkeypatch.delenv("GELATO_DATA", raising=False)
        result = gelato("demo", "--epochs", "1", "--output", tmp_path / "here")
        assert result.code == 0
        names = [line.split()[0] for line in result.out.splitlines()[4:13]]
        assert names[0] == "stack"
        heuristics = ["aa", "ac", "cn", "cos", "ease", "pa", "ra"]
        assert sorted(names) == sorted([*heuristics, "gelato", "stack"])
        assert "trained for 1 epoch (the paper: 100)" in result.out
        assert max(map(len, result.out.splitlines()[:24])) <= 80
        stack = library.load(tmp_path / "here" / "stack")
        assert f"{100 * library.evaluate(stack, stack.split_).ap:.2f}" in result.out
        model = library.load(tmp_path / "here" / "gelato")
        assert (model.eta, model.beta, model.seed) == (0.75, 0.5, 1)
        ap = library.evaluate(model, model.split_).ap
        assert f"{100 * ap:.2f}" in result.out

    def test_epochs_out_of_range(self, gelato):
        assert gelato("demo", "--epochs", "0").code == 2
        assert not list(Path().iterdir())

    def test_worked_example(self, gelato, tmp_path):
        result = gelato("demo", "--example", "--json", "-o", tmp_path / "here")
        numbers = result.json
        assert round(numbers["biased"]["auc"], 2) == 0.99
        assert round(numbers["biased"]["ap"], 2) == 0.95
        assert round(numbers["unbiased"]["ap"], 2) == 0.05
        assert all(Path(path).stat().st_size > 5000 for path in numbers["files"])
        assert "0.95" in gelato("demo", "--example").out
