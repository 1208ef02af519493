"""Tables of ranking quality, in percent; biased and estimated numbers say so."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.text import Text

from gelato.cli import numbers
from gelato.cli.screen import make_table, shortened

if TYPE_CHECKING:
    from gelato.ranking import Estimate, Evaluation

BIASED = "BIASED"
ESTIMATE = "ESTIMATE"
PROTOCOLS = {"all": ("all",), "sampled": ("sampled",), "both": ("all", "sampled")}
_RATIOS = (0.1, 0.5, 1.0)
_KS = (25, 100, 400, 1600, 6400)
# Beside AP with its interval and difference; fewer where names are long.
_BESIDE = ("prec@100%", "hits@100", "auc", "time")
_FEWER = ("prec@100%", "auc")
_TITLES = {"ap": "AP", "mrr": "MRR", "auc": "AUC"}


def evaluation_table(results: Sequence[Evaluation], *, restricted: bool = False) -> Any:
    """Return metrics as rows; a result and a random order beside it as columns.

    With ``restricted``, not all pairs were candidates, and the title says so.
    """
    exact = "all candidates" if restricted else "all pairs"
    columns = ["in percent"]
    for result in results:
        columns += [_title(result, exact)]
        columns += ["95 % interval"] if result.estimated else []
        columns += ["random order"]
    cells = [_metric_rows(result) for result in results]
    table = make_table(*columns)
    for line in zip(*cells, strict=True):
        row = [Text(line[0][0])]
        for result, (_, value, limits, chance) in zip(results, line, strict=True):
            style = "dim" if result.biased else "bold"
            row += [Text(value, style=style)]
            row += [Text(limits)] if result.estimated else []
            row += [Text(chance, style="dim")]
        table.add_row(*row)
    return table


def _title(result: Evaluation, exact: str) -> str:
    if result.estimate is not None:
        return f"{ESTIMATE}, rate {result.estimate.rate:g}"
    return f"{BIASED}, sampled" if result.biased else exact


def estimate_text(estimate: Estimate) -> str:
    """Say what an estimate rests on."""
    return (
        f"the positives and {numbers.plural(estimate.near_pairs, 'near pair')} (at "
        "most two edges apart) were scored exactly, and a random sample of "
        f"{estimate.sampled_pairs:,} of the other {estimate.far_pairs:,} pairs. The "
        "intervals hold the exact values with 95 % confidence."
    )


def _metric_rows(result: Evaluation) -> list[tuple[str, str, str, str]]:
    """Return name, value, interval and the expected value of a random order."""
    chance = numbers.percent(result.random_ap)
    negatives = result.counts.num_negatives
    expected = {
        "mrr": numbers.percent(random_mrr(negatives)),
        "auc": "50.00",
        **{f"hits@{k}": numbers.percent(random_hits(negatives, k)) for k in _KS},
    }
    values = {
        "ap": result.ap,
        **{f"prec@{ratio:.0%}": result.precision_at(ratio) for ratio in _RATIOS},
        **{f"hits@{k}": result.hits_at(k) for k in _KS},
        "mrr": result.mrr,
        "auc": result.auc,
    }
    rows = [
        (
            _TITLES.get(name, name),
            numbers.percent(value),
            _interval(result, name),
            expected.get(name, chance),
        )
        for name, value in values.items()
    ]
    # Of negatives that were not scored some may tie, too.
    least = "at least " if result.estimated else ""
    tied = f"{least}{numbers.percent(result.tied_share)}"
    return [*rows, ("positives tied", tied, "", "")]


def _interval(result: Evaluation, name: str) -> str:
    if not result.estimated:
        return ""
    low, high = (numbers.percent(limit) for limit in result.interval(name))
    return low if low == high else f"{low} to {high}"


def random_hits(negatives: int, k: int) -> float:
    """Return the chance that fewer than k negatives stand above a positive."""
    return min(1.0, k / (negatives + 1))


def random_mrr(negatives: int) -> float:
    """Return the mean of 1 / rank over ranks 1 to negatives + 1."""
    ranks = negatives + 1
    if ranks < 1000:
        return math.fsum(1 / rank for rank in range(1, ranks + 1)) / ranks
    euler = 0.5772156649015329
    return (math.log(ranks) + euler + 0.5 / ranks) / ranks


def comparison_table(
    entries: Sequence[Mapping[str, Any]], *, narrow: bool = False
) -> Any:
    """Return the ranking table: exact rows, a random order, biased rows in grey.

    Parameters
    ----------
    entries : sequence
        Of :func:`gelato.comparison.summary.rank_models`.
    narrow : bool
        Leave out what is least missed.
    """
    beside = _FEWER if narrow else _BESIDE
    reference = next((e["against"] for e in entries if _is_compared(e)), None)
    paired = [] if reference is None else [f"against {shortened(reference)}"]
    titles = [_TITLES.get(name, name) for name in beside]
    table = make_table("in percent", "AP", *paired, *titles)
    for biased in (False, True):
        part = [entry for entry in entries if entry["biased"] == biased]
        for place, entry in enumerate(part):
            table.add_row(*_comparison_row(entry, paired, beside, best=place == 0))
        if part:
            chance = numbers.percent(statistics.fmean(e["random_ap"] for e in part))
            label = f"random, {BIASED}" if biased else "random order"
            expected = {"prec@100%": chance, "auc": "50.00"}
            row = [label, chance, *("" for _ in paired)]
            row += [expected.get(name, "") for name in beside]
            table.add_row(*(Text(cell, style="dim") for cell in row), end_section=True)
    return table


def _is_compared(entry: Mapping[str, Any]) -> bool:
    return entry["difference"]["ap"] is not None


def _comparison_row(
    entry: Mapping[str, Any],
    paired: Sequence[str],
    beside: Sequence[str],
    *,
    best: bool,
) -> list[Text]:
    name = shortened(entry["model"])
    if entry["biased"]:
        name, style = f"{name}, {BIASED}", "dim"
    else:
        style = "bold" if best else ""
    mean, limits = entry["mean"], entry["interval"]["ap"]
    margin = None if limits is None else limits["high"] - mean["ap"]
    cells = [name, numbers.percent_margin(mean["ap"], margin)]
    if paired:
        cells.append(difference_text(entry["difference"]["ap"]))
    spent = {"time": numbers.duration(entry["seconds"])}
    cells += [spent.get(key) or numbers.percent(mean[key]) for key in beside]
    return [Text(cell, style=style) for cell in cells]


def difference_text(found: Mapping[str, Any] | None) -> str:
    """Return a paired difference with its interval, or nothing."""
    if found is None:
        return ""
    margin = None if found["high"] is None else found["high"] - found["value"]
    return numbers.percent_difference(found["value"], margin)
