"""The additive propensity, by exact maximum likelihood over all pairs without visiting them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from unskew.losses.columns import Array, logit, root, sigmoid
from unskew.nets.base import Part
from unskew.propensity.base import FittedPropensity, Propensity, Values
from unskew.training.plan import Given

TOLERANCE = 1e-10  # largest gap between a fitted and a counted margin, as a share of the catalogue
MAX_STEPS = 100
WIDEST = 60.0  # logits: farther out a sigmoid is 0 or 1


class AdditivePropensity(FittedPropensity):
    """p = sigmoid(a_u + b_i); the last user and item are the average ones."""

    user_rows, item_rows = ("of_user",), ("of_item",)

    def __init__(self, of_user: Array, of_item: Array) -> None:
        self.of_user, self.of_item = of_user.astype(np.float32), of_item.astype(np.float32)

    def logits(self, users: Array, items: Array) -> Array:
        return self.of_user[users] + self.of_item[items]

    def user_vectors(self, users: Array) -> Array:
        return self.of_user[users, None]

    def extended(self, counts: Array, owner: Part | None = None) -> AdditivePropensity:
        """New users are as active as their counts tell."""
        known, average = np.split(self.of_user, [-1])
        return AdditivePropensity(np.concatenate([known, activity(counts, self.of_item[:-1]), average]), self.of_item)


@dataclass(frozen=True, kw_only=True)
class Additive(Propensity):
    """p = sigmoid(a_u + b_i): how active the user is and how exposed the item, nothing personal.

    The likelihood depends on the log only through its margins, so users with equal counts share a_u and items with
    equal counts share b_i: the fit over all |U| x |I| pairs is a Newton solve on the grid of distinct counts.
    At the maximum every user's and every item's propensities add up to their number of ratings. Whoever has no rating
    counts as half a rating, and whoever lacks none as lacking half of one; all counts are then scaled to |O| again.
    """

    fitted, needs_all_pairs = AdditivePropensity, True

    def fit_in(self, given: Given) -> AdditivePropensity:
        log, sides, notes = given.log, [], []
        for name, codes, n in (("users", log.users, log.n_users), ("items", log.items, log.n_items)):
            counts = np.bincount(codes, minlength=n)
            inside = np.clip(counts, 0.5, log.n_pairs // n - 0.5)
            sides.append(inside * (min(len(log), log.n_pairs - 0.5) / inside.sum()))
            if changed := int((inside != counts).sum()):
                notes.append(f"{changed} {name} without a rating, or with all of them, were counted as half one off.")
        a, b, gap = solve_margins(*sides)
        if gap > 1e-6:
            notes.append(f"The additive propensity misses a margin by {gap:.2g} ratings.")
        average_user, average_item = (activity(sides[n].mean(keepdims=True), (b, a)[n]) for n in (0, 1))
        fitted = AdditivePropensity(np.append(a, average_user), np.append(b, average_item))
        fitted.notes = tuple(notes)
        return fitted


def activity(counts: Array, of_item: Array) -> Values:
    """Find the a of each count n with sum_i sigmoid(a + b_i) = n: maximum likelihood with the items' effects b fixed.

    Counts are held half a rating away from none and from all.
    """
    b = of_item.astype(np.float64)

    def excess(n: float, a: float) -> tuple[float, float]:
        p = sigmoid(a + b)
        return float(p.sum() - n), float((p * (1 - p)).sum())

    distinct, place = np.unique(np.clip(counts, 0.5, len(b) - 0.5), return_inverse=True)
    return np.array([root(partial(excess, n), -WIDEST, WIDEST) for n in distinct])[place]


def solve_margins(user_counts: Array, item_counts: Array) -> tuple[Values, Values, float]:
    """a and b with sum_i sigmoid(a_u + b_i) = n_u and sum_u sigmoid(a_u + b_i) = n_i, and the largest gap left.

    Newton's method with step halving on the convex negative log-likelihood of the grid of distinct counts; the counts
    of both sides have the same sum.
    """
    k, user, m = np.unique(user_counts, return_inverse=True, return_counts=True)
    n, item, w = np.unique(item_counts, return_inverse=True, return_counts=True)
    a, b = logit(k / w.sum()), logit(n / m.sum())
    b -= logit((m * k).sum() / (m.sum() * w.sum()))

    def loss(a: Values, b: Values) -> float:
        return float((m[:, None] * np.logaddexp(0, a[:, None] + b) * w).sum() - (m * k * a).sum() - (w * n * b).sum())

    current = loss(a, b)
    for _ in range(MAX_STEPS):
        p = sigmoid(a[:, None] + b)
        user_gap, item_gap = (p * w).sum(1) - k, (m[:, None] * p).sum(0) - n
        gap = float(max(np.abs(user_gap).max(), np.abs(item_gap).max()))
        if gap <= TOLERANCE * max(m.sum(), w.sum()):
            break
        step_a, step_b = _newton_step(p, m, w, m * user_gap, w * item_gap)
        size = 1.0
        while (candidate := loss(a - size * step_a, b - size * step_b)) > current and size > 1e-6:
            size /= 2
        a, b, current = a - size * step_a, b - size * step_b, candidate
    return a[user], b[item], gap


def _newton_step(p: Values, m: Array, w: Array, da: Values, db: Values) -> tuple[Values, Values]:
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
