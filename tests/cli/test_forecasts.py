"""``--memory``: respected or refused before anything is done."""

from __future__ import annotations

import pytest

from gelato.cli.forecasts import parse_size
from gelato.errors import UsageError


@pytest.fixture
def graph_file(gelato):
    assert gelato("data", "make", "g.npz", "--nodes", 120, "--seed", 1).code == 0
    return "g.npz"


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4GB", 4 * 10**9),
        ("4gb", 4 * 10**9),
        ("1.5 GiB", 3 * 2**29),
        ("700M", 7 * 10**8),
        ("64k", 64_000),
        ("123", 123),
        ("5B", 5),
    ],
)
def test_sizes(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "GB", "-1GB", "0GB", "4 apples", "1e9", "4iB"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(UsageError, match="amount of memory"):
        parse_size(text)


@pytest.mark.parametrize("verb", ["evaluate", "predict", "run"])
def test_too_little_is_refused_up_front(gelato, graph_file, tmp_path, verb):
    said = gelato(verb, "--edges", graph_file, "--model", "ac", "--memory", "10MB")
    assert said.code == 2
    assert "--memory allows 10 MB" in said.err
    assert not said.out
    assert [path.name for path in tmp_path.iterdir()] == [graph_file]


@pytest.mark.parametrize("verb", ["evaluate", "predict", "run"])
@pytest.mark.parametrize("name", ["e.csv", "e.parquet", "e.npz"])
def test_files_larger_than_the_limit_are_not_read(gelato, verb, name):
    assert gelato("data", "make", name, "--nodes", 5000).code == 0
    said = gelato(verb, "--edges", name, "--model", "ac", "--memory", "100K")
    assert said.code == 2
    assert f"Reading {name} takes about" in said.err
    assert "--memory allows 0 MB" in said.err


def test_enough_changes_nothing(gelato, graph_file):
    options = ("--edges", graph_file, "--model", "ac", "--json")
    plain = gelato("evaluate", *options)
    within = gelato("evaluate", *options, "--memory", "100GB")
    assert plain.code == within.code == 0
    assert plain.json["results"][0]["ap"] == within.json["results"][0]["ap"]


def test_fewer_threads_where_all_do_not_fit(gelato, graph_file, monkeypatch):
    from gelato.ranking import forecast as module

    monkeypatch.setattr(module, "_thread_bytes", lambda *_: 10**12)
    options = ("--edges", graph_file, "--model", "cn", "--threads", "4")
    said = gelato("evaluate", *options, "--memory", "2.5TB")
    assert said.code == 0
    assert "2 of 4 threads" in said.err
    assert gelato("evaluate", *options, "--memory", "0.9TB").code == 2
