"""What is fitted to judge by: imputations, chances of being seen, how strongly liking drives them, simple models."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unskew.data.log import RatingLog
from unskew.errors import DataError
from unskew.methods.bayesian import DCEBayes, corrected
from unskew.model import Recommender
from unskew.nets.base import Part
from unskew.posterior.answers import Posterior
from unskew.posterior.exposure import Pairs
from unskew.posterior.factors import BayesianFactors, Fitted, Problem, one_blas_thread, sample
from unskew.posterior.kernels import Int
from unskew.propensity.base import FittedPropensity
from unskew.propensity.exposure import Ridge, Spectral
from unskew.registry import make
from unskew.runtime import bar
from unskew.selection.slope import Slope, estimate_slope, shift
from unskew.special import expit
from unskew.training.options import Training

Codes = NDArray[np.integer[Any]]
Values = NDArray[np.float64]
Answers = Callable[[Codes, Codes], Values]

FACTORS, SWEEPS = 6, 70
PENALTY = 500.0  # of the ridge; its scores are calibrated on folds, so that it need not be found anew for every log
RIDGE_SIDE = 1500  # of the smaller side, above which squares of it take longer than all else
SHRUNK = 5  # ratings at the mean of the log that a user's or an item's own are averaged with
POPULARITY = "popularity"


class Imputation(NamedTuple):
    """A posterior of ratings; answers lie on the unit scale of its log."""

    posterior: Posterior

    def expected(self, users: Int, items: Int, slope: float = 0.0) -> Values:
        """Return the expected rating of a pair that is not seen, if liking drives seeing by a slope.

        f moves down by the slope times the variance of a rating: what the log leaves open plus what no model explains.
        """
        p, down = self.posterior, shift(self.posterior, users, items, slope, 1.0)
        if p.scale is None:
            return np.asarray(p.probability(users, items, shift=down))
        low, high = p.scale
        return np.asarray((p.expected(users, items, down) - low) / (high - low))


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
    models, known = {k: each.posterior for k, each in enumerate(imputations)}, Problem.of(log, BayesianFactors(), seed)
    features = known.user_features, known.item_features
    return estimate_slope(Pairs.of(log), liked, fold, models, np.random.default_rng([seed, 44]), features)


def by_fold(model: Recommender, fold: NDArray[np.int64], name: str) -> list[Answers]:
    """Fit the model's method again without each fold."""
    parts = [fold == k for k in range(int(fold.max()) + 1)]
    with bar(f"judging {name}", len(parts), "fold") as progress:
        if isinstance(model.method, DCEBayes):
            return _sampled_by_fold(model, model.method, fold, parts, progress.advance)
        training, found = model.training or Training(progress=False), list[Answers]()
        for k, held in enumerate(parts):
            seed = (model.seed + k) % 2**63
            found.append(model.method.fit(model.log.take(~held), seed=seed, training=training).predict_codes)
            progress.advance()
    return found


@one_blas_thread
def _sampled_by_fold(
    model: Recommender, method: DCEBayes, fold: NDArray[np.int64], parts: list[NDArray[np.bool_]],
    advance: Callable[[], None],
) -> list[Answers]:  # fmt: skip
    """Fit the posterior once a fold; what corrects the k-th is learned from how the others answer their own folds.

    Whether who-saw-what is in the prior, unless the method was given it, and what corrects is as the whole fit has
    chosen.
    """
    part: Any = model.part("prediction")
    asked = [name for name in ("exposure", "history") if getattr(method.factors, name) is None]
    chosen: dict[str, Any] = {name: bool(part.chain.get(f"settings.{name}", False)) for name in asked}
    problem = Problem.of(model.log, replace(method.factors, **chosen), model.seed % 2**31)
    posteriors, found = list[Posterior](), list[Answers]()
    for k in range(len(parts)):
        posteriors.append(replace(problem.without_fold(fold, k), scale=problem.scale))
        advance()
    for k, held in enumerate(parts):
        others = posteriors[:k] + posteriors[k + 1 :]
        numbers = (fold - (fold > k))[~held]  # of the other folds, as if there were no more
        known = None if problem.chances is None else problem.chances[~held]
        here = replace(problem, log=problem.log.rows(~held), chances=known)
        fitted = Fitted(posteriors[k], here, numbers, others.__getitem__)
        whole = corrected(fitted, corrections=method.corrections, unexplained=method.unexplained, like=part)
        found.append(partial(_probability, whole))
    return found


def _probability(part: Part, users: Codes, items: Codes) -> Values:
    return np.asarray(expit(part.logits(users, items).astype(np.float64)))


def plain_training(log: RatingLog, seed: int) -> Recommender:
    """Fit what corrects nothing, against which models are held."""
    found: Recommender = make("naive").fit(log, seed=seed % 2**63, training=Training(progress=False))
    return found


def baselines(log: RatingLog, seed: int) -> dict[str, Answers]:
    """Return popularity (an order, no chance), means and plain training; an unknown user or item has the code -1."""
    counts = np.append(np.bincount(log.items, minlength=log.n_items), 0).astype(np.float64)
    plain = plain_training(log, seed)

    def shrunk(codes: Codes, n: int) -> Values:
        total, count = np.bincount(codes, log.ratings, n), np.bincount(codes, minlength=n)
        return np.append((total + SHRUNK * log.positive_rate) / (count + SHRUNK), log.positive_rate)

    items, users = shrunk(log.items, log.n_items), shrunk(log.users, log.n_users)
    return {
        POPULARITY: lambda u, i: counts[i],
        "item means": lambda u, i: items[i],
        "user means": lambda u, i: users[u],
        "plain training": plain.predict_codes,
    }
