"""Platt maps c(s) = sigmoid(a s + b) of logits: one for everybody, one for each user, or a mixture for each."""

from __future__ import annotations

from abc import abstractmethod
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from unskew.losses.batch import View
from unskew.losses.columns import Array, root, sigmoid
from unskew.nets.base import Part, extended_rows
from unskew.settings import setting
from unskew.training.plan import FitContext, FitSpec

Values = NDArray[np.float64]
Rng = np.random.Generator

LARGEST_LOGIT = 30.0
SMALLEST_SLOPE = 1e-3  # a map never reverses a ranking
ONE = np.ones((1, 1))


class PlattMaps(Part):
    """Calibrate by sum_k w_uk sigmoid(a_uk s + b_uk), logits within 30 of 0.

    Each table has a row for each user and a last one for unknown users, or a single row for everybody. Of experts,
    `usage` is the share of the users with examples that each has, and `entropy` that of the mean assignment as a share
    of its largest value log K. `n_fits` counts the fits for the same role so far, `stepped_back` is whether a simpler
    map takes the place of the calibrator's own.
    """

    n_fits, stepped_back = 0, False

    def __init__(
        self, weights: Any, slopes: Any, intercepts: Any, n_parameters: int, usage: Any = (), entropy: float = np.nan
    ) -> None:
        self.tables = tuple(np.ascontiguousarray(table, np.float32) for table in (weights, slopes, intercepts))
        self.n_parameters, self.usage, self.entropy = int(n_parameters), np.asarray(usage), float(entropy)
        if len(self.usage) > 1 and self.usage.max() > 0.99:
            share = f"{self.usage.max():.1%}"
            self.notes = (f"The experts' assignment has collapsed: {share} of the users share one expert.",)

    def calibrated(self, logits: Array, users: Array) -> Array:
        own = (table if len(table) == 1 else table.take(users, axis=0) for table in self.tables)
        weights, slopes, intercepts = own
        bounded = np.minimum(np.maximum(logits, -LARGEST_LOGIT), LARGEST_LOGIT)
        p = weights * sigmoid(slopes * bounded[:, None] + intercepts)
        return np.asarray(p[:, 0] if p.shape[1] == 1 else p.sum(1))

    def state(self) -> dict[str, Array]:
        tables = dict(zip(("weights", "slopes", "intercepts"), self.tables, strict=True))
        of_experts = {"usage": self.usage, "entropy": np.array(self.entropy)} if len(self.usage) else {}
        return tables | {"n_parameters": np.array(self.n_parameters)} | of_experts

    def extended(self, counts: Array, owner: Part | None = None) -> PlattMaps:
        """New users are calibrated as unknown ones."""
        found = copy(self)
        found.tables = tuple(extended_rows(table, len(counts)) if len(table) > 1 else table for table in self.tables)
        return found


@dataclass(frozen=True, eq=False)
class Examples:
    """What a calibrator learns from: logits, labels in [0, 1], weights and users; `vectors` has a last row for unknown
    users."""

    logits: Values
    labels: Values
    weights: Values
    users: Array
    vectors: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.logits)

    @property
    def shares(self) -> Values:
        """The weights, adding up to 1."""
        return np.asarray(self.weights / self.weights.sum())

    @property
    def target_mean(self) -> float:
        """What the calibrated probabilities should average to."""
        return float((self.shares * self.labels).sum())

    def shift(self, logits: Values, target: float) -> float:
        """Return what to add to the calibrated logits so that their probabilities have this mean.

        A mean that no shift reaches is met as nearly as one of 60 does.
        """
        shares = self.shares

        def excess(shift: float) -> tuple[float, float]:
            p = sigmoid(logits + shift)
            return float((p * shares).sum()) - target, float((p * (1 - p) * shares).sum())

        return root(excess, -60.0, 60.0)

    def of_some_users(self, most: int, rng: Rng) -> Examples:
        """Keep all examples of users drawn at random, about `most` of them; all if there are no more than that."""
        if len(self) <= most:
            return self
        counts = np.bincount(self.users, minlength=len(self.vectors))
        order = rng.permutation(len(counts))
        drawn = np.zeros(len(counts), bool)
        drawn[order[: max(2, np.searchsorted(np.cumsum(counts[order]), most))]] = True
        return self.take(np.flatnonzero(drawn[self.users]))

    def calibrated(self, maps: Part) -> Values:
        """Return what the maps answer, within [0, 1]: the shares of a mixture add up to 1 only nearly."""
        return np.clip(maps.calibrated(self.logits.astype(np.float32), self.users), 0, 1).astype(np.float64)

    def loss(self, maps: Part) -> float:
        """Return the weighted mean of the log-loss of calibrated probabilities."""
        p = np.clip(self.calibrated(maps), 1e-7, 1 - 1e-7)
        return float(-(self.shares * (self.labels * np.log(p) + (1 - self.labels) * np.log1p(-p))).sum())

    def in_order(self) -> Examples:
        """Return the same in an order that does not depend on how they came."""
        return self.take(np.lexsort((self.weights, self.labels, self.logits, self.users)))

    def take(self, rows: Array) -> Examples:
        names = ("logits", "labels", "weights", "users")
        return replace(self, **{name: getattr(self, name)[rows] for name in names})


