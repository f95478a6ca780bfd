"""What was measured of selection on utility, and what follows: the slope, how sure it is, whether to believe it."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from unskew.utility.ordered import SURE
from unskew.utility.traces import NORMAL_95

Finding = Literal["evidence", "none", "disagreement", "no interactions"]

ENOUGH_GAIN = 2.0  # of log-likelihood over slope 0: the 95% interval then leaves 0 out
SANE_CALIBRATION = (0.1, 3.0)  # of interactions; outside, the net's l2 is wrong
PRUNED = 0.05  # standard deviation of interactions, as nets say them, below which L2 has all but taken them away


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
    gain: float  # of log-likelihood over slope 0, by interactions
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

    @property
    def finding(self) -> Finding:
        low, high = SANE_CALIBRATION
        sure = self.interaction_calibration > SURE * self.interaction_calibration_error
        if not sure or not low < self.interaction_calibration < high:
            return "no interactions"
        if self.joint_gain < ENOUGH_GAIN:
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
        low, high = self.interaction_interval
        if not self.agrees:
            return low, high
        slope, error = self._together
        narrower = error / self._error if self._error else 1.0
        return slope + (low - self.estimate) * narrower, slope + (high - self.estimate) * narrower

    @property
    def joint_gain(self) -> float:
        """Of log-likelihood over slope 0: that of interactions, and what item counts add to it or take from it."""
        if not self.agrees or not self._error:
            return self.gain
        slope, error = self._together
        return float(max(self.gain + (slope / error) ** 2 / 2 - (self.estimate / self._error) ** 2 / 2, 0.0))

    @property
    def interaction_interval(self) -> tuple[float, float]:
        """95% for the slope from interactions: by profile likelihood, widened by what their calibration leaves open."""
        if not self.interaction_calibration:
            return self.low, self.high
        blur = NORMAL_95 * self.estimate * self.interaction_calibration_error / self.interaction_calibration
        ends = (np.sign(end - self.estimate) * np.hypot(end - self.estimate, blur) for end in (self.low, self.high))
        low, high = (float(self.estimate + end) for end in ends)
        return low, high

    @property
    def agreement(self) -> float:
        """By how many standard errors the slope from interactions exceeds that from item counts."""
        error = np.hypot(self._error, self.item_error)
        return float((self.estimate - self.item_slope) / error) if 0 < error < np.inf else 0.0

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
        error = self._error
        if not error:
            return Estimate(self.estimate, error)
        own, other = error**-2, max(self.item_error, error) ** -2
        return Estimate((own * self.estimate + other * self.item_slope) / (own + other), (own + other) ** -0.5)

    @property
    def _allowed(self) -> float:
        """The slope from interactions as far as item counts allow it at 95%.

        What can make a trace err makes it larger: good items are put forward, people are shown what suits them.
        """
        side = np.sign(self.estimate)
        limit = side * self.item_slope + NORMAL_95 * self.item_error
        return float(side * np.clip(limit, 0.0, abs(self.estimate)))

    @property
    def verdict(self) -> str:
        """The finding in words."""
        low, high = self.interval
        slope = self._together.slope if self.agrees else self.estimate
        found = f"slope {slope:.3f} [{low:.3f}, {high:.3f}], likelihood gain {self.joint_gain:.1f}"
        items = f"item counts say {self.item_slope:.3f} ± {self.item_error:.3f}"
        match self.finding:
            case "evidence":
                agreeing = f"interactions say {self.estimate:.3f}, {items}, which agrees"
                return f"Evidence for selection on utility: {found}; {agreeing}."
            case "disagreement":
                return (
                    f"The two traces disagree: interactions say {found}, but {items}; exposure follows quality, or the "
                    f"model is wrong. No more than either allows is used: {self.slope:.3f}."
                )
            case "none":
                return f"No evidence for selection on utility: {found}, below {ENOUGH_GAIN:g}; slope 0 is used."
        return (
            f"The net has no interactions to go by: their calibration slope is {self.interaction_calibration:.2f} ± "
            f"{self.interaction_calibration_error:.2f}; {self._advice}. Slope 0 is used."
        )

    @property
    def _advice(self) -> str:
        """What to do about interactions that cannot be used: nets say too little of them, or learn noise by heart."""
        slope = abs(self.interaction_calibration)
        said = self.interaction_spread / slope if slope else 0.0
        understated = said < PRUNED or self.interaction_calibration >= SANE_CALIBRATION[1]
        return f"{'lower' if understated else 'raise'} its l2 or collect more ratings"

    @property
    def assumption(self) -> str:
        """Where k comes from, in words."""
        if np.isnan(self.unexplained_gain):
            return f"Unexplained liking is assumed to count {self.unexplained:g} times as much as explained."
        low, high = self.unexplained_low, self.unexplained_high
        said = f"random ratings say {self.unexplained_estimate:.2f} [{low:.2f}, {high:.2f}]"
        return f"Unexplained liking counts {self.unexplained:.2f} times as much as explained; {said}."
