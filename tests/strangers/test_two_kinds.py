"""Purchases and other graphs of two kinds of nodes: told, and kept apart."""

import numpy as np
import pytest
import scipy.sparse as sp

import gelato
from gelato.errors import InputError, UnsupportedGraphError
from gelato.io import read_npz, with_sides, write_npz
from gelato.splits import split_given
from strangers.messy_files import FIRST, PRODUCTS, rows, with_header


@pytest.fixture
def purchases(tmp_path):
    file = tmp_path / "purchases.csv"
    file.write_text(with_header("Kunde;Produkt", "purchases"), encoding="utf-8")
    return file


def test_two_kinds_are_found_and_told(command, purchases, tmp_path):
    graph = gelato.read_graph(purchases)
    assert graph.is_bipartite
    people, products = (graph.node_ids[graph.side(k)].tolist() for k in (0, 1))
    assert set(people) <= set(FIRST)
    assert set(products) <= set(PRODUCTS)
    (told,) = [note for note in graph.notes if note.startswith("bipartite")]
    assert f"one of {len(people)} nodes (Kunde)" in told
    assert "cn, aa and ra are a random order" in told
    assert read_npz(write_npz(graph, tmp_path / "g.npz")).side(1).tolist() == (
        graph.side(1).tolist()
    )
    reading = command("check", "--edges", purchases, "--json").json["reading"]
    assert reading["bipartite"] is True


@pytest.mark.parametrize("kind", ["people", "first", "numbers", "genes", "letters"])
def test_one_kind_of_nodes_is_not_two(kind):
    graph = gelato.read_graph(rows(kind))
    assert not graph.is_bipartite
    with pytest.raises(UnsupportedGraphError, match="two sides"):
        graph.side(0)


def test_small_graphs_are_not_called_bipartite_by_chance():
    assert not gelato.read_graph([("a", "b"), ("c", "d"), ("a", "d")]).is_bipartite


def test_cycles_tell_where_the_order_of_the_ends_does_not():
    draw = np.random.default_rng(0)
    matrix = draw.random((12, 9)) < 0.5
    square = sp.block_array([[None, matrix], [matrix.T, None]], format="csr")
    graph = gelato.read_graph(square.astype(float))
    assert graph.is_bipartite
    assert len(set(graph.sides[:12])) == 1
    odd = gelato.Graph.from_indices(21, [*graph.edges.tolist(), (0, 1)])
    assert with_sides(odd).sides is None


def test_edges_within_one_kind_end_it(purchases):
    graph = gelato.read_graph(purchases)
    u, v = graph.node_ids[graph.side(0)[:2]].tolist()
    split = split_given(graph, None, [], [(u, v)])
    assert split.graph.sides is None
    with pytest.raises(InputError, match="sides must be 0 at one end"):
        gelato.Graph(2, np.array([[0, 1]]), sides=np.array([0, 0], dtype=np.int8))


def test_a_table_of_attributes_for_each_kind(purchases, tmp_path):
    people, products = tmp_path / "people.csv", tmp_path / "products.csv"
    ages = "".join(f"{name},{20 + k},Berlin\n" for k, name in enumerate(FIRST))
    people.write_text("name,age,city\n" + ages)
    products.write_text(
        "Produkt;Preis;city\n"
        + "".join(f"{name};{k},5;Bonn\n" for k, name in enumerate(PRODUCTS))
    )
    graph, report = gelato.io.read_graph_with_report(purchases, [people, products])
    assert report.nodes_without_attributes == 0
    assert report.attribute_rows == len(FIRST) + len(PRODUCTS)
    assert graph.attribute_names == ("age", "city=Berlin", "Preis", "city=Bonn")
    column = dict(
        zip(
            graph.attribute_names,
            np.asarray(sp.csr_array(graph.attributes).toarray()).T,
            strict=True,
        )
    )
    assert not column["age"][graph.side(1)].any()
    assert not column["Preis"][graph.side(0)].any()
    assert set(graph.reading["scales"]) == {"age", "Preis"}


def test_only_pairs_of_one_of_each_are_ranked(purchases):
    graph = gelato.read_graph(purchases)
    across = graph.between_sides()
    assert across.num_pairs == len(graph.side(0)) * len(graph.side(1))
    split, everything = gelato.split_edges(across), gelato.split_edges(graph)
    model = gelato.make("ac").fit(split)
    found = gelato.evaluate(model, split)
    assert (
        found.counts.num_negatives
        < gelato.evaluate(gelato.make("ac"), everything).counts.num_negatives
    )
    assert found.counts.num_negatives + len(split.test) == split.num_candidates("test")
    links = model.predict(top=50)
    people = set(graph.node_ids[graph.side(0)].tolist())
    assert all((u in people) != (v in people) for u, v in links[:, :2].rows())
    table = gelato.compare(split, ["ac", "pa"])
    assert table.height == 2


