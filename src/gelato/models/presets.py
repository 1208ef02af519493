"""Gelato's hyper-parameters as the paper selected them, by dataset."""

from __future__ import annotations

import difflib
from typing import Any

from gelato.errors import UnknownNameError

# The last column of the paper's table is one setting for three graphs: no similarity
# pairs, weights learned completely. Chunks of batch normalisation are the published
# code's (protocol: "BatchNorm sees the edges in chunks").
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


def preset(name: str) -> dict[str, Any]:
    """Return the parameters of a preset, or suggest near names."""
    if name not in PRESETS:
        near = difflib.get_close_matches(name, PRESETS, n=1)
        meant = f" Did you mean {near[0]}?" if near else ""
        raise UnknownNameError(
            f"There is no preset called {name!r}.{meant}",
            hint=f"Presets: {', '.join(PRESETS)}.",
        )
    return dict(PRESETS[name])
