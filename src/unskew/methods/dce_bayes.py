"""Fit the flagship: a Bayesian factor model with a targeted correction, and a level shift where the log asks for it.

In this order: (1) posterior, its answers mapped by a + b logit where left-out ratings ask for it (Platt: no correction
for selection); (2) targeted correction by all left-out ratings, if its gate opens; (3) level shift, if the slope of
seeing on liking exceeds two standard errors. Each says in a line whether it acted. `bayes` is (1) alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from unskew.data.log import RatingLog
from unskew.errors import ParameterError
from unskew.nets.base import Linear, Part
from unskew.posterior import defaults
from unskew.posterior.answers import Posterior, Ratings
from unskew.posterior.exposure import Pairs, directions
from unskew.posterior.factors import Problem, Settings, one_blas_thread, sample
from unskew.posterior.flat import flat, unflat
from unskew.posterior.targeted import Targeted, group_users, target
from unskew.propensity.conditional import Choice, FittedExposure, Folded, better_exposure, fit_choice, with_rates
from unskew.selection.level import (
    USEFUL_ERROR,
    random_pair_probability,
    ratings_to_settle,
    shift,
    unexplained_from_random,
)
from unskew.selection.slope import Slope, estimate_slope
from unskew.special import log_expit, log_ndtr, logit, ndtr, ndtri_exp
from unskew.training.plan import FitContext

if TYPE_CHECKING:
    from unskew.methods.bayesian import BayesianFactors, CorrectedFactors

Array = NDArray[Any]
EXPERTS = 5
MOST_DENSE = 100_000_000  # numbers of features that are held
LOWER = 1.64  # standard deviations below the mean that "lower" ranks by: a bound that holds for 19 of 20


@dataclass(frozen=True, eq=False)
class BayesianPart(Part):
    """P(liked), or the expected rating of a graded log, from a posterior and what was fitted around it.

    The posterior has one more user and one more item than the log: the average new one, which the code -1 reads.
    """

    orders: ClassVar[tuple[str, ...]] = ("choice", "liking", "lower", "thompson")

    posterior: Posterior
    notes: list[str]
    scale: tuple[float, float] | None = None
    """Ends of the scale of a graded log, whose answers are expected ratings."""
    exposure: FittedExposure | None = None
    targeted: Targeted | None = None
    slope: Slope | None = None
    unexplained: float = 0.0
    choice: Choice | None = None
    chain: dict[str, Any] = field(default_factory=dict)
    """The state that more sweeps go on from."""
    platt: Targeted | None = None
    """A map of the posterior's logits alone, where left-out ratings ask for it."""

    def __post_init__(self) -> None:
        if self.choice is None:
            object.__setattr__(self, "orders", self.orders[1:])

    def margin(self, users: Array, items: Array, unexplained: float | None = None) -> Array:
        """Return z with P(liked) = Phi(z) of pairs that nobody chose; of new users and items by the posterior alone."""
        users, items = np.asarray(users, np.int64), np.asarray(items, np.int64)
        z = self.posterior.margin(users, items)
        if self.platt is not None:
            z = mapped(self.platt, z, 0.0, 0 * users)
        if self.exposure is None or self.targeted is None or self.slope is None:
            return z
        known = self.exposure.known(users, items)
        u, i = users[known], items[known]
        if self.targeted.applied:
            z[known] = mapped(self.targeted, z[known], log_expit(self.exposure.logits(u, i).astype(float)), u)
        if self.slope.used:
            k = self.unexplained if unexplained is None else unexplained
            z[known] -= shift(self.posterior, u, i, self.slope.used, k) / self.posterior.spread(u, i)
        return z

    def probability(self, users: Array, items: Array, unexplained: float | None = None) -> Array:
        """Return P(liked) of pairs that nobody chose."""
        return np.asarray(ndtr(self.margin(users, items, unexplained)))

    def logits(self, users: Array, items: Array) -> Array:
        if self.scale is None:
            z = self.margin(users, items)
            return np.asarray(log_ndtr(z) - log_ndtr(-z), np.float32)
        low, high = self.scale
        unit = (self.posterior.expected(users, items) - low) / (high - low)
        return np.asarray(logit(np.clip(unit, 1e-7, 1 - 1e-7)), np.float32)

    def user_vectors(self, users: Array) -> Array:
        return self.posterior.user_vectors(users)

    def sizes(self) -> tuple[int | None, int | None]:
        return len(self.posterior.user_bias) - 1, len(self.posterior.item_bias) - 1

    def state(self) -> dict[str, Array]:
        return flat(self)

    def extended(self, counts: Array, owner: Part | None = None) -> BayesianPart:
        n_users, n_items = (len(side) for side in (self.posterior.user_bias, self.posterior.item_bias))
        return replace(self, posterior=self.posterior.extended(n_users + len(counts), n_items))

    @one_blas_thread
    def continued(self, log: RatingLog, sweeps: int) -> BayesianPart:
        """The part after further sweeps over its log, the averages included; what was fitted around it stays."""
        pairs, _, _ = given_of(log)
        settings = unflat(Settings, {k.removeprefix("settings."): v for k, v in self.chain.items() if "settings." in k})
        problem = Problem(pairs, Ratings.of(pairs.ratings), settings, int(self.chain["seed"]), **features_of(log))
        chain = problem.chain(settings, int(self.chain["burn"]))
        chain.restore(self.chain)
        chain.run(sweeps)
        notes = [note for note in self.notes if " sweeps" not in note]
        notes.insert(0, f"{chain.sampler.sweeps} sweeps were run, {chain.kept} kept.")
        posterior = with_average(chain.posterior(settings.liked_from))
        return replace(self, posterior=posterior, notes=notes, chain=self.chain | chain.state())

    def folded(self, starts: Array, items: Array, stars: Array) -> BayesianPart:
        """The part with a new user for each stretch of ratings, by the posterior of one row given all items."""
        posterior = self.posterior.without_last()
        for first, last in pairwise(starts.tolist()):
            if last > first:
                posterior = posterior.fold_in(items[first:last], stars[first:last].astype(np.float64))
            else:
                posterior = posterior.extended(len(posterior.user_bias) + 1, len(posterior.item_bias))
        return replace(self, posterior=with_average(posterior))

    def linear(self) -> Linear:
        """f - t, whose sign tells whether a pair is liked rather than not; chances are mapped from there."""
        p, ones = self.posterior, np.ones((len(self.posterior.item_bias), 1))
        users, items = np.hstack([p.user_factors, p.user_bias[:, None]]), np.hstack([p.item_factors, ones])
        return Linear(*(np.asarray(side, np.float32) for side in (users, items, p.item_bias - p.threshold())))

    def std(self, users: Array, items: Array) -> Array:
        """The standard deviation of an answer over what the log leaves open."""
        if self.scale is None:
            return self.posterior.std(users, items)
        return np.sqrt(self.posterior.variance(users, items))

    def order_scores(self, by: str, users: Array, items: Array, rng: np.random.Generator) -> Array:
        """What a list is ranked by."""
        p, users, items = self.posterior, np.asarray(users, np.int64), np.asarray(items, np.int64)
        if by == "choice" and self.choice is not None and self.exposure is not None:
            known, found, scorer = self.exposure.known(users, items), np.empty(len(users)), self.exposure.scorer
            found[known] = self.choice.scores(scorer, p.probability, users[known], items[known])
            # A new user picks what everybody does, so far as it would be liked.
            u, i = users[~known], items[~known]
            found[~known] = scorer.columns(np.zeros(len(i), np.int64), i)[:, 0] + log_ndtr(p.margin(u, i))
            return found
        if by == "liking":
            return self.logits(users, items)
        mean, deviation = self.order_moments(users, items)
        drawn = rng.standard_normal(len(users)) if by == "thompson" else np.full(len(users), -LOWER)
        return np.asarray(ndtr(mean + drawn * deviation))

    def order_moments(self, users: Array, items: Array) -> tuple[Array, Array]:
        """Mean and deviation of z with P(liked) = Phi(z), over what the log leaves open of f."""
        p, users, items = self.posterior, np.asarray(users, np.int64), np.asarray(items, np.int64)
        noise = np.sqrt(p.noise_variance(users, items))
        return (p.scores(users, items) - p.threshold()) / noise, np.sqrt(p.variance(users, items)) / noise

    def level_chances(self, users: Array, items: Array) -> tuple[Array, Array]:
        """The levels of ratings, and the chance of each for every pair."""
        return self.posterior.ratings.values, self.posterior.levels(users, items)

    def liked(self, users: Array, items: Array, liked_from: float) -> Array:
        """P(rating >= liked_from)."""
        return self.posterior.probability(users, items, liked_from)

    def expected(self, users: Array, items: Array) -> Array:
        """The expected rating."""
        return self.posterior.expected(users, items)


