"""The flagship: a Bayesian factor model with a targeted correction, and a level shift where the log asks for it.

In this order: (1) posterior, its answers mapped by a + b logit where left-out ratings ask for it (Platt: no correction
for selection); (2) targeted correction by all left-out ratings, if its gate opens; (3) level shift, if the slope of
seeing on liking exceeds two standard errors. Each says in a line whether it acted. `bayes` is (1) alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from unskew.data.log import RatingLog
from unskew.data.population import draw_unseen
from unskew.errors import DataError, ParameterError
from unskew.methods.base import Method
from unskew.nets.base import Part, State
from unskew.nets.near import (
    EPS,
    LOG_CHANCE,
    LOGIT,
    PROBIT_SLOPE,
    QUANTILE,
    Curve,
    Near,
    Ranked,
    by_logits,
    by_scores,
)
from unskew.posterior import defaults
from unskew.posterior.answers import Posterior
from unskew.posterior.exposure import Pairs, directions
from unskew.posterior.factors import BayesianFactors, Fitted, Problem, Sampled, one_blas_thread, sample
from unskew.posterior.targeted import Targeted, group_users, target
from unskew.propensity.clicks import ClickPropensity, fit_clicks
from unskew.propensity.exposure import (
    ALONE,
    Choice,
    FittedExposure,
    Folded,
    Joint,
    can_be_held_out,
    fit_choice,
    with_rates,
)
from unskew.propensity.scorers import SpectralScorer
from unskew.selection.slope import Slope, estimate_slope, level, shift
from unskew.settings import setting
from unskew.special import log_expit, log_ndtr, ndtr, ndtri_exp
from unskew.training.plan import FitContext, FitSpec, Plan, Role, Stage

Array = NDArray[Any]
DRAWN_A_ROW = 4  # pairs that are drawn for a positive row


@dataclass(frozen=True, eq=False, kw_only=True)
class Corrected(Posterior):
    """Answer from a posterior and what was fitted around it; of new users and items by the posterior alone."""

    orders: ClassVar[tuple[str, ...]] = ("choice", *Posterior.orders)

    exposure: FittedExposure | ClickPropensity
    choice: Choice | None = None
    platt: Targeted | None = None
    """A map of the posterior's logits alone, where left-out ratings ask for it."""
    targeted: Targeted | None = None
    slope: Slope | None = None
    unexplained: float = 0.0

    def __post_init__(self) -> None:
        if self.choice is None:
            object.__setattr__(self, "orders", Posterior.orders)

    def answer_margin(self, users: Array, items: Array, unexplained: float | None = None) -> Array:
        """Return z with P(liked) = Phi(z) of pairs that nobody chose."""
        users, items = np.asarray(users, np.int64), np.asarray(items, np.int64)
        z = self.margin(users, items)
        if self.platt is not None:
            z = mapped(self.platt, z, 0.0, 0 * users)
        known = self.exposure.known(users, items)
        u, i = users[known], items[known]
        if self.targeted is not None and self.targeted.applied:
            z[known] = mapped(self.targeted, z[known], log_expit(self.exposure.logits(u, i).astype(float)), u)
        if self.slope is not None and self.slope.used:
            k = self.unexplained if unexplained is None else unexplained
            z[known] -= shift(self, u, i, self.slope.used, k) / self.spread(u, i)
        return z

    def prepared(self, by: str) -> Ranked | None:
        exposure, platt, margin = self.exposure, self.platt, self.near_margin()
        of_all = exposure if isinstance(exposure, FittedExposure) and exposure.n_items == self.sizes()[1] else None
        if by == "choice" and self.choice is not None and of_all is not None:
            near = self.choice.near(of_all.scorer, lambda users: margin(users)[0])
            return lambda users: by_scores(self._of_known(near, users))
        if by != "liking" or self.scale is not None:
            return None
        if (self.targeted is not None and self.targeted.applied) or (self.slope is not None and self.slope.used):
            return None if of_all is None else self._ranked_by_answers(of_all)
        if platt is None:
            return super().prepared(by)
        start, rise = platt.coefficients[:2] + platt.deviations[0]
        sign, rise = np.sign(rise), abs(rise)  # the logit of Phi(-z) is that of Phi(z) with its sign changed
        logits = lambda z: start + rise * LOGIT.function(z)  # noqa: E731
        return lambda users: by_logits(margin(users)[0].line(0.0, sign), logits, PROBIT_SLOPE * rise)

    def _of_known(self, near: Callable[[Array], Near], users: Array) -> Near:
        """Return what is known of users and all items at once; nothing of users that the exposure does not know."""
        known = self.exposure.known(users, 0 * users)
        found = near(np.where(known, users, 0))
        return found._replace(error=np.where(known, found.error, np.inf))

    def _ranked_by_answers(self, exposure: FittedExposure) -> Ranked:
        """Rank by all that acts: calibration, targeted correction, level shift."""
        margin, platt, targeted, slope = self.near_margin(), self.platt, self.targeted, self.slope
        size = self.users.scale, self.items.scale[:-1]
        calibrated = None if platt is None else Curve(lambda z: mapped(platt, z, 0.0, np.zeros(len(z), int)), -12, 12)
        log_odds = exposure.near_logits()

        def corrected(users: Array) -> Near:
            z, spread = margin(users)
            z = z if calibrated is None else calibrated(z)
            if targeted is not None and targeted.applied:
                log_p = LOG_CHANCE(log_odds(users)).line(0.0, targeted.coefficients[2])
                z = QUANTILE(targeted.near(LOGIT(z), users).plus(log_p))
            if slope is not None and slope.used:
                unit = slope.used * size[0][users]
                moved = (np.float32(1 - self.unexplained) / spread - spread) * np.outer(unit, size[1]).astype(
                    np.float32
                )
                most = unit * size[1].max() * spread.max(axis=1)
                z = z.plus(Near(moved, 8 * EPS * most, most))
            return z

        return lambda users: by_logits(self._of_known(corrected, users), LOGIT.function, PROBIT_SLOPE)

    def answer(self, users: Array, items: Array, unexplained: float | None = None) -> Array:
        """Return P(liked) of pairs that nobody chose."""
        return np.asarray(ndtr(self.answer_margin(users, items, unexplained)))

    def continued(self, log: RatingLog, sweeps: int, burn: int | None = None) -> Corrected:
        if log.target == "implicit":
            raise ParameterError("A model of positive rows alone is not continued: fit it again.")
        found = super().continued(log, sweeps, burn)
        return found if burn is None else found.recounted(log)

    @one_blas_thread
    def recounted(self, log: RatingLog) -> Corrected:
        """Return the part with who saw what, and each user's rate, of a longer log; all weights stand as fitted."""
        pairs = Problem.of(log, BayesianFactors(), 0).log
        liked = pairs.rows(pairs.ratings >= self.liked_from)
        if not isinstance(self.exposure, FittedExposure) or (scorer := self.exposure.scorer.again(pairs)) is None:
            return self
        choice, ridge = self.choice, None
        if choice is not None and choice.ridge is not None and (ridge := choice.ridge.again(liked)) is None:
            return self
        rng, more = np.random.default_rng([22, self.sweeps]), log.n_users - len(self.exposure.rates)
        found = with_rates(pairs, replace(self.exposure, scorer=scorer), rng)
        return replace(
            self, exposure=found, choice=None if choice is None else replace(choice, ridge=ridge),
            targeted=None if self.targeted is None else self.targeted.with_new(more),
        )  # fmt: skip

    def order_scores(self, by: str, users: Array, items: Array, rng: np.random.Generator) -> Array:
        """Return what a list is ranked by; a new user picks what everybody does, so far as it would be liked.

        Nobody has picked a new item yet: it stands where the least popular one does, so far as it would be liked.
        """
        if by != "choice" or self.choice is None:
            return super().order_scores(by, users, items, rng)
        assert isinstance(self.exposure, FittedExposure)  # a choice is made among all items
        users, items = np.asarray(users, np.int64), np.asarray(items, np.int64)
        scorer, everything, found = self.exposure.scorer, np.arange(self.exposure.n_items), np.empty(len(users))
        popularity = scorer.columns(0 * everything, everything)[:, 0]
        stands = np.where((items >= 0) & (items < len(everything)), items, popularity.argmin())
        own = (users >= 0) & (users < len(self.exposure.rates))
        found[own] = self.choice.scores(scorer, lambda u, _: self.probability(u, items[own]), users[own], stands[own])
        found[~own] = log_ndtr(self.margin(users[~own], items[~own])) + popularity[stands[~own]]
        return found


