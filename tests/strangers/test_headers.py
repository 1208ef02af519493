"""Whether the first row of a file names its columns: decided from the data."""

import pytest

import gelato
from gelato.errors import InputError
from gelato.io import read_graph_with_report, read_pairs
from strangers.messy_files import (
    HEADERLESS,
    HEADERS,
    delimiter_of,
    rows,
    with_header,
    without_header,
)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("header", "kind"), HEADERS)
def test_a_usual_header_is_not_an_edge(tmp_path, header, kind, seed):
    file = tmp_path / ("edges.tsv" if "\t" in header else "edges.csv")
    file.write_text(with_header(header, kind, seed), encoding="utf-8")
    graph, report = read_graph_with_report(file)
    names = header.split(delimiter_of(header))
    assert report.edges_header is True, report.notes
    assert [report.columns["source"], report.columns["target"]] == names
    assert not set(names) & set(map(str, graph.node_ids.tolist()))
    (told,) = [note for note in graph.notes if "line 1: read as" in note]
    assert "column names" in told
    assert "because" in told


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("kind", HEADERLESS)
def test_no_first_edge_is_lost(tmp_path, kind, seed):
    file = tmp_path / "edges.csv"
    file.write_text(without_header(kind, seed), encoding="utf-8")
    graph, report = read_graph_with_report(file)
    assert report.edges_header is False, report.notes
    assert set(map(str, graph.node_ids.tolist())) >= set(rows(kind, seed)[0])
    assert report.edge_rows == 40
    (told,) = [note for note in graph.notes if "line 1: read as" in note]
    assert "data, not as column names" in told


@pytest.mark.parametrize("count", [2, 3, 5, 7])
def test_a_header_that_nobody_knows_above_few_rows(tmp_path, count):
    names = ["anna", "ben", "carla", "dora"]
    listed = [(a, b) for k, a in enumerate(names) for b in names[k + 1 :]] * 2
    chain = listed[:count]
    file = tmp_path / "edges.csv"
    file.write_text("wombat,quokka\n" + "".join(f"{a},{b}\n" for a, b in chain))
    graph, report = read_graph_with_report(file)
    assert report.edges_header is True
    assert "wombat" not in graph.node_ids
    (told,) = [note for note in graph.notes if "line 1: read as" in note]
    assert "do not occur below" in told
    # Where other edges stand alone, too, the first one may.
    file.write_text("wombat,quokka\nanna,ben\ncarla,dora\n")
    assert "wombat" in gelato.read_graph(file).node_ids


def test_the_attribute_table_decides(tmp_path):
    edges = tmp_path / "edges.csv"
    people = {"name": ["zig", "zag", "zog"], "age": [31, 44, 27]}
    edges.write_text("zub,zeb\nzig,zag\nzag,zog\n")
    graph = gelato.read_graph(edges, attributes=people)
    assert graph.node_ids.tolist() == ["zag", "zig", "zog"]
    edges.write_text("zork,zirk\nzig,zag\n")
    renamed = {"zork": people["name"], "age": people["age"]}
    graph = gelato.read_graph(edges, attributes=renamed)
    assert graph.node_ids.tolist() == ["zag", "zig", "zog"]


def test_the_command_line_tells_it_too(command, tmp_path):
    file = tmp_path / "edges.csv"
    file.write_text(with_header("Kunde;Produkt", "purchases"), encoding="utf-8")
    found = command("check", "--edges", file, "--json")
    reading = found.json["reading"]
    assert reading["edges_header"] is True
    assert reading["columns"] == {"source": "Kunde", "target": "Produkt"}
    assert "read as column names (Kunde, Produkt)" in " ".join(reading["notes"])


@pytest.mark.parametrize("header", ["Person A,Person B", "first,second", "p,q"])
def test_a_table_of_pairs_may_have_any_header(tmp_path, header):
    graph = gelato.read_graph(rows("people"))
    pairs = tmp_path / "pairs.csv"
    u, v = graph.node_ids[:2]
    pairs.write_text(f"{header}\n{u},{v}\n")
    assert read_pairs(pairs, graph).tolist() == [[0, 1]]
    pairs.write_text(f"{u},{v}\nnobody,{v}\n")
    with pytest.raises(InputError, match=r"line 2: .*'nobody'"):
        read_pairs(pairs, graph)


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ("node_id,zork,blip", "'node_id' is a usual name of a column"),
        (",zork,blip", "a cell above ids is left empty"),
        ("frob,zork,blip", "no node is called so, and those below are nodes"),
    ],
)
def test_the_reason_is_true_of_the_column_of_ids_alone(tmp_path, header, reason):
    edges, words = tmp_path / "edges.csv", tmp_path / "words.csv"
    edges.write_text("source,target\na,b\nb,c\nc,d\n", encoding="utf-8")
    words.write_text(f"{header}\na,1,0\nb,0,1\nc,1,1\nd,0,0\n", encoding="utf-8")
    graph = gelato.read_graph(edges, attributes=words)
    assert any(f"because {reason}" in note for note in graph.notes), graph.notes