def with_average(posterior: Posterior) -> Posterior:
    """Return the posterior with the average new user and item after all others."""
    return posterior.extended(len(posterior.user_bias) + 1, len(posterior.item_bias) + 1)


def fit_posterior(context: FitContext, factors: BayesianFactors) -> BayesianPart:
    """Fit the posterior alone."""
    log, given, scale = _given(context, factors)
    found = sample(log, **given)
    return BayesianPart(with_average(found.posterior), found.posterior.notes, scale, chain=found.state())


def fit_corrected(context: FitContext, spec: CorrectedFactors) -> BayesianPart:
    """Fit the posterior, its exposure, and what left-out ratings ask for; a graded log is not corrected."""
    log, given, scale = _given(context, spec.factors)
    random = context.random_ratings
    return fit_part(
        log, corrections=spec.corrections and scale is None, unexplained=spec.unexplained, scale=scale,
        random=None if random is None else Pairs.of(random, random.ratings), **given,
    )  # fmt: skip


@one_blas_thread
def fit_part(
    log: Pairs, *, corrections: bool = True, unexplained: float = defaults.UNEXPLAINED,
    scale: tuple[float, float] | None = None, random: Pairs | None = None, seed: int = 0, **given: Any,
) -> BayesianPart:  # fmt: skip
    """Fit to a log of arrays; at most about three Bayesian fits of time in all. `random` ratings (0 or 1) tell k.

    Without `corrections` the posterior answers as it is; the exposure that lists rest on is fitted all the same.
    """
    fitted = sample(log, seed=seed, **given)
    posterior, fold = fitted.posterior, fitted.fold
    liked = (np.asarray(log.ratings) >= posterior.liked_from).astype(np.int64)
    by_fold, rng = fitted.all_folds(), np.random.default_rng([seed, 22])
    folded = better_exposure(log, fold, rng)
    exposure = with_rates(log, folded, rng)
    notes, platt, targeted, slope, choice = [*posterior.notes, f"Exposure: {exposure.name}."], None, None, None, None
    if scale is None:
        logit_q, nothing = np.zeros(len(fold)), np.zeros(len(fold))
        for k, model in by_fold.items():
            logit_q[fold == k] = model.logits(log.users[fold == k], log.items[fold == k])
        alike = np.zeros(log.n_users, np.int64)
        platt = target(liked, logit_q, nothing, log.users, log.items, alike, fold, np.ones(len(fold)))
        notes.append(platt.sentence("Calibration by left-out ratings", "log-loss"))
        logit_q, platt = platt.logits(logit_q, nothing, log.users), platt if platt.applied else None
    if corrections:
        targeted = correction(log, fold, liked, logit_q, folded, exposure, rng)
        slope = estimate_slope(log, liked, fold, by_fold, rng)
        notes += [targeted.sentence("The targeted correction", "weighted log-loss"), slope.sentence()]
        if slope.used:
            found, sentences = level(posterior, slope, random, np.random.default_rng([seed, 23]))
            unexplained, notes = unexplained if found is None else found, notes + sentences
    if liked.any():
        choice = fit_choice(log, liked, fold, folded, {k: m.probability for k, m in by_fold.items()}, rng)
    whole = with_average(posterior)
    return BayesianPart(whole, notes, scale, exposure, targeted, slope, unexplained, choice, fitted.state(), platt)


