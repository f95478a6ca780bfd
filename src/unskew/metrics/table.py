"""Every metric once: its name, meaning, which way is better and how it is found; adding one touches this file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unskew.errors import DataError, ParameterError
from unskew.metrics.checks import Columns, checked_columns, probability_columns, refuse_rows

__all__ = [
    "METRICS",
    "PROBABILITY_FLOOR",
    "Metric",
    "find",
    "log_loss",
    "mean_absolute_error",
    "mean_squared_error",
    "roc_auc",
]

Values = NDArray[np.float64]
Kind = Literal["pairs", "users", "lists"]
PROBABILITY_FLOOR = 1e-6
"""`log_loss` reads probabilities below this, or above one minus this, as if they stood on the bound."""


@dataclass(frozen=True)
class Metric:
    """One metric: of rated `pairs`, of each of the `users`' rated pairs in order, or of the `lists` that are shown.

    `of` finds it: of pairs from `Columns`, of users from `UserLists` and k (one value a user), of lists from `TopLists`
    and k. `cell` is the error of one pair, (prediction, label), where the metric is a mean of such errors.
    """

    name: str
    label: str
    meaning: str
    higher_is_better: bool
    kind: Kind
    of: Callable[..., Any]
    cell: Callable[[Values, Values], Values] | None = None
    probabilities: bool = False  # whether labels and predictions must lie in [0, 1]
    range: tuple[float, float] = (0.0, 1.0)
    k: int = 0  # length of lists, 0 for those without


def squared(prediction: Values, label: Values) -> Values:
    """(y - prediction)^2."""
    return np.asarray((label - prediction) ** 2)


def absolute(prediction: Values, label: Values) -> Values:
    """|y - prediction|."""
    return np.asarray(np.abs(label - prediction))


def logarithmic(prediction: Values, label: Values) -> Values:
    """-[y log p + (1 - y) log(1 - p)], p held within `PROBABILITY_FLOOR` of 0 and 1."""
    p = np.clip(prediction, PROBABILITY_FLOOR, 1 - PROBABILITY_FLOOR)
    return np.asarray(-(label * np.log(p) + (1 - label) * np.log1p(-p)))


def _mean_of(cell: Callable[[Values, Values], Values]) -> Callable[[Columns], float]:
    return lambda columns: columns.mean(cell(columns.predictions, columns.labels))


def _auc(columns: Columns) -> float:
    labels, scores, weights = columns
    refuse_rows((labels != 0) & (labels != 1), labels, "y_true", "is neither 0 nor 1, as roc_auc needs")
    distinct, level = np.unique(scores, return_inverse=True)
    positive = np.bincount(level, weights * labels, minlength=distinct.size)
    negative = np.bincount(level, weights * (1 - labels), minlength=distinct.size)
    for mass, name in ((positive, "positive"), (negative, "negative")):
        if mass.sum() == 0:
            raise DataError(f"roc_auc needs both classes, but y_true has no {name} row of positive weight.")
    below = np.cumsum(negative) - negative / 2
    return float((positive / positive.sum()) @ (below / negative.sum()))


ANY = (0.0, np.inf)
METRICS = {
    metric.name: metric
    for metric in (
        Metric(
            "mse", "squared error", "mean (y - p)^2", False, "pairs", _mean_of(squared), cell=squared, range=ANY
        ),
        Metric(
            "mae", "absolute error", "mean |y - p|", False, "pairs", _mean_of(absolute), cell=absolute, range=ANY
        ),
        Metric(
            "log_loss", "log loss", "mean -log of the chance given to what happened", False, "pairs",
            _mean_of(logarithmic), cell=logarithmic, probabilities=True, range=ANY,
        ),
        Metric("auc", "AUC", "a liked pair scores above a disliked one, over all pairs", True, "pairs", _auc),
        Metric(
            "user_auc", "order within users", "a liked item of a user scores above a disliked one of his", True,
            "users", lambda lists, k: lists.auc(),
        ),
        Metric(
            "ndcg", "nDCG", "gain of the first k, discounted by log2 of the place, over the best", True, "users",
            lambda lists, k: lists.ndcg(k),
        ),
        Metric(
            "recall", "recall", "share of a user's liked pairs among his first k", True, "users",
            lambda lists, k: lists.recall(k),
        ),
        Metric(
            "precision", "precision", "share of liked pairs among a user's first k", True, "users",
            lambda lists, k: lists.precision(k),
        ),
        Metric(
            "hit", "hit rate", "a user has a liked pair among his first k", True, "users",
            lambda lists, k: lists.hit(k),
        ),
        Metric(
            "mrr", "MRR", "1 / place of a user's first liked pair", True, "users",
            lambda lists, k: lists.reciprocal_rank(),
        ),
        Metric(
            "coverage", "coverage", "share of the catalogue in somebody's first k", True, "lists",
            lambda shown, k: shown.coverage(k),
        ),
        Metric(
            "novelty", "novelty", "mean of -log2 of the share of ratings of items in lists", True, "lists",
            lambda shown, k: shown.novelty(k), range=ANY,
        ),
        Metric(
            "same_first", "same first item", "share of users with the most frequent first item", False, "lists",
            lambda shown, k: shown.same_first(),
        ),
    )
}  # fmt: skip
WITH_K = ("ndcg", "recall", "precision", "hit", "coverage", "novelty")


def find(name: str) -> Metric:
    """The metric of a name such as mse or ndcg@5."""
    stem, at, digits = name.partition("@")
    if stem in METRICS and (bool(at) == (stem in WITH_K)):
        if not at:
            return METRICS[stem]
        if digits.isdigit() and int(digits) > 0:
            found = METRICS[stem]
            return Metric(**{**vars(found), "name": name, "label": f"{found.label} at {digits}", "k": int(digits)})
    known = ", ".join(f"{each}@K" if each in WITH_K else each for each in METRICS)
    raise ParameterError(f"there is no metric {name!r}; choose from {known}.")


def mean_squared_error(y_true: ArrayLike, y_pred: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """mean (y - prediction)^2."""
    return _mean_of(squared)(checked_columns(y_true, y_pred, sample_weight))


def mean_absolute_error(y_true: ArrayLike, y_pred: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """mean |y - prediction|."""
    return _mean_of(absolute)(checked_columns(y_true, y_pred, sample_weight))


def log_loss(y_true: ArrayLike, y_prob: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """mean -[y log p + (1 - y) log(1 - p)], with labels y anywhere in [0, 1].

    Probabilities are clamped to [1e-6, 1 - 1e-6] (`PROBABILITY_FLOOR`), so one certain and wrong prediction
    costs 13.8 and not infinity; probabilities outside [0, 1] are refused.
    """
    return _mean_of(logarithmic)(probability_columns(y_true, y_prob, sample_weight))


def roc_auc(y_true: ArrayLike, y_pred: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """The chance that a random positive row scores above a random negative one, a tie counting one half.

    The Mann-Whitney statistic in O(n log n): sum over positives of w [W-(below) + W-(equal) / 2] / (W+ W-),
    where W- adds up the weights of negatives. Labels must be 0 or 1; scores may be any real numbers.
    """
    return _auc(checked_columns(y_true, y_pred, sample_weight))
