"""How far predictions are from ratings, pair by pair; every metric is a weighted mean over the rows given."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from unskew.errors import DataError
from unskew.metrics.checks import checked_columns, probability_columns, refuse_rows

__all__ = [
    "PROBABILITY_FLOOR",
    "brier",
    "log_loss",
    "mean_absolute_error",
    "mean_squared_error",
    "roc_auc",
]

PROBABILITY_FLOOR = 1e-6
"""`log_loss` reads probabilities below this, or above one minus this, as if they stood on the bound."""


def mean_squared_error(y_true: ArrayLike, y_pred: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """mean (y - prediction)^2."""
    columns = checked_columns(y_true, y_pred, sample_weight)
    return columns.mean((columns.labels - columns.predictions) ** 2)


def mean_absolute_error(y_true: ArrayLike, y_pred: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """mean |y - prediction|."""
    columns = checked_columns(y_true, y_pred, sample_weight)
    return columns.mean(np.abs(columns.labels - columns.predictions))


def brier(y_true: ArrayLike, y_prob: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """The mean squared error of probabilities (Brier, 1950); anything outside [0, 1] is refused."""
    columns = probability_columns(y_true, y_prob, sample_weight)
    return columns.mean((columns.labels - columns.predictions) ** 2)


def log_loss(y_true: ArrayLike, y_prob: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """mean -[y log p + (1 - y) log(1 - p)], with labels y anywhere in [0, 1].

    Probabilities are clamped to [1e-6, 1 - 1e-6] (`PROBABILITY_FLOOR`), so one certain and wrong prediction
    costs 13.8 and not infinity; probabilities outside [0, 1] are refused.
    """
    columns = probability_columns(y_true, y_prob, sample_weight)
    y, p = columns.labels, np.clip(columns.predictions, PROBABILITY_FLOOR, 1 - PROBABILITY_FLOOR)
    return columns.mean(-(y * np.log(p) + (1 - y) * np.log1p(-p)))


def roc_auc(y_true: ArrayLike, y_pred: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """The chance that a random positive row scores above a random negative one, a tie counting one half.

    The Mann-Whitney statistic in O(n log n): sum over positives of w [W-(below) + W-(equal) / 2] / (W+ W-),
    where W- adds up the weights of negatives. Labels must be 0 or 1; scores may be any real numbers.
    """
    labels, scores, weights = checked_columns(y_true, y_pred, sample_weight)
    refuse_rows((labels != 0) & (labels != 1), labels, "y_true", "is neither 0 nor 1, as roc_auc needs")
    distinct, level = np.unique(scores, return_inverse=True)
    positive = np.bincount(level, weights * labels, minlength=distinct.size)
    negative = np.bincount(level, weights * (1 - labels), minlength=distinct.size)
    for mass, name in ((positive, "positive"), (negative, "negative")):
        if mass.sum() == 0:
            raise DataError(f"roc_auc needs both classes, but y_true has no {name} row of positive weight.")
    below = np.cumsum(negative) - negative / 2
    return float((positive / positive.sum()) @ (below / negative.sum()))
