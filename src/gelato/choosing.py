"""Choose a model for a graph by its validation edges, within a stated time.

Simple ones first: plain heuristics, then the untrained models that use attributes,
then Gelato with a few settings. A less simple model must beat the simpler ones by more
than the standard error of the difference, so that few validation edges do not decide
for noise. Test edges are never looked at.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import polars as pl

from gelato.errors import InputError, UsageError
from gelato.ranking.resampling import paired_gain
from gelato.splits import EdgeSplit
from gelato.trials import Progress, Trials, Tried

SECONDS = 120.0
QUICK_SECONDS = 10.0


@dataclass(frozen=True, eq=False)
class Choice:
    """The model that was chosen, and what it was chosen from.

    Parameters
    ----------
    model : Model
        Fitted on the split.
    name : str
        Its registered name.
    reason : str
        One line for people.
    candidates : polars.DataFrame
        One row per candidate, in the order of trial: ``model``, ``parameters``,
        ``kind`` ("plain", "attributes" or "trained"), validation values ``ap``,
        ``prec@100%`` and ``auc``, ``mean_ap`` (over the validation edges and, in small
        graphs, training edges held out in turn), ``epochs``, ``seconds``, ``why_not``
        (null if it ran) and ``chosen``.
    seconds : float
        Time taken.
    budget : float
        Time allowed.
    seed : int
        Seed of trainings and resamples.
    """

    model: Any
    name: str
    reason: str
    candidates: pl.DataFrame
    seconds: float
    budget: float
    seed: int

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON: everything but the model itself."""
        return {
            "model": self.name,
            "parameters": self.model.get_params(),
            "reason": self.reason,
            "seconds": self.seconds,
            "budget": self.budget,
            "seed": self.seed,
            "candidates": self.candidates.to_dicts(),
        }


def choose_model(
    split: EdgeSplit,
    *,
    seconds: float = SECONDS,
    seed: int = 0,
    train: bool = True,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Choice:
    """Return the model that ranks the validation edges best, unless by chance.

    Plain heuristics compete first, then attribute-based models that learn nothing,
    then Gelato with a few settings, each stopped early or by the clock. The best of a
    later group replaces the best so far only if its average precision is larger by
    more than the bootstrap standard error of the paired difference. Without useful
    attributes the choice is therefore a plain heuristic. Where there are few validation
    edges in a small graph, untrained models also rank training edges held out in turn.

    Parameters
    ----------
    split : EdgeSplit
        Its training edges are walked on, its validation edges ranked among all pairs;
        its test edges are not used.
    seconds : float
        Time budget, from when the kernels are compiled. The first heuristic runs in
        any case; what else ran is in the result.
    seed : int
        Decides trainings and resamples. With the same seed the same candidates give
        the same numbers; how many epochs fit into the time may differ.
    train : bool
        Whether Gelato competes; if not, only models that learn nothing do.
    threads : int, optional
        Threads of the kernels; results do not depend on it.
    progress : callable, optional
        Told (what is tried, seconds gone, seconds in all).

    Examples
    --------
    >>> from gelato import load_dataset, split_edges
    >>> split = split_edges(load_dataset("citeseer"))
    >>> choose_model(split, seconds=60).name  # doctest: +SKIP
    'gelato'
    """
    if not seconds > 0:
        raise UsageError(f"The time budget is {seconds} s, but must be positive.")
    trials = Trials(
        split, seconds=seconds, seed=seed, threads=threads, progress=progress
    )
    tried = trials.run(train=train)
    known = bool(split.graph.num_attributes)
    best, reason = _select(tried, seed, has_attributes=known)
    rows = [{**entry.to_dict(), "chosen": entry is best} for entry in tried]
    table = pl.DataFrame(
        rows,
        schema_overrides={"epochs": pl.Int64, "why_not": pl.String},
        infer_schema_length=None,
    )
    return Choice(
        best.model, best.name, reason, table, trials.elapsed, float(seconds), seed
    )


def _select(
    tried: list[Tried], seed: int, *, has_attributes: bool
) -> tuple[Tried, str]:
    """Return the best candidate, simple ones preferred, and the reason."""
    groups: list[Tried] = []
    for kind in ("plain", "attributes", "trained"):
        ran = [x for x in tried if x.kind == kind and x.ranked is not None]
        if ran:
            groups.append(max(ran, key=lambda x: x.mean_ap))
    if not groups:
        raise InputError(
            f"No model suits this graph: {tried[0].why_not}",
            hint="See what was read with: gelato check",
        )
    best = groups[0]
    losers: list[Tried] = []
    for rival in groups[1:]:
        gain, error = _gain(rival, best, seed)
        if gain > error:
            best, losers = rival, []
        else:
            losers.append(rival)
    lost = _lost(max(losers, key=lambda x: x.ap), best, seed) if losers else ""
    return best, _reason(best, groups[0], lost, seed, has_attributes=has_attributes)


def _lost(rival: Tried, best: Tried, seed: int) -> str:
    """Say why the best of the others was not taken."""
    gain, error = _gain(rival, best, seed)
    if gain > 0:
        return f"; {rival.label} gains {_points(gain, error)}, too little to trust"
    return f"; {rival.label} has {_percent(_measured(rival, best))}"


def _reason(
    best: Tried, plain: Tried, lost: str, seed: int, *, has_attributes: bool
) -> str:
    parts = len(best.folds) if best.folds and plain.folds else 0
    among = f", mean of {parts + 1} held-out parts" if parts else ""
    said = f"{best.label}: validation AP {_percent(_measured(best, plain))}{among}"
    if best is not plain:
        gain, error = _gain(best, plain, seed)
        said += f", {_points(gain, error)} over {plain.label}"
        return f"{said}, the best plain heuristic{lost}"
    if not has_attributes:
        return f"{said}, the best heuristic; the graph has no attributes to learn from"
    return f"{said}, the best plain heuristic{lost}"


def _gain(one: Tried, other: Tried, seed: int) -> tuple[float, float]:
    """Return a gain and its error, over all folds that both have."""
    assert one.ranked is not None
    assert other.ranked is not None
    pairs = [(one.ranked, other.ranked)]
    if one.folds and other.folds:
        pairs += zip(one.folds, other.folds, strict=True)
    gains = [paired_gain(a, b, seed=seed) for a, b in pairs]
    error = math.hypot(*(error for _, error in gains)) / len(gains)
    return sum(gain for gain, _ in gains) / len(gains), error


def _measured(one: Tried, other: Tried) -> float:
    """Return the value that the two are compared by."""
    return one.mean_ap if one.folds and other.folds else one.ap


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def _points(gain: float, error: float) -> str:
    return f"{100 * gain:+.2f} ± {100 * error:.2f} points"
