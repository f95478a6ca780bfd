"""How strongly liking drives seeing, and what that makes of predictions and chances."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, logit

from unskew.utility.law import population_logit
from unskew.utility.numbers import Finding, Numbers
from unskew.utility.ordered import Levels, OrderedLogit

Values = NDArray[np.float64]
Codes = NDArray[np.integer]

_GRID = np.linspace(-40, 40, 8001)


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
        return self.numbers.finding

    @property
    def slope(self) -> float:
        """What is used: that of both traces, or of what both allow; 0 without evidence."""
        return self.numbers.slope

    @property
    def interval(self) -> tuple[float, float]:
        """95% for the slope."""
        return self.numbers.interval

    @property
    def gain(self) -> float:
        """Of log-likelihood over slope 0."""
        return self.numbers.joint_gain

    @property
    def agreement(self) -> float:
        """By how many standard errors the slope from interactions exceeds that from item counts."""
        return self.numbers.agreement

    @property
    def verdict(self) -> str:
        """The finding in words."""
        return self.numbers.verdict

    @property
    def notes(self) -> tuple[str, ...]:
        n = self.numbers
        said = [self.verdict]
        if self.slope:
            said.append(n.assumption)
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
