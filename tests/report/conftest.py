"""A small run with hostile ids, shared by the tests of report pages."""

from __future__ import annotations

import pytest

from gelato import Gelato, split_edges
from support.small_graphs import community_graph

HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(2)</script>",
    "</td></table><h1>big</h1>",
    "\"double\" and 'single'",
    "line\nbreak\ttab",
    "=HYPERLINK(1)",
    "{{ 7 * 7 }} {% raw %}",
    "a|b`c`*d*",
    "\u202eright to left\u2028",
    "<!--",
]


def hostile_ids(n):
    """Return ids that all try something, the same trick with several numbers."""
    return [HOSTILE[k % len(HOSTILE)] + f" {k}" for k in range(n)]


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory):
    graph = community_graph(60, ids=hostile_ids(60))
    split = split_edges(graph, valid=0.1, test=0.2)
    model = Gelato(eta=0.5, alpha=0.3, beta=0.5, epochs=3, batches=2, hidden=8, seed=1)
    return model.fit(split).save(tmp_path_factory.mktemp("report") / "run <b>")


@pytest.fixture(scope="session")
def run_summary(run_folder):
    from gelato.report.contents import summarise_run

    return summarise_run(run_folder, top=30)


@pytest.fixture(scope="session")
def run_page(run_summary):
    from gelato.report.page import to_html

    return to_html(run_summary)
