"""A control for calibration experts: as many maps, and users dealt to them at random."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unskew.calibration.base import Calibrator, FittedCalibrator
from unskew.calibration.experts import solve_experts
from unskew.calibration.platt import Examples, Values, solve_platt
from unskew.data.hashing import pair_fold
from unskew.training.checks import check_number


class FittedRandom(FittedCalibrator):
    """One of K maps for each user, by a hash of the user."""

    stored = ("seed", "slopes", "intercepts")

    def __init__(self, seed: int, slopes: Values, intercepts: Values) -> None:
        self.seed, self.slopes, self.intercepts = seed, slopes, intercepts

    def maps(self, users: NDArray[np.int64], vectors: NDArray[np.float32]) -> tuple[Any, Any, Any]:
        dealt = expert_of(self.seed, users, len(self.slopes))
        return np.ones((1, 1)), self.slopes[dealt, None], self.intercepts[dealt, None]


@dataclass(frozen=True, kw_only=True)
class RandomPlatt(Calibrator):
    """`n_experts` Platt maps, each solved on the users that chance has dealt to it, with a ridge as in `ExpertPlatt`.

    What experts gain over it they gain by whom they speak for, and not by being several.
    """

    fitted = FittedRandom

    n_experts: int = 5
    ridge: float = 1.0

    def __post_init__(self) -> None:
        check_number(self, "n_experts", least=1)
        check_number(self, "ridge", least=0)

    def fit(
        self,
        examples: Examples,
        *,
        generator: np.random.Generator,
        planned: float = 1.0,
        previous: FittedCalibrator | None = None,
    ) -> FittedCalibrator:
        seed = previous.seed if isinstance(previous, FittedRandom) else int(generator.integers(2**62))
        a, b = solve_platt(examples)
        dealt = expert_of(seed, examples.user_codes, self.n_experts)
        slopes, intercepts = solve_experts(examples, dealt, self.n_experts, self.ridge, (float(a[0]), float(b[0])))
        fitted = FittedRandom(seed, slopes, intercepts)
        fitted.intercepts += examples.shift(*fitted.maps(examples.user_codes, examples.vectors))
        return fitted


def expert_of(seed: int, users: NDArray[np.int64], n_experts: int) -> NDArray[np.int64]:
    """To whom each user is dealt, wherever the user is met."""
    return np.asarray(pair_fold(seed, users, np.zeros_like(users), n_experts))
