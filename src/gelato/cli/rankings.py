"""Tables of ranking quality, in percent, the biased protocol always labelled."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.text import Text

from gelato.cli import numbers
from gelato.cli.screen import make_table, shortened

if TYPE_CHECKING:
    import polars as pl

    from gelato.ranking import Evaluation

BIASED = "BIASED"
PROTOCOLS = {"all": ("all",), "sampled": ("sampled",), "both": ("all", "sampled")}
_RATIOS = (0.1, 0.5, 1.0)
_KS = (25, 100, 400, 1600, 6400)
_COMPARED = ("ap", "prec@100%", "hits@100", "mrr", "auc")
# Spreads take room: what is shown beside them still fits into 80 columns.
_COMPARED_WITH_SPREAD = ("ap", "prec@100%", "hits@100", "auc")
_TITLES = {"ap": "AP", "mrr": "MRR", "auc": "AUC"}


def evaluation_table(results: Sequence[Evaluation], *, restricted: bool = False) -> Any:
    """Return metrics as rows; a result and a random order beside it as columns.

    With ``restricted``, not all pairs were candidates, and the title says so.
    """
    exact = "all candidates" if restricted else "all pairs"
    columns = ["in percent"]
    for result in results:
        columns += [
            f"{BIASED}, sampled" if result.biased else exact,
            "random order",
        ]
    cells = [_metric_rows(result) for result in results]
    table = make_table(*columns)
    for line in zip(*cells, strict=True):
        row = [Text(line[0][0])]
        for result, (_, value, chance) in zip(results, line, strict=True):
            style = "dim" if result.biased else "bold"
            row += [Text(value, style=style), Text(chance, style="dim")]
        table.add_row(*row)
    return table


def _metric_rows(result: Evaluation) -> list[tuple[str, str, str]]:
    """Return name, value and the expected value of a random order."""
    chance = numbers.percent(result.random_ap)
    negatives = result.counts.num_negatives
    percent = numbers.percent
    return [
        ("AP", percent(result.ap), chance),
        *(
            (f"prec@{ratio:.0%}", percent(result.precision_at(ratio)), chance)
            for ratio in _RATIOS
        ),
        *(
            (
                f"hits@{k}",
                percent(result.hits_at(k)),
                percent(random_hits(negatives, k)),
            )
            for k in _KS
        ),
        ("MRR", percent(result.mrr), percent(random_mrr(negatives))),
        ("AUC", percent(result.auc), "50.00"),
        ("positives tied", percent(result.tied_share), ""),
    ]


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


def comparison_summary(table: pl.DataFrame) -> list[dict[str, Any]]:
    """Return one entry per model and protocol: its values over splits and seeds.

    Best mean AP first; biased entries after all others.
    """
    entries: list[dict[str, Any]] = []
    groups = table.group_by("model", "protocol", maintain_order=True)
    for (model, protocol), part in groups:
        values = {name: part[name].to_list() for name in _COMPARED}
        seconds = part["fit_seconds"] + part["evaluate_seconds"]
        entries.append(
            {
                "model": model,
                "protocol": protocol,
                "biased": protocol == "sampled",
                "runs": part.height,
                "mean": {name: part[name].mean() for name in _COMPARED},
                "sd": {name: part[name].std() for name in _COMPARED},
                "random_ap": part["random_ap"].mean(),
                "seconds": seconds.mean(),
                "values": values,
            }
        )
    return sorted(entries, key=lambda entry: (entry["biased"], -entry["mean"]["ap"]))


def comparison_table(summary: Sequence[dict[str, Any]]) -> Any:
    """Return the ranking table: exact rows, a random order, biased rows in grey."""
    spread = any(entry["runs"] > 1 for entry in summary)
    shown = _COMPARED_WITH_SPREAD if spread else _COMPARED
    titles = [_TITLES.get(name, name) for name in shown]
    table = make_table("in percent", *titles, *(() if spread else ("time",)))
    for biased in (False, True):
        entries = [entry for entry in summary if entry["biased"] == biased]
        for place, entry in enumerate(entries):
            table.add_row(*_comparison_row(entry, shown, best=place == 0))
        if entries:
            chance = numbers.percent(entries[0]["random_ap"])
            expected = {"ap": chance, "prec@100%": chance, "auc": "50.00"}
            label = f"random order{', ' + BIASED if biased else ''}"
            row = [label, *(expected.get(name, "") for name in shown)]
            table.add_row(*(Text(cell, style="dim") for cell in row), end_section=True)
    return table


def _comparison_row(
    entry: dict[str, Any], shown: Sequence[str], *, best: bool
) -> list[Text]:
    name = shortened(entry["model"])
    if entry["biased"]:
        name, style = f"{name}, {BIASED}", "dim"
    else:
        style = "bold" if best else ""
    cells = [name]
    cells += [numbers.percent_spread(entry["values"][key]) for key in shown]
    if shown is _COMPARED:
        cells.append(numbers.duration(entry["seconds"]))
    return [Text(cell, style=style) for cell in cells]
