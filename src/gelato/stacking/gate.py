"""Which score to trust: the trees, the trees with a plain score mixed in, or one alone.

Decided by edges that no fold and no feature has seen. Differences of average
precision are judged edge by edge, so that their standard error is known; a mixture
must be clearly better than the trees, and a plain score that is as good as the trees
wins, being simpler.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from gelato.graph import FloatArray

SHARES = (0.5, 1.0, 2.0)
"""Factors on the logarithm of a plain score that is mixed in."""
_BLENDED = ("ease", "ac")
LEAST_EDGES = 20
"""Fewer held-out edges among the candidates decide nothing."""
ENOUGH_EDGES = 200
"""With fewer validation edges, hidden training edges decide instead."""
_TINY = 1e-6


@dataclass(frozen=True)
class Choice:
    """What scores candidates.

    Parameters
    ----------
    kind : {"trees", "blend", "plain"}
    plain : str
        The plain score of a blend, or that is used alone.
    share : float
        Factor on its logarithm in a blend.
    precision : dict
        Average precision of what was compared, among the candidates.
    """

    kind: str = "trees"
    plain: str = ""
    share: float = 0.0
    precision: tuple[tuple[str, float], ...] = ()

    def combine(self, trees: FloatArray, plain: FloatArray | None) -> FloatArray:
        """Return the score of candidates from the trees' and the plain score."""
        return trees if plain is None else trees + self.term(plain)

    def term(self, plain: FloatArray) -> FloatArray:
        """Return what a plain score adds to the trees'."""
        added: FloatArray = self.share * np.log(np.maximum(plain, _TINY))
        return added

    @property
    def note(self) -> str:
        """The choice in one sentence."""
        told = ", ".join(f"{name} {100 * value:.2f}" for name, value in self.precision)
        named = {
            "trees": "the trees alone rank candidates",
            "blend": f"{self.share:g} log({self.plain}) is added to the trees",
            "plain": f"{self.plain} alone ranks: the trees were not better",
        }[self.kind]
        return f"{named} (average precision on held-out edges, %: {told})"


def choose(
    trees: FloatArray,
    plain: dict[str, FloatArray],
    answers: npt.NDArray[np.bool_],
    hidden: int,
    weights: FloatArray | None = None,
    *,
    blends: bool = True,
) -> Choice:
    """Choose by held-out edges.

    Parameters
    ----------
    trees : (k,) float64
        The trees' scores of all candidates.
    plain : dict of (k,) float64
        Plain scores of the same candidates, those that may be chosen.
    answers : (k,) bool
        Which candidates are held-out edges.
    hidden : int
        Held-out edges in all; those outside the candidates are missed by all alike.
    weights : (k,) float64, optional
        How many candidates each one stands for.
    blends : bool
        Whether a plain score may be mixed in.
    """
    if int(answers.sum()) < LEAST_EDGES:
        return Choice()
    each = np.ones(len(trees)) if weights is None else weights
    blended = [name for name in _BLENDED if blends and name in plain]
    options = {"stack": Choice()} | {
        f"stack + {share:g} log {name}": Choice("blend", name, share)
        for name in blended
        for share in SHARES
    }
    options |= {name: Choice("plain", name) for name in plain}
    found = {
        name: _precisions(_scores(option, trees, plain), answers, each)
        for name, option in options.items()
    }
    told = tuple(
        (name, float(values.sum() / max(1, hidden))) for name, values in found.items()
    )
    best = "stack"
    for name, option in options.items():
        if option.kind == "blend" and _gain(found[name], found[best]) > 1.0:
            best = name
    for name in plain:
        if found[name].sum() >= found[best].sum():
            best = name
    return replace(options[best], precision=told)


def _scores(
    option: Choice, trees: FloatArray, plain: dict[str, FloatArray]
) -> FloatArray:
    if option.kind == "plain":
        return plain[option.plain]
    return option.combine(trees, plain.get(option.plain))


def _precisions(
    scores: FloatArray, answers: npt.NDArray[np.bool_], weights: FloatArray
) -> FloatArray:
    """Return the precision at the rank of every answer; their mean is AP.

    Equal scores share the worst rank among them.
    """
    order = np.argsort(-scores, kind="stable")
    ranked, hits = scores[order], answers[order]
    last = np.searchsorted(-ranked, -ranked, side="right") - 1
    each = weights[order]
    precision = np.cumsum(hits * each)[last] / np.cumsum(each)[last]
    out = np.zeros(len(scores))
    out[order] = precision
    return out[answers]


def _gain(one: FloatArray, other: FloatArray) -> float:
    """Return by how many standard errors one is better than the other."""
    difference = one - other
    error = float(difference.std()) * np.sqrt(len(difference))
    return float(difference.sum()) / error if error > 0 else 0.0
