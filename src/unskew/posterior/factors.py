"""Fit the Bayesian factor model to a log: sweeps until answers stand still, columns by evidence of left-out ratings."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cache, partial, wraps
from importlib import import_module
from typing import Any, ClassVar, NamedTuple, TypeVar, cast

import numpy as np
from threadpoolctl import threadpool_limits

from unskew.data.impressions import RATINGS, Wording, contexts
from unskew.data.log import RatingLog
from unskew.data.population import ListedRows
from unskew.posterior import defaults
from unskew.posterior.answers import Posterior, Ratings
from unskew.posterior.chain import Chain
from unskew.posterior.exposure import Columns, Pairs, directions, history
from unskew.posterior.flat import RecordSpec, flat, unflat
from unskew.posterior.gibbs import SAMPLER
from unskew.posterior.kernels import Float, Float32, Int
from unskew.runtime import bar
from unskew.settings import setting
from unskew.training.plan import FitContext, FitSpec

Function = TypeVar("Function", bound=Callable[..., Any])
Sampling = TypeVar("Sampling", bound=Posterior)


def one_blas_thread(function: Function) -> Function:
    """Run a function with one thread of BLAS: its sums, and so the bits of a fit, depend on how many share them out.

    SciPy's own BLAS is loaded first, as a limit holds for what is there when it is set.
    """

    @wraps(function)
    def limited(*args: Any, **named: Any) -> Any:
        import_module("scipy.linalg.lapack")  # slow, and answers need none
        with threadpool_limits(1, "blas"):
            return function(*args, **named)

    return cast(Function, limited)


class Sampled(RecordSpec, FitSpec):
    """Settings of a part that is sampled."""

    kind: ClassVar[str] = "imputation"
    reads_features: ClassVar[bool] = True
    learns_from_all: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True)
class BayesianFactors(Sampled):
    """The Bayesian factor model: an ordered probit on the levels of ratings as they stand, rows averaged over sweeps.

    y_ui = c + b_u + b_i + v_u . w_i + noise, rows normal around a linear function of features and of who saw what, all
    shrinkage learned by Gibbs sweeps (`posterior.gibbs`). Nothing needs tuning: `n_factors` and `prior_scale` are there
    for experiments, `sweeps=None` stops when answers stand still, `exposure=None` and `history=None` let who-saw-what
    in if left-out ratings ask for it. It learns from every rating of the log, the hold-out included.

    Examples:
        >>> unskew.make("dr-jl", imputation=unskew.BayesianFactors(sweeps=50)).imputation.sweeps
        50
    """

    fitted = Posterior

    n_factors: int = setting(defaults.FACTORS, least=1, most=256)
    sweeps: int | None = setting(None, least=8, most=1_000_000)
    prior_scale: float = setting(defaults.PRIOR_SCALE, above=0)
    exposure: bool | None = None
    history: bool | None = None

    def fit_in(self, context: FitContext) -> Posterior:
        return sample(Problem.in_context(context, self)).posterior


@dataclass(frozen=True)
class Problem:
    """Hold a log with all that a fit of the model, whole or by folds, depends on."""

    log: Pairs
    settings: BayesianFactors = BayesianFactors()
    seed: int = 0
    user_features: Float | None = None
    item_features: Float | None = None
    liked_from: float | None = None
    scale: tuple[float, float] | None = None
    """Ends of the scale of a graded log."""
    progress: bool | None = False
    shown: ListedRows | None = None
    """All that could be rated, if that is not all pairs."""
    wording: Wording = RATINGS
    chances: Float32 | None = None
    """That each rating's pair was shown, where propensities were logged."""
    levels: Ratings | None = None
    """What ratings are levels of, if that is known."""

    @staticmethod
    def of(log: RatingLog, settings: BayesianFactors, seed: int, progress: bool | None = False) -> Problem:
        """Return the problem of a log: its ratings as they stand, features as numbers."""
        user, item = (None if side is None else side.encoded.astype(np.float64) for side in log.features)
        ratings, liked_from, scale = log.ratings if log.stars is None else log.stars, None, None
        if not log.binary:
            ratings = log.scale.from_unit(log.ratings) if log.stars is None else ratings
            scale = log.scale.low, log.scale.high
        elif log.stars is None or log.scale.positive is None:
            ratings, liked_from = log.ratings, 1.0
        else:
            liked_from = float(log.stars[log.stars >= log.scale.positive].min(initial=log.stars.max()))
        pairs = Pairs.of(log, ratings)._replace(context=contexts(log.context or {}))
        if log.listed is not None and log.cells is not None:  # rows that stand for several equal ones
            pairs = pairs.rows(np.repeat(np.arange(len(log)), np.maximum(np.rint(log.cells), 1).astype(int)))
        return Problem(
            pairs, settings, seed, user, item, liked_from, scale, progress, log.listed, log.wording, log.chances
        )

    @staticmethod
    def in_context(context: FitContext, settings: BayesianFactors) -> Problem:
        """Return the problem that a role is fitted to."""
        return Problem.of(context.log, settings, int(context.rng.integers(2**31)), context.training.progress)

    def chain(self, burn: int, chosen: Any = slice(None), stream: int = 0, short: bool = False) -> Chain:
        """Start a chain on some of the ratings; who-saw-what is that of these ratings alone.

        It has one more user and one more item than the log, both without ratings: the average new ones.
        """
        s, log = self.settings, self.log.rows(chosen)
        log = log._replace(n_users=log.n_users + 1, n_items=log.n_items + 1)
        blocks: list[list[tuple[str, Float | None, bool]]]
        blocks = [[("features", side, False)] for side in (self.user_features, self.item_features)]
        if s.exposure:
            found = directions(log)
            for side, counts, values in zip(blocks, log.counts(), (found.users, found.items), strict=True):
                side += [("counts", np.log1p(counts)[:, None], False), ("directions", values, False)]
            if self.shown is not None:
                for side, codes, size in zip(blocks, (self.shown.users, self.shown.items), log[2:4], strict=True):
                    side.append(("shown", np.log1p(np.bincount(codes, minlength=size))[:, None], False))
        if s.history:
            for side, values in zip(blocks, history(log, self.seed), strict=True):
                side.append(("history", values, True))
        ratings = self.levels or Ratings.of(self.log.ratings, self.liked_from)
        columns = Columns.of(log.n_users, *blocks[0]), Columns.of(log.n_items, *blocks[1])
        sampler = SAMPLER.get()(
            log.users, log.items, ratings.encode(log.ratings), len(ratings.values), *columns, d=s.n_factors,
            prior_scale=s.prior_scale, seed=1000 * self.seed + stream, context=log.context,
        )  # fmt: skip
        return Chain(log, ratings, sampler, burn=burn, short=short)

    def of_some(self) -> tuple[Problem, Int]:
        """Return the problem that folds are fitted to, and its users: all, of a large log some with all their ratings.

        What folds are asked is a few numbers each, which a part of the users tells.
        """
        log, rng = self.log, np.random.default_rng([self.seed, 4])
        n = max(math.ceil(log.n_users * defaults.LARGE / len(log.users)), defaults.FEWEST_USERS)
        if n >= log.n_users or self.shown is not None:
            return self, np.arange(log.n_users)
        chosen, number = np.sort(rng.permutation(log.n_users)[:n]), np.full(log.n_users, -1)
        number[chosen] = np.arange(n)
        own = number[log.users] >= 0
        part = log.rows(own)
        features = None if self.user_features is None else self.user_features[chosen]
        chances = None if self.chances is None else self.chances[own]
        log = part._replace(users=number[part.users], n_users=n)
        return replace(self, log=log, user_features=features, chances=chances), chosen

    def folds(self) -> Int:
        """Return a fold for every rating, an equal share of each user's in every fold."""
        return self.log.folds(defaults.FOLDS, np.random.default_rng([self.seed, 3]))

    def without_fold(self, fold: Int, k: int) -> Posterior:
        """Fit all ratings but those of fold k, from a start of its own: it cannot know what it has not seen."""
        sweeps = fold_sweeps(len(fold))
        chain = self.chain(sweeps // 4, fold != k, stream=k + 1, short=True)
        with bar(f"fold {k + 1}", sweeps, "sweep", shown=self.progress) as shown:
            chain.run(sweeps, shown)
        return chain.posterior(self.liked_from)


def fold_sweeps(n_ratings: int) -> int:
    """Return the sweeps of a fit to one of the folds: a third of the least of the whole, of few ratings a fifth."""
    return max(20, defaults.least_sweeps(n_ratings) // (5 if n_ratings < defaults.HISTORY_RATINGS else 3))


class Fitted(NamedTuple):
    """Hold a fitted model, its problem with the columns chosen, folds, and models that have not seen one, if asked.

    Folds are of all ratings, or of the problem of `some` users, with their numbers.
    """

    posterior: Posterior
    problem: Problem
    fold: Int
    without: Callable[[int], Posterior]
    some: tuple[Problem, Int] | None = None


@one_blas_thread
def sample(problem: Problem) -> Fitted:
    """Fit the model: choose columns by left-out ratings, then sweep until answers stand still.

    An interrupt (Ctrl-C) after the first kept sweep ends the fit with what there is, and its notes say so.
    """
    n, (part, users) = len(problem.log.users), problem.of_some()
    fold = part.folds()
    part, without, notes = choose_columns(part, fold)
    problem = replace(problem, settings=part.settings)
    asked = problem.settings.sweeps
    least, most = asked or defaults.least_sweeps(n), asked or defaults.most_sweeps(n)
    chain = problem.chain(defaults.burn_in(least))
    sampler = chain.sampler
    try:
        with bar("fit", most, "sweep", shown=problem.progress, at_most=True) as shown:
            chain.run(least, shown)
            while sampler.sweeps < most and chain.unsteadiness() > defaults.STOP_BELOW:
                chain.run(min(max(least // 5, 10), most - sampler.sweeps), shown)
        steady = chain.unsteadiness()
        more = f"; sweeps={2 * most} would tell it better" if steady > defaults.STOP_BELOW and asked is None else ""
        notes.append(
            f"{sampler.sweeps} sweeps were run, {chain.kept} kept: they tell a chance up to an error of "
            f"{math.sqrt(steady):.3f}{more}."
        )
    except KeyboardInterrupt:
        if chain.kept < 2:
            raise
        notes.append(f"Interrupted after {sampler.sweeps} sweeps: answers rest on the {chain.kept} kept so far.")
    return Fitted(_finished(problem, chain, notes), problem, fold, without, (part, users))


def _finished(problem: Problem, chain: Chain, notes: list[str]) -> Posterior:
    """Return what a chain has found, with all that more sweeps go on from."""
    settings = {f"settings.{name}": value for name, value in flat(problem.settings).items()}
    state = chain.state() | settings | {"seed": np.array(problem.seed)}
    found = chain.posterior(problem.liked_from, scale=problem.scale, chain=state)
    return replace(found, notes=notes + found.notes)


@one_blas_thread
def resumed(posterior: Sampling, log: RatingLog, sweeps: int, burn: int | None = None) -> Sampling:
    """Return the model after further sweeps over its log, the averages included; what was fitted around it stays.

    With a number of sweeps to throw away the log is a longer one, and averages begin anew.
    """
    state = posterior.chain
    kept = {name.removeprefix("settings."): value for name, value in state.items() if name.startswith("settings.")}
    problem = replace(Problem.of(log, unflat(BayesianFactors, kept), int(state["seed"])), levels=posterior.ratings)
    chain = problem.chain(int(state["sweeps"]) + (burn or 0))
    if burn is None:
        chain.restore(state)
    else:
        chain.sampler.restore(state, longer=True)
    chain.run(sweeps)
    found = _finished(problem, chain, [f"{chain.sampler.sweeps} sweeps were run, {chain.kept} kept."])
    own = {each.name: getattr(found, each.name) for each in fields(Posterior)}
    notes = found.notes + [note for note in posterior.notes if " sweeps" not in note]
    return replace(posterior, **own | {"scale": posterior.scale, "notes": notes})


def judged(gain: Float, folds_left: int) -> tuple[float, float, float]:
    """Return a mean gain, its standard error, and above which it is clear: 2 errors, half of one more a fold left."""
    mean, error = float(gain.mean()), float(gain.std()) / math.sqrt(len(gain))
    return mean, error, error * (defaults.STANDARD_ERRORS + folds_left / 2)


def choose_columns(problem: Problem, fold: Int) -> tuple[Problem, Callable[[int], Posterior], list[str]]:
    """Let who-saw-what, then the history block, into the prior if left-out ratings gain two standard errors by it.

    Folds are asked one after the other, until the gain of those asked is clear. The history block, of many columns, is
    asked of larger logs alone, where who-saw-what enters in its few. Models without a fold are returned, fitted once.
    """
    settings, log, notes = problem.settings, problem.log, list[str]()
    current = replace(settings, exposure=bool(settings.exposure), history=bool(settings.history))
    asked = [name for name in ("exposure", "history") if getattr(settings, name) is None]
    if asked and (len(log.users) < 100 or min(log.n_users, log.n_items) < 3):
        asked, notes = [], ["The log is too small to ask whether who-saw-what tells anything: it is left out."]

    @cache
    def without(candidate: BayesianFactors, k: int) -> Posterior:
        return replace(problem, settings=candidate).without_fold(fold, k)

    def likelihood(candidate: BayesianFactors, k: int) -> Float:
        left_out = log.rows(fold == k)
        return without(candidate, k).log_likelihood(left_out.users, left_out.items, left_out.ratings)

    for name in asked:
        if name == "history" and len(log.users) < defaults.HISTORY_RATINGS:
            break
        candidate, gain = replace(current, **{name: True}), np.zeros(0)
        for k in range(defaults.FOLDS):
            gain = np.append(gain, likelihood(candidate, k) - likelihood(current, k))
            mean, error, least = judged(gain, defaults.FOLDS - 1 - k)
            if abs(mean) > least:
                break
        what = {"exposure": "Who-saw-what", "history": "The history of seen items"}[name]
        verdict = "enters" if mean > least else "stays out"
        notes.append(
            f"{what} {verdict}: left-out {problem.wording.rows} gain {mean:.4f} +- {error:.4f} in log-likelihood."
        )
        if verdict == "stays out":
            break
        current = candidate
    return replace(problem, settings=current), partial(without, current), notes
