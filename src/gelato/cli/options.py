"""The options that verbs share: data, split, model, candidates, output."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from gelato.errors import UsageError


def grouped(function: Callable[..., None]) -> Callable[..., None]:
    """Return a function that typer understands, with dataclass parameters unfolded."""
    hints = get_type_hints(function, include_extras=True)
    groups: dict[str, type] = {}
    unfolded: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(function).parameters.items():
        kind = hints[name]
        if isinstance(kind, type) and is_dataclass(kind):
            groups[name] = kind
            unfolded += _fields(kind)
        else:
            unfolded.append(_option(name, parameter.default, kind))

    def command(**given: Any) -> None:
        with ExitStack() as stack:
            for name, kind in groups.items():
                own = {field.name: given.pop(field.name) for field in fields(kind)}
                given[name] = options = kind(**own)
                # Options may ask for something around the whole command: an engine.
                if hasattr(options, "around"):
                    stack.enter_context(options.around())
            function(**given)

    command.__name__, command.__doc__ = function.__name__, function.__doc__
    command.__annotations__ = {item.name: item.annotation for item in unfolded}
    command.__signature__ = inspect.Signature(unfolded)  # type: ignore[attr-defined]
    return command


def _fields(kind: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(kind, include_extras=True)
    return [
        _option(
            field.name,
            inspect.Parameter.empty if field.default is MISSING else field.default,
            hints[field.name],
        )
        for field in fields(kind)
    ]


def _option(name: str, default: Any, annotation: Any) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


def _in(panel: str, *names: str, help: str, metavar: str | None = None) -> Any:
    return typer.Option(*names, help=help, metavar=metavar, rich_help_panel=panel)


_DATA = "Data: your own files, or a benchmark graph"
_SPLIT = "Split: which edges are held out"
_CANDIDATES = "Candidates: which pairs are ranked"
_ENGINE = "Engine: where the work runs"
_OUTPUT = "Output"


@dataclass(frozen=True)
class DataOptions:
    """Where the graph comes from."""

    edges: Annotated[
        Path | None,
        _in(
            _DATA,
            "--edges",
            metavar="FILE",
            help="One edge per row: csv, tsv, txt (also .gz), Parquet, or npz.",
        ),
    ] = None
    dataset: Annotated[
        str | None,
        _in(_DATA, "--dataset", metavar="NAME", help="A graph of 'gelato data list'."),
    ] = None
    attributes: Annotated[
        Path | None,
        _in(
            _DATA,
            "--attributes",
            metavar="FILE",
            help="One node per row, its id in the first column.",
        ),
    ] = None
    source: Annotated[
        str | None,
        _in(
            _DATA,
            "--source",
            metavar="COLUMN",
            help="Column of one end: its name, or its position from 0.",
        ),
    ] = None
    target: Annotated[
        str | None,
        _in(_DATA, "--target", metavar="COLUMN", help="Column of the other end."),
    ] = None
    weight: Annotated[
        str | None,
        _in(_DATA, "--weight", metavar="COLUMN", help="Column of edge weights."),
    ] = None
    time: Annotated[
        str | None,
        _in(_DATA, "--time", metavar="COLUMN", help="Column of edge times."),
    ] = None
    id: Annotated[
        str | None,
        _in(_DATA, "--id", metavar="COLUMN", help="Id column of the attributes."),
    ] = None
    encode: Annotated[
        list[str] | None,
        _in(
            _DATA,
            "--encode",
            metavar="COLUMN=KIND",
            help="How to read an attribute column: numeric, category, text, list or "
            "drop. May be repeated.",
        ),
    ] = None
    missing: Annotated[
        str | None,
        _in(
            _DATA,
            "--missing",
            metavar="RULE",
            help="Nodes without attributes: zero (default), drop or error.",
        ),
    ] = None
    header: Annotated[
        bool | None,
        _in(
            _DATA,
            "--header/--no-header",
            help="Whether text files start with column names; default: detect.",
        ),
    ] = None
    delimiter: Annotated[
        str | None,
        _in(_DATA, "--delimiter", metavar="CHAR", help="Between cells of text files."),
    ] = None
    directed: Annotated[
        bool, _in(_DATA, "--directed", help="Edges have a direction.")
    ] = False
    symmetrise: Annotated[
        bool,
        _in(_DATA, "--symmetrise", help="Ignore the directions of a directed graph."),
    ] = False

    def given_table_options(self) -> list[str]:
        """Return the options in use that say how to read a table."""
        apart = ("edges", "dataset", "symmetrise")
        return [
            f"--{field.name}"
            for field in fields(self)
            if field.name not in apart and getattr(self, field.name) != field.default
        ]


@dataclass(frozen=True)
class SplitOptions:
    """Which edges are held out. Defaults of shares and seeds are the library's."""

    valid: Annotated[
        float | None,
        _in(
            _SPLIT,
            "--valid",
            metavar="SHARE",
            help="Share of validation edges (paper: 0.05).",
        ),
    ] = None
    test: Annotated[
        float | None,
        _in(_SPLIT, "--test", metavar="SHARE", help="Share of test edges (0.1)."),
    ] = None
    split_seed: Annotated[
        int | None,
        _in(_SPLIT, "--split-seed", metavar="N", help="Seed of a random split (0)."),
    ] = None
    temporal: Annotated[
        bool,
        _in(_SPLIT, "--temporal", help="Hold out the latest edges instead."),
    ] = False
    split_file: Annotated[
        Path | None,
        _in(_SPLIT, "--split-file", metavar="FILE", help="A split saved earlier."),
    ] = None
    train: Annotated[
        Path | None,
        _in(
            _SPLIT,
            "--train",
            metavar="FILE",
            help="Training edges; default: all edges that are not held out.",
        ),
    ] = None
    valid_edges: Annotated[
        Path | None,
        _in(_SPLIT, "--valid-edges", metavar="FILE", help="Validation edges."),
    ] = None
    test_edges: Annotated[
        Path | None,
        _in(_SPLIT, "--test-edges", metavar="FILE", help="Test edges."),
    ] = None