def mapped(by: Targeted, z: Array, log_p: Any, users: Array) -> Array:
    """Return z with P(liked) = Phi(z) after a map of its logit."""
    logits = by.logits(log_ndtr(z) - log_ndtr(-z), log_p, users)
    return np.asarray(np.where(logits < 0, ndtri_exp(log_expit(logits)), -ndtri_exp(log_expit(-logits))))


@one_blas_thread
def corrected(
    fitted: Fitted, *, corrections: bool = True, unexplained: float = defaults.UNEXPLAINED,
    random: Pairs | None = None, like: Corrected | None = None,
) -> Corrected:  # fmt: skip
    """Fit what left-out ratings ask for around a posterior, by models that have not seen one of its folds.

    `random` ratings (0 or 1) tell k. Without `corrections` the posterior answers as it is; a graded log is not
    corrected. The exposure that lists rest on is fitted all the same. What was fitted `like` another, to be judged,
    asks for no more than acted there, and makes no lists by choice.
    """
    posterior, problem, fold, without, some = fitted
    part, chosen = some or (problem, np.arange(problem.log.n_users))
    log, rng, graded = part.log, np.random.default_rng([problem.seed, 22]), problem.scale is not None
    _, won, rows, *_ = problem.wording
    liked = (np.asarray(log.ratings) >= posterior.liked_from).astype(np.int64)
    by_fold = {k: without(k) for k in np.unique(fold).tolist()}
    corrections = corrections and not graded
    targets = corrections and (like is None or (like.targeted is not None and like.targeted.applied))
    shifts = (
        corrections and problem.shown is None and (like is None or (like.slope is not None and like.slope.evidence))
    )
    if like is None or targets:
        exposure, log_p, folded = fit_exposure(problem, part, chosen, fold, rng)
    else:
        exposure, log_p, folded = like.exposure, np.zeros(0), None
    found: dict[str, Any] = {"unexplained": unexplained}
    notes = [*posterior.notes, f"Exposure: {exposure.name}."]
    if not graded:
        logit_q, nothing = np.zeros(len(fold)), np.zeros(len(fold))
        for k, model in by_fold.items():
            logit_q[fold == k] = model.logits(log.users[fold == k], log.items[fold == k])
        alike = np.zeros(log.n_users, np.int64)
        platt = target(liked, logit_q, nothing, log.users, log.items, alike, fold, np.ones(len(fold)))
        notes.append(platt.sentence(f"Calibration by left-out {rows}", "log-loss", rows))
        logit_q = platt.logits(logit_q, nothing, log.users)
        found["platt"] = platt if platt.applied else None
    if targets:
        # by what they saw, not by vectors that the left-out ratings have shaped: these would seem to confirm themselves
        experts = group_users(directions(problem.log, most=4, least=4).users, rng)
        weights = np.exp(log_p.min() - log_p)  # 1 / p but for a factor, which no p is too small for
        targeted = target(liked, logit_q, log_p, log.users, log.items, experts[chosen], fold, weights)
        notes.append(targeted.sentence("The targeted correction", "weighted log-loss", rows))
        found["targeted"] = replace(targeted, experts=experts)
    if shifts:
        features = part.user_features, part.item_features
        slope = estimate_slope(log, liked, fold, by_fold, rng, features)
        share, sentences = level(posterior, slope, random, np.random.default_rng([problem.seed, 23]), problem.wording)
        found |= {"slope": slope, "unexplained": unexplained if share is None else share}
        notes += [slope.sentence(), *sentences]
    if like is None and folded is not None and not can_be_held_out(log.rows(liked == 1), fold[liked == 1]):
        notes.append(f"{won.capitalize()} {rows} are too few to tell what is chosen: lists go by liking.")
    elif like is None and folded is not None:
        chances = {k: model.probability for k, model in by_fold.items()}
        choice = fit_choice(log, liked, fold, folded, chances, rng)
        if choice.ridge is not None and part.log is not problem.log:
            choice = replace(
                choice, ridge=choice.ridge.again(problem.log.rows(problem.log.ratings >= posterior.liked_from))
            )
        found["choice"] = choice
    return Corrected(**vars(posterior) | found | {"notes": notes, "exposure": exposure})


