"""The options that verbs share, and how a verb declares its own.

An option is written once, as the help shows it: ``option("--output -o FILE", "Where
to.")``, as the default of a parameter or of a field. Options that belong together are a
dataclass, and :func:`grouped` unfolds it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, get_type_hints

import typer

from gelato.errors import UsageError


def option(
    names: str, help: str, default: Any = None, *, panel: str | None = None
) -> Any:
    """Return an option as its help shows it: names, then what it takes, if anything."""
    words = names.split()
    # A flag takes nothing; None would make typer name its type.
    metavar = "" if words[-1].startswith("-") else words.pop()
    told = typer.Option(*words, metavar=metavar, help=help, rich_help_panel=panel)
    return field(default=default, metadata={"typer": told})


def argument(metavar: str, help: str, default: Any = MISSING) -> Any:
    """Return an argument, which must be given unless it has a default."""
    told = typer.Argument(metavar=metavar, help=help, show_default=False)
    return field(default=default, metadata={"typer": told})


def grouped(function: Callable[..., None]) -> Callable[..., None]:
    """Return a function that typer understands, with dataclass parameters unfolded."""
    hints = get_type_hints(function)
    groups: dict[str, Any] = {}
    unfolded: list[inspect.Parameter] = []
    # As typer does: the signature of a verb is the declaration of its options.
    for name, parameter in inspect.signature(function).parameters.items():
        kind: Any = hints[name]
        if is_dataclass(kind):
            groups[name] = kind
            own, panel = get_type_hints(kind), groups[name].panel
            unfolded += [
                _parameter(one.name, own[one.name], one, panel) for one in fields(kind)
            ]
        else:
            unfolded.append(_parameter(name, kind, parameter.default, None))

    def command(**given: Any) -> None:
        with ExitStack() as stack:
            for name, kind in groups.items():
                own = {one.name: given.pop(one.name) for one in fields(kind)}
                given[name] = options = kind(**own)
                # Where the work runs is decided around the whole command.
                if isinstance(options, OutputOptions):
                    options.load_plugins()
                if isinstance(options, EngineOptions):
                    stack.enter_context(options.around())
            function(**given)

    command.__name__, command.__doc__ = function.__name__, _paragraphs(function)
    command.__annotations__ = {item.name: item.annotation for item in unfolded}
    command.__signature__ = inspect.Signature(unfolded)  # type: ignore[attr-defined]
    return command


def _paragraphs(function: Callable[..., None]) -> str:
    """Return a docstring with each paragraph in one line: terminals differ in width."""
    parts = (inspect.getdoc(function) or "").split("\n\n")
    return "\n\n".join(" ".join(part.split()) for part in parts)


def _parameter(name: str, kind: Any, one: Any, panel: str | None) -> inspect.Parameter:
    told = one.metadata["typer"]
    told.rich_help_panel = told.rich_help_panel or panel
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if one.default is MISSING else one.default,
        annotation=Annotated[kind, told],
    )


OUTPUT = "Output"
_MODEL = "Model: its name and parameters"


@dataclass(frozen=True)
class DataOptions:
    """Where the graph comes from."""

    panel: ClassVar[str] = "Data: your own files, or a benchmark graph"
    edges: Path | None = option(
        "--edges FILE", "One edge per row: csv, tsv, txt (also .gz), Parquet, or npz."
    )
    dataset: str | None = option("--dataset NAME", "A graph of 'gelato data list'.")
    attributes: list[Path] | None = option(
        "--attributes FILE",
        "One node per row, its id in the first column. May be repeated, for two "
        "kinds of nodes.",
    )
    source: str | None = option(
        "--source COLUMN", "Column of one end: its name, or its position from 0."
    )
    target: str | None = option("--target COLUMN", "Column of the other end.")
    weight: str | None = option("--weight COLUMN", "Column of edge weights.")
    time: str | None = option("--time COLUMN", "Column of edge times.")
    id: str | None = option("--id COLUMN", "Id column of the attributes.")
    encode: list[str] | None = option(
        "--encode COLUMN=KIND",
        "How to read an attribute column: numeric (scaled), numeric-raw, date, "
        "category, text, list or drop; *=numeric-raw for all numbers. May be "
        "repeated.",
    )
    missing: str | None = option(
        "--missing RULE", "Nodes without attributes: zero (default), drop or error."
    )
    missing_ids: str | None = option(
        "--missing-ids RULE", "Rows without an id: drop (default) or error."
    )
    header: bool | None = option(
        "--header/--no-header",
        "Whether text files start with column names; default: detect.",
    )
    delimiter: str | None = option("--delimiter CHAR", "Between cells of text files.")
    directed: bool = option("--directed", "Edges have a direction.", False)
    symmetrise: bool = option(
        "--symmetrise", "Ignore the directions of a directed graph.", False
    )
    bipartite: bool = option(
        "--bipartite", "Two kinds of nodes: only pairs of one of each count.", False
    )

    def given_table_options(self) -> list[str]:
        """Return the options in use that say how to read a table."""
        apart = ("edges", "dataset", "symmetrise", "bipartite")
        return [
            f"--{field.name.replace('_', '-')}"
            for field in fields(self)
            if field.name not in apart and getattr(self, field.name) != field.default
        ]


@dataclass(frozen=True)
class SplitOptions:
    """Which edges are held out. Defaults of shares and seeds are the library's."""

    panel: ClassVar[str] = "Split: which edges are held out"
    valid: float | None = option(
        "--valid SHARE", "Share of validation edges (paper: 0.05)."
    )
    test: float | None = option("--test SHARE", "Share of test edges (0.1).")
    split_seed: int | None = option("--split-seed N", "Seed of a random split (0).")
    temporal: bool = option("--temporal", "Hold out the latest edges instead.", False)
    cutoff: str | None = option(
        "--cutoff DATE",
        "Hold out the edges from this date, or time, on; compare takes several, "
        "separated by commas.",
    )
    split_file: Path | None = option("--split-file FILE", "A split saved earlier.")
    train: Path | None = option(
        "--train FILE", "Training edges; default: all edges that are not held out."
    )
    valid_edges: Path | None = option("--valid-edges FILE", "Validation edges.")
    test_edges: Path | None = option("--test-edges FILE", "Test edges.")


