"""Values that can select an epoch, by name, from two counts per positive."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import partial

from gelato.errors import UnknownNameError
from gelato.ranking import RankCounts, metrics

Metric = Callable[[RankCounts], float]

_NAMED: dict[str, Metric] = {
    "ap": metrics.average_precision,
    "auc": metrics.area_under_roc,
    "mrr": metrics.mean_reciprocal_rank,
}
REPORTED = ("prec@100%", *_NAMED)
"""What every validation reports."""


def validation_metric(name: str) -> Metric:
    """Return a metric by name: ap, auc, mrr, prec@R% or hits@K; larger is better.

    Examples
    --------
    >>> validation_metric("prec@50%").keywords
    {'ratio': 0.5}
    """
    if name in _NAMED:
        return _NAMED[name]
    precision = re.fullmatch(r"prec@([1-9]\d*)%", str(name))
    if precision:
        return partial(metrics.precision_at_ratio, ratio=int(precision[1]) / 100)
    hits = re.fullmatch(r"hits@([1-9]\d*)", str(name))
    if hits:
        return partial(metrics.hits_at, k=int(hits[1]))
    raise UnknownNameError(
        f"There is no validation metric {name!r}.",
        hint=f"Known: {', '.join(_NAMED)}, prec@100% (any share), hits@100 (any k).",
    )


def validation_values(counts: RankCounts, names: Iterable[str]) -> dict[str, float]:
    """Return the named metrics of a ranking."""
    return {name: validation_metric(name)(counts) for name in names}
