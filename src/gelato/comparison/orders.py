"""How the order of models changes with the protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scipy.stats import kendalltau, rankdata

MEASURES = {"degree-corrected": "auc", "heart": "mrr", "given": "mrr"}
"""What the field reports under a protocol, where that is not average precision."""


def protocol_orders(entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the places of models under each protocol, best 1, equal ones shared.

    Under each protocol models are ordered by what the field reports there: AP, AUC
    where negatives are degree-corrected, MRR where each positive has its own.

    Parameters
    ----------
    entries : sequence
        Of :func:`gelato.comparison.summary.rank_models`.

    Returns
    -------
    dict
        ``models`` in the order of the first protocol; by protocol ``measure``,
        ``places`` by model, and ``kendall_tau``: the rank correlation with the first.
    """
    protocols: dict[str, Any] = {}
    first: list[str] = []
    for name in dict.fromkeys(entry["protocol"] for entry in entries):
        part = [entry for entry in entries if entry["protocol"] == name]
        measure = MEASURES.get(name, "ap")
        values = {entry["model"]: entry["mean"][measure] for entry in part}
        first = first or sorted(values, key=lambda model: -values[model])
        ranked = rankdata([-values[model] for model in values]).tolist()
        protocols[name] = {
            "measure": measure,
            "values": values,
            "places": dict(zip(values, ranked, strict=True)),
        }
    models = [m for m in first if all(m in p["places"] for p in protocols.values())]
    known: list[float] = []
    for one in protocols.values():
        own = [one["places"][model] for model in models]
        one["kendall_tau"] = None if not known else _tau(known, own)
        known = known or own
    return {"models": models, "protocols": protocols}


def _tau(one: list[float], other: list[float]) -> float | None:
    if len(one) < 2 or len({*one}) < 2 or len({*other}) < 2:
        return None
    return float(kendalltau(one, other).statistic)