@dataclass(frozen=True)
class CandidateOptions:
    """Which pairs may be ranked."""

    candidates: Annotated[
        str,
        _in(
            _CANDIDATES,
            "--candidates",
            metavar="RULE",
            help="all, hops:K (pairs at most K steps apart) or file:FILE (these "
            "pairs).",
        ),
    ] = "all"
    left: Annotated[
        Path | None,
        _in(
            _CANDIDATES,
            "--left",
            metavar="FILE",
            help="Node ids: one end of a pair must be among them.",
        ),
    ] = None
    right: Annotated[
        Path | None,
        _in(
            _CANDIDATES,
            "--right",
            metavar="FILE",
            help="Node ids: the other end must be among them.",
        ),
    ] = None


@dataclass(frozen=True)
class OutputOptions:
    """How to talk to the user."""

    json: Annotated[
        bool, _in(_OUTPUT, "--json", help="Print the result as JSON on stdout.")
    ] = False
    quiet: Annotated[
        bool, _in(_OUTPUT, "--quiet", "-q", help="No progress and no notes.")
    ] = False


@dataclass(frozen=True)
class EngineOptions:
    """Where the work runs."""

    engine: Annotated[
        str | None,
        _in(
            _ENGINE,
            "--engine",
            metavar="NAME",
            help="local: threads (default). ray: workers on this machine or on a "
            "cluster. Results do not depend on it.",
        ),
    ] = None
    address: Annotated[
        str | None,
        _in(
            _ENGINE,
            "--address",
            metavar="HOST:PORT",
            help="The Ray cluster, or auto; default: Ray workers on this machine.",
        ),
    ] = None
    workers: Annotated[
        int | None,
        _in(_ENGINE, "--workers", metavar="N", help="Workers to use (all cores)."),
    ] = None

    @contextmanager
    def around(self) -> Iterator[None]:
        """Let everything inside run on the engine that the options name."""
        name = self.engine or (None if self.address is None else "ray")
        if name is None and self.workers is not None:
            raise UsageError(
                "--workers needs an engine.",
                hint="Add --engine ray; threads are counted by --threads.",
            )
        if name is None or getattr(self, "dry_run", False):
            yield
            return
        from gelato.engines import make_engine, use_engine

        engine = make_engine(name, workers=self.workers, address=self.address)
        with engine, use_engine(engine):
            yield


@dataclass(frozen=True)
class RunOptions(EngineOptions):
    """How to work."""

    dry_run: Annotated[
        bool,
        _in(
            _OUTPUT,
            "--dry-run",
            help="Only forecast the pairs, the memory and the time.",
        ),
    ] = False
    threads: Annotated[
        int | None,
        _in(
            _OUTPUT,
            "--threads",
            metavar="N",
            help="Threads to use (all cores); results do not depend on it.",
        ),
    ] = None


_MODEL = "Model: its name and parameters"


@dataclass(frozen=True)
class ModelOptions:
    """Which model, with which parameters. Defaults of parameters are the model's."""

    model: Annotated[
        str | None,
        _in(_MODEL, "--model", "-m", metavar="NAME", help="A model of 'gelato list'."),
    ] = None
    preset: Annotated[
        str | None,
        _in(
            _MODEL,
            "--preset",
            metavar="NAME",
            help="The model's parameters in the paper for cora, citeseer, pubmed, "
            "photo or computers.",
        ),
    ] = None
    settings: Annotated[
        list[str] | None,
        _in(
            _MODEL,
            "--set",
            "-s",
            metavar="NAME=VALUE",
            help="A parameter of the model, for example t=2. May be repeated.",
        ),
    ] = None
    seed: Annotated[
        int | None,
        _in(_MODEL, "--seed", metavar="N", help="Seed of a trained model (1)."),
    ] = None


@dataclass(frozen=True)
class ChoiceOptions:
    """How long models may compete where none is named."""

    budget: Annotated[
        float | None,
        _in(
            _MODEL,
            "--budget",
            metavar="SECONDS",
            help="Without --model: time to choose one by validation edges (120).",
        ),
    ] = None
    quick: Annotated[
        bool,
        _in(
            _MODEL,
            "--quick",
            help="Without --model: choose in a few seconds, mostly among heuristics.",
        ),
    ] = False


RunFolder = Annotated[
    Path | None,
    typer.Argument(
        metavar="RUN",
        help="A folder of 'gelato fit', in place of data and model.",
        show_default=False,
    ),
]
