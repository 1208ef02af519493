"""Where trees start: half of a logistic regression on logarithms of features.

Trees are flat between and beyond the values they saw. A graph has more edges than
the masked graphs that trees learn from, so its best pairs lie beyond: a smooth start
keeps them in order, and the trees mend the rest. Half of it proved better than all
or nothing (photo 10.7 to 11.7, citeseer 5.8 to 5.9 of validation AP).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gelato.engines import single_blas_thread
from gelato.errors import StoredFileError
from gelato.graph import FloatArray
from gelato.kernels.chunks import run_chunks

SHARE = 0.5
"""How much of the regression is used."""
_RIDGE = 1.0
_STEPS = 25
_FLOOR = 1e-2  # added before the logarithm, in units of a hidden edge's median
_ROWS = 20_000  # scored at a time
_MOSTLY = 0.9  # share of rows in which a column must not be negative


@dataclass(frozen=True, eq=False)
class LinearStart:
    """A sum over columns of ``weight * (log(x / unit + 0.01) - mean) / spread``.

    Parameters
    ----------
    columns : (k,) int64
        Which features.
    unit, mean, spread, weights : (k,) float64
    constant : float
    """

    columns: npt.NDArray[np.int64]
    unit: FloatArray
    mean: FloatArray
    spread: FloatArray
    weights: FloatArray
    constant: float

    def terms(self, features: Any) -> FloatArray:
        """Return what each of the columns adds, as (rows, k)."""
        found = self._scaled(features)
        found *= self.weights
        return found

    def scores(self, features: Any) -> FloatArray:
        """Return the log-odds to start from."""
        total = np.empty(len(features))
        bounds = [*range(0, max(1, len(features) - _ROWS + 1), _ROWS), len(features)]

        def fill(at: int) -> None:
            part = slice(bounds[at], bounds[at + 1])
            # Sums by row and not by a product: bits must not depend on the rows.
            total[part] = self.terms(features[part]).sum(axis=1) + self.constant

        run_chunks(fill, len(bounds) - 1)
        return total

    def _scaled(self, features: Any) -> FloatArray:
        values: FloatArray = features[:, self.columns].astype(np.float64)
        np.maximum(values, 0.0, out=values)
        values /= self.unit
        values += _FLOOR
        np.log(values, out=values)
        values -= self.mean
        values /= self.spread
        return values

    def to_text(self) -> str:
        """Return all numbers as JSON."""
        arrays = ("columns", "unit", "mean", "spread", "weights")
        plain: dict[str, Any] = {name: getattr(self, name).tolist() for name in arrays}
        return json.dumps(plain | {"constant": self.constant})

    @classmethod
    def from_text(cls, text: str) -> LinearStart:
        """Read what :meth:`to_text` wrote."""
        try:
            plain = json.loads(text)
            constant = float(plain.pop("constant"))
            columns = np.array(plain.pop("columns"), dtype=np.int64)
            arrays = {name: np.array(values) for name, values in plain.items()}
            return cls(columns=columns, constant=constant, **arrays)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise StoredFileError(
                f"The stored start of the trees cannot be read: {error}.",
                hint="Fit and save the model again.",
            ) from error


def fit_start(
    features: npt.NDArray[np.float32],
    labels: npt.NDArray[np.bool_],
    weights: FloatArray,
    left_out: Sequence[int] = (),
) -> LinearStart:
    """Fit the regression to weighed rows, by Newton's method with a small ridge.

    Parameters
    ----------
    features : (rows, features) float32
    labels : (rows,) bool
    weights : (rows,) float64
    left_out : sequence of int
        Columns that a logarithm does not suit; so are those that are often negative.
    """
    fine = (features >= 0).mean(axis=0) > _MOSTLY
    fine[list(left_out)] = False
    columns = np.flatnonzero(fine)
    true = features[labels][:, columns].astype(np.float64)
    unit = np.array([np.median(x[x > 0]) if (x > 0).any() else 1.0 for x in true.T])
    blank = np.zeros(len(columns))
    start = LinearStart(columns, unit, blank, blank + 1.0, blank + 1.0, 0.0)
    logs = start.terms(features)
    mean = np.average(logs, axis=0, weights=weights)
    squares = logs - mean
    np.square(squares, out=squares)
    spread = np.sqrt(np.average(squares, axis=0, weights=weights)) + 1e-9
    del squares
    logs -= mean
    logs /= spread
    found = _logistic(logs, labels.astype(np.float64), weights)
    return LinearStart(
        columns, unit, mean, spread, SHARE * found[:-1], SHARE * float(found[-1])
    )


def _logistic(rows: FloatArray, labels: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the coefficients of a ridge logistic regression, the constant last."""
    k = rows.shape[1]
    share = np.clip(np.average(labels, weights=weights), 1e-9, 1 - 1e-9)
    found = np.zeros(k + 1)
    found[-1] = np.log(share / (1 - share))
    ridge = np.full(k + 1, _RIDGE)
    ridge[-1] = 1e-9
    before = np.inf
    step = np.zeros(k + 1)
    with single_blas_thread():
        for _ in range(_STEPS):
            odds = rows @ found[:-1] + found[-1]
            loss = weights @ (np.logaddexp(0.0, odds) - labels * odds)
            loss += 0.5 * float(ridge @ found**2)
            if loss > before + 1e-6 * abs(before):
                step /= 2  # Newton went too far: half way back
                found = found - step
                continue
            before = loss
            chance = 1.0 / (1.0 + np.exp(-odds))
            curve = weights * chance * (1.0 - chance)
            slope = weights * (labels - chance)
            gradient = np.append(rows.T @ slope, slope.sum()) - ridge * found
            hessian = np.empty((k + 1, k + 1))
            hessian[:k, :k] = (rows * curve[:, None]).T @ rows
            hessian[:k, k] = hessian[k, :k] = curve @ rows
            hessian[k, k] = curve.sum()
            step = np.linalg.solve(hessian + np.diag(ridge), gradient)
            found = found + step
            if np.abs(step).max() < 1e-5:
                break
    return found
