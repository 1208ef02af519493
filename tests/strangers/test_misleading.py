"""Results that would mislead are refused, or say what they are."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import gelato
from gelato.errors import InputError, UsageError
from support.small_graphs import community_graph


@pytest.fixture(scope="module")
def graph():
    return community_graph(40)


@pytest.fixture(scope="module")
def split(graph):
    return gelato.split_edges(graph, valid=0.1, test=0.2)


@pytest.mark.parametrize("kind", ["matrix", "callable"])
def test_a_fixed_scorer_is_not_compared_on_several_splits(graph, kind):
    scores = np.ones((40, 40))
    fixed = scores if kind == "matrix" else (lambda rows: scores[rows])
    with pytest.raises(UsageError, match="'mine' cannot be fitted") as refused:
        gelato.compare(graph, {"cn": "cn", "mine": fixed}, splits=3)
    assert "fit(split)" in refused.value.hint
    table = gelato.compare(graph, {"cn": "cn", "mine": fixed})
    assert table["model"].to_list() == ["cn", "mine"]


@pytest.mark.parametrize("shape", [np.asarray, sp.csr_array, lambda m: lambda r: m[r]])
def test_scores_that_depend_on_the_order_of_a_pair_are_refused(split, shape):
    scores = np.random.default_rng(0).random((40, 40))
    with pytest.raises(InputError, match=r"not symmetric.*undirected") as refused:
        gelato.evaluate(shape(scores), split)
    assert "+ scores.T" in refused.value.hint
    both = gelato.evaluate(shape(scores + scores.T), split)
    assert 0 < both.ap < 1
    with pytest.raises(InputError, match="not symmetric"):
        gelato.evaluate(shape(np.triu(scores)), split)
    # Rounding is no direction.
    assert gelato.evaluate(shape((scores + scores.T) * (1 + 1e-9 * scores)), split)


def test_a_directed_graph_takes_any_matrix():
    edges = [(i, (i + k) % 20) for i in range(20) for k in (1, 3, 4)]
    graph = gelato.Graph.from_indices(20, edges, directed=True)
    split = gelato.split_edges(graph, test=0.2)
    scores = np.random.default_rng(0).random((20, 20))
    assert gelato.evaluate(scores, split).ap > 0


def test_runs_of_other_graphs_and_splits_are_no_rivals(graph, split, tmp_path):
    from gelato.report.rivals import summarise_runs

    def kept(name, model, data):
        return gelato.make(model).fit(data).save(tmp_path / name)

    one, two = kept("one", "cn", split), kept("two", "aa", split)
    other = gelato.split_edges(graph, valid=0.1, test=0.2, seed=1)
    moved = kept("moved", "aa", other)
    with pytest.raises(InputError, match="different splits") as refused:
        summarise_runs([one, moved])
    assert split.fingerprint in str(refused.value)
    assert other.fingerprint in str(refused.value)
    far = gelato.split_edges(community_graph(41), valid=0.1, test=0.2)
    with pytest.raises(InputError, match="different graphs") as refused:
        summarise_runs([one, kept("far", "aa", far)])
    assert far.fingerprint in str(refused.value)
    # Two splits are fine where every model ran on both.
    made = summarise_runs([one, two, moved, kept("third", "cn", other)])
    assert [entry["splits"] for entry in made["ranking"] if not entry["biased"]] == [
        2
    ] * 2


def test_one_model_with_other_parameters_is_a_rival(split, tmp_path):
    from gelato.report.rivals import summarise_runs

    runs = [gelato.make("ac", t=t).fit(split).save(tmp_path / str(t)) for t in (2, 3)]
    made = summarise_runs(runs)
    names = {entry["model"] for entry in made["ranking"]}
    assert names == {"ac (t = 2)", "ac (t = 3)"}


LOOPS = "a,b\n" + "".join(
    f"n{i},n{(i + k) % 12}\n" for i in range(12) for k in (0, 1, 3)
)


def test_pages_and_json_tell_what_reading_dropped(command, tmp_path):
    (tmp_path / "edges.csv").write_text(LOOPS + "n1,n0\nn2,n1\n")
    fit = command("fit", "--edges", "edges.csv", "-m", "cn", "--valid", 0.2, "--json")
    told = {"self_loops": 12, "repeated_edges": 2}
    assert told.items() <= fit.json["data"]["reading"].items()
    page = command("report", "run", "--json", "-q", "--top", 2).json
    assert told.items() <= page["data"]["reading"].items()
    sentence = "38 rows were read: 12 self-loops were dropped, 2 repeated edges were"
    for name in ("page.html", "page.md"):
        assert command("report", "run", "-o", name, "-q", "--top", 2).code == 0
        assert sentence in (tmp_path / name).read_text("utf-8")
        assert "Nothing was dropped" not in (tmp_path / name).read_text("utf-8")
    again = command("predict", "run", "--json", "-q")
    assert told.items() <= again.json["data"]["reading"].items()


def test_expected_precision_means_the_same_for_files_and_folders(graph, split):
    from gelato.predict.precision import missing_links

    quick = gelato.split_edges(graph, valid=0.1, test=0.0)
    links = missing_links(split, len(split.valid))
    assert links == missing_links(quick, len(quick.valid))
    assert links == pytest.approx(0.1 * graph.num_edges)
    notes = [
        gelato.make("ra").fit(part).prediction(top=3).notes[-1]
        for part in (split, quick)
    ]
    assert all("if 10% of the links are missing" in note for note in notes)
    assert all(len(note.split()) < 40 for note in notes)


def test_links_without_a_model_named_come_from_a_chosen_one(command, tmp_path):
    # A star of stars: nodes of one hub share a neighbour, and walks of two steps win.
    rows = "".join(f"h{i % 6},x{i}\nx{i},x{(i + 6) % 60}\n" for i in range(60))
    (tmp_path / "edges.csv").write_text("one,two\n" + rows)
    found = command("predict", "--edges", "edges.csv", "--json", "-q").json
    choice = found["choice"]
    tried = {row["model"] for row in choice["candidates"]}
    assert {"cn", "aa", "ra", "ac"} <= tried
    assert choice["model"] == found["model"]["name"]
    said = command("predict", "--edges", "edges.csv", "-q").out
    assert choice["reason"] in " ".join(said.split())
    named = command("predict", "--edges", "edges.csv", "-m", "ac", "--json", "-q").json
    assert named["choice"] is None


def test_the_choice_compares_like_with_like():
    from gelato.choosing import Tried, _blame, _praise
    from gelato.ranking.counts import counts_of_scores
    from gelato.ranking.resampling import RankedPositives

    def ranked(positives, negatives):
        scores = np.array(positives, dtype=float)
        counts = counts_of_scores(scores, np.array(negatives, dtype=float))
        return RankedPositives(counts, np.searchsorted(-counts.scores, -scores))

    good, bad = ranked([9, 8], [1, 2, 3]), ranked([2, 0], [1, 3, 4])
    # In the mean over parts far worse than on the validation edges alone.
    plain = Tried("cn", {}, "plain", ranked=good, folds=(bad, bad))
    trained = Tried("gelato", {}, "trained", ranked=bad)
    said = _praise(plain, plain, 0)
    assert "3 held-out parts (mean)" in said
    assert f"{100 * plain.mean_ap:.2f} %" in said
    blame = _blame(trained, plain, 0)
    assert "on the validation edges" in blame
    # Both numbers of the same edges: the one that decided is the larger one.
    assert f"{100 * trained.ap:.2f} %" in blame
    assert "where cn has 100.00 %" in blame
    assert "±" not in said + blame


def test_how_sure_a_link_is_stays_on_a_narrow_screen():
    import io

    import polars as pl
    from rich.console import Console as Terminal

    from gelato.cli.rankings import links_table

    links = pl.DataFrame(
        {
            "source": ["Anna Katharina Brandt-Ivanov of Upper Street"],
            "target": ["Jonas Maximilian Klein, the second of his name"],
            "score": [0.123456],
            "rank": [1],
            "expected_precision": [0.42],
            "expected_low": [0.31],
            "expected_high": [0.543],
            "common_neighbours": [3],
            "attribute_similarity": [0.5],
            "source_degree": [4.0],
            "target_degree": [14.0],
        }
    )

    class Narrow:
        terminal = Terminal(width=1000, file=io.StringIO())

        def fits(self, table):
            return self.terminal.measure(table).maximum <= 80

    shown = [column.header for column in links_table(Narrow(), links).columns]
    assert "exp. prec." in map(str, shown)
    (cell,) = links_table(Narrow(), links).columns[-1].cells
    assert str(cell) == "42 % (31-54)"
    assert "degrees" not in map(str, shown)


def test_evaluate_without_a_model_named_measures_a_chosen_one(command, tmp_path):
    rows = "".join(f"h{i % 6},x{i}\nx{i},x{(i + 6) % 60}\n" for i in range(60))
    (tmp_path / "edges.csv").write_text("one,two\n" + rows)
    found = command("evaluate", "--edges", "edges.csv", "--valid", "0.2", "--json").json
    chosen = found["choice"]
    assert found["model"]["name"] == chosen["model"]
    assert {"cn", "aa", "ra", "ac"} <= {row["model"] for row in chosen["candidates"]}
    shown = command("evaluate", "--edges", "edges.csv", "--valid", "0.2", "-q").out
    assert f"chosen: {chosen['reason']}" in shown
    assert "AP grows with the edges to find (24 validation edges and 12 test" in shown
    named = command("evaluate", "--edges", "edges.csv", "-m", "ac", "--json").json
    assert named["choice"] is None
    itself = command("evaluate", "--edges", "edges.csv", "--part", "valid", "--json")
    assert itself.json["choice"] is None
