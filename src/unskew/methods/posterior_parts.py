"""Fill the roles of the Bayesian methods from a log: what the sampler is given, and a bar over its sweeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from unskew.data.log import RatingLog
from unskew.errors import ParameterError
from unskew.methods.dce_bayes import Answers, BayesianPart, exposure_of, fit_answers, part_of, with_average
from unskew.nets.base import State
from unskew.posterior.exposure import Pairs
from unskew.posterior.factors import BayesianFactors as Sampler
from unskew.posterior.factors import sample
from unskew.posterior.flat import unflat
from unskew.runtime import bar
from unskew.training.plan import FitContext

if TYPE_CHECKING:
    from unskew.methods.bayesian import BayesianFactors

__all__ = ["exposure_of", "fit_corrected", "fit_posterior", "part_from"]
Array = NDArray[Any]
MOST_DENSE = 100_000_000  # numbers of features that are held


def fit_posterior(context: FitContext, factors: BayesianFactors) -> BayesianPart:
    """Fit the posterior alone."""
    log, given, scale = _given(context, factors)
    with _Progress(context) as progress:
        posterior = sample(log, **given, progress=progress).posterior
    return part_of(Answers(with_average(posterior), posterior.notes, scale))


def fit_corrected(
    context: FitContext, factors: BayesianFactors, *, corrections: bool, unexplained: float
) -> BayesianPart:
    """Fit the posterior, its exposure, and what left-out ratings ask for."""
    log, given, scale = _given(context, factors)
    given |= {"corrections": corrections and scale is None, "unexplained": unexplained, "scale": scale}
    if (random := context.random_ratings) is not None:
        given["random"] = Pairs(random.users, random.items, log.n_users, log.n_items, random.ratings).checked()
    with _Progress(context) as progress:
        return part_of(fit_answers(log, **given, progress=progress))


def part_from(state: State) -> BayesianPart:
    """Return the part of a state."""
    return part_of(unflat(Answers, state))


def _given(context: FitContext, factors: BayesianFactors) -> tuple[Pairs, dict[str, Any], tuple[float, float] | None]:
    """Return what the sampler is given of a log, and the ends of the scale of a graded one."""
    log = context.log
    ratings, liked_from, scale = _ratings(log)
    user_features, item_features = (
        _features(side, found) for side, found in zip(("user", "item"), log.features, strict=True)
    )
    settings = Sampler(
        d=factors.n_factors, sweeps=factors.sweeps, prior_scale=factors.prior_scale, exposure=factors.exposure,
        history=factors.history, liked_from=liked_from,
    )  # fmt: skip
    given = {"settings": settings, "user_features": user_features, "item_features": item_features}
    pairs = Pairs(log.users, log.items, log.n_users, log.n_items, ratings)
    return pairs, given | {"seed": int(context.rng.integers(2**31))}, scale


def _ratings(log: RatingLog) -> tuple[Array, float | None, tuple[float, float] | None]:
    """Return ratings as they stand, from where they are liked, and the ends of the scale of a graded log."""
    if not log.binary:
        graded = log.scale.from_unit(log.ratings) if log.stars is None else log.stars
        return np.asarray(graded, np.float64), None, (log.scale.low, log.scale.high)
    if log.stars is None or log.scale.positive is None:
        return log.ratings.astype(np.float64), 1.0, None
    stars = log.stars.astype(np.float64)
    return stars, float(stars[stars >= log.scale.positive].min()), None


def _features(side: str, features: Any) -> Array | None:
    """Return features as numbers, a row each."""
    if features is None:
        return None
    rows, columns = features.encoded.shape
    if rows * columns > MOST_DENSE:
        raise ParameterError(
            f"{side}_features has {columns:,} columns once texts are numbers, too many for {rows:,} {side}s: leave out "
            "columns of many different texts."
        )
    return np.asarray(features.encoded.toarray(), np.float64)


class _Progress:
    """A bar over sweeps for whatever the sampler is doing."""

    def __init__(self, context: FitContext) -> None:
        self.shown, self._bar, self._what = context.training.progress, None, ""
        self._open: Any = None

    def __enter__(self) -> Any:
        return self.advance

    def advance(self, done: int, total: int, what: str) -> None:
        if what != self._what:
            self.__exit__()
            self._what, self._open = what, bar(what, total, "sweep", shown=self.shown, at_most=True)
            self._bar = self._open.__enter__()
        if self._bar is not None:
            self._bar.advance()

    def __exit__(self, *_: object) -> None:
        if self._open is not None:
            self._open.__exit__(None, None, None)
            self._open = None
