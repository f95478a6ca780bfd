"""Fit the Bayesian factor model to a log: sweeps until answers stand still, columns by evidence of left-out ratings."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr

from unskew.errors import ParameterError
from unskew.posterior import defaults
from unskew.posterior.answers import Posterior, Ratings
from unskew.posterior.compress import RunningProduct, additive_log_variance, smallest_rank
from unskew.posterior.draws import Float, Int
from unskew.posterior.exposure import Pairs, directions, history
from unskew.posterior.gibbs import Sampler, score_pairs
from unskew.posterior.prior import Columns

Progress = Callable[[int, int, str], None]
"""Called with the number of sweeps run, how many there will be, and what they are for."""


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


class Chain:
    """Hold a sampler and the averages over its kept sweeps; `run` goes on from wherever it is.

    Ends that cancel in every answer (the size of f, s and thresholds; their location) are fixed in the averages, never
    in the chain: f, thresholds over the mean scale, thresholds around the middle one.
    """

    def __init__(
        self, log: Pairs, ratings: Ratings, settings: BayesianFactors, columns: tuple[Columns, Columns], seed: int,
        burn: int, short: bool = False,
    ) -> None:  # fmt: skip
        self.log, self.ratings, self.settings, self.burn = log, ratings, settings, burn
        self.short = short
        self.sampler = Sampler(
            log.users, log.items, ratings.encode(log.ratings), ratings.n_levels, *columns,
            d=settings.d, prior_scale=settings.prior_scale, seed=seed, threads=settings.threads,
        )  # fmt: skip
        sides = self.sampler.user_side, self.sampler.item_side
        self.product = RunningProduct(*(side.n + len(side.prior.coefficients) for side in sides))
        self.kept = 0
        self.bias = [np.zeros(side.n + len(side.prior.coefficients)) for side in sides]
        self.log_scale = [np.zeros(side.n) for side in sides]
        self.thresholds, self.noise = np.zeros(max(ratings.n_levels - 1, 0)), 0.0
        rng = np.random.default_rng([seed, 5])
        some = 0 if short else min(defaults.CHECKED_PAIRS, 4 * log.n_users * log.n_items)
        every_user, every_item = np.repeat(np.arange(log.n_users), 4), np.repeat(np.arange(log.n_items), 4)
        self.pair_users = np.concatenate(
            [rng.integers(log.n_users, size=some), every_user, rng.integers(log.n_users, size=len(every_item))]
        )
        self.pair_items = np.concatenate(
            [rng.integers(log.n_items, size=some), rng.integers(log.n_items, size=len(every_user)), every_item]
        )
        self.n_checked = some
        self.checks: list[Float] = []
        self.moments = np.zeros((2, len(self.pair_users)))
        self.snapshots: list[dict[str, Any]] = []

    def run(self, sweeps: int, progress: Progress | None = None, what: str = "sweeps", total: int = 0) -> None:
        """Run further sweeps; of those after the burn-in every third is kept, every second of a short chain."""
        for _ in range(sweeps):
            self.sampler.sweep()
            thin = defaults.FOLD_THIN if self.short else defaults.THIN
            if self.sampler.sweeps > self.burn and (self.sampler.sweeps - self.burn) % thin == 0:
                self._keep()
            if progress is not None:
                progress(self.sampler.sweeps, total or sweeps, what)

    def state(self) -> dict[str, Any]:
        """Return the sampler's state and the averages as plain arrays."""
        users, items, _ = self.product.factors(self.product.keep, mean=False)
        own = {
            "product.users": users, "product.items": items, "product.count": self.product.count, "kept": self.kept,
            "bias.users": self.bias[0], "bias.items": self.bias[1], "scale.users": self.log_scale[0],
            "scale.items": self.log_scale[1], "mean_thresholds": self.thresholds, "mean_noise": self.noise,
            "moments": self.moments, "checks": np.array(self.checks, np.float32), "burn": self.burn,
        }  # fmt: skip
        shots = {f"shot{k}.{name}": value for k, shot in enumerate(self.snapshots) for name, value in shot.items()}
        return {key: np.array(value) for key, value in (own | self.sampler.state() | shots).items()}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a state of the same log, averages and all; for another log restore the sampler alone."""
        self.sampler.restore(state)
        self.product.users, self.product.items = state["product.users"], state["product.items"]
        self.product.count, self.kept, self.burn = (int(state[key]) for key in ("product.count", "kept", "burn"))
        self.bias = [state["bias.users"].copy(), state["bias.items"].copy()]
        self.log_scale = [state["scale.users"].copy(), state["scale.items"].copy()]
        self.thresholds, self.noise = state["mean_thresholds"].copy(), float(state["mean_noise"])
        self.moments, self.checks = state["moments"].copy(), list(state["checks"])
        self.snapshots = []
        for key, value in state.items():
            if key.startswith("shot"):
                k, name = int(key[4 : key.index(".")]), key[key.index(".") + 1 :]
                while len(self.snapshots) <= k:
                    self.snapshots.append({})
                self.snapshots[k][name] = value

    def _keep(self) -> None:
        """Add the last sweep to the averages: drawn rows of users times conditional mean rows of items.

        E[u w] = E[u E[w | u]]: exact, and it varies less than drawn rows of both. Means of both are biased, by less
        than the noise of drawn rows in a short chain: there they are used, and no sweep is left out.
        """
        s = self.sampler
        sides = s.user_side, s.item_side
        sizes = [math.exp(np.log(side.scale).mean()) for side in sides]
        size, inner = sizes[0] * sizes[1], s.thresholds[1:-1]
        location = float(inner[len(inner) // 2]) if len(inner) else 0.0
        stacked = [np.concatenate([side.mean, side.prior.coefficients]) for side in sides]
        rows = sides[0].mean if self.short else sides[0].rows
        users = np.concatenate([rows[:, : s.d], sides[0].prior.coefficients[:, : s.d]])
        self.product.add(users / size, stacked[1][:, : s.d])
        self.kept += 1
        for k, side in enumerate(sides):
            self.bias[k] += stacked[k][:, s.d] / size
            self.log_scale[k] += np.log(side.scale / sizes[k])
        self.bias[0][: sides[0].n] -= location / size
        self.bias[0][sides[0].n] -= location / size  # the intercept of new users
        self.thresholds += (inner - location) / size
        self.noise += s.noise if s.n_levels == 1 else 1.0
        drawn = np.empty(len(self.pair_users))
        args = sides[0].rows, sides[0].bias, sides[1].rows, sides[1].bias
        score_pairs(self.pair_users, self.pair_items, *args, s.d, drawn)
        drawn = (drawn - location) / size
        self.moments += np.stack([drawn, drawn**2])
        if self.short:
            return
        n = self.n_checked
        f = np.empty(n)
        means = rows, sides[0].mean[:, s.d], sides[1].mean, sides[1].mean[:, s.d]
        score_pairs(self.pair_users[:n], self.pair_items[:n], *means, s.d, f)
        sd = math.sqrt(s.noise) * sides[0].scale[self.pair_users[:n]] * sides[1].scale[self.pair_items[:n]]
        self.checks.append(ndtr((f - location) / sd).astype(np.float32))
        if len(self.snapshots) < self._most_snapshots() or self.kept % 8 == 0:
            prior = sides[0].prior
            self.snapshots.append(
                {
                    "rows": np.c_[sides[1].rows[:, : s.d], sides[1].bias].astype(np.float32),
                    "scale": sides[1].scale.copy(), "precision": prior.precision, "coefficients": prior.coefficients,
                    "thresholds": s.thresholds, "noise": s.noise, "location": location, "size": size,
                    "user_size": sizes[0],
                }
            )  # fmt: skip
            self.snapshots = self.snapshots[-self._most_snapshots() :]

    def _most_snapshots(self) -> int:
        """Return how many sweeps of item rows fit into 64 MB, at most 8."""
        return int(np.clip(64e6 / (4 * self.log.n_items * (self.sampler.d + 1)), 1, defaults.SNAPSHOTS))

    def unsteadiness(self) -> float:
        """Return mean((p1 - p2)^2) / 4 of the two halves of the kept sweeps on fixed random pairs."""
        half = len(self.checks) // 2
        if half == 0:
            return math.inf
        return float(np.mean((np.mean(self.checks[:half], axis=0) - np.mean(self.checks[half:], axis=0)) ** 2) / 4)

    def posterior(self) -> Posterior:
        """Return the model that the kept sweeps make, compressed to the rank that its answers need."""
        if self.kept < 2:
            raise ParameterError(
                f"{self.kept} sweeps were kept of {self.sampler.sweeps} run, {self.burn} thrown away; run more."
            )
        n_users, n_items = self.log.n_users, self.log.n_items
        u, v, _ = self.product.factors(defaults.MOST_RANK)
        user_bias, item_bias = (bias / self.kept for bias in self.bias)
        chosen = np.random.default_rng(0).permutation(len(self.log.users))[:20_000]
        a, b = self.log.users[chosen], self.log.items[chosen]
        liked = (self.log.ratings[chosen] >= self.ratings.middle()).astype(np.int64)
        rank = smallest_rank(a, b, liked, user_bias[a] + item_bias[b], u, v)
        mean, second = self.moments / self.kept
        variance = (second - mean**2) * self.kept / max(self.kept - 1, 1)
        log_u, log_v = additive_log_variance(self.pair_users, self.pair_items, variance, n_users, n_items)
        few = [counts == 0 for counts in self.log.counts()]
        cold = tuple(
            float(level[none].mean()) if none.any() else float(np.sort(level)[-max(len(level) // 50, 1) :].mean())
            for level, none in zip((log_u, log_v), few, strict=True)
        )
        columns = self.sampler.user_side.columns, self.sampler.item_side.columns
        notes = [f"users: {note}" for note in columns[0].left_out] + [f"items: {note}" for note in columns[1].left_out]
        for name, none in zip(("users", "items"), few, strict=True):
            if none.any():
                notes.append(
                    f"{int(none.sum()):,} of {len(none):,} {name} have no rating: they are answered as new ones."
                )
        if len(self.log.users) < 100:
            notes.append(f"{len(self.log.users)} ratings teach little: answers stay near the average of the log.")
        names = self.snapshots[0] if self.snapshots else ()
        shots = {k: np.stack([np.asarray(shot[k]) for shot in self.snapshots]) for k in names}
        return Posterior(
            ratings=self.ratings, user_factors=u[:n_users, :rank].copy(), item_factors=v[:n_items, :rank].copy(),
            user_bias=user_bias[:n_users], item_bias=item_bias[:n_items],
            user_scale=np.exp(self.log_scale[0] / self.kept), item_scale=np.exp(self.log_scale[1] / self.kept),
            user_log_variance=log_u, item_log_variance=log_v, thresholds=self.thresholds / self.kept,
            noise=self.noise / self.kept, user_columns=columns[0].of_rows(0), item_columns=columns[1].of_rows(0),
            user_coefficients=np.c_[u[n_users:, :rank], user_bias[n_users:]],
            item_coefficients=np.c_[v[n_items:, :rank], item_bias[n_items:]],
            cold_log_variance=(cold[0], cold[1]), sweeps=self.sampler.sweeps, kept=self.kept, notes=notes,
            liked_from=self.ratings.middle() if self.settings.liked_from is None else self.settings.liked_from,
            snapshots={**shots, "counts": self.log.counts()[0]},
        )  # fmt: skip


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
        return Chain(log, self.ratings, settings, columns, 1000 * self.seed + stream, burn, short)

    def folds(self) -> Int:
        """Return a fold for every rating, an equal share of each user's in every fold."""
        return self.log.folds(defaults.FOLDS, np.random.default_rng([self.seed, 3]))

    def without_fold(self, settings: BayesianFactors, fold: Int, k: int) -> Posterior:
        """Fit all ratings but those of fold k, from a start of its own: it cannot know what it has not seen."""
        sweeps = fold_sweeps(len(fold))
        chain = self.chain(settings, sweeps // 4, fold != k, stream=k + 1, short=True)
        chain.run(sweeps, self.progress, f"fold {k + 1}")
        return chain.posterior()


def fold_sweeps(n_ratings: int) -> int:
    """Return the sweeps of a fit to one of the folds: a fifth of the least of the whole, at least 20."""
    return max(20, defaults.least_sweeps(n_ratings) // 5)


class Fitted(NamedTuple):
    """Hold a fitted model, its chain (more sweeps go on from it), and the folds fitted on the way to its columns."""

    posterior: Posterior
    chain: Chain
    problem: Problem
    fold: Int
    by_fold: dict[int, Posterior]


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
    posterior = chain.posterior()
    posterior.notes = notes + posterior.notes
    return Fitted(posterior, chain, problem, fold, by_fold)


def choose_columns(problem: Problem, fold: Int) -> tuple[Problem, dict[int, Posterior], list[str]]:
    """Let who-saw-what, then the history block, into the prior if left-out ratings gain two standard errors by it.

    Two of the five folds decide, on at most 200,000 ratings of whole users; fits to folds of the whole log are kept.
    """
    settings, log = problem.settings, problem.log
    notes: list[str] = []
    current = replace(settings, exposure=bool(settings.exposure), history=bool(settings.history))
    open_questions = [name for name in ("exposure", "history") if getattr(settings, name) is None]
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
            if tried[-1][1].mean() < likelihood.mean():  # a loss in one fold is no gain of two standard errors in all
                break
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
