"""The one judge: what a log alone can tell of models over the pairs that nobody chose.

Five folds stratified by user. Models, imputation q and chance of being seen p never see the fold they are judged on, so
what is judged are models of 80% of the log. The target are unseen pairs: a left-out rating stands for (1 - p) / p of
them, p the chance that it is left out among all pairs outside the training rows. Every estimate is doubly robust and
self-normalised, mean over unseen of g(q) + sum w (g(y) - g(q)) / sum w, linear in the residuals, its error two-way by
user and item. Order within users survives selection on the rating, P(seen | x, r) = g(x) t(r), as t cancels in it; the
squared error does not, so its sign must hold at three corners of the band of how liking drives seeing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unskew.data.log import RatingLog
from unskew.data.population import draw_unseen
from unskew.errors import DataError
from unskew.evaluation.fits import exposure_of, imputation_of, judging_folds, pairs_of, slope_of
from unskew.findings import Interval
from unskew.metrics.intervals import effective_sample_size, normal_interval, two_way_error
from unskew.selection.slope import Slope

Values = NDArray[np.float64]
Codes = NDArray[np.integer[Any]]
Weighting = Literal["by activity", "users alike"]

N_FOLDS = 5
MOST_UNSEEN = 400_000  # unseen pairs a fold; all of them if there are fewer
LEAST_UNSEEN = 20  # a user
Z = 2.24  # standard errors that decide: 1.96 for two looks
RAISED = 1.64  # errors by which the slope is raised at the ends of the band
FLOOR, CAP = 0.1, 0.9  # of p: a tenth of the user's mean, and at most this
DECIDES = 9.49  # (2.24 + .84)^2: so many variances over the squared gain decide in four of five samples
SHOWN = 3.1  # errors of the smallest gain that is found in four of five logs
FEWEST = 100


class Estimate(NamedTuple):
    """A value with its standard error."""

    value: float
    error: float

    @property
    def z(self) -> float:
        """The value in standard errors."""
        return self.value / self.error if self.error > 0 else 0.0

    def interval(self, form: str = ".4f") -> Interval:
        """With ends that hold the truth in 95 of 100 logs."""
        return normal_interval(self.value, self.error, form=form)


class Corner(NamedTuple):
    """One reading of the log: imputed ratings q, what unseen rows count and what left-out ones stand for."""

    q: Values
    base: Values
    weight: Values


@dataclass(frozen=True, eq=False)
class Evidence:
    """Rows that models are judged on, sorted by fold and user: left-out ratings (`held`) and unseen pairs."""

    log: RatingLog
    fold_of_ratings: NDArray[np.int64]  # of the log's rows
    fold: NDArray[np.int64]
    users: NDArray[np.int64]
    items: NDArray[np.int64]
    held: NDArray[np.bool_]
    y: Values  # ratings of held rows
    corners: dict[str, Corner]
    whole: bool  # whether every unseen pair is here
    slope: Slope
    level: Interval  # mean rating over unseen pairs: from the lowest end of the band to what the imputation says
    seed: int = 0
    drawn: bool = False  # whether rows are random draws from the pairs that are meant, and not what users chose

    def error(self, by_user: Values, by_item: Values | None = None) -> float:
        """The standard error of a sum of terms by row; of pairs within users if `by_item` is given too."""
        if not self.drawn:
            return two_way_error(self.users, self.items, by_user, by_item)
        terms = by_user if by_item is None else np.bincount(self.users, by_user)
        return float(np.sqrt(np.square(terms).sum()))

    @cached_property
    def n_held(self) -> int:
        return int(self.held.sum())

    @property
    def effective(self) -> float:
        """How many equal ratings the weights leave."""
        return effective_sample_size(self.corners["alike"].weight[self.held])

    def scores(self, answers: Sequence[Callable[[Codes, Codes], Values]]) -> Values:
        """What models by fold answer of the rows of theirs; one model answers for all."""
        found = np.empty(len(self.fold))
        for k in range(int(self.fold.max()) + 1):
            rows = np.flatnonzero(self.fold == k)
            found[rows] = answers[k % len(answers)](self.users[rows], self.items[rows])
        return found


def gather(log: RatingLog, *, seed: int = 0, propensity: Values | None = None) -> Evidence:
    """Fit what the judge needs and lay out the rows; the same log gives the same evidence again, at once.

    `propensity` are known chances of being seen, one a rating, instead of fitted ones.
    """
    if propensity is not None:
        refuse_propensities(propensity)
    key = (fingerprint(log), seed, None if propensity is None else propensity.tobytes())
    if key not in _KNOWN:
        while len(_KNOWN) >= 4:
            _KNOWN.pop(next(iter(_KNOWN)))
        _KNOWN[key] = _gathered(log, seed, propensity)
    return replace(_KNOWN[key], log=log)


_KNOWN: dict[Any, Evidence] = {}


def fingerprint(log: RatingLog) -> str:
    """A name of the log's ratings."""
    found = hashlib.blake2b(f"{log.n_users} {log.n_items} {log.scale!r}".encode(), digest_size=8)
    for column in (log.users, log.items, log.ratings):
        found.update(np.ascontiguousarray(column).tobytes())
    return found.hexdigest()