def mapped(by: Targeted, z: Array, log_p: Any, users: Array) -> Array:
    """Return z with P(liked) = Phi(z) after a map of its logit."""
    logits = by.logits(log_ndtr(z) - log_ndtr(-z), log_p, users)
    return np.asarray(np.where(logits < 0, ndtri_exp(log_expit(logits)), -ndtri_exp(log_expit(-logits))))


def level(
    posterior: Posterior, slope: Slope, random: Pairs | None, rng: np.random.Generator
) -> tuple[float | None, list[str]]:
    """Return k if random ratings tell it, and sentences on how far the level depends on it."""
    users, items = (rng.integers(len(bias), size=20_000) for bias in (posterior.user_bias, posterior.item_bias))
    k0, k1 = (random_pair_probability(posterior, users, items, slope.used, k).mean() for k in (0.0, 1.0))
    sentences = [
        f"Over all pairs {k0:.0%} would be liked if people choose by what can be known beforehand (k = 0), "
        f"{k1:.0%} if they rate what they turn out to love (k = 1): no log can tell, about "
        f"{ratings_to_settle(posterior, users, items, slope.used):,} random ratings can."
    ]
    if random is None:
        return None, sentences
    estimate = unexplained_from_random(posterior, random.users, random.items, random.ratings, slope.used)
    return (estimate.value if estimate.error <= USEFUL_ERROR else None), [*sentences, estimate.sentence()]


