"""Fit the Bayesian factor model to a log: sweeps until answers stand still, columns by evidence of left-out ratings."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
from threadpoolctl import threadpool_limits

from unskew.errors import ParameterError
from unskew.posterior import defaults
from unskew.posterior.answers import Posterior, Ratings
from unskew.posterior.chain import Chain
from unskew.posterior.exposure import Columns, Pairs, directions, history
from unskew.posterior.flat import flat
from unskew.posterior.gibbs import Sampler
from unskew.posterior.kernels import Float, Int
from unskew.runtime import bar

Function = TypeVar("Function", bound=Callable[..., Any])


def one_blas_thread(function: Function) -> Function:
    """Run a function with one thread of BLAS: its sums, and so the bits of a fit, depend on how many share them out."""
    wrapped: Function = threadpool_limits.wrap(limits=1, user_api="blas")(function)
    return wrapped


@dataclass(frozen=True)
class Settings:
    """Specify a Bayesian factor model; every shrinkage is learned, so nothing needs tuning.

    `sweeps` None: until answers stand still. `exposure` and `history` None: if left-out ratings ask for them.
    """

    d: int = defaults.FACTORS
    sweeps: int | None = None
    prior_scale: float = defaults.PRIOR_SCALE
    exposure: bool | None = None
    history: bool | None = None
    liked_from: float | None = None
    threads: int | None = None


@dataclass(frozen=True)
class Problem:
    """Hold a log with all that a fit of the model, whole or by folds, depends on."""

    log: Pairs
    ratings: Ratings
    settings: Settings
    seed: int = 0
    user_features: Float | None = None
    item_features: Float | None = None
    progress: bool | None = False

    def chain(
        self, settings: Settings, burn: int, chosen: Any = slice(None), stream: int = 0, short: bool = False
    ) -> Chain:
        """Start a chain on some of the ratings; who-saw-what is that of these ratings alone."""
        log = self.log.rows(chosen)
        blocks: list[list[tuple[str, Float, bool]]] = [[], []]
        if settings.exposure:
            found = directions(log)
            for side, counts, values in zip(blocks, log.counts(), (found.users, found.items), strict=True):
                side += [("counts", np.log1p(counts)[:, None], False), ("directions", values, False)]
        if settings.history:
            for side, values in zip(blocks, history(log, self.seed), strict=True):
                side.append(("history", values, True))
        sampler = Sampler(
            log.users, log.items, self.ratings.encode(log.ratings), self.ratings.n_levels,
            Columns.of(log.n_users, self.user_features, *blocks[0]),
            Columns.of(log.n_items, self.item_features, *blocks[1]), d=settings.d,
            prior_scale=settings.prior_scale, seed=1000 * self.seed + stream, threads=settings.threads,
        )  # fmt: skip
        return Chain(log, self.ratings, sampler, burn=burn, short=short)

    def folds(self) -> Int:
        """Return a fold for every rating, an equal share of each user's in every fold."""
        return self.log.folds(defaults.FOLDS, np.random.default_rng([self.seed, 3]))

    def without_fold(self, settings: Settings, fold: Int, k: int) -> Posterior:
        """Fit all ratings but those of fold k, from a start of its own: it cannot know what it has not seen."""
        sweeps = fold_sweeps(len(fold))
        chain = self.chain(settings, sweeps // 4, fold != k, stream=k + 1, short=True)
        with bar(f"fold {k + 1}", sweeps, "sweep", shown=self.progress) as shown:
            chain.run(sweeps, shown)
        return chain.posterior(settings.liked_from)


def fold_sweeps(n_ratings: int) -> int:
    """Return the sweeps of a fit to one of the folds: a third of the least of the whole, of few ratings a fifth."""
    return max(20, defaults.least_sweeps(n_ratings) // (5 if n_ratings < defaults.HISTORY_RATINGS else 3))


class Fitted(NamedTuple):
    """Hold a fitted model, its chain (more sweeps go on from it), and the folds fitted on the way to its columns."""

    posterior: Posterior
    chain: Chain
    problem: Problem
    fold: Int
    by_fold: dict[int, Posterior]

    def state(self) -> dict[str, Any]:
        """Return what more sweeps go on from: the chain, and the settings that it runs with."""
        settings = {f"settings.{name}": value for name, value in flat(self.problem.settings).items()}
        return self.chain.state() | settings | {"seed": np.array(self.problem.seed)}

    def all_folds(self) -> dict[int, Posterior]:
        """Return a model for every fold that has not seen it; those that chose the columns serve again."""
        p = self.problem
        rest = (k for k in range(defaults.FOLDS) if k not in self.by_fold)
        return self.by_fold | {k: p.without_fold(p.settings, self.fold, k) for k in rest}


@one_blas_thread
def sample(
    log: Pairs, *, settings: Settings | None = None, user_features: Float | None = None,
    item_features: Float | None = None, seed: int = 0, progress: bool | None = False,
) -> Fitted:  # fmt: skip
    """Fit the model: choose columns by left-out ratings, then sweep until answers stand still.

    An interrupt (Ctrl-C) after the first kept sweep ends the fit with what there is, and its notes say so.
    """
    settings = settings or Settings()
    if settings.d < 1 or (settings.sweeps is not None and settings.sweeps < 8):
        raise ParameterError(f"d={settings.d}, sweeps={settings.sweeps}: d is at least 1, sweeps at least 8.")
    problem = Problem(log, Ratings.of(log.ratings), settings, seed, user_features, item_features, progress)
    fold = problem.folds()
    problem, by_fold, notes = choose_columns(problem, fold)
    least = settings.sweeps or defaults.least_sweeps(len(log.users))
    most = settings.sweeps or defaults.most_sweeps(len(log.users))
    chain = problem.chain(problem.settings, defaults.burn_in(least))
    try:
        with bar("fit", most, "sweep", shown=progress, at_most=True) as shown:
            chain.run(least, shown)
            while chain.sampler.sweeps < most and chain.unsteadiness() > defaults.STOP_BELOW:
                chain.run(min(max(least // 5, 10), most - chain.sampler.sweeps), shown)
        steady = chain.unsteadiness()
        notes.append(
            f"{chain.sampler.sweeps} sweeps were run, {chain.kept} kept; two halves of them differ by "
            f"{2 * math.sqrt(steady):.3f} in a probability."
        )
        if steady > defaults.STOP_BELOW and settings.sweeps is None:
            notes.append(f"Answers may still move by that much; sweeps={2 * most} would steady them.")
    except KeyboardInterrupt:
        if chain.kept < 2:
            raise
        notes.append(f"Interrupted after {chain.sampler.sweeps} sweeps: answers rest on the {chain.kept} kept so far.")
    posterior = chain.posterior(settings.liked_from)
    posterior.notes = notes + posterior.notes
    return Fitted(posterior, chain, problem, fold, by_fold)


def choose_columns(problem: Problem, fold: Int) -> tuple[Problem, dict[int, Posterior], list[str]]:
    """Let who-saw-what, then the history block, into the prior if left-out ratings gain two standard errors by it.

    Three of the five folds decide, on at most 200,000 ratings of whole users; fits to folds of the whole log are kept.
    The history block, of many columns, is asked of larger logs alone.
    """
    settings, log = problem.settings, problem.log
    current = replace(settings, exposure=bool(settings.exposure), history=bool(settings.history))
    asked = [name for name in ("exposure", "history") if getattr(settings, name) is None]
    if len(log.users) < defaults.HISTORY_RATINGS and "history" in asked:
        asked.remove("history")
    small = len(log.users) < 100 or min(log.n_users, log.n_items) < 3
    notes = ["The log is too small to ask whether who-saw-what tells anything: it is left out."] if small else []
    if not asked or small:
        return replace(problem, settings=current), {}, notes if asked else []
    trial, trial_fold = problem, fold
    if len(log.users) > defaults.GATE_RATINGS:
        order = np.random.default_rng([problem.seed, 13]).permutation(log.n_users)
        few = order[np.cumsum(log.counts()[0][order]) <= defaults.GATE_RATINGS]
        chosen = np.isin(log.users, few)
        trial, trial_fold = replace(problem, log=log.rows(chosen)), fold[chosen]

    def fit_fold(candidate: Settings, k: int) -> tuple[Posterior, Float]:
        left_out = trial.log.rows(trial_fold == k)
        model = trial.without_fold(candidate, trial_fold, k)
        return model, model.log_likelihood(left_out.users, left_out.items, left_out.ratings)

    kept = [fit_fold(current, k) for k in range(defaults.GATE_FOLDS)]
    for name in asked:
        candidate, tried, gains = replace(current, **{name: True}), [], []
        for k, (_, likelihood) in enumerate(kept):
            tried.append(fit_fold(candidate, k))
            gains.append(tried[-1][1] - likelihood)
            if _beyond(-gains[-1]):
                break  # what one fold speaks against so clearly is not asked of another
        gain = np.concatenate(gains)
        enters = len(tried) == len(kept) and _beyond(gain)
        what = {"exposure": "Who-saw-what", "history": "The history of seen items"}[name]
        notes.append(
            f"{what} {'enters' if enters else 'stays out'}: left-out ratings gain {gain.mean():.4f} +- "
            f"{gain.std() / math.sqrt(len(gain)):.4f} in log-likelihood."
        )
        if enters:
            current, kept = candidate, tried
        elif name == "exposure":
            break  # who saw what tells nothing in its few columns: it is not asked in many
    models = {k: model for k, (model, _) in enumerate(kept)} if trial is problem else {}
    return replace(problem, settings=current), models, notes


def _beyond(gain: Float) -> bool:
    """Return whether a mean gain exceeds two standard errors."""
    return bool(gain.mean() > defaults.STANDARD_ERRORS * gain.std() / math.sqrt(len(gain)))
