"""Fit the Bayesian factor model to a log: sweeps until answers stand still, columns by evidence of left-out ratings."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from unskew.errors import ParameterError
from unskew.posterior import defaults
from unskew.posterior.answers import Posterior, Ratings
from unskew.posterior.chain import Chain, Progress
from unskew.posterior.draws import Float, Int
from unskew.posterior.exposure import Pairs, directions, history
from unskew.posterior.flat import flat
from unskew.posterior.gibbs import Sampler
from unskew.posterior.prior import Columns


@dataclass(frozen=True)
class BayesianFactors:
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

    def columns(
        self, log: Pairs, seed: int, user_features: Float | None, item_features: Float | None
    ) -> tuple[Columns, Columns]:
        """Return what is known of rows beforehand: features and, if asked for, who saw what in this log."""
        user_blocks, item_blocks = [], []
        if self.exposure:
            found, counts = directions(log), [np.log1p(n)[:, None] for n in log.counts()]
            user_blocks += [("counts", counts[0], False), ("directions", found.users, False)]
            item_blocks += [("counts", counts[1], False), ("directions", found.items, False)]
        if self.history:
            by_user, by_item = history(log, seed)
            user_blocks.append(("history", by_user, True))
            item_blocks.append(("history", by_item, True))
        return (
            Columns.of(log.n_users, user_features, *user_blocks),
            Columns.of(log.n_items, item_features, *item_blocks),
        )


@dataclass(frozen=True)
class Problem:
    """Hold a checked log with all that a fit of the model, whole or by folds, depends on."""

    log: Pairs
    ratings: Ratings
    settings: BayesianFactors
    seed: int = 0
    user_features: Float | None = None
    item_features: Float | None = None
    progress: Progress | None = None

    def chain(
        self, settings: BayesianFactors, burn: int, chosen: Any = slice(None), stream: int = 0, short: bool = False
    ) -> Chain:
        """Start a chain on some of the ratings; who-saw-what is that of these ratings alone."""
        log = self.log.rows(chosen)
        columns = settings.columns(log, self.seed, self.user_features, self.item_features)
        sampler = Sampler(
            log.users, log.items, self.ratings.encode(log.ratings), self.ratings.n_levels, *columns, d=settings.d,
            prior_scale=settings.prior_scale, seed=1000 * self.seed + stream, threads=settings.threads,
        )  # fmt: skip
        return Chain(log, self.ratings, sampler, burn=burn, short=short)

    def folds(self) -> Int:
        """Return a fold for every rating, an equal share of each user's in every fold."""
        return self.log.folds(defaults.FOLDS, np.random.default_rng([self.seed, 3]))

    def without_fold(self, settings: BayesianFactors, fold: Int, k: int) -> Posterior:
        """Fit all ratings but those of fold k, from a start of its own: it cannot know what it has not seen."""
        sweeps = fold_sweeps(len(fold))
        chain = self.chain(settings, sweeps // 4, fold != k, stream=k + 1, short=True)
        chain.run(sweeps, self.progress, f"fold {k + 1}")
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


def sample(
    log: Pairs, *, settings: BayesianFactors | None = None, user_features: Float | None = None,
    item_features: Float | None = None, seed: int = 0, progress: Progress | None = None,
) -> Fitted:  # fmt: skip
    """Fit the model: choose columns by left-out ratings, then sweep until answers stand still.

    An interrupt (Ctrl-C) after the first kept sweep ends the fit with what there is, and its notes say so.
    """
    log, settings = log.checked(), settings or BayesianFactors()
    if settings.d < 1 or (settings.sweeps is not None and settings.sweeps < 8):
        raise ParameterError(f"d={settings.d}, sweeps={settings.sweeps}: d is at least 1, sweeps at least 8.")
    problem = Problem(log, Ratings.of(log.ratings), settings, seed, user_features, item_features, progress)
    fold = problem.folds()
    problem, by_fold, notes = choose_columns(problem, fold)
    least = settings.sweeps or defaults.least_sweeps(len(log.users))
    most = settings.sweeps or defaults.most_sweeps(len(log.users))
    chain = problem.chain(problem.settings, defaults.burn_in(least))
    try:
        chain.run(least, progress, "fit", least)
        while chain.sampler.sweeps < most and chain.unsteadiness() > defaults.STOP_BELOW:
            more = min(max(least // 5, 10), most - chain.sampler.sweeps)
            chain.run(more, progress, "fit", chain.sampler.sweeps + more)
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
    notes: list[str] = []
    current = replace(settings, exposure=bool(settings.exposure), history=bool(settings.history))
    open_questions = [name for name in ("exposure", "history") if getattr(settings, name) is None]
    if len(log.users) < defaults.HISTORY_RATINGS and "history" in open_questions:
        open_questions.remove("history")
    if not open_questions:
        return replace(problem, settings=current), {}, notes
    if len(log.users) < 100 or min(log.n_users, log.n_items) < 3:
        notes.append("The log is too small to ask whether who-saw-what tells anything: it is left out.")
        return replace(problem, settings=current), {}, notes
    trial, trial_fold, whole = problem, fold, True
    if len(log.users) > defaults.GATE_RATINGS:
        counts = log.counts()[0]
        order = np.random.default_rng([problem.seed, 13]).permutation(log.n_users)
        few = np.zeros(log.n_users, bool)
        few[order[np.cumsum(counts[order]) <= defaults.GATE_RATINGS]] = True
        chosen = few[log.users]
        trial, trial_fold, whole = replace(problem, log=log.rows(chosen)), fold[chosen], False
    parts = [np.flatnonzero(trial_fold == k) for k in range(defaults.GATE_FOLDS)]

    def fit_fold(candidate: BayesianFactors, k: int) -> tuple[Posterior, Float]:
        left_out = trial.log.rows(parts[k])
        model = trial.without_fold(candidate, trial_fold, k)
        return model, model.log_likelihood(left_out.users, left_out.items, left_out.ratings)

    kept = [fit_fold(current, k) for k in range(defaults.GATE_FOLDS)]
    for name in open_questions:
        candidate, tried = replace(current, **{name: True}), []
        for k, (_, likelihood) in enumerate(kept):
            tried.append(fit_fold(candidate, k))
            lost = likelihood - tried[-1][1]
            if lost.mean() > defaults.STANDARD_ERRORS * lost.std() / math.sqrt(len(lost)):
                break  # what one fold speaks against so clearly is not asked of another
        gain = np.concatenate([new - old for (_, new), (_, old) in zip(tried, kept, strict=False)])
        error = float(gain.std() / math.sqrt(len(gain)))
        enters = len(tried) == len(kept) and bool(gain.mean() > defaults.STANDARD_ERRORS * error)
        what = {"exposure": "Who-saw-what", "history": "The history of seen items"}[name]
        notes.append(
            f"{what} {'enters' if enters else 'stays out'}: left-out ratings gain {gain.mean():.4f} +- {error:.4f} "
            "in log-likelihood."
        )
        if enters:
            current, kept = candidate, tried
        elif name == "exposure":
            break  # who saw what tells nothing in its few columns: it is not asked in many
    models = {k: model for k, (model, _) in enumerate(kept)} if whole else {}
    return replace(problem, settings=current), models, notes
