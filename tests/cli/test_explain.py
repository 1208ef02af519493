"""``gelato explain``, predictions from run folders, and ids that mean harm."""

from __future__ import annotations

import csv
from pathlib import Path

import polars as pl
import pytest

import gelato as library
from support.refusals import refused

HOSTILE = [
    "<script>alert(1)</script>",
    '"quoted", and so on',
    "=HYPERLINK(1)",
    "two\nlines",
    "\x1b[31mred",
    "[bold]markup[/bold]",
    "@SUM(A1)",
    "tab\there",
]


@pytest.fixture
def run(gelato, small):
    options = ("--source", "from", "--target", "to", "--attributes", small.attributes)
    outcome = gelato("fit", "--edges", small.edges, *options, "-m", "ac")
    assert outcome.code == 0, outcome.err
    return "run"


@pytest.fixture
def numbered(gelato, write):
    """A run whose ids are whole numbers, one of them negative."""
    rows = [(a, a + step) for a in range(-1, 14) for step in (1, 2)]
    write("n.csv", "a,b\n" + "".join(f"{a},{b}\n" for a, b in rows))
    assert gelato("fit", "--edges", "n.csv", "-m", "cn", "-o", "n").code == 0
    return "n"


class TestExplain:
    def test_text_and_json_are_the_library_s(self, gelato, run):
        why = library.load(run).explain("n00", "n04", top=3)
        outcome = gelato("explain", run, "n00", "n04", "--top", "3")
        assert outcome.out == why.to_text() + "\n"
        found = gelato("explain", run, "n00", "n04", "--top", "3", "--json").json
        assert found["explanation"] == why.to_dict()
        assert found["model"]["name"] == "ac"

    @pytest.mark.parametrize(
        ("suffix", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")]
    )
    def test_picture(self, gelato, run, suffix, start):
        file = Path(f"why.{suffix}")
        assert gelato("explain", run, "n00", "n04", "--picture", file).code == 0
        first = file.read_bytes()
        assert first.startswith(start)
        gelato("explain", run, "n00", "n04", "--picture", file)
        assert file.read_bytes() == first

    def test_unknown_nodes_get_a_suggestion(self, gelato, run):
        refused(gelato("explain", run, "n00", "n4"), says=["n4", "n04"])
        refused(gelato("explain", run, "n00", "n00"), says=["itself"])
        refused(gelato("explain", "nowhere", "a", "b"), says=["nowhere"])
        assert gelato("explain", run, "n00", "n04", "--top", "0").code == 2
        refused(gelato("explain", run, "n00", "n04", "--picture", "x.gif"), code=2)

    def test_numbers_are_found_as_text(self, gelato, numbered):
        found = gelato("explain", numbered, "0", "3", "--json").json["explanation"]
        assert (found["source"], found["target"]) == (0, 3)
        found = gelato("explain", numbered, "--json", "--", "-1", "7").json
        assert found["explanation"]["source"] == -1
        refused(gelato("explain", numbered, "0", "99"), says=["99"])


class TestPredictFromARun:
    def test_columns_and_notes(self, gelato, run):
        outcome = gelato("predict", run, "--top", "4")
        for title in ("exp. prec.", "common", "degrees", "Expected to be true"):
            assert title in outcome.out
        assert "validation" in outcome.err
        assert max(map(len, outcome.out.splitlines()[1:])) <= 80

    def test_long_ids_push_columns_out_of_80(self, gelato, write):
        names = [f"{'x' * 20}{k:02d}" for k in range(12)]
        rows = [f"{a},{b}" for k, a in enumerate(names) for b in names[k + 1 : k + 4]]
        write("e.csv", "a,b\n" + "\n".join(rows) + "\n")
        outcome = gelato("predict", "--edges", "e.csv", "--top", "4", "-o", "l.csv")
        lines = [x for x in outcome.out.splitlines()[1:] if "chosen: " not in x]
        assert max(map(len, lines)) <= 80
        assert "common" not in outcome.out
        assert "common_neighbours" in Path("l.csv").read_text()

    def test_limits_carry_the_expected_precision_over(self, gelato, run, write, small):
        left = write("left.txt", "\n".join(small.names[:15]) + "\n")
        right = write("right.txt", "\n".join(small.names[15:]) + "\n")
        barred = write("no.csv", "n00,n04\n")
        model = library.load(run)
        cases = {
            ("--candidates", "hops:2"): {"within_hops": 2},
            ("--left", left, "--right", right): {
                "between": (small.names[:15], small.names[15:])
            },
            ("--exclude", barred): {"exclude": [("n00", "n04")]},
            ("--max-per-node", "2"): {"max_per_node": 2},
        }
        for options, arguments in cases.items():
            outcome = gelato("predict", run, "--top", "9", *options, "--json")
            assert outcome.code == 0, outcome.err
            found = outcome.json
            expected = model.predict(top=9, **arguments)
            assert found["links"] == expected.to_dicts(), options
        misuse = gelato("predict", run, "--per-node", "2", "--max-per-node", "1")
        refused(misuse, code=2, says=["--max-per-node"])

    def test_a_newer_graph(self, gelato, run, small, write):
        rows = small.edges.read_text().splitlines()
        newer = write("new.csv", "\n".join([*rows, "n00,n29,1,2100"]) + "\n")
        options = ("--edges", newer, "--source", "from", "--target", "to")
        found = gelato(
            "predict", run, *options, "--attributes", small.attributes, "--json"
        )
        assert "holds 80 edges" in found.err
        links = {(x["source"], x["target"]) for x in found.json["links"]}
        assert ("n00", "n29") not in links

    def test_another_graph_is_refused(self, gelato, run, write):
        other = write("other.csv", "a,b\nx,y\ny,z\nz,n00\n")
        outcome = gelato("predict", run, "--edges", other)
        refused(outcome, says=["another graph", "1 of its 30 nodes"])

    def test_new_columns_are_left_out_and_lost_ones_refused(self, gelato, small, write):
        data = ("--edges", small.edges, "--source", "from", "--target", "to")
        people = ("--attributes", small.attributes)
        assert gelato("fit", *data, *people, "-m", "cos+ac").code == 0
        lines = small.attributes.read_text().splitlines()
        wider = [f"{line},{k}" for k, line in enumerate(lines)]
        wider[0] = f"{lines[0]},height"
        more = write("more.csv", "\n".join(wider) + "\n")
        newer = gelato("predict", "run", *data, "--attributes", more, "--json")
        assert newer.code == 0, newer.err
        assert "does not know, left out: 'height'" in newer.err
        links = gelato("predict", "run", "--json").json["links"]
        assert newer.json["links"] == links
        renamed = write(
            "r.csv", "\n".join([lines[0].replace("age", "size"), *lines[1:]])
        )
        outcome = gelato("predict", "run", *data, "--attributes", renamed)
        refused(outcome, says=["lacks: 'age'"])
        refused(gelato("predict", "run", *data), says=["has 0"])


class TestHostileIds:
    @pytest.fixture
    def hostile(self, gelato, write):
        ring = [*HOSTILE, *(f"n{k}" for k in range(12))]
        pairs = [
            (a, ring[(k + step) % len(ring)])
            for k, a in enumerate(ring)
            for step in (1, 2)
        ]
        frame = pl.DataFrame(pairs, schema=["a", "b"], orient="row")
        frame.write_parquet("e.parquet")
        options = ("--edges", "e.parquet", "--budget", "1", "--valid", "0.2")
        return gelato("run", *options, "-o", "run", "--top", "40")

    def test_terminal_and_csv_hold(self, gelato, hostile):
        assert hostile.code == 0, hostile.err
        assert "\x1b[31m" not in hostile.out + hostile.err
        _, *rows = hostile.out[hostile.out.index("rank  ") :].splitlines()
        assert all(row.split()[0].isdecimal() for row in rows[1:21])
        with Path("run/links.csv").open(newline="", encoding="utf-8") as file:
            cells = list(csv.DictReader(file))
        assert len(cells) == 40
        ids = {row[end] for row in cells for end in ("source", "target")}
        assert not any(text.startswith(("=", "@")) for text in ids)
        assert any("two\nlines" in text for text in ids)

    def test_explained_by_name(self, gelato, hostile):
        for node in HOSTILE:
            outcome = gelato("explain", "run", node, "n5", "--picture", "why.svg")
            assert outcome.code == 0, (node, outcome.err)
            assert "\x1b" not in outcome.out, node
            assert "<script" not in Path("why.svg").read_text("utf-8"), node


@pytest.mark.parametrize(
    "command",
    [
        ("evaluate", "e.csv"),
        ("evaluate", "e.csv", "-m", "ac"),
        ("predict", "e.csv"),
        ("predict", "e.csv", "-m", "ac"),
        ("explain", "e.csv", "a", "b"),
    ],
)
def test_a_list_of_edges_is_no_run_folder(gelato, write, command):
    write("e.csv", "a,b\n1,2\n2,3\n1,3\n")
    refused(gelato(*command), code=2, says=["e.csv is a file", "--edges e.csv"])
