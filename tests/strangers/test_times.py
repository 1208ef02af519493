"""Splits by a date, with what the past could not know; and several in a row."""

import datetime

import pytest

import gelato
from gelato.errors import InputError, UsageError
from gelato.splits import split_by_time

ROWS = [
    ("a", "b", "09.12.2006"),
    ("b", "c", "24.12.2006"),
    ("c", "a", "01.02.2007"),
    ("c", "d", "15.02.2007"),
    ("d", "e", "01.03.2007"),
    ("e", "f", "20.03.2007"),
]
COLUMNS = ("source", "target", "time")


@pytest.fixture
def graph():
    columns = zip(*ROWS, strict=True)
    return gelato.read_graph(dict(zip(COLUMNS, columns, strict=True)))


@pytest.mark.parametrize(
    "cutoff",
    [
        "2007-02-15",
        "15.02.2007",
        "2007-02-15 00:00:00",
        datetime.date(2007, 2, 15),
        datetime.datetime(2007, 2, 15),
        1171497600,
    ],
)
def test_a_cutoff_decides_what_is_tested(graph, cutoff):
    split = split_by_time(graph, cutoff=cutoff, valid=0)
    assert (len(split.train), len(split.valid), len(split.test)) == (3, 0, 3)
    assert split.num_unseen("test") == 3
    assert "3 of 3 test edges with an end that no earlier edge has" in split.graph.notes
    assert split.to_dict()["unseen"] == 3


def test_cutoffs_that_leave_nothing_name_the_times_there_are(graph):
    with pytest.raises(InputError, match=r"2020-01-01.*from 2006-12-09 to 2007-03-20"):
        split_by_time(graph, cutoff="2020-01-01")
    with pytest.raises(InputError, match="before the cut-off 2001-01-01"):
        split_by_time(graph, cutoff="2001-01-01")
    with pytest.raises(UsageError, match="neither a number nor a date"):
        split_by_time(graph, cutoff="Christmas")
    with pytest.raises(UsageError, match="Leave one of them out"):
        split_by_time(graph, cutoff="2007-01-01", test=0.1)


def test_windows_roll_and_fill_one_table(graph):
    splits = gelato.split_rolling(graph, ["2007-03-01", "2007-01-01"], valid=0)
    assert [len(split.train) for split in splits] == [2, 4]
    assert [len(split.test) for split in splits] == [2, 2]
    assert splits[0].graph.num_edges == 4
    assert "left out 2 edges that came after the test edges" in splits[0].graph.notes
    table = gelato.compare(splits, ["aa", "ac"])
    assert table["split"].n_unique() == 2


def test_the_command_line_takes_a_date(command, tmp_path):
    lines = [",".join(COLUMNS), *(",".join(row) for row in ROWS)]
    (tmp_path / "edges.csv").write_text("\n".join(lines))
    found = command(
        *("evaluate", "--edges", "edges.csv", "--model", "ac"),
        *("--cutoff", "2007-02-15", "--valid", "0", "--json"),
    )
    assert found.code == 0, found.err
    assert found.json["split"]["test"] == 3
    assert found.json["split"]["unseen"] == 3
    told = " ".join(found.json["data"]["notes"])
    assert "3 of 3 test edges with an end that no earlier edge has" in told
    assert found.json["data"]["reading"]["times_are_dates"] is True
    rolling = command(
        *("compare", "--edges", "edges.csv", "--models", "ac,pa", "--valid", "0"),
        *("--cutoff", "2007-01-01,2007-03-01", "--json"),
    )
    assert rolling.code == 0, rolling.err
    assert [split["test"] for split in rolling.json["splits"]] == [2, 2]
    mixed = command(
        *("evaluate", "--edges", "edges.csv", "-m", "ac"),
        *("--cutoff", "2007-02-15", "--split-seed", "1"),
    )
    assert mixed.code == 2
    assert "--cutoff and --split-seed exclude each other" in mixed.err
