"""A propensity from user and item features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from unskew.data.features import Features
from unskew.data.log import RatingLog
from unskew.data.seen import SeenPairs
from unskew.data.split import Split
from unskew.errors import DataError
from unskew.propensity.base import Codes, FittedPropensity, Propensity, Values, refuse_collapsed, refuse_spread
from unskew.training.checks import MOST_PAIRS_PER_ROW, check_number
from unskew.training.options import Training


class FittedLogistic(FittedPropensity):
    """p = sigmoid([1, x_u] W [1, x_i]): user effects, item effects and all their products in one matrix."""

    stored = ("user_table", "item_table", "weights")

    def __init__(self, user_table: Values, item_table: Values, weights: Values) -> None:
        # One memory layout, because products of matrices round differently in another.
        self.user_table, self.item_table, self.weights = map(np.ascontiguousarray, (user_table, item_table, weights))

    def pair(self, users: Codes, items: Codes) -> Values:
        scores = ((self.user_table @ self.weights)[users] * self.item_table[items]).sum(1)
        return np.asarray(expit(scores))

    def joined_by(self, counts: NDArray[np.int64]) -> FittedLogistic:
        """Newcomers have the average user's features."""
        newcomers = np.repeat(self.user_table.mean(0, keepdims=True), len(counts), axis=0)
        return FittedLogistic(np.vstack([self.user_table, newcomers]), self.item_table, self.weights)

    def vectors(self, users: Codes) -> NDArray[np.float32]:
        return self.user_table[users].astype(np.float32)


@dataclass(frozen=True, kw_only=True)
class Logistic(Propensity):
    """Logistic regression of seen against unseen on user features, item features and their products.

    Maximum likelihood with a ridge of `l2` a weight (the intercept is free), on all seen pairs and `pairs_per_row`
    times as many unseen ones, weighted back to the true base rate. Missing feature values become the column's mean.
    """

    fitted = FittedLogistic
    reads_features = True

    l2: float = 1.0
    pairs_per_row: float = 10.0

    def __post_init__(self) -> None:
        check_number(self, "l2", least=0)
        check_number(self, "pairs_per_row", above=0, most=MOST_PAIRS_PER_ROW)

    def fit_split(
        self, split: Split, *, seed: int, training: Training, random_ratings: RatingLog | None
    ) -> FittedPropensity:
        refuse_spread(self, split)
        log = split.log
        tables = [_table(features, side) for features, side in _sides(log)]
        draws = np.random.default_rng([seed, 31]).integers(log.n_pairs, size=int(self.pairs_per_row * len(log)))
        users, items = np.divmod(draws, log.n_items)
        unseen = ~SeenPairs(log)(users, items)
        if not unseen.any():
            raise DataError(
                f"Logistic found no unseen pair among {len(unseen):,} drawn; there is nothing to tell apart."
            )
        users = np.concatenate([log.users, users[unseen]])
        items = np.concatenate([log.items, items[unseen]])
        seen = np.repeat([1.0, 0.0], [len(log), int(unseen.sum())])
        weight = np.where(seen, 1.0, (log.n_pairs - len(log)) / max(unseen.sum(), 1))
        weights = _maximum_likelihood(tables[0][users], tables[1][items], seen, weight, self.l2)
        fitted = FittedLogistic(tables[0], tables[1], weights)
        missing = sum(int(np.isnan(features.values).sum()) for features, _ in _sides(log))
        if missing:
            fitted.notes = (f"{missing} missing feature values were replaced by their column's mean.",)
        refuse_collapsed(fitted, split, seed)
        return fitted


def _sides(log: RatingLog) -> list[tuple[Features, str]]:
    sides = [(log.user_features, "user"), (log.item_features, "item")]
    return [(_required(features, side), side) for features, side in sides]


def _required(features: Features | None, side: str) -> Features:
    if features is None:
        raise DataError(f"Logistic needs {side} features and the log has none; pass {side}_features= when reading it.")
    return features


def _table(features: Features, side: str) -> Values:
    """Standardised columns behind a column of ones, so that one matrix holds intercept, main effects and products."""
    values = features.expanded.astype(np.float64)
    present = ~np.isnan(values)
    if not present.any(0).all():
        name = features.encoding.names[int(np.argmin(present.any(0)))]
        raise DataError(f"The {side} feature {name!r} has no value at all; leave the column out.")
    mean = np.nanmean(values, 0)
    values = np.where(present, values, mean)
    spread = values.std(0)
    values = (values - mean) / np.where(spread > 0, spread, 1.0)
    return np.hstack([np.ones((len(values), 1)), values])


def _maximum_likelihood(x: Values, y: Values, seen: Values, weight: Values, l2: float) -> Values:
    """Weighted ridge logistic regression on the outer products of the rows of x and y, without forming them."""
    shape, total = (x.shape[1], y.shape[1]), weight.sum()
    ridge = np.full(shape, l2)
    ridge[0, 0] = 0.0

    def loss(flat: Values) -> tuple[float, Values]:
        w = flat.reshape(shape)
        scores = ((x @ w) * y).sum(1)
        residual = weight * (expit(scores) - seen)
        value = weight @ (np.logaddexp(0, scores) - seen * scores) + 0.5 * (ridge * w * w).sum()
        gradient = (x * residual[:, None]).T @ y + ridge * w
        return value / total, gradient.ravel() / total

    start = np.zeros(shape)
    rate = np.average(seen, weights=weight)
    start[0, 0] = np.log(rate) - np.log1p(-rate)
    found = minimize(loss, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": 500})
    return np.asarray(found.x).reshape(shape)
