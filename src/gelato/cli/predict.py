"""``gelato predict``: the links that a graph probably lacks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gelato.cli import numbers
from gelato.cli.candidates import make_candidates
from gelato.cli.forecasts import (
    SELECTING_KERNELS,
    forecast_model,
    give_forecasts,
    tell_compilation,
    tell_long_run,
)
from gelato.cli.grouping import grouped
from gelato.cli.inputs import LoadedGraph, load_graph
from gelato.cli.options import (
    CandidateOptions,
    DataOptions,
    ModelOptions,
    OutputOptions,
    RunFolder,
    RunOptions,
)
from gelato.cli.outputs import TABLE_SUFFIXES, check_output_file
from gelato.cli.run_folders import load_run_model, refuse_beside_run
from gelato.cli.screen import Screen, make_table, shortened
from gelato.cli.settings import describe_model, make_model, model_title
from gelato.cli.training import fit_model
from gelato.errors import UsageError

if TYPE_CHECKING:
    import polars as pl

    from gelato.graph import Graph
    from gelato.ranking import Candidates

_SHOWN = 20  # rows on the screen; files and JSON get all of them


def add(app: typer.Typer) -> None:
    """Register the verb."""
    app.command("predict")(grouped(predict))


def predict(
    data: DataOptions,
    model: ModelOptions,
    rule: CandidateOptions,
    run: RunOptions,
    output: OutputOptions,
    folder: RunFolder = None,
    top: Annotated[
        int | None,
        typer.Option("--top", metavar="K", help="The K best links overall (100)."),
    ] = None,
    per_node: Annotated[
        int | None,
        typer.Option("--per-node", metavar="K", help="The K best links of each node."),
    ] = None,
    nodes: Annotated[
        Path | None,
        typer.Option("--nodes", metavar="FILE", help="Whose links --per-node lists."),
    ] = None,
    pairs: Annotated[
        Path | None,
        typer.Option("--pairs", metavar="FILE", help="Score and rank these pairs."),
    ] = None,
    exclude: Annotated[
        Path | None,
        typer.Option("--exclude", metavar="FILE", help="Pairs not to predict."),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write all links: .csv, .tsv, .parquet, .json or .jsonl.",
        ),
    ] = None,
) -> None:
    """Predict links: the best pairs that are not edges yet."""
    screen = Screen(output)
    check_output_file(file, TABLE_SUFFIXES)
    _refuse_mixed(top, per_node, nodes, pairs, (rule, exclude))
    if folder is None:
        name = model.model or "ac"
        made = make_model(name, model)
        loaded = load_graph(data, screen)
    else:
        refuse_beside_run(folder, data, model)
        made = load_run_model(folder)
        name, loaded = made.name, LoadedGraph(made.graph_, str(folder))
    graph = loaded.graph
    for text in graph.notes:
        screen.note(text)
    asked = _asked(graph, top, per_node, nodes, pairs)
    candidates = None
    if pairs is None:
        candidates = _candidates(rule, graph, exclude)
        asked["rule"] = candidates
    tell_compilation(screen, SELECTING_KERNELS)
    if run.dry_run:
        stored = folder is not None
        _forecast(screen, name, made, graph, candidates, run.threads, stored=stored)
        return
    if folder is None:
        fit_model(screen, name, made, graph)
    if candidates is not None:
        tell_long_run(screen, made, graph, candidates, threads=run.threads)
    with screen.progress(f"predicting with {name}") as progress:
        links = made.predict(threads=run.threads, progress=progress, **asked)
    _tell_shortage(screen, top, links.height)
    if file is not None:
        from gelato.io import write_table

        write_table(links, file)
        screen.note(f"wrote {numbers.plural(links.height, 'link')} to {file}")
    among = "" if candidates is None else f" of {numbers.count(candidates.count)}"
    title = f"{model_title(name, made)} on {loaded.name}: "
    title += f"{numbers.plural(links.height, 'link')}{among} candidate pairs"
    screen.show(title, "", links_table(links, _SHOWN))
    if links.height > _SHOWN and file is None:
        rest = links.height - _SHOWN
        screen.show("", f"{rest:,} more: write all of them with -o links.csv")
    screen.give(
        {
            "data": loaded.to_dict(),
            "model": describe_model(name, made),
            "candidates": None if candidates is None else candidates.count,
            "links": links.to_dicts(),
        }
    )


def links_table(links: pl.DataFrame, most: int) -> Any:
    """Return the first rows of a table of links."""
    columns = ["rank", "source", "target", "score", "degrees"]
    known = "known" in links.columns
    rows = []
    for link in links.head(most).iter_rows(named=True):
        degrees = (
            f"{numbers.degree(link['source_degree'])} and "
            f"{numbers.degree(link['target_degree'])}"
        )
        row = [
            numbers.count(link["rank"]),
            shortened(link["source"]),
            shortened(link["target"]),
            numbers.score(link["score"]),
            degrees,
        ]
        rows.append([*row, "yes" if link["known"] else ""] if known else row)
    table = make_table(*columns, *(["an edge"] if known else []), rows=rows, text=3)
    table.columns[0].justify = "right"
    return table


def _refuse_mixed(
    top: int | None,
    per_node: int | None,
    nodes: Path | None,
    pairs: Path | None,
    limits: tuple[CandidateOptions, Path | None],
) -> None:
    ways = {"--top": top, "--per-node": per_node, "--pairs": pairs}
    used = [name for name, value in ways.items() if value is not None]
    if len(used) > 1:
        raise UsageError(
            f"{used[0]} and {used[1]} exclude each other.",
            hint="Ask for the best links overall, of each node, or for given pairs.",
        )
    if nodes is not None and per_node is None:
        raise UsageError(
            "--nodes goes with --per-node.",
            hint="For example: --per-node 10 --nodes FILE",
        )
    rule, exclude = limits
    if pairs is not None and (rule != CandidateOptions() or exclude is not None):
        raise UsageError(
            "--pairs scores exactly the pairs of its file, without candidates.",
            hint="Leave out --candidates, --left, --right and --exclude; or use "
            "--candidates file:FILE, which predicts among these pairs.",
        )


def _asked(
    graph: Graph,
    top: int | None,
    per_node: int | None,
    nodes: Path | None,
    pairs: Path | None,
) -> dict[str, Any]:
    from gelato.io import read_nodes, read_pairs

    ids = graph.node_ids
    if pairs is not None:
        indices = read_pairs(pairs, graph)
        ends = (ids[indices[:, side]].tolist() for side in (0, 1))
        return {"pairs": list(zip(*ends, strict=True))}
    chosen = None if nodes is None else ids[read_nodes(nodes, graph)].tolist()
    return {"top": top, "per_node": per_node, "nodes": chosen}


def _candidates(
    rule: CandidateOptions, graph: Graph, exclude: Path | None
) -> Candidates:
    import numpy as np

    from gelato.io import read_pairs

    known = graph.edges
    if exclude is not None:
        known = np.concatenate([known, read_pairs(exclude, graph)])
    return make_candidates(rule, graph, known)


def _tell_shortage(screen: Screen, top: int | None, found: int) -> None:
    if top is not None and found < top:
        screen.note(f"{top:,} links were asked for, but there are only {found:,}.")


def _forecast(
    screen: Screen,
    name: str,
    model: Any,
    graph: Graph,
    candidates: Candidates | None,
    threads: int | None,
    *,
    stored: bool,
) -> None:
    coming = {
        name: forecast_model(
            name,
            lambda: model if stored else model.fit(graph),
            graph,
            candidates=candidates,
            threads=threads,
            stored=stored,
        )
    }
    give_forecasts(screen, coming)
