"""What the judge has fitted of a log: an imputation, the chance of being seen, and how strongly liking drives it.

The only module here that calls the posterior, its exposure and the slope.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unskew.data.log import RatingLog
from unskew.errors import DataError
from unskew.posterior.exposure import Pairs
from unskew.posterior.factors import Settings, fold_sweeps, sample
from unskew.propensity.base import FittedPropensity
from unskew.propensity.exposure import Ridge, Spectral
from unskew.selection.slope import Slope, estimate_slope

Codes = NDArray[np.integer[Any]]
Values = NDArray[np.float64]

FACTORS, SWEEPS = 6, 70
PENALTY = 500.0  # of the ridge; its scores are calibrated on folds, so that it need not be found anew for every log
RIDGE_SIDE = 1500  # of the smaller side, above which squares of it take longer than all else


class Imputation(NamedTuple):
    """A posterior of ratings; answers lie on the unit scale of its log."""

    posterior: Any
    scale: tuple[float, float] | None  # the ends of a graded log

    def variance(self, users: Codes, items: Codes) -> tuple[Values, Values]:
        """What the log leaves open of a rating, and what no model explains."""
        return self.posterior.variance(users, items), self.posterior.noise_variance(users, items)

    def expected(self, users: Codes, items: Codes, shift: Any = 0.0) -> Values:
        """The expected rating, its mean moved down by `shift`."""
        p = self.posterior
        if self.scale is None:
            return np.asarray(p.probability(users, items, shift=shift))
        low, high = self.scale
        found = p.expected(users, items, shift)
        return np.asarray((found - low) / (high - low))


def pairs_of(log: RatingLog, ratings: Any = None) -> Pairs:
    """A log as the posterior reads it."""
    return Pairs.of(log, ratings)


def judging_folds(log: RatingLog, n_folds: int, seed: int) -> NDArray[np.int64]:
    """A fold for every rating, an equal share of each user's in every fold."""
    return np.asarray(pairs_of(log).folds(n_folds, np.random.default_rng([seed, 41])), np.int64)


def imputation_of(log: RatingLog, seed: int) -> Imputation:
    """Fit an imputation to the ratings as they stand; who-saw-what is known to it."""
    liked_from, scale = None, None
    ratings = log.ratings if log.stars is None else log.stars
    if log.binary:
        if log.ratings.min() == log.ratings.max():
            raise DataError(f"all {len(log):,} ratings are of one class: nothing tells which of two models is better.")
        liked_from = float(ratings[log.ratings == 1].min())
    else:
        ratings = np.asarray(log.scale.from_unit(log.ratings)) if log.stars is None else ratings
        scale = (log.scale.low, log.scale.high)
    settings = Settings(d=FACTORS, sweeps=SWEEPS, exposure=True, history=False, liked_from=liked_from)
    return Imputation(sample(pairs_of(log, ratings), settings=settings, seed=seed + 777).posterior, scale)


def exposure_of(log: RatingLog, seed: int) -> FittedPropensity:
    """Fit the log-odds of being seen, calibrated on folds of the log."""
    spec = Ridge(penalty=PENALTY) if min(log.n_users, log.n_items) <= RIDGE_SIDE else Spectral()
    return spec.fit(log, seed=seed)


def slope_of(log: RatingLog, fold: NDArray[np.int64], imputations: list[Imputation], seed: int) -> Slope:
    """How strongly liking drives seeing, by imputations that have not seen their fold."""
    liked = (log.ratings >= 0.5).astype(np.int64)
    models = {k: each.posterior for k, each in enumerate(imputations)}
    rng = np.random.default_rng([seed, 44])
    return estimate_slope(pairs_of(log), liked, fold, models, rng)


def fewer_sweeps(method: Any, n_ratings: int) -> Any:
    """The method with as many sweeps as fits to folds have, if it samples and its sweeps are not given."""
    factors = getattr(method, "factors", None)
    if factors is None or getattr(factors, "sweeps", 0) is not None:
        return method
    return replace(method, factors=replace(factors, sweeps=fold_sweeps(n_ratings)))
