"""Link prediction without graph neural networks.

Which links are missing from a graph, and how good is the guess? Every predictor
here is measured by ranking each true link against every non-link.

Public names load when first used, so that ``import gelato`` is instant.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from gelato.version import __version__

if TYPE_CHECKING:
    from gelato.choosing import choose_model
    from gelato.comparison import compare, summarise_comparison
    from gelato.datasets import (
        list_datasets,
        load_dataset,
        make_graph,
        make_synthetic_graph,
    )
    from gelato.engines import make_engine, use_engine, use_threads
    from gelato.errors import GelatoError
    from gelato.graph import Graph
    from gelato.io import read_graph
    from gelato.models import make, model_names, register
    from gelato.models.gelato import Gelato
    from gelato.models.registry import load
    from gelato.ranking import Evaluation, evaluate
    from gelato.ranking.example import worked_example
    from gelato.report.figures import plot_comparison
    from gelato.splits import (
        EdgeSplit,
        split_by_time,
        split_edges,
        split_given,
        split_rolling,
    )
    from gelato.stacking.features import pair_features
    from gelato.tuning import tune

_PUBLIC = {
    "EdgeSplit": "gelato.splits",
    "Evaluation": "gelato.ranking",
    "GelatoError": "gelato.errors",
    "Gelato": "gelato.models.gelato",
    "Graph": "gelato.graph",
    "choose_model": "gelato.choosing",
    "compare": "gelato.comparison",
    "evaluate": "gelato.ranking",
    "list_datasets": "gelato.datasets",
    "load": "gelato.models.registry",
    "load_dataset": "gelato.datasets",
    "make": "gelato.models",
    "make_engine": "gelato.engines",
    "make_graph": "gelato.datasets",
    "make_synthetic_graph": "gelato.datasets",
    "model_names": "gelato.models",
    "pair_features": "gelato.stacking.features",
    "plot_comparison": "gelato.report.figures",
    "read_graph": "gelato.io",
    "register": "gelato.models",
    "split_by_time": "gelato.splits",
    "split_edges": "gelato.splits",
    "split_given": "gelato.splits",
    "split_rolling": "gelato.splits",
    "summarise_comparison": "gelato.comparison",
    "tune": "gelato.tuning",
    "use_engine": "gelato.engines",
    "use_threads": "gelato.engines",
    "worked_example": "gelato.ranking.example",
}

__all__ = [
    "EdgeSplit",
    "Evaluation",
    "Gelato",
    "GelatoError",
    "Graph",
    "__version__",
    "choose_model",
    "compare",
    "evaluate",
    "list_datasets",
    "load",
    "load_dataset",
    "make",
    "make_engine",
    "make_graph",
    "make_synthetic_graph",
    "model_names",
    "pair_features",
    "plot_comparison",
    "read_graph",
    "register",
    "split_by_time",
    "split_edges",
    "split_given",
    "split_rolling",
    "summarise_comparison",
    "tune",
    "use_engine",
    "use_threads",
    "worked_example",
]


def __getattr__(name: str) -> Any:
    if name == "metrics":
        return importlib.import_module("gelato.ranking.metrics")
    if name in _PUBLIC:
        return getattr(importlib.import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'gelato' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])
