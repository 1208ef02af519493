"""``gelato check``: what was read, and what working with it will cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gelato import text
from gelato.cli.console import Console, make_facts, make_table
from gelato.cli.forecasts import (
    RANKING_KERNELS,
    forecast_data,
    is_heuristic,
    show_forecasts,
    tell_compilation,
)
from gelato.cli.inputs import LoadedGraph, load_graph, load_split
from gelato.cli.options import (
    DataOptions,
    OutputOptions,
    SideOptions,
    SplitOptions,
)
from gelato.errors import GelatoError

if TYPE_CHECKING:
    from gelato.graph import Graph
    from gelato.io import ReadReport
    from gelato.splits import EdgeSplit


# Starts of notes that say again what the report's own lines and table say.
_TOLD = ("column '", "dropped ", "merged ")


def check(
    data: DataOptions, split: SplitOptions, sides: SideOptions, output: OutputOptions
) -> None:
    """Check the data: what was read, dropped, merged, missing; and a forecast."""
    from gelato.report.describe import describe_graph

    console = Console(output)
    made: EdgeSplit | None = None
    obstacle = ""
    if split != SplitOptions():
        loaded, made = load_split(data, split, console, sides)
    else:
        loaded = load_graph(data, console, sides)
        made, obstacle = _usual_split(loaded.graph)
    facts = describe_graph(loaded.graph)
    _print_reading(console, loaded)
    _print_facts(console, facts)
    _print_split(console, made, obstacle)
    forecasts = _forecasts(console, loaded.graph, made)
    console.show("", "Forecast of exact evaluation, by model", "")
    show_forecasts(console, forecasts)
    report = loaded.report
    console.give(
        {
            "name": loaded.name,
            "reading": None if report is None else report.to_dict(),
            "graph": facts,
            "notes": list(loaded.graph.notes),
            "split": None if made is None else made.to_dict(),
            "split_obstacle": obstacle or None,
            "forecast": forecast_data(forecasts),
        }
    )


def _usual_split(graph: Graph) -> tuple[EdgeSplit | None, str]:
    """Return the split that other verbs make by default, or why there is none."""
    from gelato.splits import split_edges

    try:
        made = split_edges(graph)
    except GelatoError as error:
        return None, str(error)
    if not len(made.test):
        return made, "too few edges for a test part: hold out more with --test 0.3"
    return made, ""


def _print_reading(console: Console, loaded: LoadedGraph) -> None:
    report = loaded.report
    rows = [("graph", text.printable(loaded.name))]
    if report is not None:
        rows += _reading_rows(report)
    console.show(make_facts(rows))
    if report is not None and report.column_choices:
        choices = [
            (
                text.shortened(choice.name),
                choice.kind,
                text.count(choice.width),
                text.printable(choice.reason),
            )
            for choice in report.column_choices
        ]
        table = make_table("column", "read as", "attributes", "because", rows=choices)
        for position in (1, 3):
            table.columns[position].justify = "left"
        table.columns[3].no_wrap = False
        console.show("", table)
    told = _TOLD if report is not None else ()
    rest = [note for note in loaded.graph.notes if not note.startswith(told)]
    if rest:
        rows = [
            ("notes" if k == 0 else "", text.printable(note))
            for k, note in enumerate(rest)
        ]
        console.show("", make_facts(rows))


def _reading_rows(report: ReadReport) -> list[tuple[str, str]]:
    columns = ", ".join(
        f"{role} = {text.printable(c)}" for role, c in report.columns.items()
    )
    header = {True: "with", False: "without", None: "no"}[report.edges_header]
    lost = {
        "self-loop": report.self_loops,
        "edge of weight 0": report.zero_weights,
    }
    dropped = [
        text.plural(number, noun, "edges of weight 0" if " " in noun else "")
        for noun, number in lost.items()
    ]
    if report.rows_without_id:
        count = report.rows_without_id
        dropped.append(text.plural(count, "row without an id", "rows without an id"))
    rows = [
        ("rows", f"{text.plural(report.edge_rows, 'row')}, {header} column names"),
        ("columns", columns),
        ("ids", {"int": "whole numbers", "text": "text"}.get(report.id_type, "mixed")),
        ("dropped", ", ".join(dropped)),
        ("merged", text.plural(report.repeated_edges, "repeated edge")),
    ]
    if report.attributes is not None:
        without = text.plural(report.nodes_without_attributes, "node")
        rows += [
            ("attributes", text.printable(report.attributes)),
            ("rows", text.plural(report.attribute_rows, "row")),
            ("missing", f"{without} without attributes"),
        ]
    return rows


def _print_facts(console: Console, facts: dict[str, Any]) -> None:
    kind = "directed" if facts["directed"] else "undirected"
    weighted = "weighted " if facts["weighted"] else ""
    timed = ", with times" if facts["times"] else ""
    rows = [
        ("nodes", text.plural(facts["nodes"], "node")),
        (
            "edges",
            f"{facts['edges']:,} {weighted}{kind} edges{timed} "
            f"({text.percent(facts['density'])} % of "
            f"{text.plural(facts['pairs'], 'pair')})",
        ),
        ("attributes", text.count(facts["attributes"])),
    ]
    degree = facts["degree"]
    if degree is not None:
        rows.append(
            (
                "neighbours",
                f"{degree['min']:,} to {degree['max']:,} (most: "
                f"{text.shortened(degree['max_node'])}), median "
                f"{degree['median']:g}, mean {degree['mean']:.1f}",
            )
        )
    rows += [
        ("isolated", text.plural(facts["isolated"], "node")),
        (
            "components",
            f"{facts['components']:,}, the largest with "
            f"{text.plural(facts['largest_component'], 'node')}",
        ),
    ]
    console.show("", make_facts(rows))


def _print_split(console: Console, split: EdgeSplit | None, obstacle: str) -> None:
    if split is not None:
        sizes = (
            f"{len(split.train):,} training, {len(split.valid):,} validation, "
            f"{len(split.test):,} test edges ({split.kind}, {split.fingerprint})"
        )
        console.show(make_facts([("split", sizes)]))
    if obstacle:
        console.show(make_facts([("no test", text.printable(obstacle))]))


def _forecasts(
    console: Console, graph: Graph, split: EdgeSplit | None
) -> dict[str, Any]:
    """Return the forecast of every heuristic, or why it does not suit the graph."""
    from gelato.models.registry import entries
    from gelato.ranking.evaluate import candidates_of
    from gelato.ranking.forecast import forecast

    tell_compilation(console, RANKING_KERNELS)
    known = graph if split is None else split.train_graph
    rule = None if split is None else candidates_of(split, "test")
    found: dict[str, Any] = {}
    heuristics = [entry for entry in entries() if is_heuristic(entry.name)]
    with console.progress("forecasting") as progress:
        for done, entry in enumerate(heuristics):
            progress(done, len(heuristics))
            try:
                model = entry.load()().fit(known)
                found[entry.name] = forecast(model, known, candidates=rule)
            except GelatoError as error:
                found[entry.name] = text.printable(error.problem)
    return found
