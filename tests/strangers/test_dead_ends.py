"""What people try first works, or says what to do instead."""

from __future__ import annotations

import itertools

import numpy as np
import polars as pl
import pytest

import gelato
from gelato.errors import GelatoError, UsageError

EDGES = "".join(f"n{i},n{(i + k) % 20}\n" for i in range(20) for k in (1, 2, 5))


@pytest.fixture
def edges(tmp_path):
    file = tmp_path / "edges.csv"
    file.write_text("one,two\n" + EDGES)
    return file


def test_links_of_one_node_by_name(command, edges):
    words = ("predict", "--edges", edges, "-m", "aa", "--json", "-q")
    found = command(*words, "--node", "n3", "--node", "n7", "--per-node", 2).json
    ends = [{link["source"], link["target"]} for link in found["links"]]
    assert len(ends) == 4
    assert all("n3" in pair for pair in ends[:2])
    assert all("n7" in pair for pair in ends[2:])
    assert len(command(*words, "--node", "n3").json["links"]) == 10
    wrong = command(*words, "--node", "n33")
    assert wrong.code == 1
    assert "n3" in wrong.err
    assert command(*words, "--node", "n3", "--top", 3).code == 2


@pytest.mark.parametrize(
    "header", ["Person A,Person B", "u,v", "Von,Nach", "employee,manager", "x1,x2"]
)
def test_a_file_of_pairs_may_have_any_header(command, edges, tmp_path, header):
    (tmp_path / "pairs.csv").write_text(f"{header}\nn0,n3\nn4,n9\n")
    words = ("predict", "--edges", edges, "-m", "aa", "--json", "-q")
    assert len(command(*words, "--pairs", "pairs.csv").json["links"]) == 2


def test_tables_and_figures_are_known_by_their_numbers():
    from gelato.cli.reproduce import experiments_called

    assert experiments_called(["table", "2"]) == ["ap"]
    assert experiments_called(["Figure-7", "fig8"]) == ["sensitivity"]
    assert experiments_called(["Table 3", "heuristics"]) == ["ablation", "heuristics"]
    with pytest.raises(UsageError, match="table 5"):
        experiments_called(["table5"])


def test_one_model_twice_and_run_folders_are_compared(command, edges, tmp_path):
    split = gelato.split_edges(gelato.read_graph(edges), test=0.2)
    gelato.make("ac", t=4).fit(split).save(tmp_path / "kept")
    found = command(
        *("compare", "--edges", edges, "--models", "ac,short=ac,kept,other=kept"),
        *("--set", "short.t=2", "--set", "other.t=2", "--test", 0.2, "--json", "-q"),
    ).json
    values = {row["model"]: row["ap"] for row in found["runs"]}
    assert list(values) == ["ac", "short", "kept", "other"]
    assert values["short"] == values["other"]
    long = gelato.make("ac", t=4).fit(split)
    assert values["kept"] == pytest.approx(gelato.evaluate(long, split).ap)
    twice = command("compare", "--edges", edges, "--models", "a=ac,a=cn", "-q")
    assert twice.code == 2
    assert "called a" in twice.err


def test_a_synthetic_graph_is_called_so():
    graph = gelato.make_synthetic_graph(30, seed=1)
    with pytest.warns(DeprecationWarning, match="make_synthetic_graph"):
        assert gelato.make_graph(30, seed=1).edges.tolist() == graph.edges.tolist()
    with pytest.raises(UsageError, match="reads no DataFrame") as refused:
        gelato.make_graph(pl.DataFrame({"a": [1], "b": [2]}))
    assert "read_graph" in refused.value.hint


@pytest.fixture(scope="module")
def split():
    graph = gelato.read_graph([line.split(",") for line in EDGES.split()])
    return gelato.split_edges(graph, valid=0.1, test=0.2)


def test_models_are_estimators_of_scikit_learn(split):
    from sklearn.base import clone

    model = gelato.make("ac", t=2)
    other = clone(model.fit(split))
    assert other.get_params(deep=False) == model.get_params(deep=True)
    with pytest.raises(UsageError, match="has not been fitted"):
        other.score()
    assert model.score() == gelato.evaluate(model, split).ap == model.score(split)
    with pytest.raises(UsageError, match="none is held out"):
        gelato.make("cn").fit(split.graph).score()


def test_a_class_of_ones_own_predicts_and_says_what_it_lacks(split, tmp_path):
    from gelato.models.base import Model

    class Mine(Model):
        """Common neighbours of my own."""

        def scorer(self, graph):
            return gelato.make("cn").scorer(graph)

    model = Mine().fit(split)
    assert model.predict(top=3).height == 3
    assert (model.name, model.summary) == ("Mine", "Common neighbours of my own.")
    with pytest.raises(UsageError, match="not registered") as refused:
        model.save(tmp_path / "run")
    assert "gelato.register" in refused.value.hint

    class Lacks(Model):
        def scorer(self, graph):
            return graph.adjacency

    with pytest.raises(UsageError, match="cannot score rows"):
        gelato.evaluate(Lacks(), split)


