"""A propensity from user and item features."""

from dataclasses import dataclass

import numpy as np

from unskew.data.features import Features
from unskew.data.pairs import SeenPairs
from unskew.errors import DataError
from unskew.losses.columns import Array, sigmoid
from unskew.propensity.base import FittedPropensity, Propensity, Values, refuse_collapsed
from unskew.settings import setting
from unskew.training.plan import Given


class LogisticPropensity(FittedPropensity):
    """p = sigmoid([1, x_u] W [1, x_i]): user effects, item effects and all their products in one matrix.

    The last user and item have average features.
    """

    user_rows, item_rows, other_arrays = ("users",), ("items",), ("weights",)

    def __init__(self, users: Array, items: Array, weights: Array) -> None:
        self.users, self.items, self.weights = (x.astype(np.float32) for x in (users, items, weights))
        self._rows = np.einsum("uc,cd->ud", self.users, self.weights)

    def logits(self, users: Array, items: Array) -> Array:
        return np.asarray(np.einsum("nd,nd->n", self._rows[users], self.items[items]))

    def user_vectors(self, users: Array) -> Array:
        return self.users[users]


@dataclass(frozen=True, kw_only=True)
class Logistic(Propensity):
    """Logistic regression of seen against unseen on user features, item features and their products.

    Maximum likelihood with a ridge of `l2` a weight (the intercept is free), on all seen pairs and `pairs_per_row`
    times as many unseen ones, weighted back to the true base rate. What is missing contributes nothing.
    """

    fitted, reads_features = LogisticPropensity, True

    l2: float = setting(1.0, least=0)
    pairs_per_row: float = setting(10.0, above=0, most=1e6)

    def fit_in(self, given: Given) -> LogisticPropensity:
        log = given.log
        x, y = map(_table, log.features, ("user", "item"))
        rng, count = np.random.default_rng([given.seed, 31]), int(self.pairs_per_row * len(log))
        users, items, known, cells = log.population.draw_evenly(count, rng)
        unseen = ~(SeenPairs(log)(users, items) if known is None else known)
        if not unseen.any():
            raise DataError(f"Logistic found no unseen pair among {count:,} drawn: there is nothing to tell apart.")
        users, items = np.append(log.users, users[unseen]), np.append(log.items, items[unseen])
        seen = np.repeat([1.0, 0.0], [len(log), int(unseen.sum())])
        of_seen = np.ones(len(log)) if log.cells is None else log.cells.astype(np.float64)
        of_unseen = np.ones(int(unseen.sum())) if cells is None else cells[unseen].astype(np.float64)
        weight = np.append(of_seen, of_unseen * ((log.n_pairs - of_seen.sum()) / of_unseen.sum()))
        fitted = LogisticPropensity(x, y, _maximum_likelihood(x[users], y[items], seen, weight, self.l2))
        refuse_collapsed(fitted, log, given.seed)
        return fitted


def _table(features: Features | None, side: str) -> Values:
    """Return columns as methods read them, behind one of ones, and a last row of their means for whoever is unknown."""
    if features is None:
        raise DataError(f"Logistic needs {side} features and the log has none; pass {side}_features= when reading it.")
    table = np.hstack([np.ones((len(features.values), 1)), features.encoded.astype(np.float64)])
    return np.vstack([table, table.mean(0)])


def _maximum_likelihood(x: Values, y: Values, seen: Values, weight: Values, l2: float) -> Values:
    """Weighted ridge logistic regression on the outer products of the rows of x and y, without forming them."""
    from scipy.optimize import minimize  # slow to import, and few fits need it

    shape, total = (x.shape[1], y.shape[1]), weight.sum()
    ridge, start, rate = np.full(shape, l2), np.zeros(shape), np.average(seen, weights=weight)
    ridge[0, 0], start[0, 0] = 0.0, np.log(rate) - np.log1p(-rate)

    def loss(flat: Values) -> tuple[float, Values]:
        w = flat.reshape(shape)
        scores = ((x @ w) * y).sum(1)
        residual = weight * (sigmoid(scores) - seen)
        value = (weight * (np.logaddexp(0, scores) - seen * scores)).sum() + 0.5 * (ridge * w * w).sum()
        gradient = (x * residual[:, None]).T @ y + ridge * w
        return value / total, gradient.ravel() / total

    found = minimize(loss, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": 500})
    return np.asarray(found.x).reshape(shape)
