"""Fit the flagship: a Bayesian factor model with a targeted correction, and a level shift where the log asks for it.

In this order: (1) posterior; (2) targeted correction by all left-out ratings, if its gate opens; (3) level shift, if
the slope of seeing on liking exceeds two standard errors. Each says in a line whether it acted. `bayes` is (1) alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit, log_ndtr, logit, ndtr, ndtri_exp

from unskew.data.log import RatingLog
from unskew.errors import ParameterError
from unskew.nets.base import Linear, Part
from unskew.posterior import defaults
from unskew.posterior.answers import Posterior, Ratings
from unskew.posterior.exposure import Pairs, directions
from unskew.posterior.factors import BayesianFactors as Sampler
from unskew.posterior.factors import Fitted, Problem, sample
from unskew.posterior.flat import flat, unflat
from unskew.posterior.targeted import Targeted, group_users, target
from unskew.propensity.choice import Choice, fit_choice
from unskew.propensity.conditional import FittedExposure, Folded, with_rates
from unskew.propensity.ridge import affordable, ridge_by_folds
from unskew.propensity.spectral import spectral_by_folds
from unskew.selection.level import USEFUL_ERROR, band, ratings_to_settle, shift, unexplained_from_random
from unskew.selection.slope import Slope, estimate_slope

Array = NDArray[Any]
EXPERTS = 5
MOST_DENSE = 100_000_000  # numbers of features that are held
LOWER = 1.64  # standard deviations below the mean that "lower" ranks by: a bound that holds for 19 of 20


@dataclass(frozen=True)
class Answers:
    """Hold a posterior and, where they were fitted, the exposure of its log, a correction, a slope, and a choice.

    The posterior has one more user and one more item than the log: the average new one, which the code -1 reads.
    """

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

    def probability(self, users: Array, items: Array, unexplained: float | None = None) -> Array:
        """Return P(liked) of pairs that nobody chose; of new users and items by the posterior alone."""
        users, items = np.asarray(users, np.int64), np.asarray(items, np.int64)
        k = self.unexplained if unexplained is None else unexplained
        if self.exposure is None or self.targeted is None or self.slope is None:
            return self.posterior.probability(users, items)
        moved = shift(self.posterior, users, items, self.slope.used, k)
        found = self.posterior.probability(users, items, shift=moved)
        known = self.exposure.known(users, items)
        if not self.targeted.applied or not known.any():
            return np.asarray(np.where(known, found, self.posterior.probability(users, items)))
        u, i = users[known], items[known]
        log_p = log_expit(self.exposure.logits(u, i).astype(float))
        logits = self.targeted.logits(self.posterior.logits(u, i).astype(float), log_p, u)
        spread = np.sqrt(self.posterior.noise_variance(u, i) + self.posterior.variance(u, i))
        z = np.where(logits < 0, ndtri_exp(log_expit(logits)), -ndtri_exp(log_expit(-logits)))
        found[~known] = self.posterior.probability(users[~known], items[~known])
        found[known] = ndtr(z - moved[known] / spread) if self.slope.used else expit(logits)
        return found


class BayesianPart(Part):
    """P(liked), or the expected rating of a graded log, from a posterior and what was fitted around it."""

    orders: ClassVar[tuple[str, ...]] = ("liking", "lower", "thompson")

    def __init__(self, answers: Answers) -> None:
        self.answers, self.posterior, self.notes = answers, answers.posterior, tuple(answers.notes)

    def logits(self, users: Array, items: Array) -> Array:
        users, items = np.asarray(users, np.int64), np.asarray(items, np.int64)
        if self.answers.scale is not None:
            low, high = self.answers.scale
            unit = (self.posterior.expected(users, items) - low) / (high - low)
            return np.asarray(logit(np.clip(unit, 1e-7, 1 - 1e-7)), np.float32)
        if not acts(self.answers):
            return np.asarray(self.posterior.logits(users, items), np.float32)
        return np.asarray(logit(np.clip(self.answers.probability(users, items), 1e-12, 1 - 1e-12)), np.float32)

    def user_vectors(self, users: Array) -> Array:
        return self.posterior.user_vectors(users)

    def sizes(self) -> tuple[int | None, int | None]:
        return len(self.posterior.user_bias) - 1, len(self.posterior.item_bias) - 1

    def state(self) -> dict[str, Array]:
        return flat(self.answers)

    def _with(self, posterior: Posterior) -> BayesianPart:
        return part_of(replace(self.answers, posterior=posterior))

    def extended(self, counts: Array, n_items: int, owner: Part | None = None, n_nets: int = 1) -> BayesianPart:
        n_users, n_old = (len(side) for side in (self.posterior.user_bias, self.posterior.item_bias))
        return self._with(self.posterior.extended(n_users + len(counts), n_old + n_items))

    def continued(self, log: RatingLog, sweeps: int) -> BayesianPart:
        """The part after further sweeps over its log, the averages included; what was fitted around it stays."""
        given, state = given_of(log), self.answers.chain
        settings = unflat(Sampler, {k.removeprefix("settings."): v for k, v in state.items() if k[:9] == "settings."})
        ratings = Ratings.of(given.pairs.ratings)
        problem = Problem(given.pairs, ratings, settings, int(state["seed"]), **given.features)
        chain = problem.chain(settings, int(state["burn"]))
        chain.restore(state)
        chain.run(sweeps)
        posterior = chain.posterior(settings.liked_from)
        notes = [note for note in self.answers.notes if " sweeps" not in note]
        notes.insert(0, f"{chain.sampler.sweeps} sweeps were run, {chain.kept} kept.")
        answers = replace(self.answers, posterior=with_average(posterior), notes=notes)
        return part_of(replace(answers, chain=state | chain.state()))

    def folded(self, starts: Array, items: Array, stars: Array) -> BayesianPart:
        """The part with a new user for each stretch of ratings, by the posterior of one row given all items."""
        posterior = self.posterior.without_last()
        for first, last in pairwise(starts.tolist()):
            if last > first:
                posterior = posterior.fold_in(items[first:last], stars[first:last].astype(np.float64))
            else:
                posterior = posterior.extended(len(posterior.user_bias) + 1, len(posterior.item_bias))
        return self._with(with_average(posterior))

    def linear(self) -> Linear:
        """f - t, whose sign tells whether a pair is liked rather than not; chances are mapped from there."""
        p, ones = self.posterior, np.ones((len(self.posterior.item_bias), 1))
        users, items = np.hstack([p.user_factors, p.user_bias[:, None]]), np.hstack([p.item_factors, ones])
        return Linear(*(np.asarray(side, np.float32) for side in (users, items, p.item_bias - p.threshold())))

    def std(self, users: Array, items: Array) -> Array:
        """The standard deviation of an answer over what the log leaves open."""
        if self.answers.scale is None:
            return self.posterior.std(users, items)
        return np.sqrt(self.posterior.variance(users, items))

    def order_scores(self, by: str, users: Array, items: Array, rng: np.random.Generator) -> Array:
        """What a list is ranked by."""
        p, choice, exposure = self.posterior, self.answers.choice, self.answers.exposure
        users, items = np.asarray(users, np.int64), np.asarray(items, np.int64)
        if by == "choice" and choice is not None and exposure is not None:
            known, found = exposure.known(users, items), np.empty(len(users))
            found[known] = choice.scores(exposure.scorer, p.probability, users[known], items[known])
            # A new user picks what everybody does, so far as it would be liked.
            u, i = users[~known], items[~known]
            found[~known] = exposure.scorer.columns(np.zeros(len(i), np.int64), i)[:, 0] + log_ndtr(p.margin(u, i))
            return found
        if by in ("choice", "liking"):
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


class ChoicePart(BayesianPart):
    """A part that also knows what people pick."""

    orders: ClassVar[tuple[str, ...]] = ("choice", *BayesianPart.orders)


def part_of(answers: Answers) -> BayesianPart:
    """Return the part of these answers."""
    return BayesianPart(answers) if answers.choice is None else ChoicePart(answers)


def acts(answers: Answers) -> bool:
    """Return whether the correction or the shift changes any answer."""
    return bool((answers.targeted and answers.targeted.applied) or (answers.slope and answers.slope.used))


def with_average(posterior: Posterior) -> Posterior:
    """Return the posterior with the average new user and item after all others."""
    return posterior.extended(len(posterior.user_bias) + 1, len(posterior.item_bias) + 1)


def fit_answers(
    log: Pairs, *, corrections: bool = True, unexplained: float = defaults.UNEXPLAINED, choice: bool = True,
    scale: tuple[float, float] | None = None, random: Pairs | None = None, seed: int = 0, **given: Any,
) -> Answers:  # fmt: skip
    """Fit to a log of arrays; at most about three Bayesian fits of time in all. `random` ratings (0 or 1) tell k.

    Without `corrections` the posterior answers as it is; the exposure that lists rest on is fitted all the same.
    """
    fitted = sample(log, seed=seed, **given)
    posterior, log, fold = fitted.posterior, fitted.problem.log, fitted.fold
    liked = (np.asarray(log.ratings) >= posterior.liked_from).astype(np.int64)
    by_fold, rng = all_folds(fitted), np.random.default_rng([seed, 22])
    folded = better_exposure(log, fold, rng)
    exposure = with_rates(log, folded, rng)
    notes, targeted, slope, picks = [*posterior.notes, f"Exposure: {exposure.name}."], None, None, None
    if corrections:
        targeted = correction(fitted, liked, by_fold, folded, exposure, rng)
        slope = estimate_slope(log, liked, fold, by_fold, rng)
        notes += [targeted.sentence(), slope.sentence()]
        if slope.used:
            k, sentences = level(posterior, slope, random, np.random.default_rng([seed, 23]))
            unexplained, notes = unexplained if k is None else k, notes + sentences
    if choice and liked.any():
        picks = fit_choice(log, liked, fold, folded, {k: m.probability for k, m in by_fold.items()}, rng)
    whole = with_average(posterior)
    return Answers(whole, notes, scale, exposure, targeted, slope, unexplained, picks, fitted.state())


def level(
    posterior: Posterior, slope: Slope, random: Pairs | None, rng: np.random.Generator
) -> tuple[float | None, list[str]]:
    """Return k if random ratings tell it, and sentences on how far the level depends on it."""
    users, items = (rng.integers(len(bias), size=20_000) for bias in (posterior.user_bias, posterior.item_bias))
    found = band(posterior, users, items, slope.used, slope.error)
    sentences = [
        f"Over all pairs {found.k0:.0%} would be liked if people choose by what can be known beforehand (k = 0), "
        f"{found.k1:.0%} if they rate what they turn out to love (k = 1): no log can tell, about "
        f"{ratings_to_settle(posterior, users, items, slope.used):,} random ratings can."
    ]
    if random is None:
        return None, sentences
    estimate = unexplained_from_random(posterior, random.users, random.items, random.ratings, slope.used)
    return (estimate.value if estimate.error <= USEFUL_ERROR else None), [*sentences, estimate.sentence()]


def correction(
    fitted: Fitted, liked: Array, by_fold: dict[int, Posterior], folded: Folded, exposure: FittedExposure,
    rng: np.random.Generator,
) -> Targeted:  # fmt: skip
    """Fit the targeted correction to left-out ratings, each by the model and the exposure without its fold."""
    log, fold = fitted.problem.log, fitted.fold
    logit_q = np.zeros(len(fold))
    for k, model in by_fold.items():
        rows = fold == k
        logit_q[rows] = model.logits(log.users[rows], log.items[rows])
    own = exposure.rates[log.users] + folded.calibration.held_out
    own = np.where(np.isfinite(own), own, exposure.logits(log.users, log.items))
    log_p = log_expit(own)
    # by what they saw, not by vectors that the left-out ratings have shaped: these would seem to confirm themselves
    experts = group_users(directions(log, most=4, least=4).users, EXPERTS, rng)
    return target(liked, logit_q, log_p, log.users, log.items, experts, fold, np.exp(-log_p))


def all_folds(fitted: Fitted) -> dict[int, Posterior]:
    """Return a model for every fold that has not seen it; those that chose the columns serve again."""
    problem, found = fitted.problem, dict(fitted.by_fold)
    for k in range(defaults.FOLDS):
        if k not in found:
            found[k] = problem.without_fold(problem.settings, fitted.fold, k)
    return found


def better_exposure(log: Pairs, fold: Array, rng: np.random.Generator) -> Folded:
    """Return the spectral or, where affordable, the ridge exposure, whichever held-out pairs find likelier."""
    kinds = (spectral_by_folds, ridge_by_folds) if affordable(log) else (spectral_by_folds,)
    found = [by_folds(log, fold, rng) for by_folds in kinds]
    return max(found, key=lambda each: each.calibration.log_likelihood)


class Given(NamedTuple):
    """Hold a log as the sampler reads it: pairs, features, from where ratings are liked, the ends of a graded scale."""

    pairs: Pairs
    features: dict[str, Any]
    liked_from: float | None
    scale: tuple[float, float] | None


def given_of(log: RatingLog) -> Given:
    """Return ratings as they stand, and features as numbers."""
    ratings, liked_from, scale = _ratings(log)
    features = {f"{side}_features": _features(side, log.features[k]) for k, side in enumerate(("user", "item"))}
    return Given(Pairs(log.users, log.items, log.n_users, log.n_items, ratings).checked(), features, liked_from, scale)


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


def exposure_of(owner: Any) -> FittedExposure:
    """Return the exposure that a corrected posterior brings along."""
    if not isinstance(owner, BayesianPart) or owner.answers.exposure is None:
        raise ParameterError("ExposureOfPrediction() takes its exposure from a CorrectedFactors() prediction.")
    return owner.answers.exposure
