"""The paper's worked example: why balanced test sets mislead.

A bad model ranks a million false pairs above every true edge. Against as many
random negatives as edges it looks excellent; against all negatives it does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gelato.errors import UsageError
from gelato.graph import FloatArray
from gelato.ranking import metrics
from gelato.ranking.counts import RankCounts


@dataclass(frozen=True, eq=False)
class WorkedExample:
    """One ranking measured under the biased and the unbiased protocol.

    Parameters
    ----------
    positives, false_first, negatives : int
        The counts that define the ranking.
    biased, unbiased : RankCounts
        Counts against a balanced sample of negatives, and against all of them.
    """

    positives: int
    false_first: int
    negatives: int
    biased: RankCounts
    unbiased: RankCounts

    def to_dict(self) -> dict[str, Any]:
        """Return the four numbers of the example."""
        return {
            "positives": self.positives,
            "false_first": self.false_first,
            "negatives": self.negatives,
            "biased": _numbers(self.biased),
            "unbiased": _numbers(self.unbiased),
        }


def worked_example(
    positives: int = 100_000,
    false_first: int = 1_000_000,
    negatives: int = 99_900_000,
) -> WorkedExample:
    """Measure a ranking that puts ``false_first`` negatives above every positive.

    With equal numbers of sampled negatives, ``positives / negatives`` of the false
    first ones are expected in the sample. The paper's numbers are the defaults: its
    99.9 M negatives are ordered pairs of 10 k nodes.

    Examples
    --------
    >>> example = worked_example()
    >>> round(metrics.area_under_roc(example.biased), 2)
    0.99
    >>> round(metrics.average_precision(example.biased), 2)
    0.95
    >>> round(metrics.average_precision(example.unbiased), 2)
    0.05
    """
    if positives < 1 or negatives < positives or not 0 <= false_first <= negatives:
        raise UsageError(
            "The worked example needs 1 <= positives <= negatives and 0 <= false_first "
            f"<= negatives, but got {positives:,}, {negatives:,} and {false_first:,}."
        )
    expected = round(false_first * positives / negatives)
    return WorkedExample(
        positives,
        false_first,
        negatives,
        biased=_behind(positives, expected, positives),
        unbiased=_behind(positives, false_first, negatives),
    )


def curves(counts: RankCounts) -> dict[str, FloatArray]:
    """Return ROC and precision-recall curves from (0, 0) on, for drawing."""
    false_rate, true_rate = metrics.roc_curve(counts)
    precision, recall = metrics.precision_recall_curve(counts)
    return {
        "false_positive_rate": np.concatenate(([0.0], false_rate, [1.0])),
        "true_positive_rate": np.concatenate(([0.0], true_rate, [1.0])),
        "recall": np.concatenate(([0.0], recall)),
        "precision": np.concatenate((precision[:1], precision)),
    }


def _behind(positives: int, false_first: int, negatives: int) -> RankCounts:
    """Return counts of distinct positive scores behind ``false_first`` negatives."""
    each = np.ones(positives, dtype=np.int64)
    return RankCounts(
        scores=np.arange(positives, 0, -1, dtype=np.float64),
        positives=each,
        above=each * false_first,
        tied=each * 0,
        num_negatives=negatives,
    )


def _numbers(counts: RankCounts) -> dict[str, float]:
    return {
        "auc": metrics.area_under_roc(counts),
        "ap": metrics.average_precision(counts),
    }
