"""Why the stack scores a pair as it does: in groups, in words, and what it is worth."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import polars as pl

from gelato.explain.explanation import Explanation
from gelato.graph import FloatArray, IntArray
from gelato.stacking.calibration import LinkPrecision
from gelato.stacking.features import GROUPS, FeatureTable, features_of
from gelato.stacking.ranker import Ranker
from gelato.stacking.scorer import StackScorer

_RARE = 10  # a shared neighbour of at most so many neighbours is rare
_EXPECTED = ("expected_precision", "expected_low", "expected_high")
_CLOSE = 0.5  # cosine of neighbourhoods that counts as similar
_BEST = 3  # ranks up to this one are each other's best


@dataclass(frozen=True)
class GroupShare:
    """What a group of features adds to the score, and its strongest features."""

    group: str
    contribution: float
    features: tuple[tuple[str, float, float], ...] = ()


@dataclass(frozen=True)
class StackExplanation(Explanation):
    """An explanation with the contributions of groups of features.

    ``base`` plus the contributions of ``groups`` is the score. Walks are those that
    autocovariance counts: they show how both nodes are joined.

    Parameters
    ----------
    groups : tuple of GroupShare
        Strongest first; features as (name, value, contribution).
    base : float
        The constant of the trees, and what lifts candidates above other pairs.
    reason : str
        The reason in a few words.
    link_precision : tuple of float
        Of links scored like this one, the share that was true, and its interval.
    """

    groups: tuple[GroupShare, ...] = ()
    base: float = 0.0
    reason: str = ""
    link_precision: tuple[float, ...] = ()

    def to_text(self) -> str:
        """Return a text for people."""
        lines = [f"{self.source} - {self.target}: score {self.score:.4g}"]
        if self.reason:
            lines.append(f"  {self.reason}")
        if self.link_precision:
            share, low, high = (100 * value for value in self.link_precision)
            lines.append(
                f"  of links scored like this one, {share:.0f} in 100 were true "
                f"({low:.0f} to {high:.0f})"
            )
        lines.append(
            f"  {self.base:+9.4f} that all candidates have, to be above other pairs"
        )
        for part in self.groups:
            named = ", ".join(f"{name} {value:.3g}" for name, value, _ in part.features)
            lines.append(f"  {part.contribution:+9.4f} {part.group} ({named})")
        return "\n".join([*lines, "", super().to_text()])


def explained(
    walks: Explanation,
    table: FeatureTable,
    pair: IntArray,
    values: Any,
    contributions: FloatArray,
    *,
    score: float,
    worth: tuple[float, ...],
) -> StackExplanation:
    """Return the explanation of a candidate.

    Parameters
    ----------
    walks : Explanation
        How autocovariance explains the pair.
    table : FeatureTable
        Of the graph.
    pair : (1, 2) int64
    values : (features,) float32
    contributions : (features + 1,) float64
        Of every feature; the constant is last.
    score : float
        Of the pair.
    worth : tuple of float
        The precision of links like this one, and its interval; or nothing.
    """
    every = features_of(table.measures)
    groups = []
    for group in GROUPS:
        at = [i for i, feature in enumerate(every) if feature.group == group]
        if not at:
            continue
        strongest = sorted(at, key=lambda i: -abs(contributions[i]))[:3]
        listed = tuple(
            (every[i].name, float(values[i]), float(contributions[i]))
            for i in strongest
        )
        groups.append(GroupShare(group, float(contributions[at].sum()), listed))
    groups.sort(key=lambda part: -abs(part.contribution))
    own = {field.name: getattr(walks, field.name) for field in fields(Explanation)}
    return StackExplanation(
        **own | {"score": score, "kind": "score only"},
        groups=tuple(groups),
        base=score - sum(part.contribution for part in groups),
        reason=_words(table, pair, values[None, :])[0],
        link_precision=worth,
    )


def reasons(
    links: pl.DataFrame,
    pairs: IntArray,
    scorer: StackScorer,
    table: FeatureTable,
    ranker: Ranker | None,
    precision: LinkPrecision | None,
) -> pl.DataFrame:
    """Return a table of links with what each is worth and why it is there.

    Pairs that are no candidates keep the precision of their rank.

    Parameters
    ----------
    links : DataFrame
    pairs : (k, 2) int64
        Its pairs, u < v.
    scorer, table, ranker, precision
        Of the model, on the graph of the links.
    """
    known = scorer.find(pairs) >= 0
    texts: list[str | None] = [None] * len(pairs)
    worth = np.full((3, len(pairs)), np.nan)
    at = np.flatnonzero(known)
    if len(at) and ranker is not None:
        order = at[np.lexsort((pairs[at, 1], pairs[at, 0]))]
        features = table.of_pairs(pairs[order])
        for place, words in zip(
            order, _words(table, pairs[order], features), strict=True
        ):
            texts[place] = words
        if precision is not None:
            worth[:, order] = precision.at(ranker.scores(features))
    by_rank = links.select(_EXPECTED).to_numpy().T.astype(np.float64)
    expected = np.where(np.isnan(worth), by_rank, worth)
    return links.with_columns(
        *(
            pl.Series(*named).fill_nan(None)
            for named in zip(_EXPECTED, expected, strict=True)
        ),
        reason=pl.Series(texts, dtype=pl.String),
    )


def _words(table: FeatureTable, pairs: IntArray, features: Any) -> list[str]:
    """Return a few words on each pair, from its features."""
    alike = _alike_bound(table)
    words = []
    for pair, row in zip(pairs, features, strict=True):
        value = dict(zip(table.names, row.tolist(), strict=True))
        said = [_shared_words(table, pair)]
        if not said[0] and value["walk3"] > 0:
            said.append("joined by walks of three steps")
        if alike is not None and value["cosine"] >= alike:
            said.append("similar attributes")
        elif alike is not None and value["mix"] >= _CLOSE:
            said.append("similar neighbourhoods")
        if min(value["ac_rank_more"], value["ease_rank_more"]) <= _BEST:
            said.append("among each other's best")
        words.append("; ".join(filter(None, said)) or "no single strong reason")
    return words


def _shared_words(table: FeatureTable, pair: IntArray) -> str:
    """Return how many neighbours are shared, and how many of them are rare."""
    indptr, indices = table.measures.pattern
    u, v = (indices[indptr[node] : indptr[node + 1]] for node in pair)
    shared = np.intersect1d(u, v, assume_unique=True)
    if not len(shared):
        return ""
    rare = int(np.count_nonzero(table.measures.counts[shared] <= _RARE))
    if len(shared) == 1:
        return "1 shared neighbour" + (", a rare one" if rare else "")
    return f"{len(shared):,} shared neighbours" + (
        f", {rare:,} of them rare" if rare else ""
    )


def _alike_bound(table: FeatureTable) -> float | None:
    """Return the cosine that three in four linked nodes stay below."""
    own = table.measures.attributes
    if own is None or not table.measures.graph.num_edges:
        return None
    u, v = table.measures.graph.edges[
        :: max(1, table.measures.graph.num_edges // 2_000)
    ].T
    cosines = np.asarray((own.rows[u] * own.rows[v]).sum(axis=1)).ravel()
    return max(1e-6, float(np.quantile(cosines, 0.75)))
