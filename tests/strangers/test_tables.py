"""Excel's files, other encodings, dates and numbers as people write them."""

import numpy as np
import pytest

import gelato
from gelato.errors import InputError
from gelato.io import read_graph_with_report


def seconds(date: str) -> float:
    return float(np.datetime64(date, "s").astype(np.int64))


def test_an_excel_export_in_german(messy):
    graph, report = read_graph_with_report(
        messy("excel_edges.csv"),
        messy("excel_people.csv"),
        encode={"*": "numeric-raw"},
    )
    assert graph.node_ids.tolist() == ["Götz", "Müller", "Straße"]
    assert graph.weights.tolist() == [1234.5, 0.75, 12.0]
    assert graph.times.tolist() == [
        seconds(d) for d in ("2006-12-09", "2006-12-24", "2007-02-01")
    ]
    kinds = {choice.name: choice.kind for choice in report.column_choices}
    assert kinds == {
        "Größe": "numeric-raw",
        "Umsatz": "numeric-raw",
        "Eintritt": "date",
        "Team": "category",
    }
    column = dict(zip(graph.attribute_names, graph.attributes.T, strict=True))
    assert column["Größe"].tolist() == pytest.approx([1.64, 1.82, 1.75])
    assert column["Umsatz"].tolist() == pytest.approx([950, 1200.5, 1075.25])
    assert column["Umsatz=missing"].tolist() == [0, 0, 1]
    told = " ".join(graph.notes)
    assert "read as Windows-1252 (Latin-1)" in told
    assert "cells are separated by ';'" in told
    assert "numbers such as '1.234,5' read as 1234.5" in told
    assert "dates in column 'time' written as %d.%m.%Y" in told
    assert "1 missing number read as the median, 1075.25" in told


@pytest.mark.parametrize("name", ["utf16.csv", "utf16_plain.csv"])
def test_utf16_is_read_and_told(messy, name):
    graph = gelato.read_graph(messy(name))
    assert graph.num_nodes == 3
    assert any("read as UTF-16" in note for note in graph.notes)


def test_the_line_by_which_excel_names_the_delimiter(messy):
    graph, report = read_graph_with_report(messy("sep_line.csv"))
    assert graph.node_ids.tolist() == ["A1", "B1", "C1"]
    assert report.columns == {"source": "Von", "target": "Nach"}


def test_thousands(messy):
    graph = gelato.read_graph(messy("thousands.tsv"))
    assert graph.weights.tolist() == [1234.5, 12000.0]
    assert any("'1,234.5' read as 1234.5" in note for note in graph.notes)


def test_dates_in_the_order_that_fits_all(messy):
    graph = gelato.read_graph(messy("us_dates.csv"))
    assert graph.times.tolist() == [seconds("2006-12-31"), seconds("2007-01-02")]
    assert any("written as %m/%d/%Y" in note for note in graph.notes)
    with pytest.raises(InputError, match=r"day/month or month/day.*YYYY-MM-DD"):
        gelato.read_graph(messy("which_dates.csv"))
    with pytest.raises(InputError, match=r"line 3: 'Christmas'.*YYYY-MM-DD"):
        gelato.read_graph(messy("no_dates.csv"))


def test_dates_of_attributes_that_could_be_read_either_way_are_told():
    edges = [("a", "b"), ("b", "c")]
    doubtful = {"id": list("abc"), "joined": ["03/04/2021", "05/06/2021", "01/02/2020"]}
    graph = gelato.read_graph(edges, doubtful)
    (told,) = [note for note in graph.notes if "dates read as" in note]
    assert "%d/%m/%Y, though %m/%d/%Y would fit as well" in told
    assert "YYYY-MM-DD to be sure" in told
    sure = {"id": list("abc"), "joined": ["03/04/2021", "05/26/2021", "01/02/2020"]}
    (told,) = [n for n in gelato.read_graph(edges, sure).notes if "dates read as" in n]
    assert told.endswith("dates read as %m/%d/%Y")


def test_the_command_line_shows_what_excel_did(command, messy):
    found = command(
        *("check", "--edges", messy("excel_edges.csv")),
        *("--attributes", messy("excel_people.csv"), "--json"),
    )
    assert found.code == 0
    reading = found.json["reading"]
    assert (reading["edge_rows"], reading["num_nodes"]) == (3, 3)
    assert reading["columns"]["time"] == "time"
    assert "Windows-1252" in " ".join(reading["notes"])


def test_rows_without_an_id_are_dropped_and_told(command, messy):
    file = messy("missing_ids.csv")
    graph, report = read_graph_with_report(file)
    assert report.rows_without_id == 3
    assert graph.num_edges == 4
    told = " ".join(graph.notes)
    assert "dropped 3 rows without an id, the first at line 3" in told
    assert "2 ids in column 'target' read 'NA', which became a node" in told
    with pytest.raises(InputError, match=r"line 3: no id in column 'source'"):
        gelato.read_graph(file, missing_ids="error")
    reading = command("check", "--edges", file, "--json").json["reading"]
    assert reading["rows_without_id"] == 3


def test_files_written_by_pandas(messy):
    graph, report = read_graph_with_report(messy("pandas_index.csv"))
    assert graph.node_ids.tolist() == ["anna", "ben", "carla"]
    assert report.columns == {"source": "source", "target": "target"}
    graph, report = read_graph_with_report(messy("pandas_index_names.csv"))
    assert graph.node_ids.tolist() == ["anna", "ben", "carla"]
    assert report.columns == {"source": "Person A", "target": "Person B"}
    assert any("column 1 counts the rows and is not used" in n for n in graph.notes)
    numbered = gelato.read_graph(messy("pandas_numbers.csv"))
    assert numbered.node_ids.tolist() == ["anna", "ben", "carla"]


@pytest.mark.parametrize(
    ("texts", "values", "delimiter"),
    [
        (["1,5", "2", "-3,25"], [1.5, 2, -3.25], ";"),
        (["1.234", "1.000.000,5"], [1234, 1000000.5], ";"),
        (["1,234", "5,678"], [1.234, 5.678], ";"),
        (["1,234", "5,678"], [1234, 5678], "\t"),
        (["1'234.5", "7"], [1234.5, 7], "\t"),
        (["1 234,5", "7"], [1234.5, 7], "\t"),
        (["1e3", "2.5"], [1000, 2.5], "\t"),
    ],
)
def test_numbers_as_they_are_written(tmp_path, texts, values, delimiter):
    lines = [delimiter.join(["n1", f"m{k}", text]) for k, text in enumerate(texts)]
    file = tmp_path / "edges.txt"
    file.write_text("\n".join([delimiter.join(["source", "target", "weight"]), *lines]))
    file.write_text(file.read_text().replace("-3,25", "3,25"))
    graph = gelato.read_graph(file)
    assert graph.weights.tolist() == [abs(value) for value in values]


def test_dates_become_days_years_and_months():
    dates = ["2019-03-01", "2019-06-01", "2020-03-01", "2021-03-01"]
    people = {"id": list("abcd"), "joined": dates}
    edges = [("a", "b"), ("b", "c"), ("c", "d")]
    graph, report = read_graph_with_report(edges, people)
    assert graph.attribute_names == (
        *("joined", "joined.year=2019", "joined.year=2020", "joined.year=2021"),
        *("joined.month=3", "joined.month=6"),
    )
    days = np.asarray(graph.attributes)[:, 0] if graph.num_nodes else None
    assert np.all(np.diff(days) > 0)
    assert abs(days).max() < 3
    assert report.column_choices[0].kind == "date"
