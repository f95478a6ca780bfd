"""What fills the roles of the Bayesian methods: a posterior, a corrected one, and the exposure that it brings."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, logit, ndtr

from unskew.data.log import RatingLog
from unskew.errors import ParameterError
from unskew.methods.dce_bayes import DceBayes as Fitted
from unskew.methods.dce_bayes import fit_pairs
from unskew.nets.base import Linear, Part, State
from unskew.posterior.answers import Posterior
from unskew.posterior.factors import BayesianFactors as Sampler
from unskew.posterior.factors import sample
from unskew.propensity.base import FittedPropensity
from unskew.propensity.conditional import FittedExposure
from unskew.runtime import bar
from unskew.training.plan import FitContext

if TYPE_CHECKING:
    from unskew.methods.bayesian import BayesianFactors

Array = NDArray[Any]
MOST_DENSE = 100_000_000  # numbers of features that are held
LOWER = 1.64  # standard deviations below the mean that "lower" ranks by: a bound that holds for 19 of 20


class PosteriorPart(Part):
    """P(liked), or the expected rating of a graded log, from a posterior.

    The posterior has one more user and one more item than the log: the average new one, which the code -1 reads.
    """

    orders: ClassVar[tuple[str, ...]] = ("liking", "lower", "thompson")

    def __init__(self, posterior: Posterior, scale: tuple[float, float] | None) -> None:
        self.posterior, self.scale = posterior, scale
        self.notes = tuple(posterior.notes)

    def logits(self, users: Array, items: Array) -> Array:
        if self.scale is None:
            return np.asarray(self.posterior.logits(users, items), np.float32)
        low, high = self.scale
        unit = (self.posterior.expected(users, items) - low) / (high - low)
        return np.asarray(logit(np.clip(unit, 1e-7, 1 - 1e-7)), np.float32)

    def user_vectors(self, users: Array) -> Array:
        return self.posterior.user_vectors(users)

    def sizes(self) -> tuple[int | None, int | None]:
        return len(self.posterior.user_bias) - 1, len(self.posterior.item_bias) - 1

    def state(self) -> dict[str, Array]:
        own = {} if self.scale is None else {"scale": np.array(self.scale)}
        return {name: np.asarray(array) for name, array in self.posterior.state().items()} | own

    def extended(self, counts: Array, n_items: int, owner: Part | None = None, n_nets: int = 1) -> PosteriorPart:
        n_users, n_old = (len(side) for side in (self.posterior.user_bias, self.posterior.item_bias))
        return PosteriorPart(self.posterior.extended(n_users + len(counts), n_old + n_items), self.scale)

    def linear(self) -> Linear:
        """f - t, whose sign tells whether a pair is liked rather than not; chances are mapped from there."""
        p, ones = self.posterior, np.ones((len(self.posterior.item_bias), 1))
        users, items = np.hstack([p.user_factors, p.user_bias[:, None]]), np.hstack([p.item_factors, ones])
        return Linear(*(np.asarray(side, np.float32) for side in (users, items, p.item_bias - p.threshold())))

    def folded(self, starts: Array, items: Array, stars: Array) -> PosteriorPart:
        """The part with a new user for each stretch of ratings, by the posterior of one row given all items."""
        posterior = _without_average(self.posterior)
        for first, last in pairwise(starts.tolist()):
            if last > first:
                posterior = posterior.fold_in(items[first:last], stars[first:last].astype(np.float64))
            else:
                posterior = posterior.extended(len(posterior.user_bias) + 1, len(posterior.item_bias))
        return self._with(_with_average(posterior))

    def _with(self, posterior: Posterior) -> PosteriorPart:
        return PosteriorPart(posterior, self.scale)

    def std(self, users: Array, items: Array) -> Array:
        """The standard deviation of an answer over what the log leaves open."""
        if self.scale is None:
            return self.posterior.std(users, items)
        return np.sqrt(self.posterior.variance(users, items))

    def order_scores(self, by: str, users: Array, items: Array, rng: np.random.Generator) -> Array:
        """What a list is ranked by."""
        p = self.posterior
        if by == "liking":
            return self.logits(users, items)
        f, deviation, noise = p.scores(users, items), np.sqrt(p.variance(users, items)), p.noise_variance(users, items)
        drawn = rng.standard_normal(len(users)) if by == "thompson" else np.full(len(users), -LOWER)
        return np.asarray(ndtr((f + drawn * deviation - p.threshold()) / np.sqrt(noise)))

    def level_chances(self, users: Array, items: Array) -> tuple[Array, Array]:
        """The levels of ratings, and the chance of each for every pair."""
        return self.posterior.ratings.values, self.posterior.levels(users, items)

    def liked(self, users: Array, items: Array, liked_from: float) -> Array:
        """P(rating >= liked_from)."""
        return self.posterior.probability(users, items, liked_from)

    def expected(self, users: Array, items: Array) -> Array:
        """The expected rating."""
        return self.posterior.expected(users, items)


class CorrectedPart(PosteriorPart):
    """A posterior with the exposure of its log, a targeted correction and a level shift where they act."""

    orders: ClassVar[tuple[str, ...]] = ("choice", "liking", "lower", "thompson")

    def __init__(self, fitted: Fitted, scale: tuple[float, float] | None) -> None:
        super().__init__(fitted.posterior, scale)
        self.fitted, self.notes = fitted, tuple(fitted.notes)

    def logits(self, users: Array, items: Array) -> Array:
        if self.scale is not None or not (self.fitted.targeted.applied or self.fitted.slope.used):
            return super().logits(users, items)
        known = (users >= 0) & (items >= 0) & (users < len(self.fitted.exposure.rates))
        if known.all():
            return self.fitted.logits(users, items)
        # Nothing is known of the exposure of new users and items: the posterior alone answers for them.
        found = super().logits(users, items)
        found[known] = self.fitted.logits(users[known], items[known])
        return found

    def _with(self, posterior: Posterior) -> PosteriorPart:
        return CorrectedPart(replace(self.fitted, posterior=posterior), self.scale)

    def extended(self, counts: Array, n_items: int, owner: Part | None = None, n_nets: int = 1) -> PosteriorPart:
        return self._with(super().extended(counts, n_items).posterior)

    def order_scores(self, by: str, users: Array, items: Array, rng: np.random.Generator) -> Array:
        choice = self.fitted.choice
        if by != "choice" or choice is None:
            return super().order_scores("liking" if by == "choice" else by, users, items, rng)
        known = (users >= 0) & (items >= 0) & (users < len(self.fitted.exposure.rates))
        found = np.empty(len(users))
        found[known] = choice.scores(users[known].astype(np.int64), items[known].astype(np.int64))
        # A new user picks what everybody does, so far as it would be liked.
        rest = ~known
        popular = choice.scorer.exposure.columns(np.zeros(int(rest.sum()), np.int64), items[rest].astype(np.int64))[
            :, 0
        ]
        found[rest] = popular + log_ndtr(self.posterior.margin(users[rest], items[rest]))
        return found

    def state(self) -> dict[str, Array]:
        own = {} if self.scale is None else {"scale": np.array(self.scale)}
        return {name: np.asarray(array) for name, array in self.fitted.state().items()} | own


class ExposurePart(FittedPropensity):
    """P(seen) by the exposure of a `CorrectedPart`; the code -1, and new users, are answered by the base rate."""

    def __init__(self, exposure: FittedExposure, base_logit: float) -> None:
        self.exposure, self.base_logit = exposure, base_logit

    def logits(self, users: Array, items: Array) -> Array:
        users, items = np.asarray(users, np.int64), np.asarray(items, np.int64)
        known = (users >= 0) & (items >= 0) & (users < len(self.exposure.rates))
        found = np.full(len(users), self.base_logit, np.float32)
        found[known] = self.exposure.logits(users[known], items[known])
        return found

    def state(self) -> dict[str, Array]:
        return {"base_logit": np.array(self.base_logit)}


def _without_average(posterior: Posterior) -> Posterior:
    """The posterior without the average new user and item, which are the last."""
    names = (f"{side}_{what}" for side in ("user", "item") for what in ("factors", "bias", "scale", "log_variance"))
    return replace(posterior, **{name: getattr(posterior, name)[:-1] for name in names})


def _features(log: RatingLog) -> list[Array | None]:
    found: list[Array | None] = []
    for side, features in zip(("user", "item"), log.features, strict=True):
        if features is None:
            found.append(None)
            continue
        encoded = features.encoded
        if encoded.shape[0] * encoded.shape[1] > MOST_DENSE:
            raise ParameterError(
                f"{side}_features has {encoded.shape[1]:,} columns once texts are numbers, too many for "
                f"{encoded.shape[0]:,} {side}s: leave out columns of many different texts."
            )
        found.append(encoded.toarray().astype(np.float64))
    return found


def _ratings(log: RatingLog) -> tuple[Array, float | None, tuple[float, float] | None]:
    """Ratings as they stand, from where they are liked, and the ends of the scale of a graded log."""
    if not log.binary:
        graded = log.scale.from_unit(log.ratings) if log.stars is None else log.stars
        return np.asarray(graded, np.float64), None, (log.scale.low, log.scale.high)
    if log.stars is None or log.scale.positive is None:
        return log.ratings.astype(np.float64), 1.0, None
    stars = log.stars.astype(np.float64)
    return stars, float(stars[stars >= log.scale.positive].min()), None


def fit_posterior(context: FitContext, factors: BayesianFactors) -> PosteriorPart:
    """Fit the posterior alone."""
    given, scale = _given(context, factors)
    with _Progress(context) as progress:
        found = sample(**given, progress=progress)
    return PosteriorPart(_with_average(found.posterior), scale)


def fit_corrected(
    context: FitContext, factors: BayesianFactors, *, corrections: bool, unexplained: float
) -> CorrectedPart:
    """Fit the posterior, its exposure, and what left-out ratings ask for."""
    given, scale = _given(context, factors)
    with _Progress(context) as progress:
        fitted = fit_pairs(
            **given, unexplained=unexplained, corrections=corrections and scale is None, progress=progress
        )
    return CorrectedPart(replace(fitted, posterior=_with_average(fitted.posterior)), scale)


def posterior_from(state: State) -> PosteriorPart:
    """The posterior of a state."""
    own, scale = _scale_of(state)
    return PosteriorPart(Posterior.from_state(own), scale)


def corrected_from(state: State) -> CorrectedPart:
    """The corrected posterior of a state."""
    own, scale = _scale_of(state)
    return CorrectedPart(Fitted.from_state(own), scale)


def exposure_of(owner: Any, base_logit: float) -> ExposurePart:
    """The exposure that a corrected posterior brings along."""
    if not isinstance(owner, CorrectedPart):
        raise ParameterError("ExposureOfPrediction() takes its exposure from a CorrectedFactors() prediction.")
    return ExposurePart(owner.fitted.exposure, base_logit)


def _given(context: FitContext, factors: BayesianFactors) -> tuple[dict[str, Any], tuple[float, float] | None]:
    """What the sampler is given of a log, and the ends of the scale of a graded one."""
    log = context.log
    ratings, liked_from, scale = _ratings(log)
    user_features, item_features = _features(log)
    given = {
        "users": log.users.astype(np.int64),
        "items": log.items.astype(np.int64),
        "ratings": ratings,
        "n_users": log.n_users,
        "n_items": log.n_items,
        "settings": Sampler(
            d=factors.n_factors,
            sweeps=factors.sweeps,
            prior_scale=factors.prior_scale,
            exposure=factors.exposure,
            history=factors.history,
            liked_from=liked_from,
        ),
        "user_features": user_features,
        "item_features": item_features,
        "seed": int(context.rng.integers(2**31)),
    }
    return given, scale


def _with_average(posterior: Posterior) -> Posterior:
    return posterior.extended(len(posterior.user_bias) + 1, len(posterior.item_bias) + 1)


def _scale_of(state: State) -> tuple[dict[str, Array], tuple[float, float] | None]:
    """All of a state but the ends of the scale, and these."""
    rest, scale = dict(state), state.get("scale")
    rest.pop("scale", None)
    return rest, None if scale is None else (float(scale[0]), float(scale[1]))


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
