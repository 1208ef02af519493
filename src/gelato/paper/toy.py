"""Every experiment at toy size: the same code paths in minutes, and no result.

Toy runs are labelled, use a small part of the embedded graph, and live in a folder of
their own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gelato.paper.experiment import Experiment, Row, gelato_title
from gelato.paper.runner import TOY, paper_preset

LABEL = "toy"
TIME_SECONDS = 0.2
"""What timing gives to the steps of one training."""
_MOST_BATCHES = 10
_KEPT = ("loss", "training", "bias", "redraw")  # of a row's own parameters
_ETAS, _ALPHAS, _BETAS = (0.0, 0.75), (0.0, 0.5), (0.5, 1.0)
# Of networks that work pair by pair, also where a step is a share of all negatives.
_SMALL_STEPS = {"steps": 2, "batches": 400}
# Few epochs, and for methods whose passes over all pairs are slow the fewest.
_SHORT: dict[str, dict[str, Any]] = {
    "gelato": {"epochs": 2},
    "gelato2": {"epochs": 1, "hidden": 16},
    "mlp": {"epochs": 1, "hidden": 16},
    "mlp+ac": {"epochs": 1, "hidden": 16},
    "mlp+cos+ac": {"epochs": 1, "hidden": 16},
    "stack": {"folds": 1, "rounds": 20, "gate": False},
    "gae": {"epochs": 3},
    "hgcn": {"epochs": 3},
    "lgcn": {"epochs": 3, "dimensions": 8},
    "tlc-gnn": {"epochs": 3},
    "bscnets": {"epochs": 2, "sampled_edges": 300, "pair_units": 8},
    "neo-gnn": {"epochs": 1, "hidden": 16, "pair_units": 8},
    "ncn": {"epochs": 1, "hidden": 16},
    "refined-gae": {"epochs": 1, "hidden": 16},
    "nbfnet": {"epochs": 1, "dimensions": 8, "layers": 3, **_SMALL_STEPS},
    "seal": {"epochs": 1, "hidden": 8, "hops": 1, **_SMALL_STEPS},
    "walkpool": {"epochs": 1, "hidden": 8, "hops": 1, "units": 16, **_SMALL_STEPS}
    | {"pretraining": 1, "dimensions": 8},
}

# What scores pair by pair is ranked by an estimate: all pairs take too long for a toy.
_RATES = {"seal": 0.001, "walkpool": 0.001}


def toy_experiment(experiment: Experiment) -> Experiment:
    """Return an experiment at toy size: one graph, one seed, few epochs.

    Rows that are only known from the paper stay without runs. Published numbers are
    left out: a toy must not be compared with them.
    """
    if experiment.name == "sensitivity":
        return replace(_unsaid(experiment), rows=_toy_grid())
    rows: dict[str, Row] = {}
    for row in sorted(experiment.rows, key=lambda row: row.dataset != "citeseer"):
        short = toy_row(row)
        kept = rows.get(row.name)
        if kept is None or (not kept.seeds and short.seeds):
            rows[row.name] = short
    names = dict.fromkeys(row.name for row in experiment.rows)
    return replace(_unsaid(experiment), rows=tuple(rows[name] for name in names))


def _unsaid(experiment: Experiment) -> Experiment:
    """Return an experiment without what is said of its real numbers."""
    return replace(experiment, remarks=(), findings=())


def toy_row(row: Row) -> Row:
    """Return a row at toy size, on the toy."""
    own = {k: v for k, v in row.parameters.items() if k in _KEPT}
    parameters = paper_preset(TOY, row.method) | own
    if "batches" in row.parameters:
        parameters["batches"] = min(row.parameters["batches"], _MOST_BATCHES)
    parameters |= _SHORT.get(row.method, {})
    if own.get("training") == "unbiased":  # a pass over all pairs
        parameters["epochs"] = 1
    return replace(
        row,
        dataset=TOY,
        parameters=parameters,
        seeds=row.seeds[:1],
        splits=row.splits[:1],
        published={},
        label=LABEL,
        mark="",
        estimate=_RATES.get(row.method),
        missing="",
    )


def _toy_grid() -> tuple[Row, ...]:
    """Return a line of eta and a grid of alpha and beta, as small as can be."""
    chosen = paper_preset(TOY)
    combinations = [{"eta": eta} for eta in _ETAS]
    combinations += [{"alpha": a, "beta": b} for a in _ALPHAS for b in _BETAS]
    rows = {}
    for changed in combinations:
        parameters = chosen | changed | _SHORT["gelato"]
        title = gelato_title("gelato", parameters)
        rows[title] = Row("gelato", TOY, parameters, (1,), {}, LABEL, title)
    return tuple(rows.values())