@one_blas_thread
def fit_positives(problem: Problem) -> Corrected:
    """Fit a log of positive rows alone: a posterior of positive against drawn pairs, its odds divided by the exposure.

    y = exposed x liked, so that P(liked) = P(y) / P(exposed) (Saito et al., WSDM 2020); the odds of being exposed are
    the root of an item's share of the most frequent one's rows. Their level is not known: order is learned alone.
    """
    log, rng = problem.log, np.random.default_rng([problem.seed, 24])
    users, items, _ = draw_unseen(log.seen(), log.users, DRAWN_A_ROW, rng)
    ratings = np.concatenate([np.ones(len(log.users)), np.zeros(len(users))])
    joined = log._replace(users=np.append(log.users, users), items=np.append(log.items, items), ratings=ratings)
    settings = replace(problem.settings, exposure=False, history=False)  # who has which row is what is learned
    posterior = sample(replace(problem, log=joined, settings=settings, liked_from=1.0)).posterior
    counts = log.counts()[1]
    none = [np.zeros((n, 0), np.float32) for n in (log.n_users, log.n_items)]
    scorer = SpectralScorer(np.log(np.maximum(counts, 0.5) / counts.max()), *none)
    base = float(np.log(len(log.users) / (log.n_users * log.n_items)))
    name = "the root of an item's share of positive rows"
    exposure = FittedExposure(name, scorer, np.array([0.5, 0.0, 0.0]), np.zeros(log.n_users), log.n_items, base)
    divided = Targeted(
        np.array([0.0, 1.0, -1.0]), np.zeros((1, 2)), np.zeros(log.n_users, np.int64), True, 0.0, 0.0, np.zeros((0, 3))
    )
    notes = [*posterior.notes, f"Exposure: {name}; answers tell an order and no level."]
    return Corrected(**vars(posterior) | {"notes": notes, "exposure": exposure, "targeted": divided})


