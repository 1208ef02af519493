"""A run folder keeps what reading did, and every page shows it."""

import gelato


def test_loops_and_repeats_are_told_to_the_end(command, messy, tmp_path):
    file = messy("loops_and_repeats.csv")
    made = command("fit", "--edges", file, "--model", "aa", "-o", "run", "--json")
    assert made.code == 0, made.err
    graph = gelato.load(tmp_path / "run").graph_
    assert graph.reading["self_loops"] == 20
    assert graph.reading["repeated_edges"] == 808
    assert "dropped 20 self-loops" in graph.notes
    assert "merged 808 repeated edges" in graph.notes
    page = command("report", "run", "-o", "page.html", "--json")
    assert page.code == 0, page.err
    html = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "20 self-loops were dropped" in html
    assert "808 repeated edges were merged" in html
    assert "Nothing was dropped or merged" not in html
