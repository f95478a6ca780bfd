"""The additive propensity, by exact maximum likelihood over all pairs without visiting them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from unskew.data.log import RatingLog
from unskew.data.split import Split
from unskew.group import ALONE, Group
from unskew.propensity.activity import SETTLED, activity
from unskew.propensity.base import Codes, FittedPropensity, Propensity, Values
from unskew.training.options import Training

TOLERANCE = 1e-10  # largest gap between a fitted and a counted margin, as a share of the catalogue
MAX_STEPS = 100


class FittedAdditive(FittedPropensity):
    """p = sigmoid(a_u + b_i)."""

    stored = ("of_user", "of_item")
    by_user = ("of_user",)

    def __init__(self, of_user: Values, of_item: Values) -> None:
        self.of_user, self.of_item = of_user, of_item

    def pair(self, users: Codes, items: Codes) -> Values:
        return np.asarray(expit(self.of_user[users] + self.of_item[items]))

    def joined_by(self, counts: NDArray[np.int64]) -> FittedAdditive:
        return FittedAdditive(np.append(self.of_user, activity(counts, self.of_item)), self.of_item)

    def vectors(self, users: Codes) -> NDArray[np.float32]:
        return np.clip(self.of_user[users, None], -30.0, 30.0).astype(np.float32)


@dataclass(frozen=True, kw_only=True)
class Additive(Propensity):
    """p = sigmoid(a_u + b_i): how active the user is and how exposed the item, nothing personal.

    The likelihood depends on the log only through its margins, so users with equal counts share a_u and items with
    equal counts share b_i: the fit over all |U| x |I| pairs is a Newton solve on the grid of distinct counts.
    At the maximum every user's and every item's propensities add up to their number of ratings. Users and items
    with no rating, or with all of them, get propensity 0 or 1.
    """

    fitted = FittedAdditive

    def fit_split(
        self, split: Split, *, seed: int, training: Training, random_ratings: RatingLog | None
    ) -> FittedPropensity:
        log, group = split.log, split.group
        user_counts = np.bincount(log.users, minlength=log.n_users)
        item_counts = group.total(np.bincount(log.items, minlength=log.n_items))
        a, b, gap = solve_margins(user_counts, item_counts, group)
        fitted = FittedAdditive(a, b)
        if gap > 1e-6:
            fitted.notes = (f"The additive propensity misses a margin by {gap:.2g} ratings.",)
        return fitted


def solve_margins(
    user_counts: NDArray[np.int64], item_counts: NDArray[np.int64], group: Group = ALONE
) -> tuple[Values, Values, float]:
    """a and b with sum_i sigmoid(a_u + b_i) = n_u and sum_u sigmoid(a_u + b_i) = n_i, and the largest gap left.

    The users of several workers need not meet: how many of them have each count is all that the others must know.
    """
    how_many = group.total(np.bincount(user_counts, minlength=len(item_counts) + 1))
    users, items = _Side.of(user_counts, np.flatnonzero(how_many), how_many), _Side.of(item_counts)
    while users.settle(items) or items.settle(users):
        pass
    gap = _newton(users, items) if users.open.any() and items.open.any() else 0.0
    return users.effect[users.group], items.effect[items.group], gap


class _Side:
    """Users or items, grouped by count: the distinct counts, how many share each, and the common effect."""

    def __init__(self, counts: Values, group: NDArray[np.intp], size: Values) -> None:
        self.count, self.group, self.size = counts, group, size
        self.effect = np.zeros(len(counts))
        self.open = np.ones(len(counts), bool)

    @classmethod
    def of(cls, counts: NDArray[np.int64], distinct: Any = None, how_many: Any = None) -> _Side:
        """Grouped by the `distinct` counts, those given or those there are; `how_many` have each."""
        if distinct is None:
            distinct, group, size = np.unique(counts, return_inverse=True, return_counts=True)
        else:
            group, size = np.searchsorted(distinct, counts), how_many[distinct]
        return cls(distinct.astype(np.float64), group, size.astype(np.float64))

    def settle(self, other: _Side) -> bool:
        """Give groups that saw nothing, or everything, that is still open their infinite effect; say if any was found.

        Such a group takes its ratings off the other side's counts and leaves the problem. Where two settled groups
        meet, the one that was settled first is right, so later ones get a smaller infinity.
        """
        available = other.size[other.open].sum()
        infinity = SETTLED - 100.0 * (np.count_nonzero(~self.open) + np.count_nonzero(~other.open))
        for extreme, effect in ((0.0, -infinity), (available, infinity)):
            found = self.open & (self.count == extreme)
            if found.any():
                self.effect[found], self.open[found] = effect, False
                if effect > 0:
                    other.count[other.open] -= self.size[found].sum()
                return True
        return False


def _newton(users: _Side, items: _Side) -> float:
    """Newton's method with step halving on the convex negative log-likelihood of the grid; the largest gap left."""
    m, k = users.size[users.open], users.count[users.open]
    w, n = items.size[items.open], items.count[items.open]
    a, b = logit(k / w.sum()), logit(n / m.sum())
    b -= logit((m @ k) / (m.sum() * w.sum()))

    def loss(a: Values, b: Values) -> float:
        return float(m @ np.logaddexp(0, a[:, None] + b) @ w - (m * k) @ a - (w * n) @ b)

    current = loss(a, b)
    for _ in range(MAX_STEPS):
        p = expit(a[:, None] + b)
        user_gap, item_gap = p @ w - k, m @ p - n
        if max(np.abs(user_gap).max(), np.abs(item_gap).max()) <= TOLERANCE * max(m.sum(), w.sum()):
            break
        step_a, step_b = _newton_step(p, m, w, m * user_gap, w * item_gap)
        size = 1.0
        while (candidate := loss(a - size * step_a, b - size * step_b)) > current and size > 1e-6:
            size /= 2
        a, b, current = a - size * step_a, b - size * step_b, candidate
    users.effect[users.open], items.effect[items.open] = a, b
    p = expit(a[:, None] + b)
    return float(max(np.abs(p @ w - k).max(), np.abs(m @ p - n).max()))


def _newton_step(p: Values, m: Values, w: Values, da: Values, db: Values) -> tuple[Values, Values]:
    """Solve [[A, C], [C', B]] (x, y) = (da, db), A and B diagonal, by eliminating the longer side.

    Adding a constant to a and taking it from b changes nothing, so the reduced matrix is singular along ones; a
    multiple of the all-ones matrix fills that direction.
    """
    if len(m) < len(w):
        step_b, step_a = _newton_step(p.T, w, m, db, da)
        return step_a, step_b
    C = p * (1 - p) * m[:, None] * w
    A, B = C.sum(1), C.sum(0)
    reduced = np.diag(B) - C.T @ (C / A[:, None])
    reduced += B.mean() / len(B)
    y = np.linalg.solve(reduced, db - C.T @ (da / A))
    return (da - C @ y) / A, y
