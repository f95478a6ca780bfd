"""What fits of a suite are asked beside the test's metrics: how well their propensity and imputation are calibrated."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unskew.bench.exam import Exam
from unskew.bench.records import Values
from unskew.data.pairs import SeenPairs
from unskew.metrics.calibration import calibration_error
from unskew.model import Recommender

MOST_PAIRS = 100_000  # that a propensity is judged on
PAIRS_STREAM = 0x70616972


@dataclass(frozen=True, eq=False, kw_only=True)
class CalibrationExam(Exam):
    """An exam in which both nuisances are asked too, calibrated if the method calibrates, before any clip.

    The propensity is held against who was seen, over all pairs or 100,000 random ones; the imputation against the test,
    whose pairs are random. Errors are over 15 bins of equal width, and of equal mass.
    """

    def marks(self, model: Recommender) -> Values:
        found: dict[str, float] = {}
        if "propensity" in model.parts and model.part("propensity").answers_unseen:
            users, items = self._pairs()
            said = model.scores("propensity", users, items)
            found |= _errors("propensity", SeenPairs(self.log)(users, items), said)
        if "imputation" in model.parts:
            found |= _errors("imputation", *self._imputed(model))
        return super().marks(model) | {"calibration": found}

    def _pairs(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        n = self.log.n_pairs
        drawn = np.random.default_rng(PAIRS_STREAM).integers(n, size=MOST_PAIRS) if n > MOST_PAIRS else np.arange(n)
        users, items = np.divmod(drawn, self.log.n_items)
        return users, items

    def _imputed(self, model: Recommender) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        """Rating and imputation of the test's pairs, without those of users or items that the log does not know."""
        log, test = self.log, self.test
        users = log.user_ids.codes(test.user_ids.take(test.users))
        items = log.item_ids.codes(test.item_ids.take(test.items))
        known = (users >= 0) & (items >= 0)
        return test.ratings[known], model.scores("imputation", users[known], items[known])


def _errors(role: str, labels: NDArray[np.generic], said: NDArray[np.float64]) -> dict[str, float]:
    happened = np.asarray(labels, np.float64)
    return {
        f"{role}_ece": calibration_error(happened, said),
        f"{role}_equal_mass_ece": calibration_error(happened, said, bins="mass"),
        f"{role}_mean": float(said.mean()),
        f"{role}_sd": float(said.std()),
    }
