"""What a metric adds up over all pairs: value = mean_D a / mean_D b, with a and b known wherever the rating is.

For errors and places in lists b = 1. A list is a user's k items of the *whole catalogue* with the highest score, as a
recommender would show it, whether rated before or not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from unskew.errors import DataError, ParameterError
from unskew.estimation.scores import Values
from unskew.metrics.accuracy import PROBABILITY_FLOOR
from unskew.metrics.ranking import POSITIVE_FROM

Unit = Literal["pair", "user"]
PAIR_METRICS = ("mse", "mae", "log_loss", "auc")
LIST_METRICS = ("ndcg", "recall", "precision")
LOWER_IS_BETTER = ("mse", "mae", "log_loss")


@dataclass(frozen=True)
class Metric:
    """A metric by its name; `k` is the length of the list, 0 for a metric of pairs."""

    name: str
    kind: str
    k: int = 0

    @property
    def unit(self) -> Unit:
        """What is drawn independently: pairs, or the users whose lists are averaged."""
        return "user" if self.k else "pair"

    @property
    def lower_is_better(self) -> bool:
        return self.kind in LOWER_IS_BETTER

    @property
    def is_ratio(self) -> bool:
        return self.kind == "recall"


def metric_of(name: str) -> Metric:
    """The metric called "mse", "auc", "ndcg@5", ..."""
    if name in PAIR_METRICS:
        return Metric(name, name)
    found = re.fullmatch(rf"({'|'.join(LIST_METRICS)})@([1-9]\d*)", str(name))
    if not found:
        listed = ", ".join([*PAIR_METRICS, *(f"{kind}@k" for kind in LIST_METRICS)])
        raise ParameterError(f"there is no metric {name!r}; choose from {listed}, such as ndcg@5.")
    return Metric(name, found[1], int(found[2]))


def metrics_of(names: str | Iterable[str]) -> tuple[Metric, ...]:
    return tuple(metric_of(name) for name in ((names,) if isinstance(names, str) else names))


def squared(scores: Values, labels: Values) -> Values:
    """The square in its expected form for labels between 0 and 1: y (1 - s)^2 + (1 - y) s^2."""
    return np.asarray(scores**2 + labels * (1 - 2 * scores))


def plug_in_squared(scores: Values, labels: Values) -> Values:
    return np.asarray((scores - labels) ** 2)


def absolute(scores: Values, labels: Values) -> Values:
    """|s - y| in its expected form: y (1 - s) + (1 - y) s."""
    return np.asarray(labels * (1 - scores) + (1 - labels) * scores)


def plug_in_absolute(scores: Values, labels: Values) -> Values:
    return np.abs(scores - labels)


def logarithmic(scores: Values, labels: Values) -> Values:
    s = np.clip(scores, PROBABILITY_FLOOR, 1 - PROBABILITY_FLOOR)
    return np.asarray(-(labels * np.log(s) + (1 - labels) * np.log1p(-s)))


def error_of(metric: Metric, binary: bool) -> Callable[[Values, Values], Values]:
    """The error of scores against labels; a graded log has no probabilities, so its squares are plug-in ones."""
    if metric.kind == "log_loss":
        if not binary:
            raise DataError("log_loss needs a binary log: leave it out of metrics, or read the log with a threshold.")
        return logarithmic
    expected, plug_in = {"mse": (squared, plug_in_squared), "mae": (absolute, plug_in_absolute)}[metric.kind]
    return expected if binary else plug_in


def gain_of(metric: Metric, labels: Values, binary: bool) -> Values:
    """What a rating is worth in a list: itself for ndcg, whether it is positive for recall and precision."""
    return labels if metric.kind == "ndcg" or binary else (labels >= POSITIVE_FROM).astype(np.float64)


def place_value(metric: Metric, n_items: int) -> Values:
    """What rank 0 (not in the list), 1, 2, ..., k counts of a pair's rating.

    ndcg and precision count |I| times a place's share of the list's value, so that the mean over pairs is the mean over
    users. The ideal list of ndcg@k is k liked items: whoever has fewer than k in the catalogue cannot reach 1.
    """
    rank = np.arange(1, metric.k + 1)
    if metric.kind == "recall":
        share = np.ones(metric.k)
    elif metric.kind == "precision":
        share = np.full(metric.k, n_items / metric.k)
    else:
        discount = 1 / np.log2(rank + 1)
        share = n_items * discount / discount.sum()
    return np.concatenate([[0.0], share])


def check_probabilities(scores: Values, metric: Metric, binary: bool) -> None:
    """Refuse to compare scores that are no probabilities with binary ratings."""
    if binary and metric.lower_is_better and len(scores) and (scores.min() < 0 or scores.max() > 1):
        raise DataError(
            f"The scores run from {scores.min():g} to {scores.max():g}, but {metric.name} compares probabilities with "
            "ratings: map them to [0, 1], or ask for metrics that look at order only, such as auc or ndcg@5."
        )