@dataclass(frozen=True)
class SideOptions:
    """Which pairs can be links."""

    panel: ClassVar[str] = "Candidates: which pairs are ranked"
    left: Path | None = option(
        "--left FILE", "Node ids: one end of a pair must be among them."
    )
    right: Path | None = option(
        "--right FILE", "Node ids: the other end must be among them."
    )


@dataclass(frozen=True)
class CandidateOptions(SideOptions):
    """Which pairs may be ranked."""

    candidates: str = option(
        "--candidates RULE",
        "all, hops:K (pairs at most K steps apart) or file:FILE (these pairs).",
        "all",
    )


@dataclass(frozen=True)
class OutputOptions:
    """How to talk to the user."""

    panel: ClassVar[str] = OUTPUT
    json: bool = option("--json", "Print the result as JSON on stdout.", False)
    quiet: bool = option("--quiet -q", "No progress and no notes.", False)
    plugin: list[Path] | None = option(
        "--plugin FILE",
        "A Python file that registers models of your own. May be repeated.",
        panel=_MODEL,
    )

    def load_plugins(self) -> None:
        """Register the models that the files bring."""
        for file in self.plugin or ():
            from gelato.models.registry import load_plugin

            load_plugin(file)


@dataclass(frozen=True)
class EngineOptions:
    """Where the work runs."""

    panel: ClassVar[str] = "Engine: where the work runs"
    engine: str | None = option(
        "--engine NAME",
        "local: threads (default). ray: workers on this machine or on a cluster. "
        "Results do not depend on it.",
    )
    address: str | None = option(
        "--address HOST:PORT",
        "The Ray cluster, or auto; default: Ray workers on this machine.",
    )
    workers: int | None = option("--workers N", "Workers to use (all cores).")

    @contextmanager
    def around(self) -> Iterator[None]:
        """Let everything inside run on the engine that the options name."""
        name = self.engine or (None if self.address is None else "ray")
        if name is None and self.workers is not None:
            raise UsageError(
                "--workers needs an engine.",
                hint="Add --engine ray; threads are counted by --threads.",
            )
        if name is None:
            yield
            return
        from gelato.engines import make_engine, use_engine

        engine = make_engine(name, workers=self.workers, address=self.address)
        with engine, use_engine(engine):
            yield


@dataclass(frozen=True)
class RunOptions(EngineOptions):
    """How to work."""

    dry_run: bool = option(
        "--dry-run",
        "Only forecast the pairs, the memory and the time.",
        False,
        panel=OUTPUT,
    )
    threads: int | None = option(
        "--threads N",
        "Threads to use (all cores); results do not depend on it.",
        panel=OUTPUT,
    )

    @contextmanager
    def around(self) -> Iterator[None]:
        """Let everything inside use so many threads; a forecast needs no engine."""
        from gelato.engines import use_threads

        engine = nullcontext() if self.dry_run else super().around()
        with use_threads(self.threads), engine:
            yield


@dataclass(frozen=True)
class ModelOptions:
    """Which model, with which parameters. Defaults of parameters are the model's."""

    panel: ClassVar[str] = _MODEL
    model: str | None = option("--model -m NAME", "A model of 'gelato list'.")
    preset: str | None = option(
        "--preset NAME",
        "The model's parameters in the paper for cora, citeseer, pubmed, "
        "photo or computers.",
    )
    settings: list[str] | None = option(
        "--set -s NAME=VALUE",
        "A parameter of the model, for example t=2. May be repeated.",
    )
    seed: int | None = option("--seed N", "Seed of a trained model (1).")


@dataclass(frozen=True)
class ChoiceOptions:
    """How long models may compete where none is named."""

    panel: ClassVar[str] = _MODEL
    budget: float | None = option(
        "--budget SECONDS",
        "Without --model: time to choose one by validation edges (120).",
    )
    quick: bool = option(
        "--quick",
        "Without --model: choose in a few seconds, mostly among heuristics.",
        False,
    )


RUN_FOLDER = argument(
    "RUN", "A folder of 'gelato fit', in place of data and model.", None
)
