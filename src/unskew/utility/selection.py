"""What a log says about selection on utility: the slope, how sure it is, and when it can be believed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, logit

from unskew.utility.law import population_logit
from unskew.utility.ordered import Levels, OrderedLogit
from unskew.utility.traces import NORMAL_95

Values = NDArray[np.float64]
Codes = NDArray[np.integer]
Finding = Literal["evidence", "none", "disagreement", "no interactions"]

ENOUGH_GAIN = 2.0  # of log-likelihood over slope 0: the 95% interval then leaves 0 out
ENOUGH_INTERACTION = 3.0  # standard errors by which the interactions' calibration must exceed 0
SANE_CALIBRATION = (0.1, 3.0)  # of interactions; outside, the net's l2 is wrong
_GRID = np.linspace(-40, 40, 8001)


class Estimate(NamedTuple):
    """A slope and its standard error."""

    slope: float
    error: float


class Numbers(NamedTuple):
    """All that was measured; `nothing()` is a log too small to measure anything in."""

    unexplained: float  # k: assumed, or estimated from random ratings
    unexplained_estimate: float  # what random ratings say about k: nan without them
    unexplained_low: float
    unexplained_high: float
    unexplained_gain: float  # of the likelihood of random ratings over the assumed k
    estimate: float  # the slope from interactions
    low: float
    high: float
    gain: float
    item_slope: float
    item_error: float
    user_calibration: float
    item_calibration: float
    interaction_calibration: float
    user_calibration_error: float
    item_calibration_error: float
    interaction_calibration_error: float
    interaction_spread: float  # standard deviation of the calibrated interactions over the seen pairs
    threshold: float  # the score at which utility is 0
    sampling_error: float  # of the estimate, from looking at a sample of pairs; 0 if all were looked at
    above_half: float  # share of pairs with a chance above 1/2
    clamped: float  # pairs whose score was held within bounds
    expert_gain: float  # of log-likelihood over the common slope, by slopes of experts
    positive_rate: float  # estimated over all pairs at the slope that is used
    features_slope: float = float("nan")  # that of what features explain of liking, where exposure may follow them

    @classmethod
    def nothing(cls, unexplained: float) -> Numbers:
        nan = float("nan")
        zeros = dict.fromkeys(cls._fields, 0.0)
        unknowns = (name for name in cls._fields if name.startswith("unexplained_"))
        unknown = dict.fromkeys((*unknowns, "positive_rate", "features_slope"), nan)
        return cls(**zeros | unknown | {"unexplained": unexplained, "item_error": float("inf")})


@dataclass(frozen=True, eq=False)
class Selection:
    """How strongly liking drives seeing, estimated from a log; the public face of the numbers.

    `slope` is what is used: the estimate if there is evidence, else 0. `slopes` are those of user experts and `expert`
    says whose is which; empty if all users share the slope.
    """

    numbers: Numbers
    levels: Levels
    thresholds: Values
    calibration: Values  # slopes of user effect, item effect and interaction
    slopes: Values = field(default_factory=lambda: np.empty(0))
    expert: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))

    @property
    def finding(self) -> Finding:
        n = self.numbers
        low, high = SANE_CALIBRATION
        sure = n.interaction_calibration > ENOUGH_INTERACTION * n.interaction_calibration_error
        if not sure or not low < n.interaction_calibration < high:
            return "no interactions"
        if self.gain < ENOUGH_GAIN:
            return "none"
        return "evidence" if self.agrees else "disagreement"

    @property
    def slope(self) -> float:
        """What is used: both traces together if they agree; if not, no more than either allows; 0 without evidence."""
        match self.finding:
            case "evidence":
                return self._together.slope
            case "disagreement":
                return self._allowed
        return 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """95% for the slope: of both traces together if they agree, else of that from interactions."""
        n, (low, high) = self.numbers, self.interaction_interval
        if not self.agrees:
            return low, high
        slope, error = self._together
        narrower = error / self._error if self._error else 1.0
        return slope + (low - n.estimate) * narrower, slope + (high - n.estimate) * narrower

    @property
    def gain(self) -> float:
        """Of log-likelihood over slope 0: that of interactions, and what item counts add to it or take from it."""
        n = self.numbers
        if not self.agrees or not self._error:
            return n.gain
        slope, error = self._together
        return float(max(n.gain + (slope / error) ** 2 / 2 - (n.estimate / self._error) ** 2 / 2, 0.0))

    @property
    def interaction_interval(self) -> tuple[float, float]:
        """95% for the slope from interactions: by profile likelihood, widened by what their calibration leaves open."""
        n = self.numbers
        if not n.interaction_calibration:
            return n.low, n.high
        blur = NORMAL_95 * n.estimate * n.interaction_calibration_error / n.interaction_calibration
        ends = (np.sign(end - n.estimate) * np.hypot(end - n.estimate, blur) for end in (n.low, n.high))
        low, high = (float(n.estimate + end) for end in ends)
        return low, high

    @property
    def agreement(self) -> float:
        """By how many standard errors the slope from interactions exceeds that from item counts."""
        n = self.numbers
        error = np.hypot(self._error, n.item_error)
        return float((n.estimate - n.item_slope) / error) if 0 < error < np.inf else 0.0

    @property
    def agrees(self) -> bool:
        return abs(self.agreement) < NORMAL_95

    @property
    def _error(self) -> float:
        """The standard error of the slope from interactions."""
        low, high = self.interaction_interval
        return (high - low) / (2 * NORMAL_95)

    @property
    def _together(self) -> Estimate:
        """Both traces, weighted by precision.

        Item counts never weigh more than interactions: where exposure follows quality they err, however sure they are.
        """
        n, error = self.numbers, self._error
        if not error:
            return Estimate(n.estimate, error)
        own, other = error**-2, max(n.item_error, error) ** -2
        return Estimate((own * n.estimate + other * n.item_slope) / (own + other), (own + other) ** -0.5)

    @property
    def _allowed(self) -> float:
        """The slope from interactions as far as item counts allow it at 95%.

        What can make a trace err makes it larger: good items are put forward, people are shown what suits them.
        """
        n, side = self.numbers, np.sign(self.numbers.estimate)
        limit = side * n.item_slope + NORMAL_95 * n.item_error
        return float(side * np.clip(limit, 0.0, abs(n.estimate)))

    @property
    def verdict(self) -> str:
        """The finding in words."""
        n, (low, high) = self.numbers, self.interval
        slope = self._together.slope if self.agrees else n.estimate
        found = f"slope {slope:.3f} [{low:.3f}, {high:.3f}], likelihood gain {self.gain:.1f}"
        items = f"item counts say {n.item_slope:.3f} ± {n.item_error:.3f}"
        match self.finding:
            case "evidence":
                agreeing = f"interactions say {n.estimate:.3f}, {items}, which agrees"
                return f"Evidence for selection on utility: {found}; {agreeing}."
            case "disagreement":
                return (
                    f"The two traces disagree: interactions say {found}, but {items}; exposure follows quality, or the "
                    f"model is wrong. No more than either allows is used: {self.slope:.3f}."
                )
            case "none":
                return f"No evidence for selection on utility: {found}, below {ENOUGH_GAIN:g}; slope 0 is used."
        return (
            f"The net has no interactions to go by: their calibration slope is {n.interaction_calibration:.2f} ± "
            f"{n.interaction_calibration_error:.2f}; lower its l2 or collect more ratings. Slope 0 is used."
        )

    @property
    def assumption(self) -> str:
        """Where k comes from, in words."""
        n = self.numbers
        if np.isnan(n.unexplained_gain):
            return f"Unexplained liking is assumed to count {n.unexplained:g} times as much as explained."
        said = f"random ratings say {n.unexplained_estimate:.2f} [{n.unexplained_low:.2f}, {n.unexplained_high:.2f}]"
        return f"Unexplained liking counts {n.unexplained:.2f} times as much as explained; {said}."

    @property
    def notes(self) -> tuple[str, ...]:
        n = self.numbers
        said = [self.verdict]
        if self.slope:
            said.append(self.assumption)
        if len(self.slopes):
            shares = np.bincount(self.expert, minlength=len(self.slopes)) / len(self.expert)
            experts = ", ".join(f"{slope:.3f} ({share:.0%})" for slope, share in zip(self.slopes, shares, strict=True))
            said.append(f"Slopes by expert, with their share of users: {experts}; gain {n.expert_gain:.1f}.")
        if not np.isnan(n.features_slope):
            said.append(
                f"Pairs that fit by features are seen as with a slope of {n.features_slope:.3f}: exposure may follow "
                "features, so the slope is read off what they do not explain."
            )
        if n.sampling_error:
            said.append(f"The slope comes from a sample of pairs; its sampling error is {n.sampling_error:.3f}.")
        if n.above_half > 0.01:
            said.append(f"{n.above_half:.1%} of the pairs have a chance above 1/2, where the closed forms are rough.")
        if n.clamped:
            said.append(f"{n.clamped:,.0f} scores were held within ±15.")
        return tuple(said)

    def slope_of(self, users: Codes | None) -> Values:
        """The slope of each user; one for all, as an array of length 1, if they share it."""
        if users is None or not len(self.slopes) or not self.slope:
            return np.array([self.slope])
        known = np.asarray(users)
        return np.where(known < 0, self.slope, self.slopes[self.expert[np.maximum(known, 0)]])

    def map(self, score: Values, users: Codes | None = None) -> Values:
        """m_t^{-1} of logits of seen pairs, with each user's own t."""
        tilts = self.numbers.unexplained * self.slope_of(users)
        if len(tilts) == 1:
            return population_logit(score, float(tilts[0]))
        mapped = np.empty_like(score)
        for t in np.unique(tilts):
            mapped[tilts == t] = population_logit(score[tilts == t], float(t))
        return mapped

    def population(self, logits: ArrayLike, users: Codes | None = None) -> Values:
        """Logits of the mean rating of seen pairs, mapped to what holds for all: monotone for each user.

        A graded mean is the lowest level + gaps . sigma(score - thresholds); the score that a mean stands for is
        looked up, and every threshold is mapped by itself. Binary ratings have one threshold: the map itself.
        """
        said = np.asarray(logits, np.float64)
        if not self.slope:
            return said
        if len(self.levels) == 2:
            return self.map(said, users)
        mean = self.levels.ratings[0] + expit(_GRID[:, None] - self.thresholds) @ self.levels.gaps
        score = np.interp(expit(said), mean, _GRID)
        return np.asarray(logit(np.clip(self.mean_rating(score, users), 1e-12, 1 - 1e-12)))

    def mean_rating(self, score: Values, users: Codes | None = None) -> Values:
        """The mean rating over all pairs of this calibrated score."""
        upper = [expit(self.map(score - threshold, users)) for threshold in self.thresholds]
        return np.asarray(self.levels.ratings[0] + np.stack(upper, axis=-1) @ self.levels.gaps)

    def ratio(self, score: Values, ratings: ArrayLike, users: Codes | None = None) -> Values:
        """P(r | seen) / P(r) = P(seen | r) / P(seen) for calibrated scores."""
        level = self.levels.level(ratings)
        seen, everywhere = (np.empty((len(self.thresholds) + 2, len(score))) for _ in range(2))
        for upper in (seen, everywhere):
            upper[0], upper[-1] = 1.0, 0.0
        for c, threshold in enumerate(self.thresholds, 1):
            seen[c], everywhere[c] = expit(score - threshold), expit(self.map(score - threshold, users))
        rows = np.arange(len(score))
        chance, base = (upper[level, rows] - upper[level + 1, rows] for upper in (seen, everywhere))
        return np.maximum(chance, 1e-12) / np.maximum(base, 1e-12)

    def score(self, parts: Values) -> Values:
        return np.asarray(parts @ self.calibration)

    def joined_by(self, count: int) -> Selection:
        """The same beside new users, who have the common slope."""
        if not len(self.slopes):
            return self
        newcomers = np.full(count, len(self.slopes))
        return replace(self, slopes=np.append(self.slopes, self.slope), expert=np.append(self.expert, newcomers))

    @classmethod
    def of(cls, numbers: Numbers, levels: Levels, calibration: OrderedLogit) -> Selection:
        return cls(numbers, levels, calibration.thresholds, calibration.slopes)

    @classmethod
    def nothing(cls, unexplained: float) -> Selection:
        """Of a log in which nothing can be measured."""
        levels = Levels(np.array([0.0, 1.0]), np.array([0.5]))
        return cls(Numbers.nothing(unexplained), levels, np.zeros(1), np.zeros(3))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What a file keeps."""
        held = {"numbers": np.array(self.numbers), "levels": self.levels.ratings, "cuts": self.levels.cuts}
        return held | {name: getattr(self, name) for name in ("thresholds", "calibration", "slopes", "expert")}

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> Selection:
        numbers, levels = Numbers(*arrays["numbers"].tolist()), Levels(arrays["levels"], arrays["cuts"])
        rest = (arrays[name] for name in ("thresholds", "calibration", "slopes", "expert"))
        return cls(numbers, levels, *rest)
