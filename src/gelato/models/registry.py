"""Model names and the classes behind them, loaded when first asked for.

What a model is stands on its class; here stands where that is. Lists of names are made
from the text of the files, so that ``gelato list`` imports none of them; heuristics are
found in their own folder.
"""

from __future__ import annotations

import ast
import difflib
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from gelato.errors import (
    GelatoError,
    InputError,
    StoredFileError,
    UnknownNameError,
    UsageError,
)
from gelato.heuristics.declared import listed
from gelato.parameters import parameters_of, refuse_threads
from gelato.text import builtin

if TYPE_CHECKING:
    from gelato.storage import Run

Registered = TypeVar("Registered", bound=Callable[..., Any])
ENTRY_POINTS = "gelato.models"
"""Group of entry points by which an installed package brings models."""


@dataclass(frozen=True)
class Entry:
    """A registered model: where it lives and, in a few words, what it is."""

    name: str
    kind: str
    place: str
    """Module and class, ``gelato.models.mlp:MLP``."""
    told: str = ""
    """What it is; default: what the class says in the text of its file."""
    factory: Callable[..., Any] | None = None

    @property
    def summary(self) -> str:
        """What it is, in a few words."""
        return self.told or ("" if self.factory else _written_summary(self.place))

    def load(self) -> Callable[..., Any]:
        """Return the class, importing its module if need be."""
        if self.factory is not None:
            return self.factory
        module, _, attribute = self.place.partition(":")
        loaded: Callable[..., Any] = getattr(importlib.import_module(module), attribute)
        return loaded


@cache
def _written_summary(place: str) -> str:
    """Return a class's summary from the text of its file; importing loads torch."""
    module, _, name = place.partition(":")
    spec = importlib.util.find_spec(module)
    assert spec is not None
    text = Path(str(spec.origin)).read_text(encoding="utf-8")
    (found,) = (
        line.value
        for node in ast.parse(text).body
        if isinstance(node, ast.ClassDef) and node.name == name
        for line in node.body
        if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == "summary"
    )
    return str(ast.literal_eval(found))


# A model is one line here.
_BUILTIN = (
    ("cos+ac", "both", "models.two_stage:CosineAutocovariance"),
    ("stack", "both", "models.stack:Stack"),
    ("mlp", "trained", "models.mlp:MLP"),
    ("mlp+ac", "trained", "models.two_stage:MLPAutocovariance"),
    ("mlp+cos+ac", "trained", "models.two_stage:MLPCosineAutocovariance"),
    ("gelato", "trained", "models.gelato:Gelato"),
    ("gelato2", "trained", "models.gelato2:Gelato2"),
    ("gae", "gnn", "baselines.gae:GAE"),
    ("hgcn", "gnn", "baselines.hyperbolic:HGCN"),
    ("lgcn", "gnn", "baselines.hyperbolic:LGCN"),
    ("tlc-gnn", "gnn", "baselines.tlc_gnn.model:TLCGNN"),
    ("bscnets", "gnn", "baselines.bscnets:BScNets"),
    ("neo-gnn", "gnn", "baselines.neo_gnn:NeoGNN"),
    ("ncn", "gnn", "baselines.ncn:NCN"),
    ("refined-gae", "gnn", "baselines.refined_gae:RefinedGAE"),
    ("nbfnet", "gnn", "baselines.nbfnet.model:NBFNet"),
    ("seal", "gnn", "baselines.seal.model:SEAL"),
    ("walkpool", "gnn", "baselines.walkpool.model:WalkPool"),
)


@cache
def _registry() -> dict[str, Entry]:
    """Return all entries by name: heuristics, built-in models, installed ones."""
    found = {
        one.name: Entry(
            one.name,
            one.kind,
            f"gelato.models.heuristic:{one.class_name}",
            one.summary,
        )
        for one in listed().values()
    }
    for name, kind, place in _BUILTIN:
        found[name] = Entry(name, kind, f"gelato.{place}")
    for point in entry_points(group=ENTRY_POINTS):
        source = point.dist.name if point.dist is not None else point.module
        # A name that is taken stays what it is.
        entry = Entry(point.name, "own", point.value, f"from the package {source}")
        found.setdefault(point.name, entry)
    return found


def model_names() -> list[str]:
    """Return the registered names, in the order of registration."""
    return list(_registry())


def entries() -> list[Entry]:
    """Return the registered models."""
    return list(_registry().values())


def model_class(name: str) -> Callable[..., Any]:
    """Return the class of a registered name, or suggest near names."""
    known = _registry()
    entry = known.get(name)
    if entry is None:
        near = difflib.get_close_matches(str(name), known, n=2, cutoff=0.5)
        meant = f" Did you mean {' or '.join(near)}?" if near else ""
        raise UnknownNameError(
            f"There is no model called {builtin(name)!r}.{meant}",
            hint=f"Models: {', '.join(known)}.",
        )
    return entry.load()