def _gathered(log: RatingLog, seed: int, propensity: Values | None) -> Evidence:
    if len(log) < FEWEST:
        raise DataError(f"{len(log)} ratings cannot judge anything: at least {FEWEST} are needed.")
    fold, rng = judging_folds(log, N_FOLDS, seed), np.random.default_rng([seed, 42])
    seen, imputations, parts = pairs_of(log).seen(), [], []
    for number in range(N_FOLDS):
        training = log.take(fold != number)
        if len(np.unique(training.users)) < 2 or len(np.unique(training.items)) < 2:
            raise DataError("one user or one item has all ratings: there is nothing to judge models by.")
        imputations.append(imputation_of(training, seed + 1000 * number))
        chosen, draws = np.arange(log.n_users), log.n_items
        if log.n_pairs - len(log) > MOST_UNSEEN:
            if log.n_users * LEAST_UNSEEN > MOST_UNSEEN:
                chosen = np.sort(rng.permutation(log.n_users)[: MOST_UNSEEN // LEAST_UNSEEN])
            draws = MOST_UNSEEN // len(chosen)
        users, items, cells = draw_unseen(seen, chosen, draws, rng)
        rows = np.flatnonzero((fold == number) & np.isin(log.users, users))
        u, i = np.concatenate([log.users[rows], users]), np.concatenate([log.items[rows], items])
        held = np.repeat([True, False], [len(rows), len(users)])
        cells = np.concatenate([np.ones(len(rows)), cells])
        expected = np.maximum(np.bincount(training.users, minlength=log.n_users), 0.5) / (N_FOLDS - 1)
        outside = np.bincount(u, cells, log.n_users).astype(np.float64)
        if propensity is None:
            p = _left_out(
                exposure_of(training, seed + number).logits(u, i).astype(np.float64), u, cells, expected, outside
            )
        else:
            p = np.concatenate([propensity[rows], np.ones(len(users))])
        order = np.argsort(u, kind="stable")
        columns = (
            u,
            i,
            held,
            np.concatenate([log.ratings[rows], np.zeros(len(users))]),
            cells,
            p,
            (expected / np.maximum(outside, 1))[u],
        )
        parts.append([np.full(len(u), number), *(column[order] for column in columns)])
    slope = slope_of(log, fold, imputations, seed)
    k, u, i, held, y, cells, p, activity = (np.concatenate(column) for column in zip(*parts, strict=True))
    u, i, y = u.astype(np.int64), i.astype(np.int64), y.astype(np.float64)
    raised = max(slope.value + RAISED * slope.error, 0.0) if np.isfinite(slope.error) else 0.0
    raw, low = np.empty(len(u)), np.empty(len(u))
    for number, imputation in enumerate(imputations):
        own = k == number
        left_open, noise = imputation.variance(u[own], i[own])
        raw[own] = imputation.expected(u[own], i[own])
        low[own] = imputation.expected(u[own], i[own], raised * (left_open + noise))
    base, weight = np.where(held, 0.0, cells), np.where(held, (1 - p) / p, 0.0)
    raw, low = np.clip(raw, 1e-4, 1 - 1e-4), np.clip(low, 1e-4, 1 - 1e-4)
    tilted = weight * (y * low / raw + (1 - y) * (1 - low) / (1 - raw))
    corners = {
        "alike": Corner(raw, base, weight),
        "activity": Corner(raw, base * activity, weight * activity),
        "low, activity": Corner(low, base * activity, tilted * activity),
        "low, alike": Corner(low, base, tilted),
    }
    levels = [float((base * q).sum() / base.sum()) for q in (raw, low)]
    level = Interval(levels[0], min(levels), max(levels), ".1%" if log.binary else ".3f")
    return Evidence(log, fold, k, u, i, held, y, corners, log.n_pairs - len(log) <= MOST_UNSEEN, slope, level, seed)


def _left_out(eta: Values, users: Codes, cells: Values, expected: Values, outside: Values) -> Values:
    """The chance that a pair outside the training rows is a left-out one: a user's add up to what he leaves out."""
    top = np.full(len(expected), -np.inf)
    np.maximum.at(top, users, eta)
    e = np.exp(eta - top[users])
    total = np.bincount(users, cells * e, len(expected))
    p = e / total[users] * expected[users]
    return np.asarray(np.clip(p, FLOOR * (expected / np.maximum(outside, 1))[users], CAP))


def refuse_propensities(p: Values) -> None:
    """Refuse what is no chance of a pair that was seen."""
    bad = ~((p > 0) & (p <= 1))
    if bad.any():
        raise DataError(
            f"The propensity of rating {int(np.argmax(bad)) + 1} is {p[bad][0]:g} ({int(bad.sum()):,} such ratings); "
            "that of a seen pair must lie above 0 and be at most 1."
        )


def mean_of(evidence: Evidence, corner: Corner, direct: Values, residual: Values) -> Estimate:
    """mean over unseen pairs of `direct` plus the weighted mean of `residual` over left-out ratings."""
    n, w = max(corner.base.sum(), 1e-300), max(corner.weight.sum(), 1e-300)  # either may be nothing
    first, second = (corner.base * direct).sum() / n, (corner.weight * residual).sum() / w
    influence = corner.base * (direct - first) / n + corner.weight * (residual - second) / w
    return Estimate(float(first + second), evidence.error(influence))


def squared_gain(evidence: Evidence, before: Values, after: Values, corner: str) -> Estimate:
    """By how much the squared error falls: (y - before)^2 - (y - after)^2, linear in y."""
    here = evidence.corners[corner]
    constant, slope = before**2 - after**2, -2 * (before - after)
    return mean_of(evidence, here, constant + slope * here.q, slope * (evidence.y - here.q))


class Order(NamedTuple):
    """Sums over pairs of rows of one group, a liked and a disliked one: by row, as it is placed and in all."""

    right: Values
    right_by_item: Values
    all: Values
    all_by_item: Values

    @property
    def value(self) -> float:
        """The share in the right order."""
        return float(self.right.sum() / self.all.sum())


def order_of(evidence: Evidence, scores: Values, here: Corner, within_users: bool = True) -> Order:
    """Liked above disliked, one step from the imputation: linear in the residuals y - q; ties count one half."""
    liked, disliked = here.base * here.q, here.base * (1 - here.q)
    n_folds = int(evidence.fold.max()) + 1
    unseen, left_out = (np.bincount(evidence.fold, c, n_folds) for c in (here.base, here.weight))
    x = (unseen / np.maximum(left_out, 1e-300))[evidence.fold] * here.weight * (evidence.y - here.q)
    group = evidence.fold * evidence.log.n_users + evidence.users if within_users else evidence.fold
    order = np.lexsort((scores, group))
    g, s = group[order], scores[order]
    starts = np.flatnonzero(np.concatenate([[True], g[1:] != g[:-1]]))
    of_group = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(g)))
    ties = np.flatnonzero(np.concatenate([[True], (g[1:] != g[:-1]) | (s[1:] != s[:-1])]))
    of_tie = np.repeat(np.arange(len(ties)), np.diff(ties, append=len(g)))

    def below(mass: Values) -> tuple[Values, Values]:
        """The mass of a group below each row, half of its ties counted, and in all."""
        in_tie, in_group = np.add.reduceat(mass, ties), np.add.reduceat(mass, starts)
        before = np.cumsum(in_tie) - in_tie
        before -= before[np.searchsorted(ties, starts)][of_group[ties]]
        return before[of_tie] + (in_tie[of_tie] - mass) / 2, in_group[of_group]

    under, all_disliked = below(disliked[order])
    over, all_liked = below(liked[order])
    own_l, own_d, own_x = liked[order], disliked[order], x[order]
    over = all_liked - over - own_l
    step, step_all = own_x * (under - over), own_x * (all_disliked - all_liked)
    found = Order(
        own_l * under + step,
        own_l * under + own_d * over + step,
        own_l * (all_disliked - own_d) + step_all,
        own_l * (all_disliked - own_d) + own_d * (all_liked - own_l) + step_all,
    )
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))
    return Order(*(column[back] for column in found))


