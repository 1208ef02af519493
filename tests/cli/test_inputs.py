"""Bad input through the command line: one message, the right exit code, no remains."""

from __future__ import annotations

import gzip
import os
from itertools import combinations
from pathlib import Path

import pytest

from support.refusals import refused

GOOD = "source,target\na,b\nb,c\nc,d\nd,a\na,e\n"
WEIGHTED = "source,target,weight\na,b,1\nb,c,{}\nc,a,1\n"


class TestFiles:
    @pytest.mark.parametrize("verb", ["check", "evaluate", "compare", "predict"])
    def test_missing(self, gelato, verb):
        refused(gelato(verb, "--edges", "nowhere.csv"), says=["nowhere.csv"])

    @pytest.mark.parametrize(
        ("name", "content"),
        [
            ("empty.csv", b""),
            ("blank.csv", b"\n \n"),
            ("header.csv", b"source,target\n"),
            ("cut.csv.gz", gzip.compress(GOOD.encode() * 50, mtime=0)[:60]),
            ("cut.parquet", b"PAR1\x00\x01"),
            ("binary.csv", bytes(range(256)) * 4),
            ("cut.npz", b"PK\x03\x04 and no more"),
            ("ragged.csv", b"source,target,weight\na,b,1\nb,c\n"),
        ],
    )
    @pytest.mark.parametrize("verb", ["check", "predict"])
    def test_unusable(self, gelato, write, verb, name, content):
        refused(gelato(verb, "--edges", write(name, content)), says=[name])

    def test_directory(self, gelato, tmp_path):
        refused(gelato("check", "--edges", tmp_path), says=[tmp_path.name])

    def test_unusable_attributes_and_node_files(self, gelato, write):
        edges = write("edges.csv", GOOD)
        refused(gelato("check", "--edges", edges, "--attributes", "no.csv"))
        for option in ("--pairs", "--exclude", "--left", "--right"):
            refused(gelato("predict", "--edges", edges, option, "no.csv"))
        strange = write("pairs.csv", "a,zz\n")
        refused(gelato("predict", "--edges", edges, "--pairs", strange), says=["zz"])

    def test_split_files(self, gelato, write):
        edges = write("edges.csv", GOOD)
        options = ("evaluate", "--edges", edges, "--split-file")
        refused(gelato(*options, "no.parquet"), says=["no.parquet"])
        refused(gelato(*options, write("s.parquet", b"PAR1 cut")), says=["s.parquet"])


class TestTables:
    def test_missing_column(self, gelato, write):
        edges = write("edges.csv", GOOD)
        outcome = gelato("check", "--edges", edges, "--source", "sourze")
        refused(outcome, says=["sourze", "source"])
        refused(gelato("check", "--edges", edges, "--source", "9"), says=["9"])

    @pytest.mark.parametrize("weight", ["nan", "inf", "-2", "heavy", ""])
    def test_unusable_weights(self, gelato, write, weight):
        edges = write("edges.csv", WEIGHTED.format(weight))
        refused(gelato("predict", "--edges", edges), says=["edges.csv", "line 3"])

    def test_attributes_that_do_not_fit_are_notices(self, gelato, write):
        edges = write("edges.csv", GOOD)
        some = write("some.csv", "id,age\na,1\nb,2\nstranger,3\n")
        outcome = gelato("check", "--edges", edges, "--attributes", some, "--json")
        assert outcome.code == 0
        assert outcome.json["reading"]["nodes_without_attributes"] == 3
        assert outcome.json["graph"]["isolated"] == 1
        strict = ("--attributes", some, "--missing", "error")
        refused(gelato("check", "--edges", edges, *strict), says=["some.csv"])

    def test_attribute_rows_that_contradict_each_other(self, gelato, write):
        edges = write("edges.csv", GOOD)
        twice = write("twice.csv", "id,age\na,1\nb,2\nc,3\nd,4\ne,5\na,6\n")
        outcome = gelato("check", "--edges", edges, "--attributes", twice)
        refused(outcome, says=["twice.csv"])

    def test_ids_that_differ_by_white_space_are_one(self, gelato, write):
        edges = write("edges.csv", "source,target\n a,b\nb ,c\nc,a \n")
        assert gelato("check", "--edges", edges, "--json").json["graph"]["nodes"] == 3

    def test_ids_that_differ_by_type_meet(self, gelato, write):
        edges = write("edges.csv", "source,target\n1,2\n2,3\n3,4\n")
        pairs = write("pairs.csv", "source,target\n1,4\n")
        outcome = gelato("predict", "--edges", edges, "--pairs", pairs, "--json")
        assert [link["target"] for link in outcome.json["links"]] == [4]