def correction(
    log: Pairs, fold: Array, liked: Array, logit_q: Array, folded: Folded, exposure: FittedExposure,
    rng: np.random.Generator,
) -> Targeted:  # fmt: skip
    """Fit the targeted correction to left-out ratings, each by the model and the exposure without its fold."""
    own = exposure.rates[log.users] + folded.held_out
    log_p = log_expit(np.where(np.isfinite(own), own, exposure.logits(log.users, log.items)))
    # by what they saw, not by vectors that the left-out ratings have shaped: these would seem to confirm themselves
    experts = group_users(directions(log, most=4, least=4).users, EXPERTS, rng)
    return target(liked, logit_q, log_p, log.users, log.items, experts, fold, np.exp(-log_p))


def given_of(log: RatingLog) -> tuple[Pairs, float | None, tuple[float, float] | None]:
    """Return a log as the sampler reads it: pairs, from where ratings are liked, ends of a graded scale."""
    if not log.binary:
        graded = log.scale.from_unit(log.ratings) if log.stars is None else log.stars
        return Pairs.of(log, graded), None, (log.scale.low, log.scale.high)
    if log.stars is None or log.scale.positive is None:
        return Pairs.of(log, log.ratings), 1.0, None
    return Pairs.of(log, log.stars), float(log.stars[log.stars >= log.scale.positive].min()), None


def features_of(log: RatingLog) -> dict[str, Any]:
    """Return features of users and items as the sampler reads them."""
    return {f"{side}_features": _features(side, log.features[k]) for k, side in enumerate(("user", "item"))}


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


def _given(context: FitContext, factors: BayesianFactors) -> tuple[Pairs, dict[str, Any], tuple[float, float] | None]:
    """Return what the sampler is given of a log, and the ends of the scale of a graded one."""
    pairs, liked_from, scale = given_of(context.log)
    settings = Settings(
        d=factors.n_factors, sweeps=factors.sweeps, prior_scale=factors.prior_scale, exposure=factors.exposure,
        history=factors.history, liked_from=liked_from,
    )  # fmt: skip
    seed = int(context.rng.integers(2**31))
    given = {"settings": settings, "seed": seed, "progress": context.training.progress}
    return pairs, given | features_of(context.log), scale


def part_from(state: Any) -> BayesianPart:
    """Return the part of a state."""
    part: BayesianPart = unflat(BayesianPart, state)
    return part


def exposure_of(owner: Any) -> FittedExposure:
    """Return the exposure that a corrected posterior brings along."""
    if not isinstance(owner, BayesianPart) or owner.exposure is None:
        raise ParameterError("ExposureOfPrediction() takes its exposure from a CorrectedFactors() prediction.")
    return owner.exposure
