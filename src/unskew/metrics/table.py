"""Every metric once: its name, meaning, which way is better and how it is found; others come by `unskew.register`."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from unskew.errors import DataError, ParameterError
from unskew.metrics.checks import Values, checked_columns, refuse_rows
from unskew.metrics.ranking import TopLists, UserLists
from unskew.registry import named

Cell = Callable[[Values, Values], Values]
ANY = (0.0, np.inf)
PROBABILITY_FLOOR = 1e-6
"""`log_loss` reads probabilities below this, or above one minus this, as if they stood on the bound."""


@dataclass(frozen=True)
class Metric:
    """One metric: of rated `pairs`, of each of the `users`' rated pairs in order, or of the `lists` that are shown.

    `of` finds it: of pairs from (y_true, y_pred, sample_weight=None), of users from `UserLists` and k (one value a
    user), of lists from `TopLists` and k. `cell` is the error of one pair, (prediction, label), where the metric is a
    mean of such errors.
    """

    kind: ClassVar[str] = "metric"

    name: str
    label: str
    meaning: str
    over: Literal["pairs", "users", "lists"]
    of: Callable[..., Any]
    higher_is_better: bool = True
    cell: Cell | None = None
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


def _error(name: str, label: str, meaning: str, cell: Cell, probabilities: bool = False) -> Metric:
    def mean(y_true: ArrayLike, y_pred: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
        labels, predictions, weights = checked_columns(y_true, y_pred, sample_weight, unit=probabilities)
        return float(np.average(cell(predictions, labels), weights=weights))

    return Metric(name, label, meaning, "pairs", mean, False, cell, probabilities, ANY)


def roc_auc(y_true: ArrayLike, y_pred: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """Return the chance that a random positive row scores above a random negative one, a tie counting one half.

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


METRICS = {
    metric.name: metric
    for metric in (
        _error("mse", "MSE", "mean (y - p)^2", squared),
        _error("mae", "MAE", "mean |y - p|", absolute),
        _error("log_loss", "log loss", "mean -log of the chance given to what happened", logarithmic, True),
        Metric("auc", "AUC", "a liked pair scores above a disliked one, over all pairs", "pairs", roc_auc),
        Metric("user_auc", "order within users", "the same over pairs of one user", "users", UserLists.auc),
        Metric("ndcg", "nDCG", "gain discounted by log2 of the place, over the best", "users", UserLists.ndcg),
        Metric("recall", "recall", "share of a user's liked pairs among his first k", "users", UserLists.recall),
        Metric("precision", "precision", "share of liked pairs in a user's first k", "users", UserLists.precision),
        Metric("hit", "hit rate", "a user has a liked pair among his first k", "users", UserLists.hit),
        Metric("mrr", "MRR", "1 / place of a user's first liked pair", "users", UserLists.reciprocal_rank),
        Metric("coverage", "coverage", "share of the catalogue in somebody's first k", "lists", TopLists.coverage),
        Metric(
            "novelty", "novelty", "mean -log2 of shown items' share of ratings", "lists", TopLists.novelty, range=ANY
        ),
        Metric(
            "same_first", "same first item", "users with the most frequent one", "lists", TopLists.same_first, False
        ),
    )
}
WITH_K = ("ndcg", "recall", "precision", "hit", "coverage", "novelty")


def find(name: str) -> Metric:
    """Return the metric of a name such as mse or ndcg@5."""
    stem, at, digits = str(name).partition("@")
    metrics: dict[str, Metric] = named("metric")
    if stem in metrics and (bool(at) == (stem in WITH_K)):
        if not at:
            return metrics[stem]
        if digits.isdigit() and int(digits) > 0:
            return replace(metrics[stem], name=name, label=f"{metrics[stem].label}@{digits}", k=int(digits))
    known = ", ".join(f"{each}@K" if each in WITH_K else each for each in metrics)
    raise ParameterError(f"there is no metric {name!r}; choose from {known}.")