class TestGraphs:
    def test_one_node(self, gelato, write):
        edges = write("edges.csv", "source,target\na,a\n")
        for verb in ("evaluate", "compare", "predict"):
            refused(gelato(verb, "--edges", edges))
        assert gelato("check", "--edges", edges).code == 0

    def test_no_edges(self, gelato, write):
        edges = write("edges.csv", "source,target\na,a\nb,b\nc,c\n")
        refused(gelato("evaluate", "--edges", edges), says=["no edges"])
        checked = gelato("check", "--edges", edges)
        assert checked.code == 0
        assert "nothing to split" in checked.out

    def test_complete_graph_has_no_negatives(self, gelato, write):
        rows = [f"{a},{b}" for a, b in combinations("abcdef", 2)]
        edges = write("edges.csv", "\n".join(["source,target", *rows]) + "\n")
        refused(gelato("evaluate", "--edges", edges, "--test", "0.3"))
        refused(gelato("compare", "--edges", edges, "--test", "0.3"))
        refused(gelato("predict", "--edges", edges), says=["edge already"])

    def test_more_links_than_candidates_is_a_notice(self, gelato, write):
        edges = write("edges.csv", GOOD)
        outcome = gelato("predict", "--edges", edges, "--top", "50", "--json")
        assert outcome.code == 0
        assert len(outcome.json["links"]) == 5
        assert "only 5" in outcome.err

    @pytest.mark.parametrize("verb", ["evaluate", "compare"])
    def test_empty_test_part(self, gelato, write, verb):
        edges = write("edges.csv", GOOD)
        refused(gelato(verb, "--edges", edges), says=["--test"])
        refused(gelato(verb, "--edges", edges, "--test", "0"), says=["--test"])

    def test_shares_out_of_range(self, gelato, write):
        edges = write("edges.csv", GOOD)
        outcome = gelato("evaluate", "--edges", edges, "--test", "1.5")
        assert outcome.code == 2
        assert "1.5" in outcome.err

    def test_times_are_needed_for_a_temporal_split(self, gelato, write):
        edges = write("edges.csv", GOOD)
        refused(gelato("evaluate", "--edges", edges, "--temporal"), says=["--time"])

    def test_undirected_method_on_a_directed_graph(self, gelato, write):
        edges = write("edges.csv", GOOD)
        outcome = gelato("predict", "--edges", edges, "--directed", "-m", "cn")
        refused(outcome, says=["--symmetrise"])

    def test_leakage_between_given_parts(self, gelato, write):
        edges = write("edges.csv", GOOD)
        test = write("test.csv", "a,b\nb,c\n")
        train = write("train.csv", "b,a\nc,d\n")
        outcome = gelato(
            "evaluate", "--edges", edges, "--train", train, "--test-edges", test
        )
        refused(outcome)


class TestOptions:
    @pytest.mark.parametrize(
        "options",
        [
            (),
            ("--edges", "e.csv", "--dataset", "citeseer"),
            ("--dataset", "citeseer", "--source", "a"),
            ("--dataset", "citeseer", "--temporal", "--split-seed", "1"),
            ("--dataset", "citeseer", "--split-file", "s.parquet", "--test", "0.2"),
            ("--dataset", "citeseer", "--train", "t.csv"),
            ("--dataset", "citeser"),
            ("--test-edges", "t.csv"),
            ("--dataset", "citeseer", "--part", "train"),
            ("--dataset", "citeseer", "--set", "t=2.5"),
            ("--edges", "e.csv", "--encode", "age=numeric"),
            ("--edges", "e.npz", "--weight", "w"),
            ("--colour", "red"),
            ("--valid", "a lot"),
        ],
    )
    def test_misuse(self, gelato, options):
        refused(gelato("evaluate", *options), code=2)

    def test_unknown_verb(self, gelato):
        refused(gelato("measure"), code=2, says=["measure"])
        refused(gelato("data"), code=2)


class TestOutputs:
    @pytest.fixture
    def never(self, monkeypatch):
        """Fail if anything is read: places are tried before the work."""
        monkeypatch.setattr(
            "gelato.cli.predict.load_graph",
            lambda *_: pytest.fail("the output was not checked first"),
        )

    @pytest.mark.parametrize(
        ("path", "code"),
        [("nowhere/links.csv", 1), (".", 1), ("links.xlsx", 2), ("file/links.csv", 1)],
    )
    def test_unusable_places(self, gelato, write, never, path, code):
        write("file", "here is a file")
        before = sorted(Path().iterdir())
        refused(gelato("predict", "--edges", "e.csv", "-o", path), code=code)
        assert sorted(Path().iterdir()) == before

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
    def test_protected_folder(self, gelato, never, tmp_path):
        locked = tmp_path / "locked"
        locked.mkdir(mode=0o500)
        refused(gelato("predict", "--edges", "e.csv", "-o", locked / "links.csv"))

    def test_full_disk(self, gelato, never, monkeypatch):
        def full(**_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("gelato.cli.outputs.TemporaryFile", full)
        outcome = gelato("predict", "--edges", "e.csv", "-o", "links.csv")
        refused(outcome, says=["No space left"])

    def test_split_and_demo(self, gelato, write):
        edges = write("edges.csv", GOOD)
        options = ("evaluate", "--edges", edges, "--save-split")
        refused(gelato(*options, "no/split.parquet"))
        refused(gelato(*options, "split.csv"), code=2)
        refused(gelato("demo", "--output", edges), says=["not a folder"])

    def test_a_failed_prediction_leaves_the_old_file(self, gelato, write):
        old = write("links.csv", "precious\n")
        edges = write("edges.csv", WEIGHTED.format("nan"))
        refused(gelato("predict", "--edges", edges, "-o", old))
        assert old.read_text() == "precious\n"
        assert sorted(p.name for p in Path().iterdir()) == ["edges.csv", "links.csv"]


def test_a_file_is_no_dataset(gelato, write):
    write("e.csv", "a,b\n1,2\n")
    outcome = gelato("evaluate", "--dataset", "e.csv", "-m", "ac")
    refused(
        outcome,
        code=2,
        says=["There is no dataset 'e.csv'", "It is a file: --edges FILE"],
    )
