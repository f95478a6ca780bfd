"""Does being seen depend on liking? A likelihood-ratio test on pairs, seen and unseen.

Under the null, logit P(seen) = a_u + b_i: users are more or less active and items more or less exposed, nothing else.
The alternative adds slope * x(u, i), where x is the cross-fitted logit of the predicted rating less its own user and
item effects. Whether a pair was seen has no part in its own prediction, so under the null x is a covariate like any
other, and twice the log-likelihood ratio is chi-squared with one degree of freedom; because x is orthogonal to user
and item effects in the information, that these are estimated does not matter in first order.

Unseen pairs may be a sample: a logistic model holds in a case-control sample with a shifted intercept (Prentice &
Pyke, 1979). Exposure that is personal for other reasons than liking makes pairs of a user, and of an item, dependent,
which the likelihood ratio ignores; the clustered p-value allows for both (Cameron, Gelbach & Miller, 2011).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import chi2

from unskew.data.log import RatingLog
from unskew.estimation.calibrated import bounded_logit, seen_and_unseen
from unskew.estimation.scores import Codes, Values
from unskew.metrics.intervals import Interval, normal_interval
from unskew.propensity.additive import Additive
from unskew.training.crossfit import CrossFitted

UNSEEN_PER_SEEN = 4
MOST_SEEN = 200_000
SWEEPS = 50


@dataclass(frozen=True)
class SelectionTest:
    """What the test found.

    `slope` is the change of the log odds of being seen for one standard deviation of predicted liking beyond user and
    item, with an interval from the clustered standard error. `personal` is how well that part of the predictions
    foretells the ratings themselves (1 if exactly, 0 if not at all): where it may be 0, the test is blind.
    """

    likelihood_ratio: float
    p_value: float
    clustered_p_value: float
    slope: Interval
    personal: Interval
    n_seen: int
    n_unseen: int

    @property
    def evidence(self) -> float:
        """The larger of the two p-values."""
        return max(self.p_value, self.clustered_p_value)

    @property
    def blind(self) -> bool:
        return self.personal.low <= 0


def selection_test(predict: Callable[[Codes, Codes], Values], log: RatingLog, *, seed: int = 0) -> SelectionTest:
    """The test of a log, given predictions in [0, 1] by codes that no pair's own rating has a part in."""
    rows = _Rows.of(log, seed)
    fold = (
        predict.fold(rows.users, rows.items) if isinstance(predict, CrossFitted) else np.zeros(len(rows.seen), np.int64)
    )
    z = bounded_logit(np.clip(predict(rows.users, rows.items), 1e-6, 1 - 1e-6))
    offset = bounded_logit(Additive().fit(log).pair(rows.users, rows.items)) + rows.shift
    p = expit(offset)
    x = _without_effects(z, p * (1 - p), rows, fold)
    spread = float(np.sqrt(np.average(x**2, weights=p * (1 - p))))
    if spread < 1e-9 or not rows.n_unseen:  # nothing personal in the predictions, or nothing to compare with
        nothing = Interval(0.0, 0.0, 0.0)
        return SelectionTest(0.0, 1.0, 1.0, nothing, nothing, rows.n_seen, rows.n_unseen)
    personal, x = _foretold(z, x, rows), x / spread
    ones = np.ones((len(x), 1))
    null, full = logistic(ones, rows.seen, offset), logistic(np.column_stack([ones, x]), rows.seen, offset)
    ratio = max(2 * (_log_likelihood(full.fitted, rows.seen) - _log_likelihood(null.fitted, rows.seen)), 0.0)
    score, moved = x * (rows.seen - null.fitted), x * (rows.seen - full.fitted)
    information = float((full.fitted * (1 - full.fitted)) @ x**2)
    return SelectionTest(
        likelihood_ratio=ratio,
        p_value=float(chi2.sf(ratio, 1)),
        clustered_p_value=float(chi2.sf(score.sum() ** 2 / clustered(score, rows.users, rows.items), 1)),
        slope=normal_interval(
            float(full.coefficients[1]), float(np.sqrt(clustered(moved, rows.users, rows.items))) / information
        ),
        personal=personal,
        n_seen=rows.n_seen,
        n_unseen=rows.n_unseen,
    )