@pytest.mark.parametrize(
    "verb",
    [
        ("evaluate", "-m", "ac"),
        ("compare", "--models", "ac,pa"),
        ("tune", "-m", "ac"),
        ("predict", "-m", "ac"),
    ],
)
def test_every_verb_knows_two_kinds(command, purchases, tmp_path, verb):
    found = command(
        *(verb[0], *verb[1:], "--edges", purchases, "--bipartite", "--json")
    )
    assert found.code == 0, found.err
    (tmp_path / "friends.csv").write_text("a,b\nb,c\nc,a\n" * 5)
    wrong = command(verb[0], *verb[1:], "--edges", "friends.csv", "--bipartite")
    assert wrong.code == 1
    assert "is not bipartite" in wrong.err


def test_two_tables_by_the_command_line(command, purchases, tmp_path):
    for name, ids in (("people.csv", FIRST), ("products.csv", PRODUCTS)):
        lines = [f"{one},{k}\n" for k, one in enumerate(ids)]
        (tmp_path / name).write_text(f"id,{name[:2]}\n" + "".join(lines))
    found = command(
        *("check", "--edges", purchases, "--json"),
        *("--attributes", "people.csv", "--attributes", "products.csv"),
    )
    assert found.code == 0, found.err
    assert found.json["reading"]["num_attributes"] == 2


def test_the_same_edges_among_other_pairs_are_another_split(purchases, tmp_path):
    graph = gelato.read_graph(purchases)
    everything = gelato.split_edges(graph)
    across = gelato.split_edges(graph.between_sides())
    assert everything.test.tolist() == across.test.tolist()
    assert everything.fingerprint != across.fingerprint
    # A file keeps which edges are held out; among which pairs is said by the graph.
    everything.save(tmp_path / "split.parquet")
    again = gelato.EdgeSplit.load(tmp_path / "split.parquet", across.graph)
    assert again.fingerprint == across.fingerprint


def test_rankings_among_other_pairs_are_no_rivals(command, purchases):
    for folder, more in (("all", ()), ("across", ("--bipartite",))):
        made = command("fit", "-m", "ac", "--edges", purchases, "-o", folder, *more)
        assert made.code == 0, made.err
    both = command("report", "all", "across", "-o", "both.html")
    assert both.code == 1
    assert "different graphs" in both.err


@pytest.fixture
def sides(tmp_path, purchases):
    graph = gelato.read_graph(purchases)
    for side, name in enumerate(("left.txt", "right.txt")):
        ids = graph.node_ids[graph.side(side)].tolist()
        (tmp_path / name).write_text("\n".join(ids) + "\n")
    return ("--left", "left.txt", "--right", "right.txt")


@pytest.mark.parametrize(
    "verb",
    [
        ("check",),
        ("evaluate", "-m", "ac"),
        ("compare", "--models", "ac"),
        ("tune", "-m", "ac", "--trials", "1"),
        ("predict", "-m", "ac"),
        ("fit", "-m", "ac"),
        ("run", "-m", "ac"),
    ],
    ids=lambda verb: verb[0],
)
def test_every_verb_takes_the_nodes_of_each_side(command, purchases, sides, verb):
    found = command(*verb, "--edges", purchases, *sides, "--json")
    assert found.code == 0, found.err
    graph = gelato.read_graph(purchases)
    split = gelato.split_edges(graph.between_sides())
    told = found.json
    if verb[0] == "check":
        assert told["graph"]["pairs"] == split.graph.num_pairs
    elif verb[0] == "compare":
        assert told["splits"][0]["fingerprint"] == split.fingerprint
    elif verb[0] == "evaluate":
        assert told["candidates"]["count"] == split.num_candidates("test")
    elif verb[0] == "predict":
        assert told["candidates"] == split.graph.num_non_edges
    else:
        assert told["split"]["fingerprint"] == split.fingerprint


def test_edges_inside_a_side_are_known_but_never_held_out():
    draw = np.random.default_rng(1)
    pairs = np.argwhere(np.triu(draw.random((30, 30)) < 0.3, 1))
    graph = gelato.Graph.from_indices(30, pairs).between(range(10), range(8, 30))
    left, right = np.arange(30) < 10, np.arange(30) >= 8
    both = left[pairs] & right[pairs[:, ::-1]]
    assert graph.num_pairs == 10 * 22 - 2 - 1
    assert graph.num_non_edges == graph.num_pairs - both.any(axis=1).sum()
    split = gelato.split_edges(graph, valid=0.1, test=0.3)
    assert graph.admits(split.test).all()
    assert len(split.train) > graph.admits(split.train).sum() > 0
    assert "inside one of the two node sets" in split.graph.notes[-1]
    found = gelato.evaluate(gelato.make("ac"), split)
    negatives = split.num_candidates("test") - len(split.test)
    assert found.counts.num_negatives == negatives
    assert not graph.is_bipartite


def test_the_choice_walks_an_odd_number_of_steps(purchases):
    graph = gelato.read_graph(purchases)
    choice = gelato.choose_model(gelato.split_edges(graph), seconds=20, train=False)
    tried = choice.candidates.select("model", "parameters").rows()
    names = {name for name, _ in tried}
    assert not names & {"cn", "aa", "ra"}
    assert ("ac", "t = 5") in tried
    assert ("ac", "t = 2") not in tried
    assert ("ac", "t = 2, self_loops = all") in tried
