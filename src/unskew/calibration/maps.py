"""Calibrators without a network: one map for everybody, or one for each user."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unskew.calibration.base import Calibrator, FittedCalibrator
from unskew.calibration.platt import Examples, Values, solve_platt
from unskew.training.checks import check_number


class FittedGlobal(FittedCalibrator):
    """One (a, b) for all users."""

    stored = ("slope", "intercept")

    def __init__(self, slope: float, intercept: float) -> None:
        self.slope, self.intercept = slope, intercept

    def maps(self, users: NDArray[np.int64], vectors: NDArray[np.float32]) -> tuple[Any, Any, Any]:
        return np.ones((1, 1)), np.array([[self.slope]]), np.array([[self.intercept]])


@dataclass(frozen=True, kw_only=True)
class GlobalPlatt(Calibrator):
    """One Platt map for everybody, solved to convergence. `slope=False` fixes a = 1: only the base rate is mended."""

    fitted = FittedGlobal

    slope: bool = True

    def fit(
        self,
        examples: Examples,
        *,
        generator: np.random.Generator,
        planned: float = 1.0,
        previous: FittedCalibrator | None = None,
    ) -> FittedCalibrator:
        if self.slope:
            a, b = solve_platt(examples)
            return FittedGlobal(float(a[0]), float(b[0]))
        one = np.ones((1, 1))
        return FittedGlobal(1.0, examples.shift(one, one, 0 * one))


class FittedUsers(FittedCalibrator):
    """(a_u, b_u) for the users met in the hold-out, the global map for all others."""

    stored = ("codes", "slopes", "intercepts", "common")

    def __init__(
        self, codes: NDArray[np.int64], slopes: Values, intercepts: Values, common: tuple[float, float]
    ) -> None:
        self.codes, self.slopes, self.intercepts, self.common = codes, slopes, intercepts, common

    def maps(self, users: NDArray[np.int64], vectors: NDArray[np.float32]) -> tuple[Any, Any, Any]:
        place = np.minimum(np.searchsorted(self.codes, users), len(self.codes) - 1)
        known = self.codes[place] == users
        a = np.where(known, self.slopes[place], self.common[0])
        b = np.where(known, self.intercepts[place], self.common[1])
        return np.ones((1, 1)), a[:, None], b[:, None]


@dataclass(frozen=True, kw_only=True)
class UserPlatt(Calibrator):
    """A Platt map for each user, drawn towards the global one by a ridge of `ridge` examples.

    A user has two or three held-out ratings; without the ridge the maps would follow them anywhere. A common shift
    keeps the calibrated mean at that of the labels, which the ridge would miss.
    """

    fitted = FittedUsers

    ridge: float = 1.0

    def __post_init__(self) -> None:
        check_number(self, "ridge", least=0)

    def fit(
        self,
        examples: Examples,
        *,
        generator: np.random.Generator,
        planned: float = 1.0,
        previous: FittedCalibrator | None = None,
    ) -> FittedCalibrator:
        a, b = solve_platt(examples)
        common = float(a[0]), float(b[0])
        n = len(examples.user_codes)
        slopes, intercepts = solve_platt(examples, examples.users, n, ridge=self.ridge, centre=common)
        intercepts += examples.shift(np.ones((1, 1)), slopes[:, None], intercepts[:, None])
        return FittedUsers(examples.user_codes, slopes, intercepts, common)
