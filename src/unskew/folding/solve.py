"""What is most likely of a new user, the items held fixed: a ridge regression for each by Newton's method."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unskew.nets.base import Linear
from unskew.special import expit

Values = NDArray[np.float64]

ROWS_AT_ONCE, USERS_AT_ONCE = 1 << 16, 1 << 10
MAX_STEPS = 50
SETTLED = 1e-12  # a step that would gain less than half of this is not taken
SMALLEST_STEP = 1e-8


class Rated(NamedTuple):
    """Ratings gathered by user: those of user u are `starts[u]` to `starts[u + 1]`."""

    starts: NDArray[np.int64]
    items: NDArray[np.int64]
    ratings: Values
    weights: Values


class Prior(NamedTuple):
    """Users as those before them were, normal with their mean and covariance; `root` is its symmetric square root."""

    mean: Values
    root: Values

    @classmethod
    def of(cls, users: Any) -> Prior:
        """From a row each, looked at piece by piece."""
        n, width = users.shape
        mean, covariance = np.zeros(width), np.zeros((width, width))
        for start in range(0, n, ROWS_AT_ONCE):
            mean += users[start : start + ROWS_AT_ONCE].sum(0, dtype=np.float64) / n
        for start in range(0, n, ROWS_AT_ONCE):
            away = users[start : start + ROWS_AT_ONCE] - mean
            covariance += away.T @ away / n
        spread, axes = np.linalg.eigh(covariance)
        return cls(mean, (axes * np.sqrt(np.maximum(spread, 0))) @ axes.T)


def solved_users(form: Linear, n_known: int, rated: Rated, *, shrinkage: float, squared: bool) -> Values:
    """A row for each new user: the maximum a posteriori under the prior of the first `n_known` users.

    minimise  sum_i w_i e(x_i . theta + c_i, r_i) + shrinkage / 2 (theta - mean)' covariance^-1 (theta - mean)

    With theta = mean + root beta the penalty is shrinkage / 2 |beta|^2, for singular covariances too: directions in
    which known users do not differ stay as they are, and without a rating beta is 0, the average user.
    """
    prior = Prior.of(form.users[:n_known])
    used, place = np.unique(rated.items, return_inverse=True)
    items, offsets = form.items[used].astype(np.float64), form.offsets[used].astype(np.float64)
    x, rows = items @ prior.root, np.tile(prior.mean, (len(rated.starts) - 1, 1))
    for users in _chunks(rated.starts):
        part = slice(rated.starts[users[0]], rated.starts[users[-1] + 1])
        starts = rated.starts[users] - part.start
        labels = rated.ratings[part], rated.weights[part]
        means = np.repeat(rows[users], np.diff(rated.starts)[users], axis=0)
        offset = offsets[place[part]] + np.einsum("nk,nk->n", items[place[part]], means)
        problem = _Problem(starts, x[place[part]], offset, *labels, shrinkage, squared)
        rows[users] += problem.solved() @ prior.root
    return rows


def _chunks(starts: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Users who have ratings, as many together as are no more than a thousand and have no more than 65,536."""
    rated = np.flatnonzero(np.diff(starts))
    begin = 0
    while begin < len(rated):
        fits = np.searchsorted(starts[rated + 1], starts[rated[begin]] + ROWS_AT_ONCE, side="right")
        end = min(max(int(fits), begin + 1), begin + USERS_AT_ONCE)
        yield rated[begin:end]
        begin = end


class _Problem(NamedTuple):
    """Ridge regressions side by side, one a user, whose rows begin at `starts`."""

    starts: NDArray[np.int64]
    x: Values
    offsets: Values
    ratings: Values
    weights: Values
    shrinkage: float
    squared: bool

    def solved(self) -> Values:
        """Newton steps, each user's halved until it lowers the objective; by Gauss and Newton for squared errors."""
        beta = np.zeros((len(self.starts), self.x.shape[1]))
        value = self.objective(beta)
        for _ in range(MAX_STEPS):
            gradient, curvature = self.derivatives(beta)
            step = np.linalg.solve(curvature, gradient[:, :, None])[:, :, 0]
            size = ((step * gradient).sum(1) > SETTLED).astype(np.float64)
            while (size > 0).any():
                candidate = self.objective(beta - size[:, None] * step)
                if not (worse := (candidate >= value) & (size > 0)).any():
                    break
                size[worse] /= 2
                size[size < SMALLEST_STEP] = 0
            if not (size > 0).any():
                break
            beta -= size[:, None] * step
            value = self.objective(beta)
        return beta

    def objective(self, beta: Values) -> Values:
        z = self.said(beta)
        error = (expit(z) - self.ratings) ** 2 if self.squared else np.logaddexp(0, z) - self.ratings * z
        return np.asarray(self.by_user(self.weights * error) + self.shrinkage / 2 * (beta**2).sum(1))

    def derivatives(self, beta: Values) -> tuple[Values, Values]:
        said = expit(self.said(beta))
        slope, curvature = said - self.ratings, said * (1 - said)
        if self.squared:
            slope, curvature = 2 * slope * curvature, 2 * curvature**2
        gradient = self.by_user((self.weights * slope)[:, None] * self.x) + self.shrinkage * beta
        heavy, ends = (self.weights * curvature)[:, None] * self.x, np.append(self.starts[1:], len(self.x))
        spans = zip(self.starts.tolist(), ends.tolist(), strict=True)
        matrices = np.stack([heavy[start:end].T @ self.x[start:end] for start, end in spans])
        return gradient, matrices + self.shrinkage * np.eye(self.x.shape[1])

    def said(self, beta: Values) -> Values:
        """The logits."""
        counts = np.diff(np.append(self.starts, len(self.x)))
        return np.asarray(self.offsets + np.einsum("nk,nk->n", self.x, np.repeat(beta, counts, axis=0)))

    def by_user(self, values: Values) -> Values:
        return np.asarray(np.add.reduceat(values, self.starts, axis=0))
