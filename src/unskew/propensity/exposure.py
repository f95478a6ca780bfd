"""Propensities from who saw what, calibrated on folds of the whole log; `dce-bayes` takes the likelier one."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from unskew.nets.base import Part, State
from unskew.posterior.defaults import FOLDS
from unskew.posterior.exposure import Pairs
from unskew.posterior.factors import one_blas_thread
from unskew.posterior.flat import unflat
from unskew.propensity.base import Propensity
from unskew.propensity.conditional import FittedExposure, Folded, ridge_by_folds, spectral_by_folds, with_rates
from unskew.training.plan import Given


class ExposureSpec(Propensity):
    """Settings of a propensity that learns from seen pairs alone."""

    needs_all_pairs = True

    @abstractmethod
    def by_folds(self, log: Pairs, fold: Any, rng: np.random.Generator) -> Folded:
        """Calibrate the scorers that are built without a fold."""

    @one_blas_thread
    def fit_in(self, given: Given) -> FittedExposure:
        log, rng = Pairs.of(given.log), np.random.default_rng([given.seed, 21])
        return with_rates(log, self.by_folds(log, log.folds(FOLDS, rng), rng), rng)

    def from_state(self, state: State, owner: Part | None = None) -> FittedExposure:
        found: FittedExposure = unflat(FittedExposure, state)
        return found


@dataclass(frozen=True, kw_only=True)
class Spectral(ExposureSpec):
    """Counts of users and items times what the leading directions of the seen matrix add; for logs of any size."""

    directions: int = 32

    def by_folds(self, log: Pairs, fold: Any, rng: np.random.Generator) -> Folded:
        return spectral_by_folds(log, fold, rng, self.directions)


@dataclass(frozen=True, kw_only=True)
class Ridge(ExposureSpec):
    """A ridge of every item on all others in closed form, up to 3,000 users or items; its penalty by held-out pairs."""

    penalty: float | None = None

    def by_folds(self, log: Pairs, fold: Any, rng: np.random.Generator) -> Folded:
        return ridge_by_folds(log, fold, rng, self.penalty)