def examples_for(target: str, view: View, n_users: int = 0) -> Examples:
    """Return examples from the rows of a view, weighted to stand for all pairs.

    Propensity: seen pairs against sampled unseen ones, each for as many pairs as it stands for, so that the calibrated
    mean is the true base rate |O|/|D|. Imputation: ratings, each weighted by 1 / p. Without `n_users` they come without
    user vectors.
    """
    o, d = view.observed, view.sampled
    logits, users = o.logits(target), o.users
    if target == "propensity":
        logits, users = np.append(logits, d.logits(target)), np.append(users, d.users)
        labels = np.repeat([1.0, 0.0], [len(o), len(d)])
        weights = np.append(np.broadcast_to(o.cells, len(o)), (1 - d.seen) * d.cells)
    else:
        labels, weights = o.ratings, o.inverse_propensity()
    vectors = view.parts[target].user_vectors(np.append(np.arange(n_users), -1))
    bounded = np.clip(logits, -LARGEST_LOGIT, LARGEST_LOGIT)
    s, y, w = (np.asarray(column, np.float64) for column in (bounded, labels, weights))
    return Examples(s, y, w, users.astype(np.int32), vectors).take(np.flatnonzero(w > 0))


@dataclass(frozen=True, kw_only=True)
class Calibrator(FitSpec):
    """Settings of a calibrator.

    With `step_back` it is judged on held-out examples that it was not fitted to: if its log-loss there is above that
    of a shift of the logit, or of no calibration, the better of these takes its place, and a note tells so. One that is
    fitted after each epoch is then tried again at its fits 2, 4, 8 and so on.
    """

    kind: ClassVar[str] = "calibrator"
    fitted = PlattMaps

    step_back: bool = True

    @abstractmethod
    def solve(self, examples: Examples, held_out: Examples | None, rng: Rng, once: bool) -> PlattMaps:
        """Return the maps that fit the examples best; `once` is False for what is fitted again after each epoch.

        Of examples that are held out to judge the maps, logits may be used, labels may not.
        """

    def fit(
        self,
        examples: Examples,
        held_out: Examples | None = None,
        *,
        rng: Rng,
        planned: float = 1.0,
        previous: Part | None = None,
    ) -> PlattMaps:
        """Return the maps that answer for the role, the same for the same examples in any order."""
        examples, once = examples.in_order(), previous is None and planned == 1
        if not self.step_back or held_out is None:
            return self.solve(examples, held_out, rng, once)
        before = previous if isinstance(previous, PlattMaps) else one_map()
        simple = min((shifted(examples), one_map()), key=held_out.loss)
        simple.n_fits, simple.notes, simple.stepped_back = before.n_fits + 1, before.notes, True
        if before.stepped_back and simple.n_fits.bit_count() > 1:
            return simple
        fitted = self.solve(examples, held_out, rng, once)
        fitted.n_fits = simple.n_fits
        if (own := held_out.loss(fitted)) <= (other := held_out.loss(simple)):
            return fitted
        word = "a shift of the logit" if simple.n_parameters else "no calibration"
        simple.notes = (
            f"{type(self).__name__} made calibration worse on examples left out (log-loss {own:.4f}, {other:.4f} with "
            f"{word}), so {word} takes its place.",
        )
        return simple

    def fit_in(self, context: FitContext) -> PlattMaps:
        examples = examples_for(context.calibrates, context.view, context.log.n_users)
        held_out = examples_for(context.calibrates, context.holdout)
        return self.fit(examples, held_out, rng=context.rng, planned=context.planned, previous=context.previous)


def one_map(a: float = 1.0, b: float = 0.0, n_parameters: int = 0) -> PlattMaps:
    """Return one map for everybody, no calibration if none is given."""
    return PlattMaps(ONE, a * ONE, b * ONE, n_parameters)


def shifted(examples: Examples) -> PlattMaps:
    """Return one shift of the logit for everybody."""
    return one_map(b=examples.shift(examples.logits, examples.target_mean), n_parameters=1)


