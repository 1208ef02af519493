"""Model names and the classes behind them, loaded when first asked for."""

from __future__ import annotations

import difflib
import importlib
import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from gelato.errors import GelatoError, StoredFileError, UnknownNameError, UsageError
from gelato.storage import Run, read_run

Registered = TypeVar("Registered", bound=Callable[..., Any])


@dataclass(frozen=True)
class Entry:
    """A registered model: where it lives and what it is, in a few words."""

    name: str
    summary: str
    kind: str
    module: str = ""
    attribute: str = ""
    factory: Callable[..., Any] | None = None

    def load(self) -> Callable[..., Any]:
        """Return the class, importing its module if need be."""
        if self.factory is not None:
            return self.factory
        loaded: Callable[..., Any] = getattr(
            importlib.import_module(self.module), self.attribute
        )
        return loaded


def _builtin(name: str, kind: str, module: str, attribute: str, summary: str) -> Entry:
    return Entry(name, summary, kind, f"gelato.{module}", attribute)


# Summaries stand here and not only in the classes so that `gelato list` is instant.
_REGISTRY: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        _builtin(
            "cn",
            "topology",
            "models.heuristic",
            "CommonNeighbours",
            "common neighbours",
        ),
        _builtin("aa", "topology", "models.heuristic", "AdamicAdar", "Adamic-Adar"),
        _builtin(
            "ra",
            "topology",
            "models.heuristic",
            "ResourceAllocation",
            "resource allocation",
        ),
        _builtin(
            "pa",
            "topology",
            "models.heuristic",
            "PreferentialAttachment",
            "preferential attachment: product of degrees",
        ),
        _builtin(
            "ac",
            "topology",
            "models.heuristic",
            "Autocovariance",
            "autocovariance of random walks",
        ),
        _builtin(
            "cos",
            "attributes",
            "models.heuristic",
            "Cosine",
            "cosine similarity of attributes",
        ),
        _builtin(
            "cos+ac",
            "both",
            "models.two_stage",
            "CosineAutocovariance",
            "autocovariance on edges and attribute-similar pairs",
        ),
        _builtin(
            "mlp",
            "trained",
            "models.mlp",
            "MLP",
            "pair MLP on attributes alone, trained for link prediction",
        ),
        _builtin(
            "mlp+ac",
            "trained",
            "models.two_stage",
            "MLPAutocovariance",
            "autocovariance on edges weighed by a separately trained MLP",
        ),
        _builtin(
            "mlp+cos+ac",
            "trained",
            "models.two_stage",
            "MLPCosineAutocovariance",
            "autocovariance on edges and similar pairs, weighed by an MLP and cosine",
        ),
        _builtin(
            "gelato",
            "trained",
            "models.gelato",
            "Gelato",
            "graph enhanced by a learned MLP, ranked by autocovariance",
        ),
        _builtin(
            "gae",
            "gnn",
            "baselines.gae",
            "GAE",
            "graph auto-encoder: graph convolutions, inner products",
        ),
        _builtin(
            "hgcn",
            "gnn",
            "baselines.hgcn",
            "HGCN",
            "hyperbolic graph convolutions on the Poincare ball",
        ),
        _builtin(
            "lgcn",
            "gnn",
            "baselines.lgcn",
            "LGCN",
            "Lorentzian graph convolutions on the hyperboloid",
        ),
        _builtin(
            "tlc-gnn",
            "gnn",
            "baselines.tlc_gnn.model",
            "TLCGNN",
            "graph convolutions and persistence images of loops around a pair",
        ),
        _builtin(
            "bscnets",
            "gnn",
            "baselines.bscnets",
            "BScNets",
            "graph convolutions and block Hodge Laplacians of sampled edges",
        ),
        _builtin(
            "neo-gnn",
            "gnn",
            "baselines.neo_gnn.model",
            "NeoGNN",
            "learned neighbourhood overlaps and graph convolutions",
        ),
        _builtin(
            "nbfnet",
            "gnn",
            "baselines.nbfnet.model",
            "NBFNet",
            "encodings of all paths by a learned Bellman-Ford recursion",
        ),
        _builtin(
            "seal",
            "gnn",
            "baselines.seal.model",
            "SEAL",
            "graph classifier on the labelled subgraph of each pair",
        ),
        _builtin(
            "walkpool",
            "gnn",
            "baselines.walkpool.model",
            "WalkPool",
            "learned walks on the subgraph of each pair, with and without its edge",
        ),
    )
}


def model_names() -> list[str]:
    """Return the registered names, in the order of registration."""
    return list(_REGISTRY)


def entries() -> list[Entry]:
    """Return the registered models."""
    return list(_REGISTRY.values())


def model_class(name: str) -> Callable[..., Any]:
    """Return the class of a registered name, or suggest near names."""
    entry = _REGISTRY.get(name)
    if entry is None:
        near = difflib.get_close_matches(name, _REGISTRY, n=2, cutoff=0.5)
        meant = f" Did you mean {' or '.join(near)}?" if near else ""
        raise UnknownNameError(
            f"There is no model called {name!r}.{meant}",
            hint=f"Models: {', '.join(_REGISTRY)}.",
        )
    return entry.load()


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
    except TypeError as error:
        known = parameter_names(factory)
        unknown = [key for key in parameters if key not in known]
        if not unknown:
            raise
        raise UsageError(
            f"The model {name!r} has no parameter {unknown[0]!r}.",
            hint=f"Its parameters are: {', '.join(known) or 'none'}.",
        ) from error


def parameter_names(factory: Callable[..., Any]) -> list[str]:
    """Return the names of the parameters that a model takes."""
    defaults = getattr(factory, "parameter_defaults", None)
    return list(
        inspect.signature(factory).parameters if defaults is None else defaults()
    )


def register(name: str, *, summary: str = "") -> Callable[[Registered], Registered]:
    """Add a model of one's own under a name (a class decorator).

    Anything that has ``score_rows(rows) -> (len(rows), n)`` or ``scorer(graph)``
    joins in.
    """
    if name in _REGISTRY:
        raise UsageError(
            f"A model called {name!r} is registered already.", hint="Take another name."
        )

    def add(factory: Registered) -> Registered:
        text = summary or (factory.__doc__ or "").strip().partition("\n")[0]
        _REGISTRY[name] = Entry(name, text, "own", factory=factory)
        return factory

    return add


def unregister(name: str) -> None:
    """Take a registered name away again."""
    _REGISTRY.pop(name, None)


def load(folder: str | os.PathLike[str]) -> Any:
    """Return the model that a run folder holds, ready to score.

    Parameters
    ----------
    folder : path
        Written by ``model.save(folder)`` or ``gelato fit``.
    """
    return restore(read_run(folder), folder)


def restore(run: Run, folder: str | os.PathLike[str]) -> Any:
    """Return the model of a run that was read from a folder."""
    try:
        model = make(run.model, **run.parameters)
        model.check_parameters()
    except GelatoError as error:
        raise StoredFileError(
            f"{folder} holds a model that this version cannot make: {error.problem}",
            hint=error.hint or "Install the version of gelato that wrote it.",
        ) from error
    model.graph_, model.split_ = run.graph, run.split
    model.validation_counts_ = run.validation
    model._restore(run)
    return model
