"""What one model gains over another by the judge's evidence, and what follows.

Every estimate is doubly robust and self-normalised, mean over unseen of g(q) + sum w (g(y) - g(q)) / sum w, linear in
the residuals, its error two-way by user and item. Order within users survives selection on the rating, P(seen | x, r) =
g(x) t(r), as t cancels in it. The squared error does not, so its sign must hold at three corners of the band of how
liking drives seeing. What such selection moves in it is -2 (imputed - true level) (mean of one - mean of the other):
nothing is left of that once both have one mean.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from unskew.evaluation.fits import Values
from unskew.evaluation.judge import Corner, Evidence
from unskew.findings import Decision, Interval
from unskew.metrics.intervals import normal_interval

CHANCE, DRAWS = 0.04, 40_000  # of a decision without any gain, and draws by which errors that it takes are found
Z = 2.47  # errors of that chance: 2.05 for one look, this for three of which nothing more is known (Bonferroni)
ROUNDING = 1e-12  # of errors: what is less is left by sums that are nothing
POWER = 0.84  # further errors of a gain that is found in four of five samples
CORNERS = ("activity", "low, activity", "low, tempered")  # which decide, by tempered weights
BAND = ("alike", "low, alike")  # of estimates


@dataclass(frozen=True)
class Estimate:
    """A value with its standard error, and the shares of users in it: a vector of length 1, None if there is no error.

    The correlation of two estimates is the product of these vectors.
    """

    value: float
    error: float
    shares: Values | None = field(default=None, compare=False, repr=False)

    @property
    def z(self) -> float:
        """The value in standard errors."""
        return self.value / self.error if self.error > ROUNDING else 0.0

    def interval(self, form: str = ".4f") -> Interval:
        """Return ends that hold the truth in 95 of 100 logs."""
        return normal_interval(self.value, self.error, form=form)


def hull(estimates: Sequence[Estimate], form: str = ".4f") -> Interval:
    """Return the first value, and ends that reach from the lowest to the highest of all intervals."""
    found = [each.interval() for each in estimates]
    return Interval(found[0].value, min(each.low for each in found), max(each.high for each in found), form)


def estimated(evidence: Evidence, value: float, by_user: Values, by_item: Values | None = None) -> Estimate:
    """Return a value with the error of a sum of terms by row, as `Evidence.error` takes them."""
    sums, error = np.bincount(evidence.users, by_user), evidence.error(by_user, by_item)
    size = float(np.linalg.norm(sums))
    return Estimate(value, error, sums / size if error > ROUNDING and size > 0 else None)


def threshold_of(looks: Sequence[Estimate]) -> float:
    """Return how many standard errors the largest of several looks exceeds in 4% of logs without any gain."""
    shares = [look.shares for look in looks if look.shares is not None]
    if not shares:
        return Z
    left, size, _ = np.linalg.svd(np.stack(shares), full_matrices=False)
    draws = np.random.default_rng(0).standard_normal((DRAWS, len(size))) @ (left * size).T
    return float(np.quantile(np.abs(draws).max(1), 1 - CHANCE))


def mean_of(evidence: Evidence, corner: Corner, direct: Values, residual: Values) -> Estimate:
    """Return the mean over unseen pairs of `direct` plus the weighted mean of `residual` over left-out ratings."""
    n, w = (each.sum() or np.inf for each in (corner.base, corner.weight))  # either may be nothing
    first, second = (corner.base * direct).sum() / n, (corner.weight * residual).sum() / w
    influence = corner.base * (direct - first) / n + corner.weight * (residual - second) / w
    return estimated(evidence, float(first + second), influence)


def squared_gain(evidence: Evidence, before: Values, after: Values, corner: str, aligned: bool = False) -> Estimate:
    """Return by how much the squared error falls: (y - before)^2 - (y - after)^2, linear in y.

    With `aligned` levels the means over the unseen pairs of each fold are taken off: those of the models and of y.
    """
    here = evidence.corners[corner]
    q, before, after = (_centred(evidence, here, each) if aligned else each for each in (here.q, before, after))
    constant, slope = before**2 - after**2, -2 * (before - after)
    return mean_of(evidence, here, constant + slope * q, slope * (evidence.y - here.q))


def _centred(evidence: Evidence, here: Corner, values: Values) -> Values:
    means = np.bincount(evidence.fold, here.base * values) / np.bincount(evidence.fold, here.base)
    return np.asarray(values - means[evidence.fold])


class Order(NamedTuple):
    """Sums over pairs of rows of one group, a liked and a disliked one: those in the right order, and all.

    `by_user` and `by_item` hold what each row adds to both, for the errors of sums whose terms share users or items.
    """

    right: float
    all: float
    by_user: Values
    by_item: Values

    @property
    def value(self) -> float:
        """The share in the right order, NaN if there is nothing to order."""
        return self.right / self.all if self.all > 0 else np.nan


def order_of(evidence: Evidence, scores: Values, here: Corner, within_users: bool = True) -> Order:
    """Sum liked above disliked, one step from the imputation: linear in the residuals y - q; ties count one half.

    Pairs of rows of one user share him; those of different users share what either side adds.
    """
    liked, disliked = here.base * here.q, here.base * (1 - here.q)
    unseen, left_out = (np.bincount(evidence.fold, c) for c in (here.base, here.weight))
    stands_for = np.divide(unseen, left_out, out=np.zeros(len(unseen)), where=left_out > 0)
    x = stands_for[evidence.fold] * here.weight * (evidence.y - here.q)
    group = evidence.fold * evidence.log.n_users + evidence.users if within_users else evidence.fold
    order = np.lexsort((scores, group))
    g, (s, own_l, own_d, own_x) = group[order], (column[order] for column in (scores, liked, disliked, x))
    new = np.diff(g, prepend=np.nan) != 0
    starts, ties = np.flatnonzero(new), np.flatnonzero(new | (np.diff(s, prepend=np.nan) != 0))
    of_group, of_tie = (np.repeat(np.arange(len(c)), np.diff(c, append=len(g))) for c in (starts, ties))

    def below(mass: Values) -> tuple[Values, Values]:
        """Return the mass of a group below each row, half of its ties counted, and in all."""
        in_tie, in_group = np.add.reduceat(mass, ties), np.add.reduceat(mass, starts)
        before = np.cumsum(in_tie) - in_tie
        before -= before[np.searchsorted(ties, starts)][of_group[ties]]
        return before[of_tie] + (in_tie[of_tie] - mass) / 2, in_group[of_group]

    under, all_disliked = below(own_d)
    over, all_liked = below(own_l)
    over = all_liked - over - own_l
    step, step_all = own_x * (under - over), own_x * (all_disliked - all_liked)
    by_user, by_item = np.empty((2, len(order))), np.empty((2, len(order)))
    by_user[:, order] = own_l * under + step, own_l * (all_disliked - own_d) + step_all
    by_item[:, order] = own_d * over, own_d * (all_liked - own_l)
    by_item += by_user
    right, total = by_user.sum(1)
    return Order(float(right), float(total), by_user if within_users else by_item, by_item)


def order_share(evidence: Evidence, found: Order) -> Estimate:
    """Return the share in the right order."""
    terms = ((right - found.value * total) / found.all for right, total in (found.by_user, found.by_item))
    return estimated(evidence, found.value, *terms)


def order_gain(evidence: Evidence, before: Order, after: Order) -> Estimate:
    """Return by how much the share in the right order rises."""
    if after.all <= 0:  # no user has a liked and a disliked pair: nothing tells how well models order them
        return Estimate(0.0, np.inf)
    sides = ((new[0] - old[0], new[1]) for old, new in zip(before[2:], after[2:], strict=True))
    return order_share(evidence, Order(after.right - before.right, after.all, *map(np.stack, sides)))


def orders_of(evidence: Evidence, scores: Values) -> list[Order]:
    """Return how a model orders liked and disliked pairs and, where ratings have more levels, pairs of these."""
    here = evidence.corners["order"]
    found = [order_of(evidence, scores, here)]
    if evidence.stars is not None:
        y, q = evidence.stars
        found.append(order_of(replace(evidence, y=y), scores, here._replace(q=q)))
    return found


class Gain(NamedTuple):
    """What is gained by the second of two models over the first, and what follows."""

    order: Estimate
    squared: tuple[Estimate, ...]  # at the corners
    needed: float  # random ratings that would decide
    band: Interval = Interval(np.nan)  # of squared error over the pairs that nobody chose, whatever drives seeing
    stars: Estimate | None = None  # order by ratings as they stand
    aligned: tuple[Estimate, ...] = ()  # squared error of models of one mean, at the corners
    threshold: float = Z  # standard errors that decide

    @property
    def shown(self) -> float:
        """The smallest gain in order that is found in four of five logs."""
        return (self.threshold + POWER) * self.order.error

    def strengths(self, sign: int = 1) -> dict[str, float]:
        """Return by how many standard errors order, squared error, and that of models moved to one mean gain.

        With -1 by how many they lose; of squared errors at the corner where it is least.
        """
        named = {"order": (self.stars or self.order,), "squared": self.squared, "aligned": self.aligned}
        return {name: min(sign * each.z for each in found) for name, found in named.items() if found}

    def looks(self, sign: int = 1) -> list[str]:
        """Name what gains, or with -1 loses, beyond chance."""
        return [name for name, z in self.strengths(sign).items() if z > self.threshold]

    @property
    def decision(self) -> Decision:
        """use: order or a squared error gains beyond chance and none loses; stop: the other way round; else test.

        Models moved to one mean decide nothing by themselves if, as they stand, any corner tells the opposite beyond
        chance: there the level outweighs what is left without it.
        """
        gains, losses = self.looks(), self.looks(-1)
        if bool(gains) == bool(losses):
            return "test"
        sign = 1 if gains else -1
        if [*gains, *losses] == ["aligned"] and any(sign * each.z < -self.threshold for each in self.squared):
            return "test"
        return "use" if gains else "stop"

    @property
    def ordered(self) -> bool:
        """Whether any user has a liked and a disliked pair."""
        return bool(np.isfinite(self.order.error))


def gain(evidence: Evidence, before: Values, after: Values) -> Gain:
    """Judge two models by their answers to the evidence's rows."""
    at = {name: squared_gain(evidence, before, after, name) for name in (*CORNERS, *BAND) if name in evidence.corners}
    here = evidence.corners["activity"]
    ordered = zip(orders_of(evidence, before), orders_of(evidence, after), strict=True)
    liked, *stars = (order_gain(evidence, *orders) for orders in ordered)
    constant, slope = before**2 - after**2, -2 * (before - after)
    per_pair = constant + slope * here.q
    share = here.base / here.base.sum()
    unknown = 0.25 if here.weight.any() else 0.0  # q (1 - q) where ratings are imputed, at its most
    variance = float(share @ per_pair**2 - (share @ per_pair) ** 2 + share @ slope**2 * unknown)
    size = at["activity"].value ** 2
    corners, ends = ([name for name in names if name in at] for names in (CORNERS, BAND))
    aligned = [squared_gain(evidence, before, after, name, aligned=True) for name in corners if not evidence.drawn]
    threshold = threshold_of([stars[0] if stars else liked, at["activity"], *aligned[:1]])
    needed = (threshold + POWER) ** 2 * variance / size if size > 1e-18 else np.inf
    band = hull([at[name] for name in ends], "+.4f")
    squared = tuple(at[name] for name in corners)
    return Gain(liked, squared, needed, band, stars[0] if stars else None, tuple(aligned), threshold)


def together(by_log: Gain | None, by_random: Gain | None) -> Decision:
    """Let random ratings overrule the log where they decide; where they lean against it, nothing is decided."""
    if by_random is not None and by_random.decision != "test":
        return by_random.decision
    if by_log is None:
        return "test"
    sign = {"use": 1, "test": 0, "stop": -1}[by_log.decision]
    against = by_random is not None and min(sign * by_random.order.z, sign * by_random.squared[0].z) < -1
    return "test" if against else by_log.decision
