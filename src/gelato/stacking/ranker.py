"""Gradient-boosted trees over pair features, as data.

LightGBM with a fixed number of rounds: log loss, few leaves, several seeds averaged,
from the start of :mod:`gelato.stacking.start`.
Its text format is what is kept; nothing is pickled. Results do not depend on threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np

from gelato.errors import GelatoError, StoredFileError
from gelato.graph import FloatArray
from gelato.kernels.chunks import run_chunks, use_threads
from gelato.stacking.folds import Fold
from gelato.stacking.pair_measures import Table
from gelato.stacking.start import LinearStart, fit_start

_FIXED: dict[str, Any] = {
    "objective": "binary",
    "deterministic": True,
    # A tree sees half of the features: row-wise sums are over all. Same trees.
    "force_col_wise": True,
    "verbose": -1,
    "max_bin": 255,
    # Rankers grow side by side, one thread each: threads inside of LightGBM wait for
    # each other, and where the machine has other work they do little else.
    "num_threads": 1,
}
_PART = 16_384  # rows scored at a time


@dataclass(frozen=True)
class TreeSettings:
    """How trees are grown.

    Parameters
    ----------
    rounds, leaves, rate : int, int, float
        Trees per seed (0: none), leaves per tree, learning rate.
    features : float
        Share of the features that a tree may use.
    least : int
        Least rows in a leaf.
    seeds : int
        Rankers whose scores are averaged.
    start : bool
        Whether trees start from a regression; else from a constant.
    unused : tuple of int
        Columns that nothing may learn from.
    """

    rounds: int = 120
    leaves: int = 31
    rate: float = 0.05
    features: float = 0.5
    least: int = 20
    ridge: float = 1.0
    seeds: int = 3
    start: bool = True
    unused: tuple[int, ...] = ()

    def parameters(self, seed: int) -> dict[str, Any]:
        """Return what LightGBM takes."""
        return _FIXED | {
            "num_leaves": self.leaves,
            "learning_rate": self.rate,
            "feature_fraction": self.features,
            "min_data_in_leaf": self.least,
            "lambda_l2": self.ridge,
            "seed": seed,
        }


@dataclass(frozen=True, eq=False)
class Ranker:
    """Trees, as the texts that LightGBM reads.

    Parameters
    ----------
    texts : tuple of str
        One model per seed.
    names : tuple of str
        The features, in order.
    start : LinearStart
        What the trees are added to.
    """

    texts: tuple[str, ...]
    names: tuple[str, ...]
    start: LinearStart

    @cached_property
    def _boosters(self) -> list[Any]:
        library = tree_library()
        try:
            return [library.Booster(model_str=text) for text in self.texts]
        except library.basic.LightGBMError as error:
            raise StoredFileError(
                f"The stored trees cannot be read: {error}.",
                hint="Fit and save the model again.",
            ) from error

    def scores(self, features: Table) -> FloatArray:
        """Return the log-odds of pairs: the start, and trees averaged over seeds."""
        total = np.zeros(len(features))
        boosters = self._boosters

        def fill(at: int) -> None:
            part = slice(at * _PART, (at + 1) * _PART)
            for booster in boosters:
                total[part] += booster.predict(
                    features[part], raw_score=True, num_threads=1
                )

        if boosters:  # else the regression alone
            run_chunks(fill, -(-len(features) // _PART))
        return total / max(1, len(boosters)) + self.start.scores(features)

    def contributions(self, features: Table) -> FloatArray:
        """Return what each feature adds to the log-odds, and last the constant."""
        total = np.zeros((len(features), len(self.names) + 1))
        for booster in self._boosters:
            total += booster.predict(features, pred_contrib=True, num_threads=1)
        total /= max(1, len(self._boosters))
        total[:, self.start.columns] += self.start.terms(features)
        total[:, -1] += self.start.constant
        return total


class RankerFit:
    """Rows to grow the trees of one ranker from.

    Parameters
    ----------
    folds : sequence of Fold
        The rows.
    names : sequence of str
        Their features.
    settings : TreeSettings
    seed : int
        Decides the trees.
    """

    def __init__(
        self,
        folds: Sequence[Fold],
        names: Sequence[str],
        settings: TreeSettings,
        *,
        seed: int = 0,
    ) -> None:
        self.folds, self.names = folds, tuple(names)
        self.settings, self.seed = settings, seed
        self.count = settings.seeds if settings.rounds else 1
        self.texts = [""] * self.count
        self._lock = Lock()
        self._rows: tuple[LinearStart, Any] | None = None

    def grow(self, number: int) -> None:
        """Grow the trees of one seed; whoever comes first makes the rows ready."""
        with self._lock:
            if self._rows is None:
                self._rows = self._prepared()
        if not self.settings.rounds:
            return
        parameters = self.settings.parameters(1_000 * self.seed + number)
        booster = tree_library().train(
            parameters, self._rows[1], num_boost_round=self.settings.rounds
        )
        self.texts[number] = booster.model_to_string()

    def _prepared(self) -> tuple[LinearStart, Any]:
        """Return where trees start, and the rows as LightGBM holds them."""
        settings, tables = self.settings, [fold.features for fold in self.folds]
        # One fold of a large graph is not copied, unless it is written to.
        alone = len(tables) == 1 and not settings.unused
        features = tables[0] if alone else np.concatenate(tables)
        labels = np.concatenate([fold.labels for fold in self.folds])
        weights = np.concatenate([fold.weights for fold in self.folds])
        # A column without variation is in no tree, so that scoring may see its values.
        features[:, settings.unused] = 0.0
        ranks = [at for at, name in enumerate(self.names) if "_rank_" in name]
        every = [*range(len(self.names))]
        unused = [*ranks, *settings.unused] if settings.start else every
        start = fit_start(features, labels, weights, unused)
        if not settings.rounds:
            return start, None
        data = tree_library().Dataset(
            features,
            label=labels.astype(np.float32),
            weight=weights,
            init_score=start.scores(features),
            # Of many rows, those that decide the bins are drawn by the seed.
            params=settings.parameters(1_000 * self.seed),
            free_raw_data=True,
        )
        return start, data.construct()

    @property
    def ranker(self) -> Ranker:
        """The trees, once all are grown."""
        assert self._rows is not None
        texts = tuple(self.texts) if self.settings.rounds else ()
        return Ranker(texts, self.names, self._rows[0])


def fit_rankers(*fits: RankerFit) -> list[Ranker]:
    """Grow the trees of rankers, all of them side by side."""
    numbers = range(max(fit.count for fit in fits))
    # First one of each: rows are made ready side by side, too.
    trees = [(fit, number) for number in numbers for fit in fits if number < fit.count]

    def grow(at: int) -> None:
        fit, number = trees[at]
        with use_threads(1):
            fit.grow(number)

    run_chunks(grow, len(trees))
    return [fit.ranker for fit in fits]


def tree_library() -> Any:
    """Return LightGBM, or say in one line that it is missing."""
    try:
        import lightgbm
    except ImportError as error:
        raise GelatoError(
            "The model 'stack' needs the package 'lightgbm', which is not installed.",
            hint="Install it with: pip install lightgbm",
        ) from error
    return lightgbm
