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
from unskew.methods.bayesian import DCEBayes
from unskew.model import Recommender
from unskew.posterior.answers import Posterior
from unskew.posterior.exposure import Pairs
from unskew.posterior.factors import BayesianFactors, Problem, fold_sweeps, sample
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

    posterior: Posterior

    def expected(self, users: Codes, items: Codes, slope: float = 0.0) -> Values:
        """Return the expected rating of a pair that is not seen, if liking drives seeing by a slope.

        f moves down by the slope times the variance of a rating: what the log leaves open plus what no model explains.
        """
        p = self.posterior
        shift = slope * (p.variance(users, items) + p.noise_variance(users, items))
        if p.scale is None:
            return np.asarray(p.probability(users, items, shift=shift))
        low, high = p.scale
        return np.asarray((p.expected(users, items, shift) - low) / (high - low))


def imputation_of(log: RatingLog, seed: int) -> Imputation:
    """Fit an imputation to the ratings as they stand; who-saw-what is known to it, features are not."""
    if log.binary and log.ratings.min() == log.ratings.max():
        raise DataError(f"all {len(log):,} ratings are of one class: nothing tells which of two models is better.")
    settings = BayesianFactors(n_factors=FACTORS, sweeps=SWEEPS, exposure=True, history=False)
    problem = replace(Problem.of(log, settings, seed + 777), user_features=None, item_features=None)
    return Imputation(sample(problem).posterior)


def exposure_of(log: RatingLog, seed: int) -> FittedPropensity:
    """Fit the log-odds of being seen, calibrated on folds of the log."""
    spec = Ridge(penalty=PENALTY) if min(log.n_users, log.n_items) <= RIDGE_SIDE else Spectral()
    return spec.fit(log, seed=seed)


def slope_of(log: RatingLog, fold: NDArray[np.int64], imputations: list[Imputation], seed: int) -> Slope:
    """Estimate how strongly liking drives seeing, by imputations that have not seen their fold."""
    liked = (log.ratings >= 0.5).astype(np.int64)
    models = {k: each.posterior for k, each in enumerate(imputations)}
    return estimate_slope(Pairs.of(log), liked, fold, models, np.random.default_rng([seed, 44]))


def for_folds(model: Recommender) -> Any:
    """Return the model's method for fits without a fold.

    One that samples has as many sweeps as its own fits to folds, and who-saw-what in its prior as the whole fit has
    chosen, unless it was given them.
    """
    method = model.method
    if not isinstance(method, DCEBayes) or method.factors.sweeps is not None:
        return method
    part: Any = model.part("prediction")
    chain, given = part.chain, method.factors
    keys = {name: f"settings.{name}" for name in ("exposure", "history") if getattr(given, name) is None}
    chosen: dict[str, Any] = {name: bool(chain[key]) for name, key in keys.items() if key in chain}
    return replace(method, factors=replace(method.factors, sweeps=fold_sweeps(len(model.log)), **chosen))