def parameter_names(name: str) -> list[str]:
    """Return the names of the parameters that a registered model takes."""
    return list(parameters_of(model_class(name)))


def make(name: str, **parameters: Any) -> Any:
    """Return a new model by name.

    Examples
    --------
    >>> make("ac", t=2)
    Autocovariance(t=2)
    """
    factory = model_class(name)
    try:
        return factory(**parameters)
    except (TypeError, UsageError) as error:
        known = parameters_of(factory)
        unknown = [key for key in parameters if key not in known]
        if not unknown:
            raise
        refuse_threads(unknown[0])
        raise UsageError(
            f"The model {name!r} has no parameter {unknown[0]!r}.",
            hint=f"Its parameters are: {', '.join(known) or 'none'}.",
        ) from error


def stored_parameters(name: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters that a file holds as :func:`make` takes them.

    Models had a parameter ``threads`` once, which decided nothing.
    """
    known = parameter_names(name)
    return {k: v for k, v in parameters.items() if k != "threads" or k in known}


def preset(dataset: str, model: str = "gelato") -> dict[str, Any]:
    """Return the parameters of a model on one of the paper's graphs.

    Only what differs from the model's defaults need be there: a model without
    parameters of its own for the graph gives an empty dictionary.

    Parameters
    ----------
    dataset : str
        A graph of the paper; near names are suggested for an unknown one.
    model : str
        Registered name.
    """
    known = facts_of("gelato").presets or {}
    if dataset not in known:
        near = difflib.get_close_matches(dataset, known, n=1)
        meant = f" Did you mean {near[0]}?" if near else ""
        raise UnknownNameError(
            f"There is no preset called {dataset!r}.{meant}",
            hint=f"Presets: {', '.join(known)}.",
        )
    return dict((facts_of(model).presets or {}).get(dataset, {}))


def has_presets(model: str) -> bool:
    """Tell whether a model has parameters of its own for the paper's graphs."""
    return facts_of(model).presets is not None


def facts_of(name: str) -> Any:
    """Return the class whose attributes are the facts of a model.

    That of the model itself; for a model that is no
    :class:`gelato.models.base.Model`, the base class with its defaults.
    """
    from gelato.models.base import Model

    factory = model_class(name)
    declared = isinstance(factory, type) and issubclass(factory, Model)
    return factory if declared else Model


def register(name: str, *, summary: str = "") -> Callable[[Registered], Registered]:
    """Add a model of one's own under a name (a class decorator).

    Anything that has ``score_rows(rows) -> (len(rows), n)`` or ``scorer(graph)``
    takes part.
    """
    if name in _registry():
        raise UsageError(
            f"A model called {name!r} is registered already.", hint="Take another name."
        )

    def add(factory: Registered) -> Registered:
        text = summary or (factory.__doc__ or "").strip().partition("\n")[0]
        _registry()[name] = Entry(name, "own", "", text, factory)
        return factory

    return add


def unregister(name: str) -> None:
    """Take a registered name away again."""
    _registry().pop(name, None)


def load_plugin(file: str | os.PathLike[str]) -> None:
    """Run a Python file that registers models; a second time does nothing."""
    path = Path(file).resolve()
    name = f"gelato_plugin_{path.stem}"
    known = sys.modules.get(name)
    if known is not None and known.__file__ == str(path):
        return
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise InputError(
            f"{file} is not a Python file.", hint="Name a file such as mine.py."
        )
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except GelatoError:
        del sys.modules[name]
        raise
    except Exception as error:
        del sys.modules[name]
        raise InputError(
            f"{file} cannot be run: {type(error).__name__}: {error}",
            hint=f"Try it alone: python {file}",
        ) from error


def load(folder: str | os.PathLike[str]) -> Any:
    """Return the model that a run folder holds, ready to score.

    Parameters
    ----------
    folder : path
        Written by ``model.save(folder)`` or ``gelato fit``.
    """
    from gelato.storage import read_run

    return restore(read_run(folder), folder)


def restore(run: Run, folder: str | os.PathLike[str]) -> Any:
    """Return the model of a run that was read from a folder."""
    try:
        model = make(run.model, **stored_parameters(run.model, run.parameters))
        model.check_parameters()
    except GelatoError as error:
        raise StoredFileError(
            f"{folder} holds a model that this version cannot make: {error.problem}",
            hint=error.hint or "Install the version of gelato that wrote it."
            if run.model in _registry()
            else "If it is your own model, name the file that registers it: --plugin "
            "FILE, or gelato.models.registry.load_plugin(FILE).",
        ) from error
    model.graph_, model.split_ = run.graph, run.split
    model.validation_counts_ = run.validation
    model.over_newer_graph_ = run.facts.get("over_newer_graph", False)
    model._restore(run)
    return model
