"""What a comparison says, and what its intervals cover, in sentences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gelato.comparison.sides import BETTER, SAME, WORSE
from gelato.ranking.resampling import RESAMPLES

# Fewer splits than this make intervals so wide that more are worth their time.
_ENOUGH_SPLITS = 5


def covered(entries: Sequence[Mapping[str, Any]]) -> str:
    """Return what the intervals of some models cover, and what they do not.

    Parameters
    ----------
    entries : sequence
        Of :func:`~gelato.comparison.summary.rank_models`.
    """
    known = [entry for entry in entries if entry["interval"]["ap"] is not None]
    several = [entry for entry in known if entry["splits"] > 1]
    single = [entry for entry in known if entry["splits"] == 1]
    told = [_over_splits(several)] if several else []
    if single and not several:
        told.append(_over_links(single))
    elif single:
        told.append("Where a model has one split only, it covers its test edges alone.")
    return " ".join(told) or "The runs do not tell how sure these numbers are."


def _over_splits(entries: Sequence[Mapping[str, Any]]) -> str:
    splits = max(entry["splits"] for entry in entries)
    seeds = max(entry["seeds"] for entry in entries)
    averaged = f", {seeds} seeds averaged in each" if seeds > 1 else ""
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