def order_gain(evidence: Evidence, before: Order, after: Order) -> Estimate:
    """By how much the share in the right order rises."""
    total = after.all.sum()
    if total <= 0:  # no user has a liked and a disliked pair: nothing tells how well models order them
        return Estimate(0.0, np.inf)
    value = float((after.right.sum() - before.right.sum()) / total)
    by_user = (after.right - before.right - value * after.all) / total
    by_item = (after.right_by_item - before.right_by_item - value * after.all_by_item) / total
    return Estimate(value, evidence.error(by_user, by_item))


Decision = Literal["use", "test", "stop"]
CORNERS = ("activity", "low, activity", "low, alike")


class Gain(NamedTuple):
    """What is gained by the second of two models over the first, and what follows."""

    order: Estimate
    squared: tuple[Estimate, ...]
    needed: float  # random ratings that would decide

    @property
    def decision(self) -> Decision:
        """use: order or squared error gains beyond chance and neither loses; stop: the other way round; else test."""
        gains = self.order.z > Z, all(each.z > Z for each in self.squared)
        losses = self.order.z < -Z, all(each.z < -Z for each in self.squared)
        if any(gains) == any(losses):
            return "test"
        return "use" if any(gains) else "stop"

    @property
    def smallest(self) -> float:
        """The smallest gain in order that this log can show."""
        return SHOWN * self.order.error


