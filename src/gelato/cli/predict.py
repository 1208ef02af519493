"""``gelato predict``: the links that a graph probably lacks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from gelato import text
from gelato.cli.console import Console
from gelato.cli.forecasts import (
    MEMORY,
    SELECTING_KERNELS,
    forecast_model,
    give_forecasts,
    refuse_large_files,
    respect_memory,
    tell_compilation,
    tell_long_run,
)
from gelato.cli.inputs import (
    LoadedGraph,
    candidate_limits,
    load_graph,
    make_candidates,
    node_of,
    refuse_mixed_rule,
)
from gelato.cli.options import (
    RUN_FOLDER,
    CandidateOptions,
    DataOptions,
    ModelOptions,
    OutputOptions,
    RunOptions,
    SideOptions,
    option,
)
from gelato.cli.outputs import TABLE_SUFFIXES, check_output_file
from gelato.cli.progress import choose_untrained, fit_model, is_trained
from gelato.cli.rankings import show_links, write_links
from gelato.cli.run_folders import (
    load_run_model,
    refuse_beside_run,
    with_newer_graph,
)
from gelato.cli.settings import describe_model, make_model, model_title
from gelato.errors import GelatoError, UsageError

if TYPE_CHECKING:
    from gelato.choosing import Choice
    from gelato.graph import Graph
    from gelato.ranking import Candidates


_PER_NODE = 10  # links of a node that is named


@dataclass(frozen=True)
class AskedOptions:
    """Which links, and how many."""

    panel: ClassVar[str] = "Links: which, and how many"
    top: int | None = option("--top K", "The K best links overall (100).")
    per_node: int | None = option("--per-node K", "The K best links of each node.")
    nodes: Path | None = option("--nodes FILE", "Whose links --per-node lists.")
    node: list[str] | None = option(
        "--node NAME", "The best links of this node (10). May be repeated."
    )
    pairs: Path | None = option("--pairs FILE", "Score and rank these pairs.")
    exclude: Path | None = option("--exclude FILE", "Pairs not to predict.")
    max_per_node: int | None = option(
        "--max-per-node K",
        "At most K links of any node, so that hubs do not fill the list.",
    )


def predict(
    data: DataOptions,
    model: ModelOptions,
    asked: AskedOptions,
    rule: CandidateOptions,
    run: RunOptions,
    output: OutputOptions,
    folder: Path | None = RUN_FOLDER,
    file: Path | None = option(
        "--output -o FILE", "Write all links: .csv, .tsv, .parquet, .json or .jsonl."
    ),
    memory: str | None = MEMORY,
) -> None:
    """Predict links: the best pairs that are not edges yet.

    Without --model, one that learns nothing is chosen by held-out edges, in seconds.
    Beside a run folder, --edges and --attributes give a newer version of its graph.
    """
    from gelato.engines import use_threads

    console = Console(output)
    check_output_file(file, TABLE_SUFFIXES)
    _refuse_mixed(asked, rule)
    refuse_mixed_rule(rule)
    refuse_large_files(memory, data)
    made, loaded = _model_and_graph(console, data, model, rule, folder)
    graph = loaded.graph
    console.note(*graph.notes)
    choice = None
    open_choice = folder is None and model == replace(ModelOptions(), seed=model.seed)
    if open_choice and not run.dry_run:
        choice = _choose(console, graph, model)
        made = made if choice is None else choice.model
    name = made.name
    candidates = None
    if asked.pairs is None:
        candidates = make_candidates(rule, graph, _known(graph, asked.exclude))
    wanted = _wanted(graph, asked, rule)
    tell_compilation(console, SELECTING_KERNELS)
    stored = folder is not None
    if run.dry_run:
        _forecast(console, made, graph, candidates, stored=stored)
        return
    threads = respect_memory(
        console, memory, made, graph, stored=stored, candidates=candidates
    )
    with use_threads(threads):
        if not stored and choice is None:
            _fit(console, made, graph)
        if candidates is not None:
            tell_long_run(console, made, graph, candidates)
        with console.progress(f"predicting with {name}") as progress:
            found = made.prediction(progress=progress, **wanted)
    links = found.table
    console.note(*(*_shortage(asked.top, links.height), *found.notes))
    write_links(console, links, file)
    if candidates is None:
        said = text.plural(links.height, "given pair")
    else:
        pairs = text.plural(candidates.count, "candidate pair")
        said = f"{text.plural(links.height, 'link')} of {pairs}"
    said += f", from all {text.plural(graph.num_edges, 'known edge')}"
    console.show(f"{model_title(name, made)} on {text.printable(loaded.name)}: {said}")
    if choice is not None:
        console.show(f"chosen: {choice.reason}")
    show_links(console, links, file)
    console.give(
        {
            "data": loaded.to_dict(),
            "model": describe_model(name, made),
            "choice": None if choice is None else choice.to_dict(),
            "candidates": None if candidates is None else candidates.count,
            "known_edges": "all",
            "notes": list(found.notes),
            "links": links.to_dicts(),
        }
    )


def _model_and_graph(
    console: Console,
    data: DataOptions,
    model: ModelOptions,
    sides: SideOptions,
    folder: Path | None,
) -> tuple[Any, LoadedGraph]:
    """Return a model that is to be fitted, or the one that a folder holds."""
    if folder is None:
        return make_model(model.model or "ac", model), load_graph(data, console, sides)
    refuse_beside_run(folder, model)
    if data.edges is None:
        refuse_beside_run(folder, data)
    made = load_run_model(folder)
    if data.edges is None:
        return made, LoadedGraph(made.graph_, str(folder))
    newer = load_graph(data, console)
    console.note(
        f"{folder} holds {text.plural(made.graph_.num_edges, 'edge')}; predicting "
        f"from the {newer.graph.num_edges:,} of {newer.name}."
    )
    over_newer = with_newer_graph(made, folder, newer)
    return over_newer, replace(newer, graph=over_newer.graph_)


def _choose(console: Console, graph: Graph, model: ModelOptions) -> Choice | None:
    """Choose a model; the edges held out for it also tell which precision to expect."""
    from gelato.splits import split_edges

    if graph.num_edges == 0:
        return None
    return choose_untrained(console, split_edges(graph, test=0.0), model.seed)


def _fit(console: Console, model: Any, graph: Graph) -> None:
    """Fit a model to all edges; one without epochs learns what precision to expect."""
    from gelato.splits import split_edges

    known: Any = graph
    if not is_trained(model):
        # It predicts from all edges in any case; held-out ones only measure it.
        try:
            known = split_edges(graph, test=0.0)
        except GelatoError:
            known = graph
    fit_model(console, model.name, model, known)


def _refuse_mixed(asked: AskedOptions, rule: CandidateOptions) -> None:
    ways = {"--top": asked.top, "--per-node": asked.per_node, "--pairs": asked.pairs}
    used = [name for name, value in ways.items() if value is not None]
    other = [name for name in used if name != "--per-node"]
    if asked.node and other:
        raise UsageError(
            f"--node and {other[0]} exclude each other.",
            hint="How many links of the node: --per-node K",
        )
    if len(used) > 1:
        raise UsageError(
            f"{used[0]} and {used[1]} exclude each other.",
            hint="Ask for the best links overall, of each node, or for given pairs.",
        )
    if asked.nodes is not None and asked.per_node is None:
        raise UsageError(
            "--nodes goes with --per-node.",
            hint="For example: --per-node 10 --nodes FILE",
        )
    if asked.max_per_node is not None and used not in ([], ["--top"]):
        raise UsageError(
            f"--max-per-node limits the best links overall, not {used[0]}.",
            hint="Use it with --top.",
        )
    limited = rule != CandidateOptions() or asked.exclude is not None
    if asked.pairs is not None and limited:
        raise UsageError(
            "--pairs scores exactly the pairs of its file, without candidates.",
            hint="Leave out --candidates, --left, --right and --exclude; or use "
            "--candidates file:FILE, which predicts among these pairs.",
        )


def _wanted(
    graph: Graph, asked: AskedOptions, rule: CandidateOptions
) -> dict[str, Any]:
    """Return the arguments of a prediction."""
    from gelato.io import read_nodes, read_pairs

    ids = graph.node_ids
    if asked.pairs is not None:
        indices = read_pairs(asked.pairs, graph)
        ends = (ids[indices[:, side]].tolist() for side in (0, 1))
        return {"pairs": list(zip(*ends, strict=True))}
    chosen = [node_of(graph, name) for name in asked.node or ()]
    if asked.nodes is not None:
        chosen += ids[read_nodes(asked.nodes, graph)].tolist()
    per_node = asked.per_node
    if asked.node and per_node is None:
        per_node = _PER_NODE
    return {
        "top": asked.top,
        "per_node": per_node,
        "nodes": list(dict.fromkeys(chosen)) or None,
        "exclude": asked.exclude,
        "max_per_node": asked.max_per_node,
        **candidate_limits(rule, graph, _known(graph, asked.exclude)),
    }


def _known(graph: Graph, exclude: Path | None) -> Any:
    """Return the pairs that are not to be predicted."""
    import numpy as np

    from gelato.io import read_pairs

    if exclude is None:
        return graph.edges
    return np.concatenate([graph.edges, read_pairs(exclude, graph)])


def _shortage(top: int | None, found: int) -> list[str]:
    if top is None or found >= top:
        return []
    return [f"{top:,} links were asked for, but there are only {found:,}."]


def _forecast(
    console: Console,
    model: Any,
    graph: Graph,
    candidates: Candidates | None,
    *,
    stored: bool,
) -> None:
    coming = {
        model.name: forecast_model(
            model.name,
            lambda: model if stored else model.fit(graph),
            graph,
            candidates=candidates,
            stored=stored,
        )
    }
    give_forecasts(console, coming)
