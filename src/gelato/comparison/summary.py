"""What a table of runs tells: means, confidence intervals, paired differences."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from gelato.comparison.paired import (
    BETTER,
    CONFIDENCE,
    SAME,
    WORSE,
    ModelRuns,
    difference_of,
    mean_margin,
    runs_by_model,
)
from gelato.comparison.runs import METRICS
from gelato.errors import UsageError
from gelato.io.tables import read_table
from gelato.ranking.resampling import RESAMPLES

_SCHEMA = {
    "model": pl.String,
    "protocol": pl.String,
    "runs": pl.Int64,
    "splits": pl.Int64,
    "seeds": pl.Int64,
    "mean": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "against": pl.String,
    "difference": pl.Float64,
    "difference_low": pl.Float64,
    "difference_high": pl.Float64,
    "verdict": pl.String,
}


def summarise_comparison(
    table: Any,
    *,
    metric: str = "ap",
    against: str | None = None,
    confidence: float = CONFIDENCE,
) -> pl.DataFrame:
    """Return one row per model: its mean, how sure that is, and its paired difference.

    With several splits, intervals are t-intervals over the splits (seeds averaged
    inside each), widened because random splits share training edges (Nadeau and
    Bengio, 2003): they cover which edges are held out, and training seeds. With one
    split, its test edges are drawn again with replacement and the error of the mean
    over seeds is added: they cover which links happen to be tested, and training
    seeds, but not other training edges. Neither covers other graphs.

    A difference is taken on the same splits, or on the same draws of test edges. It is
    called a difference if its interval leaves out 0; intervals are not adjusted for
    the number of models, nor for having picked the best one.

    Parameters
    ----------
    table : polars.DataFrame
        Made by :func:`compare`; pandas, or a list of dictionaries, does as well.
    metric : str
        A column of it. With one split, only ``"ap"`` has intervals.
    against : str, optional
        The model to compare with; by default the best one, for biased numbers the one
        that is best without bias.
    confidence : float
        How often such intervals hold what they estimate.

    Returns
    -------
    polars.DataFrame
        ``model``, ``protocol``, ``runs``, ``splits``, ``seeds``, ``mean`` (of the
        splits' means), ``low``, ``high``, ``against``, ``difference``,
        ``difference_low``, ``difference_high``, ``verdict``: the best first, biased
        protocols last, nulls where the runs do not tell.
    """
    rows = table if isinstance(table, list) else _rows(table)
    _check(rows, metric, against, confidence)
    made: list[dict[str, Any]] = []
    for protocol in _protocols(rows):
        models = runs_by_model([r for r in rows if r["protocol"] == protocol], metric)
        ordered = sorted(models, key=lambda own: -own.mean)
        against = against or ordered[0].model
        other = next((s for s in ordered if s.model == against), None)
        made += [
            {"protocol": protocol} | _summary(own, other, confidence) for own in ordered
        ]
    return pl.DataFrame(made, schema=_SCHEMA)


def rank_models(
    rows: list[dict[str, Any]],
    *,
    against: str | None = None,
    metrics: Sequence[str] = METRICS,
) -> list[dict[str, Any]]:
    """Return everything about each model as plain data, best average precision first.

    ``mean`` and ``sd`` over runs, ``interval`` and ``difference`` by metric. Where the
    model to compare with was not measured, the best one stands in for it.
    """
    known = against if any(row["model"] == against for row in rows) else None
    first = summarise_comparison(rows, against=known).to_dicts()
    # One reference for all metrics, though another may have the best of them.
    reference = first[0]["against"]
    found = {
        name: {
            _key(row): row
            for row in summarise_comparison(
                rows, metric=name, against=reference
            ).to_dicts()
        }
        for name in metrics
    }
    return [
        _entry(
            row,
            [item for item in rows if _key(item) == _key(row)],
            {name: by_key[_key(row)] for name, by_key in found.items()},
        )
        for row in first
    ]


def _key(row: Mapping[str, Any]) -> tuple[str, str]:
    return row["model"], row["protocol"]


def _entry(
    row: dict[str, Any],
    part: Sequence[Mapping[str, Any]],
    found: Mapping[str, dict[str, Any]],
) -> dict[str, Any]:
    several = len(part) > 1
    return {
        "model": row["model"],
        "protocol": row["protocol"],
        "biased": row["protocol"] != "all",
        "runs": row["runs"],
        "splits": row["splits"],
        "seeds": row["seeds"],
        "mean": {name: one["mean"] for name, one in found.items()},
        "sd": {
            name: statistics.stdev(item[name] for item in part) if several else None
            for name in found
        },
        "interval": {name: _limits(one) for name, one in found.items()},
        "against": row["against"],
        "difference": {name: _difference(one) for name, one in found.items()},
        "budget": next((item["budget"] for item in part if item.get("budget")), None),
        "random_ap": statistics.fmean(item["random_ap"] for item in part),
        "seconds": statistics.fmean(_seconds(item) for item in part),
    }


def _limits(row: Mapping[str, Any]) -> dict[str, float] | None:
    low, high = row["low"], row["high"]
    return None if low is None else {"low": low, "high": high}


def _difference(row: Mapping[str, Any]) -> dict[str, Any] | None:
    if row["difference"] is None:
        return None
    return {
        "value": row["difference"],
        "low": row["difference_low"],
        "high": row["difference_high"],
        "verdict": row["verdict"],
    }


def _seconds(row: Mapping[str, Any]) -> float:
    spent = [row.get("fit_seconds"), row.get("evaluate_seconds")]
    return float(sum(part for part in spent if isinstance(part, int | float)))


def _summary(
    own: ModelRuns, other: ModelRuns | None, confidence: float
) -> dict[str, Any]:
    parts = list(own.parts.values())
    margin = mean_margin(parts, confidence)
    made = {
        "model": own.model,
        "runs": sum(len(part.values) for part in parts),
        "splits": len(parts),
        "seeds": max(len(part.values) for part in parts),
        "mean": own.mean,
        # All measures are shares: no interval leaves 0 to 1.
        "low": None if margin is None else max(0.0, own.mean - margin),
        "high": None if margin is None else min(1.0, own.mean + margin),
        "against": None if other is None else other.model,
    }
    if other is None or other is own:
        return made
    return made | difference_of(own, other, confidence)


def _rows(table: Any) -> list[dict[str, Any]]:
    return read_table(table, "the comparison").frame.to_dicts()


def _protocols(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    return sorted({row["protocol"] for row in rows}, key=lambda name: name != "all")


def _check(
    rows: Sequence[Mapping[str, Any]],
    metric: str,
    against: str | None,
    confidence: float,
) -> None:
    if not rows:
        raise UsageError(
            "The table has no runs.", hint="Make one with gelato.compare()."
        )
    missing = [k for k in ("model", "protocol", metric) if k not in rows[0]]
    if missing:
        raise UsageError(
            f"The table has no column {missing[0]!r}.",
            hint=f"Give a table of gelato.compare(), and one of: {', '.join(METRICS)}.",
        )
    if not 0 < confidence < 1:
        raise UsageError(
            f"The confidence is {confidence}, but must be between 0 and 1.",
            hint="0.95 is usual.",
        )
    names = list(dict.fromkeys(row["model"] for row in rows))
    if against is not None and against not in names:
        raise UsageError(
            f"{against!r} is not among the models compared.",
            hint=f"They are: {', '.join(names)}.",
        )


# Fewer splits than this make intervals so wide that more are worth their time.
_ENOUGH_SPLITS = 5


def covered(entries: Sequence[Mapping[str, Any]], *, by_time: bool = False) -> str:
    """Return what the intervals of some models cover, and what they do not.

    Parameters
    ----------
    entries : sequence
        Of :func:`~gelato.comparison.summary.rank_models`.
    by_time : bool
        Whether the splits are windows of time.
    """
    known = [entry for entry in entries if entry["interval"]["ap"] is not None]
    several = [entry for entry in known if entry["splits"] > 1]
    single = [entry for entry in known if entry["splits"] == 1]
    told = [_over_splits(several, by_time=by_time)] if several else []
    if single and not several:
        told.append(_over_links(single))
    elif single:
        told.append("Where a model has one split only, it covers its test edges alone.")
    return " ".join(told) or "The runs do not tell how sure these numbers are."


def _over_splits(entries: Sequence[Mapping[str, Any]], *, by_time: bool) -> str:
    splits = max(entry["splits"] for entry in entries)
    seeds = max(entry["seeds"] for entry in entries)
    averaged = f", {seeds} seeds averaged in each" if seeds > 1 else ""
    if by_time:
        return (
            f"± is a 95 % confidence interval over {splits} windows of time{averaged}, "
            "widened because later ones train on the edges of earlier ones. It tells "
            "how much windows like these differ, not what another time will bring."
        )
    return (
        f"± is a 95 % confidence interval over {splits} splits{averaged}, widened "
        "because they share training edges (Nadeau and Bengio). It covers which "
        f"edges are held out{' and training seeds' if seeds > 1 else ''}, on this "
        "graph."
    )


def _over_links(entries: Sequence[Mapping[str, Any]]) -> str:
    seeds = max(entry["seeds"] for entry in entries)
    over = f" and over {seeds} seeds" if seeds > 1 else ""
    also = " and training seeds" if seeds > 1 else ""
    return (
        f"± is a 95 % confidence interval over the test edges, drawn again {RESAMPLES} "
        f"times{over}. It covers which links happen to be tested{also}, not other "
        "splits."
    )


def advice(entries: Sequence[Mapping[str, Any]]) -> str:
    """Return how to learn more, if that is easy."""
    splits = max(entry["splits"] for entry in entries)
    if splits >= _ENOUGH_SPLITS:
        return ""
    narrower = "narrower intervals" if splits > 1 else "intervals that cover splits"
    return f"For {narrower}: --splits {_ENOUGH_SPLITS}, or more."


def told_apart(
    entries: Sequence[Mapping[str, Any]], shown: Callable[[Any], str]
) -> list[str]:
    """Return which models can be told apart from the one compared with.

    Parameters
    ----------
    entries : sequence
        Of one protocol.
    shown : callable
        Makes a name fit to be printed.
    """
    reference = next((entry["against"] for entry in entries), None)
    if reference is None:
        return []
    by_verdict: dict[str, list[str]] = {BETTER: [], WORSE: [], SAME: []}
    for entry in entries:
        verdict = (entry["difference"]["ap"] or {}).get("verdict")
        if verdict is not None:
            by_verdict[verdict].append(shown(entry["model"]))
    name = shown(reference)
    lines = [
        f"{verdict} than {name}: {', '.join(by_verdict[verdict])}."
        for verdict in (BETTER, WORSE)
        if by_verdict[verdict]
    ]
    if by_verdict[SAME]:
        lines.append(f"{SAME}: {name} and {', '.join(by_verdict[SAME])}.")
    return [line[0].upper() + line[1:] for line in lines]


def unadjusted(entries: Sequence[Mapping[str, Any]]) -> str:
    """Return a caution where several differences are looked at together."""
    compared = [e for e in entries if (e["difference"]["ap"] or {}).get("verdict")]
    if len(compared) < 2:
        return ""
    return (
        "Differences are paired; each stands on its own, not adjusted for the number "
        "of models."
    )