def gain(evidence: Evidence, before: Values, after: Values, orders: Sequence[Order] = ()) -> Gain:
    """Judge two models by their answers to the evidence's rows, and their `orders` by activity if these are known."""
    corners = [name for name in CORNERS if name in evidence.corners]
    here = evidence.corners[corners[0]]
    squared = tuple(squared_gain(evidence, before, after, name) for name in corners)
    orders = orders or [order_of(evidence, scores, here) for scores in (before, after)]
    constant, slope = before**2 - after**2, -2 * (before - after)
    per_pair = constant + slope * here.q
    share = here.base / here.base.sum()
    unknown = 0.25 if here.weight.any() else 0.0  # q (1 - q) where ratings are imputed, at its most
    variance = float(share @ per_pair**2 - (share @ per_pair) ** 2 + share @ slope**2 * unknown)
    size = squared[0].value ** 2
    return Gain(order_gain(evidence, *orders), squared, DECIDES * variance / size if size > 1e-18 else np.inf)


def random_evidence(log: RatingLog, random: RatingLog) -> Evidence:
    """Random ratings in the codes of a log as evidence: each stands for itself."""
    order = np.argsort(random.users, kind="stable")
    users, items = (column[order].astype(np.int64) for column in (random.users, random.items))
    y, n = random.ratings[order].astype(np.float64), len(random)
    if n < 2 or y.min() == y.max():
        raise DataError(f"the {n:,} random ratings are of one class: nothing tells which of two models is better.")
    fold, nothing = np.zeros(n, np.int64), np.zeros(n)
    level = normal_interval(float(y.mean()), float(y.std() / np.sqrt(n)), form=".1%" if log.binary else ".3f")
    corners = {name: Corner(y, np.ones(n), nothing) for name in ("activity", "alike")}
    unknown = Slope(0.0, np.inf, 0.0)
    return Evidence(log, fold[:0], fold, users, items, np.zeros(n, bool), y, corners, False, unknown, level, drawn=True)


def together(by_log: Gain | None, by_random: Gain | None) -> Decision:
    """Random ratings overrule the log where they decide; where they lean against it, nothing is decided."""
    if by_random is not None and by_random.decision != "test":
        return by_random.decision
    if by_log is None:
        return "test"
    sign = {"use": 1, "test": 0, "stop": -1}[by_log.decision]
    against = by_random is not None and min(sign * by_random.order.z, sign * by_random.squared[0].z) < -1
    return "test" if against else by_log.decision
