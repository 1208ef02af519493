"""The models' parameters on the paper's graphs, by dataset."""

from __future__ import annotations

import difflib
from typing import Any

from gelato.baselines.presets import PRESETS as GNN_PRESETS
from gelato.baselines.presets import gnn_preset
from gelato.errors import UnknownNameError

# Gelato's, as the paper selected them. The last column of the paper's table is one
# setting for three graphs: no similarity pairs, weights learned completely. Chunks
# of batch normalisation are the published code's ("BatchNorm sees the edges in
# chunks" in the protocol).
PRESETS: dict[str, dict[str, Any]] = {
    "cora": {
        "eta": 0.5,
        "alpha": 0.5,
        "beta": 0.25,
        "self_loops": "all",
        "epochs": 100,
        "chunk": 50_000,
    },
    "citeseer": {
        "eta": 0.75,
        "alpha": 0.5,
        "beta": 0.5,
        "self_loops": "all",
        "epochs": 100,
        "chunk": 20_000,
    },
    "pubmed": {"eta": 0.0, "alpha": 0.0, "beta": 1.0, "epochs": 100, "chunk": 100_000},
    "photo": {"eta": 0.0, "alpha": 0.0, "beta": 1.0, "epochs": 250, "chunk": 20_000},
    "computers": {
        "eta": 0.0,
        "alpha": 0.0,
        "beta": 1.0,
        "epochs": 250,
        "chunk": 75_000,
    },
}


# What other models take over from Gelato's settings on the same graph.
_STAGE = ("epochs", "chunk")
_SHARED: dict[str, tuple[str, ...]] = {
    "mlp": _STAGE,
    "mlp+ac": ("self_loops", *_STAGE),
    "mlp+cos+ac": ("self_loops", *_STAGE),
    "cos+ac": ("self_loops",),
}


def preset(name: str, model: str = "gelato") -> dict[str, Any]:
    """Return the parameters of a model on one of the paper's graphs.

    Only what differs from the model's defaults need be there: a model without
    parameters of its own for the graph gives an empty dictionary.

    Parameters
    ----------
    name : str
        A graph of the paper; near names are suggested for an unknown one.
    model : str
        Registered name.
    """
    if name not in PRESETS:
        near = difflib.get_close_matches(name, PRESETS, n=1)
        meant = f" Did you mean {near[0]}?" if near else ""
        raise UnknownNameError(
            f"There is no preset called {name!r}.{meant}",
            hint=f"Presets: {', '.join(PRESETS)}.",
        )
    if model == "gelato":
        return dict(PRESETS[name])
    shared = _SHARED.get(model, ())
    own = {key: PRESETS[name][key] for key in shared if key in PRESETS[name]}
    return own | (gnn_preset(model, name) or {})


def has_presets(model: str) -> bool:
    """Tell whether a model has parameters of its own for the paper's graphs."""
    return model == "gelato" or model in _SHARED or model in GNN_PRESETS
