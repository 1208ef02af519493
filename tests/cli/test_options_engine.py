"""Where the command line works: the same numbers, and clear words when it cannot."""

from __future__ import annotations

import socket


def _numbers(outcome):
    assert outcome.code == 0, outcome.err
    (result,) = outcome.json["results"]
    return {name: value for name, value in result.items() if name != "seconds"}


class TestEngines:
    def test_the_same_numbers_on_threads_by_name(self, gelato, small):
        command = ("evaluate", "--edges", small.edges, "--model", "ac", "--json")
        workers = ("--engine", "local", "--workers", 2)
        assert _numbers(gelato(*command, *workers)) == _numbers(gelato(*command))

    def test_a_comparison(self, gelato, small):
        command = ("compare", "--edges", small.edges, "--models", "cn,ac", "--json")
        found = gelato(*command, "--engine", "local", "--workers", 1)
        alone = gelato(*command)
        assert found.code == alone.code == 0
        ranks = [
            [(run["model"], run["ap"]) for run in one.json["runs"]]
            for one in (found, alone)
        ]
        assert ranks[0] == ranks[1]
        assert len(ranks[0]) == 2


class TestRefusals:
    def test_a_cluster_that_does_not_answer(self, gelato, small):
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{unused.getsockname()[1]}"
        found = gelato("evaluate", "--edges", small.edges, "--address", address)
        assert found.code == 1
        assert f"No cluster answers at {address}" in found.err
        assert "ray start" in found.err

    def test_an_unknown_engine(self, gelato, small):
        found = gelato("evaluate", "--edges", small.edges, "--engine", "rey")
        assert found.code == 2
        assert "Did you mean 'ray'" in found.err

    def test_the_engine_that_is_gone(self, gelato, small):
        found = gelato("evaluate", "--edges", small.edges, "--engine", "processes")
        assert found.code == 2
        assert '"ray" starts workers on this machine' in found.err

    def test_an_address_without_a_cluster(self, gelato, small):
        command = ("evaluate", "--edges", small.edges, "--engine", "local")
        found = gelato(*command, "--address", "host:1")
        assert found.code == 2
        assert "no use for the address" in found.err

    def test_workers_of_nothing(self, gelato, small):
        found = gelato("predict", "--edges", small.edges, "--workers", 2)
        assert found.code == 2
        assert "--workers needs an engine" in found.err

    def test_no_workers(self, gelato, small):
        command = ("evaluate", "--edges", small.edges, "--engine", "local")
        found = gelato(*command, "--workers", 0)
        assert found.code == 2
        assert "workers is 0" in found.err

    def test_a_forecast_starts_nothing(self, gelato, small):
        command = ("evaluate", "--edges", small.edges, "--model", "ac", "--dry-run")
        found = gelato(*command, "--address", "nowhere:1")
        assert found.code == 0