@dataclass(frozen=True, eq=False)
class _Rows:
    """Seen pairs first, then unseen ones; `shift` is what drawing them apart adds to the log odds of being seen."""

    users: Codes
    items: Codes
    seen: Values
    ratings: Values  # of the seen ones
    shift: float

    @classmethod
    def of(cls, log: RatingLog, seed: int) -> _Rows:
        """Seen pairs (of a very long log a sample) and a few times as many unseen ones, unless there are fewer."""
        index = np.arange(len(log))
        if len(log) > MOST_SEEN:
            index = np.sort(np.random.default_rng([seed, 62]).choice(len(log), MOST_SEEN, replace=False))
        pairs = seen_and_unseen(log, seed=seed, most=max(UNSEEN_PER_SEEN * len(index), 50_000))
        users, items = pairs.users[pairs.n_seen :], pairs.items[pairs.n_seen :]
        share_of_unseen = len(users) / max(log.n_pairs - len(log), 1)
        return cls(
            np.concatenate([log.users[index], users]),
            np.concatenate([log.items[index], items]),
            np.repeat([1.0, 0.0], [len(index), len(users)]),
            log.ratings[index].astype(np.float64),
            float(np.log(len(index) / len(log)) - np.log(share_of_unseen or 1.0)),
        )

    @property
    def n_seen(self) -> int:
        return len(self.ratings)

    @property
    def n_unseen(self) -> int:
        return len(self.seen) - len(self.ratings)


@dataclass(frozen=True, eq=False)
class Logistic:
    """A fitted logistic regression."""

    coefficients: Values
    fitted: Values


def logistic(x: Values, y: Values, offset: Values | float = 0.0) -> Logistic:
    """Maximum likelihood by Newton's method with bounded steps; labels may lie between 0 and 1."""
    beta = np.zeros(x.shape[1])
    for _ in range(50):
        p = expit(offset + x @ beta)
        hessian = (x * (p * (1 - p))[:, None]).T @ x + 1e-9 * np.eye(len(beta))
        step = np.linalg.solve(hessian, x.T @ (y - p))
        beta = beta + np.clip(step, -5, 5)
        if np.abs(step).max() < 1e-10:
            break
    return Logistic(beta, expit(offset + x @ beta))


def _log_likelihood(p: Values, y: Values) -> float:
    return float(np.log(np.where(y > 0, p, 1 - p)).sum())


def _without_effects(z: Values, weight: Values, rows: _Rows, fold: NDArray[np.int64]) -> Values:
    """z less user and item effects, orthogonal to both under the weights: projections in turn until they agree.

    Effects are those of a fold: a rating that is left out of its fold's model moves that model's user and item effects,
    and must not be compared with what other folds' models say of the same user or item.
    """
    groups = [codes.astype(np.int64) * (fold.max() + 1) + fold for codes in (rows.users, rows.items)]
    sides = [(group, np.bincount(group, weight)) for group in groups]
    x = z - np.average(z, weights=weight)
    for _ in range(SWEEPS):
        before = x
        for codes, total in sides:
            x = x - (np.bincount(codes, weight * x) / np.where(total > 0, total, 1.0))[codes]
        if np.abs(x - before).max() < 1e-9:
            break
    return x


def clustered(values: Values, users: Codes, items: Codes) -> float:
    """The variance of a sum whose terms may hang together within a user and within an item."""
    of_users, of_items = (float(np.square(np.bincount(codes, values)).sum()) for codes in (users, items))
    alone = float(np.square(values).sum())
    return max(of_users + of_items - alone, alone)


def _foretold(z: Values, x: Values, rows: _Rows) -> Interval:
    """The coefficient of the personal part x in a logistic regression of the ratings on x and on the rest of z."""
    n = rows.n_seen
    inside, rest, users, items = x[:n], (z - x)[:n], rows.users[:n], rows.items[:n]
    design = np.column_stack([np.ones(n), rest, inside])
    fit = logistic(design, rows.ratings)
    hessian = (design * (fit.fitted * (1 - fit.fitted))[:, None]).T @ design + 1e-9 * np.eye(3)
    influence = (design @ np.linalg.inv(hessian))[:, 2] * (rows.ratings - fit.fitted)
    return normal_interval(float(fit.coefficients[2]), float(np.sqrt(clustered(influence, users, items))))
