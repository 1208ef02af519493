"""The report of a run: its numbers, its page, and what hostile ids do to it."""

from __future__ import annotations

import copy
import json
import re
import shutil
from html.parser import HTMLParser

import networkx as nx
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import gelato
from gelato.comparison.summary import rank_models
from gelato.errors import InputError, UsageError
from gelato.ranking.scorers import MatrixScorer
from gelato.report.charts import comparison_chart
from gelato.report.contents import summarise_run
from gelato.report.page import inert, to_html, to_json, to_markdown, write_report
from gelato.report.rivals import read_comparison, summarise_runs
from gelato.report.verdicts import comparison_verdict, run_verdict
from gelato.text import paired_difference, percent_margin, printable
from support.small_graphs import community_graph

VOID = {"meta", "link", "img", "input", "br", "hr"}


class Page(HTMLParser):
    """Collects elements, and refuses ends that do not match their starts."""

    def __init__(self, text):
        super().__init__()
        self.stack, self.tags, self.texts, self.scripts = [], [], [], []
        self.feed(text)
        self.close()
        assert self.stack == []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.stack.pop() == tag

    def handle_data(self, data):
        if self.stack and self.stack[-1] == "script":
            self.scripts.append((self.tags[-1][1], data))
        elif self.stack and self.stack[-1] != "style":
            self.texts.append(data)

    def handle_comment(self, data):
        raise AssertionError(f"a comment: {data}")

    def of(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


def without_seconds(value):
    if isinstance(value, dict):
        return {k: without_seconds(v) for k, v in value.items() if k != "seconds"}
    return [without_seconds(v) for v in value] if isinstance(value, list) else value


# ------------------------------------------------------------------ the numbers
def test_ranking_is_what_evaluate_says(run_folder, run_summary):
    model = gelato.load(run_folder)
    rows = run_summary["ranking"]["rows"]
    assert [row["model"] for row in rows if row["biased"]] == ["gelato"]
    fair = [row for row in rows if not row["biased"]]
    assert {row["model"] for row in fair} == {
        *("gelato", "cn", "aa", "ra", "pa", "ac", "ease", "cos")
    }
    assert [r["ap"] for r in fair] == sorted((r["ap"] for r in fair), reverse=True)
    for row in rows:
        own = row["model"] == "gelato"
        scored = model if own else gelato.make(row["model"]).fit(model.split_)
        result = gelato.evaluate(scored, model.split_, protocol=row["protocol"])
        assert row["ap"] == result.ap
        assert row["auc"] == result.auc
        assert row["prec@100%"] == result.precision_at(1.0)
        assert row["hits@100"] == result.hits_at(100)
    verdict = run_summary["verdict"]
    assert verdict["best_ap"] == fair[0]["ap"]
    assert verdict["heuristic"] == next(
        row["model"] for row in fair if row["model"] != "gelato"
    )
    beside = verdict["against_heuristic"]
    assert beside["gain"] == pytest.approx(verdict["ap"] - verdict["heuristic_ap"])
    assert 0 < 1.9 * beside["error"] < beside["margin"]


def test_a_difference_that_may_be_chance_is_called_so(run_summary):
    made = copy.deepcopy(run_summary)
    for gain, width, doubtful in ((0.03, 0.04, True), (-0.05, 0.04, False)):
        made["verdict"]["against_heuristic"] = {"gain": gain, "margin": width}
        said = run_verdict(made)
        told = "a difference of 3 ± 4 points (95 % interval) that may be chance"
        assert (told in said) == doubtful
        assert said.count(". ") == 0  # still one sentence


def test_every_cut_off_is_another_list(run_summary):
    lengths = [cut["k"] for cut in run_summary["expected"]["cut_offs"]]
    assert len(set(lengths)) == len(lengths)


def test_how_the_model_was_chosen_is_told(run_folder, run_summary, tmp_path):
    assert run_summary["choice"] is None
    folder = tmp_path / "chosen"
    shutil.copytree(run_folder, folder)
    reason = "cn <b>: the best heuristic"
    choice = {"reason": reason, "candidates": [{}, {}], "seconds": 1.5}
    (folder / "metrics.json").write_text(json.dumps({"choice": choice}))
    summary = summarise_run(folder, top=3)
    assert summary["choice"] == {"reason": reason, "candidates": 2, "took": 1.5}
    page = to_html(summary)
    assert "from 2 candidates in 1.5 s: cn &lt;b&gt;: the best heuristic" in page
    assert f"Chosen by the validation edges: {inert(reason)}." in to_markdown(summary)


def test_curves_are_the_metrics(run_folder, run_summary):
    model = gelato.load(run_folder)
    counts = gelato.evaluate(model, model.split_).counts
    from gelato.ranking import metrics

    curves = run_summary["curves"]["exact"]
    own = curves["methods"][0]
    assert own["name"] == "gelato"
    assert own["precision"] == [metrics.precision_at(counts, k) for k in curves["k"]]
    assert own["hits"] == [metrics.hits_at(counts, k) for k in curves["k"]]
    precision, recall = metrics.precision_recall_curve(counts)
    for wanted, value in zip(curves["recall"], own["precision_by_recall"], strict=True):
        first = next(p for p, r in zip(precision, recall, strict=True) if r >= wanted)
        assert value == first


def test_histogram_counts_every_pair(run_folder, run_summary):
    model = gelato.load(run_folder)
    counts = gelato.evaluate(model, model.split_).counts
    histogram = run_summary["scores"]["histogram"]
    assert histogram["sampled_nodes"] is None
    assert sum(histogram["held_out"]) == counts.num_positives
    assert sum(histogram["non_edges"]) == counts.num_negatives


def test_histogram_of_sampled_nodes_counts_each_pair_once(monkeypatch):
    from gelato.report import measures

    monkeypatch.setattr(measures, "_HISTOGRAM_CELLS", 900)
    graph = community_graph(40)
    split = gelato.split_edges(graph, test=0.2)
    scorer = gelato.make("ac").fit(split).scorer(split.train_graph)
    found = measures.score_histogram(scorer, split, "test")
    rows = set(np.random.default_rng(0).permutation(40)[:22].tolist())
    edges = {tuple(edge) for edge in graph.edges.tolist()}
    expected = sum(
        (u in rows or v in rows) and (u, v) not in edges
        for u in range(40)
        for v in range(u + 1, 40)
    )
    assert found["sampled_nodes"] == 22
    assert sum(found["non_edges"]) == found["non_edges_counted"] == expected


def test_histogram_shows_pairs_far_above_the_others_apart():
    from gelato.report import measures

    split = gelato.split_edges(community_graph(40), test=0.2)
    scores = np.random.default_rng(1).normal(size=(40, 40))
    scores += scores.T
    high = scores > np.quantile(scores, 0.7)
    scores = np.where(high, 60 + scores, 1e-3 * scores)
    found = measures.score_histogram(MatrixScorer(scores), split, "test")
    counts = np.add(found["held_out"], found["non_edges"])
    assert found["bounds"][0] < 0 < 50 < found["bounds"][1]
    assert np.count_nonzero(counts[1:]) > 15
    assert counts.sum() == 780 - len(split.train) - len(split.valid)


def test_where_it_works_adds_up(run_folder, run_summary):
    model = gelato.load(run_folder)
    result = gelato.evaluate(model, model.split_)
    where = run_summary["where"]
    for buckets in (where["by_degree"], where["by_distance"]):
        assert sum(bucket["edges"] for bucket in buckets) == where["k"]
        found = sum(b["edges"] * b["recall"] for b in buckets if b["edges"])
        assert found / where["k"] == pytest.approx(result.precision_at(1.0))
    graph = nx.Graph(model.split_.train.tolist())
    graph.add_nodes_from(range(60))
    expected = {"2 hops": 0, "3 hops": 0, "4 hops or more": 0, "not connected": 0}
    for u, v in model.split_.test.tolist():
        if not nx.has_path(graph, u, v):
            expected["not connected"] += 1
        else:
            steps = nx.shortest_path_length(graph, u, v)
            expected[f"{steps} hops" if steps < 4 else "4 hops or more"] += 1
    assert {b["name"]: b["edges"] for b in where["by_distance"]} == expected
    behind = [miss["behind"] for miss in where["worst"]]
    assert behind == sorted(behind, reverse=True)


def test_links_are_predictions_with_walks_that_sum(run_folder, run_summary):
    model = gelato.load(run_folder)
    table = model.predict(top=30)
    links = run_summary["prediction"]["links"]
    for link, row in zip(links, table.iter_rows(named=True), strict=True):
        for key, value in row.items():
            assert link[key] == value
        why = link["why"]
        assert why["walk_score"] + why["chance"] == pytest.approx(link["score"])
        full = model.explain(row["source"], row["target"])
        assert why["num_walks"] == full.num_walks


def test_expected_precision_agrees_with_the_links(run_summary):
    expected = run_summary["expected"]
    first = run_summary["prediction"]["links"][0]
    assert expected["precision"][0] == pytest.approx(first["expected_precision"])
    assert np.all(np.diff(expected["precision"]) <= 1e-12)


def test_heat_maps_hold_the_matrices(run_folder):
    model = gelato.load(run_folder)
    graph = model.split_.train_graph
    asked = graph.node_ids[[3, 5, 7, 8, 9, 11]].tolist()
    maps = summarise_run(run_folder, top=1, nodes=asked)["heat_maps"]
    assert sorted(maps["nodes"]) == sorted(asked)
    at = graph.indices_of(maps["nodes"])
    values = {item["name"]: np.array(item["values"]) for item in maps["maps"]}
    assert list(values) == [
        *("input adjacency", "enhanced adjacency", "attribute distance", "scores")
    ]
    dense = graph.adjacency.toarray()[np.ix_(at, at)]
    np.testing.assert_array_equal(values["input adjacency"], dense)
    scores = model.scorer(graph).score_rows(at)[:, at]
    np.testing.assert_allclose(values["scores"], scores, rtol=0.01)
    enhanced = model.enhanced(graph)
    weights = dict(
        zip(
            map(tuple, enhanced.pairs.tolist()),
            model.weights(graph, enhanced).tolist(),
            strict=True,
        )
    )
    for i, u in enumerate(at.tolist()):
        for j, v in enumerate(at.tolist()):
            weight = weights.get((min(u, v), max(u, v)), 0.0)
            assert values["enhanced adjacency"][i, j] == pytest.approx(weight, rel=0.01)
    with pytest.raises(UsageError, match="2 to 100"):
        summarise_run(run_folder, top=1, nodes=asked[:1])


def test_same_run_gives_the_same_page(run_folder, run_summary, run_page):
    again = summarise_run(run_folder, top=30)
    assert without_seconds(again) == without_seconds(run_summary)
    for row, old in zip(
        again["ranking"]["rows"], run_summary["ranking"]["rows"], strict=True
    ):
        row["seconds"] = old["seconds"]
    assert to_html(again) == run_page


# --------------------------------------------------------------------- the page
def test_page_is_whole_and_asks_for_nothing(run_page):
    page = Page(run_page)
    for tag, attributes in page.tags:
        for name, value in attributes.items():
            assert not name.startswith("on"), f"{tag} {name}"
            if name in ("src", "href", "action", "srcset", "data"):
                assert value.startswith(("data:", "#")), f"{tag} {name}={value}"
    outside = re.sub(r'data-reading="[^"]*"', "", run_page)
    assert "http://" not in outside
    assert "https://" not in outside
    assert not re.search(r"@import|url\(", outside)
    assert "default-src 'none'" in run_page
    assert len(run_page.encode()) < 1_000_000


def test_every_section_and_heading_is_there(run_page):
    page = Page(run_page)
    ids = [a["id"] for a in page.of("section")]
    assert ids == [
        *("data", "ranking", "curves", "scores", "maps", "predicted"),
        *("where", "training", "reproduce"),
    ]
    named = {a["id"] for _, a in page.tags if "id" in a}
    assert len(named) == sum("id" in a for _, a in page.tags)
    for attributes in page.of("a"):
        assert attributes["href"].removeprefix("#") in named
    for attributes in page.of("section"):
        assert attributes["aria-labelledby"] in named
    for attributes in page.of("button"):
        assert attributes.get("aria-controls", "data") in named
    assert all("scope" in attributes for attributes in page.of("th"))
    assert all(attributes.get("alt") for attributes in page.of("img"))
    assert page.of("html") == [{"lang": "en"}]
    assert len(page.of("main")) == len(page.of("nav")) == len(page.of("h1")) == 1


def test_hostile_ids_stay_text(run_summary, run_page):
    page = Page(run_page)
    assert {a["src"][:15] for a in page.of("img")} == {"data:image/png;"}
    assert len(page.of("h1")) == 1
    kinds = [attributes.get("type") for attributes, _ in page.scripts]
    assert kinds == ["application/json", "application/json", None]
    text = "".join(page.texts)
    for link in run_summary["prediction"]["links"]:
        assert printable(link["source"]) in text
        assert printable(link["target"]) in text
    assert "{{ 7 * 7 }}" in run_page
    heat, links = (json.loads(data) for _, data in page.scripts[:2])
    assert [row[1] for row in links["rows"]] == [
        link["source"] for link in run_summary["prediction"]["links"]
    ]
    assert heat["nodes"] == [printable(n) for n in run_summary["heat_maps"]["nodes"]]


def test_markdown_and_json_say_the_same(run_summary, tmp_path):
    text = to_markdown(run_summary)
    assert "<img" not in text
    assert "</script>" not in text
    row = next(line for line in text.splitlines() if line.startswith("| gelato |"))
    ap = next(r["ap"] for r in run_summary["ranking"]["rows"] if r["model"] == "gelato")
    assert f"{100 * ap:.2f}" in row
    tables = [line for line in text.splitlines() if line.startswith("|")]
    assert all(len(re.findall(r"(?<!\\)\|", line)) in (3, 4, 6, 7) for line in tables)
    assert json.loads(to_json(run_summary)) == run_summary
    path = write_report(run_summary, tmp_path / "report.json")
    assert json.loads(path.read_text()) == run_summary
    with pytest.raises(UsageError, match=r"\.pdf"):
        write_report(run_summary, tmp_path / "report.pdf")


def test_markup_of_markdown_is_made_inert():
    assert inert("a|b<i>*x*") == r"a\|b&lt;i\>\*x\*"


# ------------------------------------------------------------------ other runs
def test_run_without_held_out_edges(tmp_path):
    graph = community_graph(20)
    folder = gelato.make("ac").fit(graph).save(tmp_path / "all")
    summary = summarise_run(folder, top=5)
    assert summary["ranking"] is None
    assert "none is held out" in to_html(summary)
    assert "none is held out" in to_markdown(summary)
    Page(to_html(summary))


def test_validation_edges_are_ranked_where_there_are_no_others(tmp_path):
    split = gelato.split_edges(community_graph(30), valid=0.2, test=0.0)
    folder = gelato.make("cn").fit(split).save(tmp_path / "valid")
    summary = summarise_run(folder, top=5)
    assert summary["part"] == "valid"
    result = gelato.evaluate(gelato.make("cn").fit(split), split, part="valid")
    assert summary["verdict"]["ap"] == result.ap
    Page(to_html(summary))


def test_directed_graph_without_attributes(tmp_path):
    rng = np.random.default_rng(1)
    graph = gelato.Graph.from_indices(25, rng.integers(0, 25, (120, 2)), directed=True)
    split = gelato.split_edges(graph, valid=0.1, test=0.2)
    folder = gelato.make("ac").fit(split).save(tmp_path / "directed")
    summary = summarise_run(folder, top=5)
    names = [row["model"] for row in summary["ranking"]["rows"]]
    assert sorted(names) == ["ac", "ac", "pa"]
    assert len(summary["ranking"]["notes"]) == 5
    assert sum(summary["scores"]["histogram"]["non_edges"]) == (
        25 * 24 - graph.num_edges
    )
    Page(to_html(summary))


@given(
    n=st.integers(4, 9),
    share=st.sampled_from([0.3, 0.6]),
    seed=st.integers(0, 1000),
    name=st.sampled_from(["cn", "ac", "pa"]),
    directed=st.booleans(),
)
@settings(max_examples=15)
def test_tiny_graphs_have_a_page(n, share, seed, name, directed, tmp_path_factory):
    rng = np.random.default_rng(seed)
    edges = np.argwhere(np.triu(rng.random((n, n)) < share, 1))
    assume(len(edges) >= 3)
    assume(not (directed and name == "cn"))
    graph = gelato.Graph.from_indices(n, edges, directed=directed)
    assume(graph.num_edges < graph.num_pairs)
    split = gelato.split_edges(graph, valid=0.3, test=0.3, seed=seed)
    folder = gelato.make(name).fit(split).save(tmp_path_factory.mktemp("tiny") / "r")
    summary = summarise_run(folder, top=3)
    Page(to_html(summary))
    to_markdown(summary)
    assert json.loads(to_json(summary)) == summary


@pytest.mark.slow
def test_page_of_a_citation_graph_is_small(tmp_path):
    split = gelato.split_edges(gelato.load_dataset("citeseer"))
    folder = gelato.make("cos+ac", eta=0.5).fit(split).save(tmp_path / "run")
    text = to_html(summarise_run(folder))
    Page(text)
    assert len(text.encode()) < 700_000


def test_at_least_one_link_is_listed(run_folder):
    with pytest.raises(UsageError, match="at least 1"):
        summarise_run(run_folder, top=0)


# ------------------------------------------------------------------ comparisons
def test_a_stack_shows_groups_as_bars_and_how_far_its_promises_hold(tmp_path):
    split = gelato.split_edges(community_graph(70), valid=0.1, test=0.2)
    model = gelato.make("stack", gate=False, folds=2, rounds=10).fit(split)
    summary = summarise_run(model.save(tmp_path / "run"), top=4)
    for link in summary["prediction"]["links"]:
        why = link["why"]
        parts = sum(part["contribution"] for part in why["groups"])
        assert why["base"] + parts == pytest.approx(link["score"])
        assert why["reason"] == link["reason"]
    promised = summary["reliability"]
    scorer = model.scorer(split.train_graph)
    valid = int((scorer.find(split.valid) >= 0).sum())
    assert sum(part["pairs"] for part in promised) == len(scorer.pairs) - valid
    found = sum(part["pairs"] * part["observed"] for part in promised)
    assert found == pytest.approx(int((scorer.find(split.test) >= 0).sum()))
    page = Page(to_html(summary))
    text = " ".join(page.texts)
    assert "what each group of features adds" in text
    assert "Precision of links: promised, and on the held-out edges" in text
    bars = [one for one in page.of("span") if one.get("class", "")[:6] == "weight"]
    assert len(bars) >= sum(
        len(x["why"]["groups"]) for x in summary["prediction"]["links"]
    )
    assert "precision promised of a link" in to_markdown(summary)


def test_runs_are_compared(run_folder, tmp_path):
    split = gelato.load(run_folder).split_
    other = gelato.make("ac").fit(split).save(tmp_path / "ac")
    again = gelato.make("ac").fit(split).save(tmp_path / "again")
    summary = summarise_runs([run_folder, other, again])
    fair = [entry for entry in summary["ranking"] if not entry["biased"]]
    assert {entry["model"]: entry["runs"] for entry in fair} == {"gelato": 1, "ac": 2}
    ac = next(entry for entry in fair if entry["model"] == "ac")
    assert ac["mean"]["ap"] == gelato.evaluate(gelato.make("ac"), split).ap
    assert ac["sd"]["ap"] == 0.0
    limits = ac["interval"]["ap"]
    assert limits["low"] < ac["mean"]["ap"] < limits["high"]
    text = to_html(summary)
    page = Page(text)
    assert "BIASED" in text
    assert "drawn again 200 times" in text
    other = fair[1]
    told = [text for text in page.texts if " ± " in text]
    assert paired_difference(other["difference"]["ap"]) in told
    assert percent_margin(other["mean"]["ap"], other["interval"]["ap"]) in told
    marked = to_markdown(summary)
    assert paired_difference(other["difference"]["ap"]) in marked
    assert "ap_resampled" not in to_json(summary)


def test_doubt_about_the_best_is_told(tmp_path):
    splits = [gelato.split_edges(community_graph(40), seed=k) for k in range(3)]
    rows = gelato.compare(splits, ["cn"]).to_dicts()
    twins = [row | {"model": "twin"} for row in rows]
    path = tmp_path / "comparison.json"
    path.write_text(json.dumps(rows + twins))
    summary = read_comparison(path)
    assert "no difference to be seen)" in comparison_verdict(summary)
    assert summary["verdicts"] == ["No difference to be seen: cn and twin."]
    path.write_text(json.dumps({"runs": rows + twins, "against": "twin"}))
    assert read_comparison(path)["against"] == "twin"
    path.write_text(json.dumps({"runs": rows + twins, "against": ["x"]}))
    assert read_comparison(path)["against"] == "cn"


def test_unusable_details_of_a_comparison_are_left_out(tmp_path):
    row = gelato.compare(community_graph(40), ["cn"]).to_dicts()[0]
    path = tmp_path / "comparison.json"
    strange = {"seed": [1], "train_edges": "many", "ap_resampled": ["x"], "split": 3}
    path.write_text(json.dumps([row | strange]))
    summary = read_comparison(path)
    assert summary["ranking"][0]["interval"]["ap"] is None
    assert "do not tell" in summary["meaning"][0]
    Page(to_html(summary))


def test_bars_carry_their_intervals():
    split = gelato.split_edges(community_graph(40), test=0.2)
    entries = rank_models(gelato.compare(split, ["cn", "ac"]).to_dicts())
    drawn = comparison_chart(entries)
    assert drawn.count('class="whisker"') == 2
    for entry in entries:
        entry["interval"]["ap"] = None
    assert "whisker" not in comparison_chart(entries)


def test_table_of_compare_is_read(tmp_path):
    split = gelato.split_edges(community_graph(40), test=0.2)
    table = gelato.compare(split, ["cn", "ac"], protocols=["all", "sampled"])
    path = tmp_path / "comparison.json"
    path.write_text(json.dumps({"runs": table.to_dicts()}))
    summary = read_comparison(path)
    assert [e["biased"] for e in summary["ranking"]] == [False, False, True, True]
    Page(to_html(summary))
    hostile = copy.deepcopy(table.to_dicts())
    for row in hostile:
        row["model"] = "<script>alert(1)</script>"
    path.write_text(json.dumps(hostile))
    page = Page(to_html(read_comparison(path)))
    assert len(page.of("script")) == 1


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"runs": [{"model": "x"}]}', "[1]"])
def test_other_files_are_no_comparison(text, tmp_path):
    path = tmp_path / "comparison.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"comparison|JSON"):
        read_comparison(path)
    with pytest.raises(InputError, match="cannot be read"):
        read_comparison(tmp_path / "missing.json")
