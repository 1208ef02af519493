"""The networks' settings by dataset, as their authors give them."""

from __future__ import annotations

from typing import Any

# Where a network's authors give nothing for a graph, their cora settings are used,
# which are the classes' defaults; for NBFNet those of pubmed, since photo and computers
# are large too. LGCN has one published command, for pubmed, which is the class's
# default. GAE has the same settings everywhere.
PRESETS: dict[str, dict[str, dict[str, Any]]] = {
    "gae": {},
    "hgcn": {
        "pubmed": {
            "dropout": 0.4,
            "weight_decay": 1e-4,
            "trainable_curvature": False,
        }
    },
    "lgcn": {},
    "bscnets": {
        "citeseer": {"normalise": False},
        "pubmed": {
            "normalise": False,
            "hidden": 128,
            "simplex_units": 64,
            "simplex_dimensions": 32,
            "sampled_edges": 1500,
            "epochs": 5000,
            "patience": 300,
        },
        "photo": {"normalise": False},
        "computers": {"normalise": False},
    },
    "tlc-gnn": {
        "citeseer": {"normalise": False},
        "pubmed": {"normalise": False, "hops": 2},
        "photo": {"normalise": False},
        "computers": {"normalise": False},
    },
    "neo-gnn": {},
    "nbfnet": {
        "pubmed": {"batch_size": 16, "epochs": 10, "validate_exact_every": None},
        "photo": {"batch_size": 16, "epochs": 10, "validate_exact_every": None},
        "computers": {"batch_size": 16, "epochs": 10, "validate_exact_every": None},
    },
    "seal": {
        "cora": {"hops": 3, "hidden": 256, "features": "attributes"},
        "citeseer": {"hops": 3, "hidden": 256},
        "pubmed": {"hops": 3, "features": "attributes"},
    },
    "walkpool": {},
}
_DATASETS = ("cora", "citeseer", "pubmed", "photo", "computers")


def gnn_preset(model: str, dataset: str) -> dict[str, Any] | None:
    """Return a network's parameters for a benchmark graph that differ from defaults.

    None for a model or a graph that nothing is known about.
    """
    if model not in PRESETS or dataset not in _DATASETS:
        return None
    return dict(PRESETS[model].get(dataset, {}))
