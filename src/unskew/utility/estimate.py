"""From cross-fitted nets and a log to the slope: calibration, the two traces and, with random ratings, k."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from unskew.data.log import RatingLog
from unskew.utility.crossfit import CrossFitted
from unskew.utility.experts import UserScores, fit_experts
from unskew.utility.exposure import Crossing, Reading
from unskew.utility.law import population_logit
from unskew.utility.numbers import Numbers
from unskew.utility.ordered import Levels, OrderedLogit, fit_ordered
from unskew.utility.population import Population, population
from unskew.utility.selection import Selection
from unskew.utility.traces import InteractionTrace, ItemTrace, Profile, item_trace
from unskew.utility.unexplained import Unexplained, unexplained_from

Values = NDArray[np.float64]

CALIBRATION_ROWS = 1 << 20
POPULAR = 0.2  # share of all users beyond which an item's count, and the liking of its ratings, can hardly rise further
RATE_PAIRS = 1 << 17  # to average predictions over
_CALIBRATION, _POPULATION, _RATE, _EXPERTS, _CROSSING = range(5)  # independent random streams of one seed


@dataclass(frozen=True, eq=False)
class Trail:
    """Everything that does not depend on k: calibrated scores of seen pairs and of the population."""

    reading: Reading
    log: RatingLog
    levels: Levels
    calibration: OrderedLogit  # of user effect, item effect and interaction
    apart: OrderedLogit  # the same, but with a slope of its own for what features explain of the interaction
    spread: float
    items: ItemTrace
    population: Population

    @classmethod
    def of(cls, fitted: CrossFitted, log: RatingLog, largest: int) -> Trail:
        levels, rows = Levels.of(log.ratings), _some(len(log), CALIBRATION_ROWS, _rng(fitted.seed, _CALIBRATION))
        users, items, level = log.users[rows], log.items[rows], levels.level(log.ratings[rows])
        generator, repeats = _rng(fitted.seed, _CROSSING), range(fitted.n_repeats)
        reading = Reading(fitted, Crossing.of(fitted, log, _some(log.n_pairs, RATE_PAIRS, generator)))
        parts = np.concatenate([reading.parts(users, items, repeat) for repeat in repeats])
        calibrate = partial(fit_ordered, level=np.tile(level, len(repeats)), n_levels=len(levels))
        apart = calibrate(parts).counted_once(len(repeats))
        spread = float(abs(apart.slopes[2]) * parts[:, 2].std())
        calibration = apart
        if reading.crossing:
            calibration = calibrate(np.column_stack([parts[:, :2], parts[:, 2:].sum(1)])).counted_once(len(repeats))
        trace = _item_trace(log, rows, fitted.mean_parts(users, items), level, calibration)
        generator = _rng(fitted.seed, _POPULATION)
        pairs = population(reading, apart, log, largest=largest, generator=generator)
        return cls(reading, log, levels, calibration, apart, spread, trace, pairs)

    @property
    def fitted(self) -> CrossFitted:
        return self.reading.fitted

    @property
    def threshold(self) -> float:
        return self.apart.middle

    def interactions(self, unexplained: float) -> InteractionTrace:
        return InteractionTrace(self.population, self.threshold, unexplained)

    def selection(self, unexplained: float, from_slice: Unexplained | None = None) -> Selection:
        """The estimate under this k."""
        profile, c = self.interactions(unexplained).profile(), self.apart
        nan = float("nan")
        share = self.population.share_of_information
        numbers = Numbers(
            unexplained=unexplained,
            unexplained_estimate=from_slice.estimate if from_slice else nan,
            unexplained_low=from_slice.low if from_slice else nan,
            unexplained_high=from_slice.high if from_slice else nan,
            unexplained_gain=from_slice.gain if from_slice else nan,
            estimate=profile.slope,
            low=profile.low,
            high=profile.high,
            gain=profile.gain,
            item_slope=self.items.slope,
            item_error=self.items.error,
            **_named("user_calibration", "item_calibration", "interaction_calibration", values=c.slopes[:3]),
            **_named(
                "user_calibration_error",
                "item_calibration_error",
                "interaction_calibration_error",
                values=c.errors[:3],
            ),
            interaction_spread=self.spread,
            threshold=self.threshold,
            sampling_error=float(profile.error * np.sqrt(max(1 - share, 0.0))) if self.population.sampled else 0.0,
            above_half=profile.above_half,
            clamped=float(self.population.clamped),
            expert_gain=0.0,
            positive_rate=nan,
            features_slope=self._features_slope(profile),
        )
        found = Selection.of(numbers, self.levels, self.calibration)
        return replace(found, numbers=numbers._replace(positive_rate=self._positive_rate(found)))

    def _features_slope(self, profile: Profile) -> float:
        """How fast the log rate rises with what features explain of liking; nan if nothing is known of it."""
        crossing = self.reading.crossing
        if crossing is None or self.apart.slopes[3] < 2 * self.apart.errors[3]:
            return float("nan")
        return profile.slope + profile.gamma / (crossing.spread * float(self.apart.slopes[3]))

    def _positive_rate(self, found: Selection) -> float:
        log, rng = self.log, _rng(self.fitted.seed, _RATE)
        pairs = _some(log.n_pairs, RATE_PAIRS, rng)
        users, items = np.divmod(pairs, log.n_items)
        return float(found.mean_rating(found.score(self.fitted.mean_parts(users, items)), users).mean())

    def unexplained_from(self, unbiased: RatingLog, found: Selection) -> Unexplained:
        """k from random ratings, the slope following it from what it is at the assumed k as the interactions demand."""
        n = found.numbers
        score = self.calibration.score(self.fitted.mean_parts(*_codes_in(self.log, unbiased)))
        level, thresholds = self.levels.level(unbiased.ratings), self.calibration.thresholds
        return unexplained_from(
            lambda k, slope: _log_likelihood(score, level, thresholds, k * slope),
            lambda k: self.interactions(k).highest(n.estimate) * found.slope / n.estimate,
            assumed=n.unexplained,
        )

    def with_experts(self, found: Selection, n_experts: int) -> Selection:
        """The same selection with a slope for each of a few kinds of users."""
        k, n_users = found.numbers.unexplained, self.log.n_users
        score, information = self.interactions(k).user_scores(found.slope, n_users)
        users = UserScores(score, information, self.fitted.vectors(n_users))
        experts = fit_experts(users, found.slope, k, n_experts, _rng(self.fitted.seed, _EXPERTS))
        told = replace(found, slopes=experts.slopes, expert=experts.expert)
        numbers = found.numbers._replace(expert_gain=experts.gain, positive_rate=self._positive_rate(told))
        return replace(told, numbers=numbers)


def estimate(
    fitted: CrossFitted,
    log: RatingLog,
    *,
    unexplained: float,
    largest: int,
    n_experts: int = 1,
    unbiased: RatingLog | None = None,
) -> Selection:
    """The selection a log gives evidence of; with random ratings, at the k they give evidence of."""
    trail = Trail.of(fitted, log, largest)
    found = trail.selection(unexplained)
    if unbiased is not None and found.slope:
        k = trail.unexplained_from(unbiased, found)
        found = trail.selection(k.value, k)
    return trail.with_experts(found, n_experts) if n_experts > 1 and found.slope else found


def _item_trace(
    log: RatingLog, rows: NDArray[np.int64], parts: Values, level: NDArray[np.int64], calibration: OrderedLogit
) -> ItemTrace:
    """From each item's utility by its own left-out ratings: one Newton step, unshrunk, from what the nets say of it.

    The most popular items are left out: most users see them anyway, so selection has done less to them.
    """
    items, counts = log.items[rows], np.bincount(log.items, minlength=log.n_items).astype(np.float64)
    liked = expit(calibration.score(parts) - calibration.middle)
    certainty = liked * (1 - liked)
    step = certainty * calibration.slopes[1] * parts[:, 1] + (level >= calibration.middle_level) - liked
    known, pull = (np.bincount(items, weights=column, minlength=log.n_items) for column in (certainty, step))
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = np.where(counts > POPULAR * log.n_users, np.inf, 1 / known)
        return item_trace(counts, pull / known, variance)


def _log_likelihood(score: Values, level: NDArray[np.int64], thresholds: Values, t: float) -> float:
    """Of ratings of random pairs, whose levels have the chances of all pairs."""
    edge = np.ones((len(score), 1))
    upper = np.hstack([edge, *(expit(population_logit(score - c, t))[:, None] for c in thresholds), 0 * edge])
    rows = np.arange(len(score))
    return float(np.log(np.maximum(upper[rows, level] - upper[rows, level + 1], 1e-12)).sum())


def _codes_in(log: RatingLog, other: RatingLog) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The other log's pairs by the codes of this one, by which somebody or something it does not know is -1."""
    users = log.user_ids.codes(other.user_ids.arrow)[other.users]
    return users, log.item_ids.codes(other.item_ids.arrow)[other.items]


def _named(*names: str, values: Sequence[float] | Values) -> dict[str, float]:
    return {name: float(value) for name, value in zip(names, values, strict=True)}


def _some(n: int, most: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """All numbers below n if they are few, else a random selection, in order."""
    return np.arange(n) if n <= most else np.sort(generator.integers(n, size=most))


def _rng(seed: int, stream: int) -> np.random.Generator:
    return np.random.default_rng([seed, 0x7574696C, stream])