@pytest.mark.parametrize("function", [lambda: 0, lambda rows, columns: 0])
def test_a_function_that_takes_no_rows_is_refused_at_once(split, function):
    with pytest.raises(UsageError, match="one argument, the rows"):
        gelato.evaluate(function, split)


def test_notebooks_show_tables_and_figures(split):
    from matplotlib.figure import Figure

    model = gelato.make("aa").fit(split)
    result = gelato.evaluate(model, split)
    for shown in (split.graph, split, model, result):
        html = shown._repr_html_()
        assert html.startswith("<table>")
        assert html.endswith("</table>")
    hostile = gelato.Graph.from_edges([("a", "b")])
    object.__setattr__(hostile, "notes", ("<script>",))
    assert "<script>" not in hostile._repr_html_()
    assert isinstance(result.plot(), Figure)
    table = gelato.compare(split, ["cn", "aa"])
    assert isinstance(gelato.plot_comparison(table), Figure)
    assert isinstance(table.plot(), Figure)


def test_tables_for_papers(command, edges, tmp_path):
    words = ("compare", "--edges", edges, "-m", "cn,aa", "--test", 0.3, "-q")
    assert command(*words, "-o", "t.tex", "--table", "t.csv").code == 0
    assert command(*words, "-o", "t.md").code == 0
    tex = (tmp_path / "t.tex").read_text("utf-8")
    assert tex.startswith("\\begin{tabular}{l")
    assert "prec@100\\%" in tex
    assert "| method | AP |" in (tmp_path / "t.md").read_text("utf-8")
    table = pl.read_csv(tmp_path / "t.csv")
    assert table["method"].to_list() in (["cn", "aa"], ["aa", "cn"])
    assert table["ap_low"].min() >= 0
    assert table["ap_high"].max() <= 1
    recorded = command("reproduce", "table", 1, "heuristics", "--no-run", "-o", "r.csv")
    assert recorded.code == 0
    assert "method,graph,metric" in (tmp_path / "r.csv").read_text("utf-8")


def test_names_below_bars_do_not_run_into_each_other():
    import re

    from gelato.report.charts import degree_chart

    names = [f"{2**k + 1:,}-{2 ** (k + 1):,}" for k in range(14)]
    chart = str(
        degree_chart({"degree_counts": [{"degree": n, "nodes": 3} for n in names]})
    )
    places = [float(x) for x in re.findall(r'class="name"[^>]*? x="([\d.]+)"', chart)]
    places = places or [
        float(x) for x in re.findall(r'x="([\d.]+)"[^>]*class="name"', chart)
    ]
    assert 2 < len(places) < 14
    widest = 6 * max(map(len, names))
    assert min(b - a for a, b in itertools.pairwise(places)) > widest


def test_heat_maps_of_two_kinds_show_both(tmp_path):
    from gelato.report.contents import summarise_run

    edges = [(f"c{i % 40}", f"p{(i * 7) % 25}") for i in range(150)]
    edges += [(f"c{i % 40}", f"p{(i * 3) % 25}") for i in range(150)]
    split = gelato.split_edges(gelato.read_graph(edges), test=0.2)
    folder = gelato.make("ac").fit(split).save(tmp_path / "run")
    maps = summarise_run(folder, top=2)["heat_maps"]
    kinds = [str(node)[0] for node in maps["nodes"]]
    assert {"c", "p"} == set(kinds)
    assert sorted(kinds) in (kinds, kinds[::-1])  # one kind after the other


def test_messages_quote_numpy_values_as_people_write_them():
    graph = gelato.read_graph([(1, 2), (2, 3), (3, 1), (3, 4)])
    model = gelato.make("cn").fit(graph)
    words = gelato.read_graph([("a", "b"), ("b", "c")])
    wrong = (
        lambda: graph.index_of(np.int64(99)),
        lambda: words.index_of(np.str_("zz")),
        lambda: words.between([np.str_("zz")]),
        lambda: gelato.make("ac", t=np.int64(-1)),
        lambda: gelato.make("ac", self_loops=np.str_("x")),
        lambda: gelato.make("gelato", lr=np.float64(-1)),
        lambda: gelato.make(np.str_("acc")),
        lambda: model.predict(pairs=np.array([[1, 1]])),
        lambda: gelato.read_graph([("a", "b")], time=np.int64(7)),
        lambda: gelato.split_edges(graph, valid=np.float64(1.5)),
    )
    for call in wrong:
        with pytest.raises(GelatoError) as refused:
            call()
        assert "np." not in str(refused.value)
    with pytest.raises(UsageError, match="share of the edges"):
        gelato.split_edges(graph, valid=None)
    with pytest.raises(GelatoError, match="no model called None"):
        gelato.make(None)