def fit_exposure(
    problem: Problem, part: Problem, chosen: Array, fold: Array, rng: np.random.Generator
) -> tuple[FittedExposure | ClickPropensity, Array, Folded | None]:
    """Fit who saw what: log p of every rating by fits without it, and what lists over all pairs rest on, if any.

    Folds are of the part of the problem with the chosen users. Of listed rows it is what was seen among these, such as
    clicks among what was shown.
    """
    if problem.shown is not None:
        clicks, log_p = fit_clicks(problem.shown, problem.log.n_users, problem.log.n_items, problem.seed)
        own = log_p[problem.shown.seen]
        if problem.shown.cells is not None:
            own = np.repeat(own, np.maximum(np.rint(problem.shown.cells[problem.shown.seen]), 1).astype(int))
        return clicks, own, None
    folded = Joint().by_folds(part.log, fold, rng)
    if part.log is not problem.log and (scorer := folded.scorer.again(problem.log)) is not None:
        folded = folded._replace(scorer=scorer)
    exposure, users = with_rates(problem.log, folded, rng), chosen[part.log.users]
    own = exposure.rates[users] + folded.held_out
    own = log_expit(np.where(np.isfinite(own), own, exposure.logits(users, part.log.items)))
    return exposure, own if part.chances is None else np.log(part.chances, dtype=np.float64), folded


@dataclass(frozen=True, kw_only=True)
class CorrectedFactors(Sampled):
    """`BayesianFactors` with its exposure and, where left-out ratings ask for them, correction and level shift."""

    fitted = Corrected

    factors: BayesianFactors = setting(factory=BayesianFactors)
    corrections: bool = True
    unexplained: float = setting(defaults.UNEXPLAINED, least=0, most=1)

    def fit_in(self, context: FitContext) -> Corrected:
        random, problem = context.random_ratings, Problem.in_context(context, self.factors)
        if context.log.target == "implicit":
            return fit_positives(problem)
        part, _ = problem.of_some()
        if problem.shown is None and not can_be_held_out(part.log, part.folds()):
            raise DataError(ALONE)
        return corrected(
            sample(problem), corrections=self.corrections, unexplained=self.unexplained,
            random=None if random is None else Pairs.of(random, random.ratings),
        )  # fmt: skip


@dataclass(frozen=True)
class ExposureOfPrediction(FitSpec):
    """The propensity that a `CorrectedFactors` prediction brings along."""

    kind: ClassVar[str] = "propensity"

    def fit_in(self, context: FitContext) -> FittedExposure | ClickPropensity:
        return self.from_state({}, context.view.parts["prediction"])

    def from_state(self, state: State, owner: Part | None = None) -> FittedExposure | ClickPropensity:
        if not isinstance(owner, Corrected):
            raise ParameterError("ExposureOfPrediction() takes its exposure from a CorrectedFactors() prediction.")
        return owner.exposure


@dataclass(frozen=True, kw_only=True)
class DCEBayes(Method):
    """A Bayesian factor model with a targeted correction: the default, with nothing to tune.

    In this order: (1) the posterior of `factors`, its answers mapped by a + b logit if left-out ratings ask for it; (2)
    a targeted correction by all left-out ratings, on its logit and log p with experts by user group, applied if it
    lowers the cross-fitted weighted log-loss by two standard errors; (3) a level shift if liking drives seeing by more
    than two standard errors, with `unexplained` (k) of what the model cannot explain driving it too. Each says in a
    line whether it acted. Positive rows alone (target "implicit") teach an order, over the exposure of items.
    """

    factors: BayesianFactors = setting(factory=BayesianFactors)
    unexplained: float = setting(defaults.UNEXPLAINED, least=0, most=1)
    corrections: ClassVar[bool] = True
    from_positives: ClassVar[bool] = True

    def plan(self) -> Plan:
        spec = CorrectedFactors(factors=self.factors, corrections=self.corrections, unexplained=self.unexplained)
        roles = {
            "prediction": Role(spec),
            "propensity": Role(ExposureOfPrediction(), clip=None, shares_with="prediction"),
        }
        stages = Stage("prediction", fits=("prediction",)), Stage("propensity", fits=("propensity",))
        return Plan(roles, stages)


@dataclass(frozen=True, kw_only=True)
class Bayes(DCEBayes):
    """A Bayesian factor model by itself, with the exposure of its log for lists: no correction and no shift."""

    corrections: ClassVar[bool] = False
