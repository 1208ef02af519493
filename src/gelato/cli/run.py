"""``gelato run``: from files to links in one command."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from gelato import text
from gelato.cli.console import Console, make_facts
from gelato.cli.fit import fit_or_choose, give_fit_forecast, keep, measure, named_model
from gelato.cli.forecasts import (
    MEMORY,
    SELECTING_KERNELS,
    TRAINING_KERNELS,
    refuse_large_files,
    respect_memory,
    tell_compilation,
)
from gelato.cli.inputs import LoadedGraph, load_split
from gelato.cli.options import (
    ChoiceOptions,
    DataOptions,
    ModelOptions,
    OutputOptions,
    RunOptions,
    SideOptions,
    SplitOptions,
    option,
)
from gelato.cli.outputs import TABLE_SUFFIXES, check_output_file
from gelato.cli.progress import is_trained
from gelato.cli.rankings import show_links, write_links
from gelato.cli.run_folders import LINKS, claimed_folder, look_into_folder
from gelato.cli.settings import describe_model, make_model, model_title


def run_all(
    data: DataOptions,
    split: SplitOptions,
    sides: SideOptions,
    model: ModelOptions,
    choice: ChoiceOptions,
    run: RunOptions,
    output: OutputOptions,
    top: int = option("--top K", "The K best links overall.", 100),
    max_per_node: int | None = option(
        "--max-per-node K", "At most K links of any node."
    ),
    folder: Path | None = option(
        "--output -o FOLDER", f"Keep the run and its links ({LINKS})."
    ),
    file: Path | None = option("--links FILE", "Write all links to this file."),
    overwrite: bool = option("--overwrite", "Replace a run in the folder.", False),
    memory: str | None = MEMORY,
) -> None:
    """From files to links: choose a model, measure it honestly, predict.

    Fits as 'gelato fit' does, then predicts from all edges as 'gelato predict' does.
    """
    from gelato.engines import use_threads

    console = Console(output)
    check_output_file(file, TABLE_SUFFIXES)
    made = named_model(model, choice)
    if folder is not None and not run.dry_run:
        look_into_folder(folder, resume=False, overwrite=overwrite)
    refuse_large_files(memory, data)
    loaded, parts = load_split(data, split, console, sides)
    console.note(*loaded.graph.notes)
    trained = made is None or is_trained(made)
    kernels = TRAINING_KERNELS if trained else ()
    tell_compilation(console, (*kernels, *SELECTING_KERNELS))
    if run.dry_run:
        give_fit_forecast(console, made, parts, choice)
        return
    # Where the model is still open, at least ranking by walks has to fit.
    first = made or make_model("ac", ModelOptions())
    threads = respect_memory(console, memory, first, parts)
    asked = {"top": top, "max_per_node": max_per_node}
    kept = folder / LINKS if folder is not None and file is None else file
    with use_threads(threads), _place(folder, overwrite=overwrite):
        made, found = fit_or_choose(console, made, parts, model, choice, folder)
        measured = measure(console, made, parts) | found
        if folder is not None:
            keep(made, folder, measured)
        with console.progress(f"predicting with {made.name}") as progress:
            links = made.prediction(progress=progress, **asked)
        console.note(*links.notes)
        write_links(console, links.table, kept)
    _print(console, made, loaded, measured, folder)
    show_links(console, links.table, kept)
    console.give(
        {
            "data": loaded.to_dict(),
            "split": parts.to_dict(),
            "model": describe_model(made.name, made),
            "run": None if folder is None else str(folder),
            "choice": None,
            **measured,
            "notes": [*getattr(made, "notes_", ()), *links.notes],
            "links": links.table.to_dicts(),
        }
    )


def _place(folder: Path | None, *, overwrite: bool) -> AbstractContextManager[None]:
    """Hold the folder of the run, if it is to be kept."""
    if folder is None:
        return nullcontext()
    return claimed_folder(folder, overwrite=overwrite)


def _print(
    console: Console,
    model: Any,
    loaded: LoadedGraph,
    measured: dict[str, Any],
    folder: Path | None,
) -> None:
    graph, choice = loaded.graph, measured.get("choice")
    rows = [
        (
            "graph",
            f"{text.printable(loaded.name)}: {text.plural(graph.num_nodes, 'node')}, "
            f"{text.plural(graph.num_edges, 'edge')}, "
            f"{text.plural(graph.num_attributes, 'attribute')}",
        )
    ]
    if choice is None:
        rows.append(("model", model_title(model.name, model)))
    else:
        rows.append(("chosen", choice["reason"]))
    test = measured["metrics"].get("test")
    if test is not None:
        pairs = test["positives"] + test["negatives"]
        rows.append(
            (
                "test AP",
                f"{text.percent(test['ap'])} %, in a random order "
                f"{text.percent(test['random_ap'])} %: "
                f"{text.plural(test['positives'], 'held-out edge')} ranked among "
                f"{text.count(pairs)} pairs",
            )
        )
    if folder is not None:
        rows += [
            ("written", f"{folder}/"),
            ("why a link", f"gelato explain {folder} A B"),
        ]
    console.show(make_facts(rows))
