"""Scores that remember which edges they were computed from.

A matrix of scores looks the same whether the edges that it is asked to find were
hidden or not. Scores of a fitted model therefore carry a mark, which arithmetic and
slicing keep, so that an evaluation can refuse those that have seen its answers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, Self

import numpy as np

from gelato.errors import UsageError
from gelato.graph import FloatArray
from gelato.splits import EdgeSplit

Edges = Literal["train", "all"]


class KnownScores(np.ndarray[Any, Any]):
    """An array of scores with the edges that they walked on.

    Attributes
    ----------
    walked : frozenset of str
        ``"all"``, or the fingerprint of the split whose training edges were known;
        several where arrays were combined, none where it is not known.

    Examples
    --------
    >>> scores = KnownScores.of(np.ones(3), "all")
    >>> (2 * scores[1:] + np.ones(2)).walked
    frozenset({'all'})
    """

    walked: frozenset[str]

    @classmethod
    def of(cls, scores: FloatArray, walked: str) -> Self:
        """Return scores with a mark."""
        marked = np.asarray(scores).view(cls)
        marked.walked = frozenset([walked])
        return marked

    def __array_finalize__(self, other: Any) -> None:
        self.walked = getattr(other, "walked", frozenset())

    def __array_ufunc__(
        self, ufunc: Any, method: str, *inputs: Any, **options: Any
    ) -> Any:
        options = {
            name: tuple(map(_plain, value)) if name == "out" else value
            for name, value in options.items()
        }
        result = getattr(ufunc, method)(*map(_plain, inputs), **options)
        return _marked(result, _marks(inputs))

    def __array_function__(
        self, function: Any, types: Any, arguments: Any, options: Any
    ) -> Any:
        result = super().__array_function__(function, types, arguments, options)
        return _marked(result, _marks([arguments, list(options.values())]))


def refuse_known_answers(scores: Any, split: EdgeSplit) -> None:
    """Raise where scores were computed from edges that a split holds out."""
    walked = _marks([scores]) - {split.fingerprint}
    if not walked:
        return
    seen = "all known edges, the held-out ones of this split among them"
    if "all" not in walked:
        seen = (
            f"the training edges of another split ({', '.join(sorted(walked))}), which "
            f"may be held out by this one ({split.fingerprint})"
        )
    raise UsageError(
        f"These scores were computed from {seen}: evaluating them would leak.",
        hint="Evaluate the model itself, or what score_rows(rows) gives for a model "
        "fitted on this split.",
    )


def _plain(value: Any) -> Any:
    return value.view(np.ndarray) if isinstance(value, KnownScores) else value


def _marks(values: Iterable[Any]) -> frozenset[str]:
    """Return the marks of arrays, also of those inside lists."""
    found: frozenset[str] = frozenset()
    for value in values:
        if isinstance(value, KnownScores):
            found |= value.walked
        elif isinstance(value, list | tuple):
            found |= _marks(value)
    return found


def _marked(result: Any, walked: frozenset[str]) -> Any:
    if not isinstance(result, np.ndarray) or not result.ndim:
        return result
    marked = result.view(KnownScores)
    marked.walked = walked
    return marked
