"""``gelato report``: a run, or several side by side, as one page to read and share."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gelato.cli.console import Console
from gelato.cli.forecasts import RANKING_KERNELS, SELECTING_KERNELS, tell_compilation
from gelato.cli.inputs import node_of
from gelato.cli.options import OutputOptions, argument, option
from gelato.cli.outputs import check_output_file
from gelato.cli.run_folders import PAGE
from gelato.errors import InputError, UsageError

if TYPE_CHECKING:
    from gelato.graph import Graph

_SUFFIXES = (".html", ".md", ".json")


def report(
    output: OutputOptions,
    folders: list[Path] | None = argument(
        "RUN...", "A folder of 'gelato fit'; several are compared.", None
    ),
    file: Path | None = option(
        "--output -o FILE",
        "Write a page (.html), its numbers (.md) or its data (.json). "
        "Default: report.html in the run folder.",
    ),
    comparison: Path | None = option(
        "--comparison FILE",
        "What 'gelato compare --json' printed, in place of run folders.",
    ),
    top: int | None = option("--top K", "How many predicted links (100)."),
    nodes: str | None = option(
        "--nodes IDS",
        "Nodes of the heat maps: ids separated by commas, or a file of ids "
        "(those of highest degree).",
    ),
    threads: int | None = option("--threads N", "Threads to use (all cores)."),
) -> None:
    """Write one offline page about a run: ranking, curves, links and why."""
    from gelato.engines import use_threads

    console = Console(output)
    given = folders or []
    _refuse_mixed(given, comparison, top, nodes)
    place = file
    if place is None and not output.json:
        place = given[0] / PAGE if len(given) == 1 else Path(PAGE)
    if place is None or len(given) != 1 or given[0].is_dir():
        check_output_file(place, _SUFFIXES)
    if comparison is None:
        tell_compilation(console, {*RANKING_KERNELS, *SELECTING_KERNELS})
    with use_threads(threads):
        summary = _summary(
            console, given, comparison, nodes, 100 if top is None else top
        )
    if place is not None:
        from gelato.report.page import write_report

        write_report(summary, place)
    _print(console, summary, place)
    console.give(summary)


def _refuse_mixed(
    folders: list[Path], comparison: Path | None, top: int | None, nodes: str | None
) -> None:
    if (comparison is None) == (not folders):
        raise UsageError(
            "Run folders and --comparison exclude each other."
            if folders
            else "There is nothing to report on.",
            hint="Name a run folder, several to compare them, or --comparison FILE.",
        )
    single = {"--top": top, "--nodes": nodes}
    idle = [name for name, value in single.items() if value is not None]
    if len(folders) != 1 and idle:
        raise UsageError(
            f"{idle[0]} is about one run, and a comparison lists no links.",
            hint=f"Leave out {idle[0]}, or name one run folder.",
        )


def _summary(
    console: Console,
    folders: list[Path],
    comparison: Path | None,
    nodes: str | None,
    top: int,
) -> dict[str, Any]:
    from gelato.report.contents import summarise_run
    from gelato.report.rivals import read_comparison, summarise_runs

    if comparison is not None:
        return read_comparison(comparison)
    if len(folders) > 1:
        return summarise_runs(folders)
    named = None if nodes is None else partial(_node_ids, nodes)
    return summarise_run(folders[0], nodes=named, say=console.line, top=top)


def _node_ids(given: str, graph: Graph) -> list[Any]:
    """Return the ids that a text, or a file of this name, lists."""
    from gelato.io import read_nodes

    if Path(given).is_file():
        found: list[Any] = graph.node_ids[read_nodes(Path(given), graph)].tolist()
    else:
        words = (part.strip() for part in given.split(","))
        found = [node_of(graph, word) for word in words if word]
    if not found:
        raise InputError("--nodes names no node.", hint="For example: --nodes 1,2,3")
    return found


def _print(console: Console, summary: dict[str, Any], place: Path | None) -> None:
    from gelato.report.verdicts import comparison_verdict, run_verdict

    several = summary["kind"] == "comparison"
    verdict = comparison_verdict if several else run_verdict
    console.show(verdict(summary))
    if place is not None:
        console.show(f"written: {place}")