@dataclass(frozen=True, kw_only=True)
class GlobalPlatt(Calibrator):
    """One Platt map for everybody, solved to convergence; `slope=False` fixes a = 1 and only corrects the base rate."""

    slope: bool = True

    def solve(self, examples: Examples, held_out: Examples | None, rng: Rng, once: bool) -> PlattMaps:
        return one_map(*scalar_platt(examples), n_parameters=2) if self.slope else shifted(examples)


@dataclass(frozen=True, kw_only=True)
class UserPlatt(Calibrator):
    """A Platt map for each user, drawn towards the global one by a ridge of `ridge` examples.

    A user has two or three held-out ratings; without the ridge the maps would follow them anywhere. A common shift
    keeps the calibrated mean at that of the global map, which is that of the labels: over the pairs left out, if there
    are any, as maps of few examples follow these and are too high or too low elsewhere. Users without examples have the
    global map.
    """

    ridge: float = setting(1.0, least=0)

    def solve(self, examples: Examples, held_out: Examples | None, rng: Rng, once: bool) -> PlattMaps:
        common, n_rows = scalar_platt(examples), len(examples.vectors)
        slopes, intercepts = solve_platt(examples, examples.users, n_rows, ridge=self.ridge, centre=common)
        known = np.bincount(examples.users, minlength=n_rows) > 0
        there = examples
        if held_out is not None and known[held_out.users].any():
            there = held_out.take(np.flatnonzero(known[held_out.users]))
        own = slopes[there.users] * there.logits + intercepts[there.users]
        target = (there.shares * sigmoid(common[0] * there.logits + common[1])).sum()
        intercepts += known * there.shift(own, target)
        return PlattMaps(ONE, slopes[:, None], intercepts[:, None], 2 * int(known.sum()))


def scalar_platt(examples: Examples) -> tuple[float, float]:
    """(a, b) of everybody."""
    (a,), (b,) = solve_platt(examples)
    return float(a), float(b)


def solve_platt(
    examples: Examples,
    group: NDArray[np.integer] | None = None,
    n_groups: int = 1,
    *,
    ridge: float = 0.0,
    centre: tuple[float, float] = (1.0, 0.0),
) -> tuple[Values, Values]:
    """(a_g, b_g) of every group g by weighted maximum likelihood (Platt 1999), with a_g > 0.

    Minimises sum w [softplus(a s + b) - y (a s + b)] + ridge/2 [(a - a_0)^2 + (b - b_0)^2], the weights scaled to
    mean 1 so that `ridge` counts in examples. All groups take their Newton steps together, each with its own
    step size; a group without examples keeps the centre.
    """
    s, y, w = examples.logits, examples.labels, examples.weights / examples.weights.mean()
    of = np.zeros(len(examples), np.int64) if group is None else group
    a, b = (np.full(n_groups, float(x)) for x in centre)

    def total(x: Values) -> Values:
        return np.bincount(of, x, n_groups).astype(np.float64)

    def loss(a: Values, b: Values) -> Values:
        z = a[of] * s + b[of]
        penalty = ridge / 2 * ((a - centre[0]) ** 2 + (b - centre[1]) ** 2)
        return total(w * (np.logaddexp(0, z) - y * z)) + penalty

    now = loss(a, b)
    for _ in range(100):
        p = sigmoid(a[of] * s + b[of])
        residual, curve = w * (p - y), w * p * (1 - p)
        ga, gb = total(residual * s) + ridge * (a - centre[0]), total(residual) + ridge * (b - centre[1])
        haa, hab, hbb = total(curve * s * s) + ridge + 1e-9, total(curve * s), total(curve) + ridge + 1e-9
        held = (a <= SMALLEST_SLOPE) & (ga > 0)  # where the slope rests at its bound only b moves
        ga, hab = np.where(held, 0.0, ga), np.where(held, 0.0, hab)
        determinant = haa * hbb - hab**2
        da, db = (hbb * ga - hab * gb) / determinant, (haa * gb - hab * ga) / determinant
        if (ga * da + gb * db).max() < 1e-12:
            break
        size = np.ones(n_groups)
        for _ in range(40):
            new_a, new_b = np.maximum(a - size * da, SMALLEST_SLOPE), b - size * db
            then = loss(new_a, new_b)
            worse = then > now + 1e-12 * np.abs(now)
            if not worse.any():
                break
            size[worse] /= 2
        a, b, now = np.where(worse, a, new_a), np.where(worse, b, new_b), np.where(worse, now, then)
    return a, b
