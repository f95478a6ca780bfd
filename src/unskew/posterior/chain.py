"""Run a sampler and average its kept sweeps into a model of ordinary vectors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from unskew.errors import ParameterError
from unskew.metrics.table import roc_auc
from unskew.posterior import defaults
from unskew.posterior.answers import Posterior, Ratings
from unskew.posterior.exposure import Pairs
from unskew.posterior.gibbs import Sampler
from unskew.posterior.kernels import Float, Float32, Int, score_pairs
from unskew.runtime import Bar
from unskew.special import ndtr


class Chain:
    """Hold a sampler and the averages over its kept sweeps; `run` goes on from wherever it is.

    Ends that cancel in every answer (the size of f, s and thresholds; their location) are fixed in the averages, never
    in the chain: f, thresholds over the mean scale, thresholds around the middle one. A `short` chain, of a fold,
    keeps no track of how steady its answers are and nothing for fold-in.
    """

    def __init__(self, log: Pairs, ratings: Ratings, sampler: Sampler, *, burn: int, short: bool = False) -> None:
        self.log, self.ratings, self.sampler, self.burn, self.short = log, ratings, sampler, burn, short
        self.product = RunningProduct(
            *(s.n + len(s.prior.coefficients) for s in (sampler.user_side, sampler.item_side))
        )
        self.sums: dict[str, Any] = {}
        self.checks: list[Float32] = []
        self.snapshots: list[dict[str, Any]] = []
        n, m, rng = log.n_users, log.n_items, np.random.default_rng([sampler.seed, 5])
        self.n_checked = 0 if short else min(defaults.CHECKED_PAIRS, 4 * n * m)
        anybody, anything = (rng.integers(size, size=self.n_checked) for size in (n, m))
        users, items = rng.integers(n, size=4 * m), rng.integers(m, size=4 * n)
        self.pairs: tuple[Int, Int] = (
            np.concatenate([anybody, np.repeat(np.arange(n), 4), users]),
            np.concatenate([anything, items, np.repeat(np.arange(m), 4)]),
        )

    @property
    def kept(self) -> int:
        """Return how many sweeps the averages hold."""
        return self.product.count

    def run(self, sweeps: int, bar: Bar | None = None) -> None:
        """Run further sweeps; of those after the burn-in every third is kept, every second of a short chain."""
        thin = defaults.FOLD_THIN if self.short else defaults.THIN
        for _ in range(sweeps):
            self.sampler.sweep()
            if self.sampler.sweeps > self.burn and (self.sampler.sweeps - self.burn) % thin == 0:
                self._keep()
            if bar is not None:
                bar.advance()

    def state(self) -> dict[str, Any]:
        """Return the sampler's state and the averages as plain arrays."""
        users, items = self.product.factors(self.product.keep, mean=False)
        found = {"product.users": users, "product.items": items, "product.count": self.kept, "burn": self.burn}
        found |= {f"sums.{name}": value for name, value in self.sums.items()}
        found |= {f"shots.{name}": value for name, value in self._stacked().items()}
        return {name: np.array(value) for name, value in (found | self.sampler.state()).items()}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a state of the same log, averages and all; for another log restore the sampler alone."""
        self.sampler.restore(state)
        self.product.users, self.product.items = state["product.users"], state["product.items"]
        self.product.count, self.burn = int(state["product.count"]), int(state["burn"])
        sums, shots = (
            {name.removeprefix(start): np.array(value) for name, value in state.items() if name.startswith(start)}
            for start in ("sums.", "shots.")
        )
        self.sums, n = sums, len(shots["rows"])
        self.snapshots = [{name: value[k] for name, value in shots.items()} for k in range(n)]

    def _stacked(self) -> dict[str, Any]:
        """Return what fold-in averages over, an array a name."""
        names = self.snapshots[0] if self.snapshots else ()
        return {name: np.stack([np.asarray(shot[name]) for shot in self.snapshots]) for name in names}

    def _keep(self) -> None:
        """Add the last sweep to the averages: drawn rows of users times conditional mean rows of items.

        E[u w] = E[u E[w | u]]: exact, and it varies less than drawn rows of both. Means of both are biased, by less
        than the noise of drawn rows in a short chain: there they are used.
        """
        s, d, n = self.sampler, self.sampler.d, self.n_checked
        a, b = s.user_side, s.item_side
        sizes = [math.exp(np.log(side.scale).mean()) for side in (a, b)]
        size, inner = sizes[0] * sizes[1], s.thresholds[1:-1]
        location = float(inner[len(inner) // 2]) if len(inner) else 0.0
        rows = a.mean if self.short else a.rows
        users = np.concatenate([rows[:, :d], a.prior.coefficients[:, :d]])
        self.product.add(users / size, np.concatenate([b.mean[:, :d], b.prior.coefficients[:, :d]]))
        drawn = (self._scores(a.rows, a.rows[:, d], b.rows, b.rows[:, d]) - location) / size
        found: dict[str, Any] = {"f": drawn, "square of f": drawn**2, "noise": np.array([s.noise])}
        found["thresholds"] = (inner - location) / size
        for name, side, own in (("user", a, sizes[0]), ("item", b, sizes[1])):
            found[f"{name}_bias"] = np.concatenate([side.mean[:, d], side.prior.coefficients[:, d]]) / size
            found[f"{name}_scale"] = np.log(side.scale / own)
        self.sums = {name: self.sums.get(name, 0.0) + value for name, value in found.items()}
        self.sums["user_bias"][: a.n + 1] -= location / size  # the first coefficient is the intercept of new users
        if self.short:
            return
        f = self._scores(rows, a.mean[:, d], b.mean, b.mean[:, d], n)
        sd = math.sqrt(s.noise) * a.scale[self.pairs[0][:n]] * b.scale[self.pairs[1][:n]]
        self.checks.append(ndtr((f - location) / sd).astype(np.float32))
        most = int(np.clip(64e6 / (4 * b.n * (d + 1)), 1, defaults.SNAPSHOTS))  # in 64 MB
        if len(self.snapshots) < most or self.kept % 8 == 0:
            shot = {
                "rows": b.rows.astype(np.float32), "scale": b.scale.copy(), "noise": s.noise,
                "precision": a.prior.precision, "coefficients": a.prior.coefficients, "thresholds": s.thresholds,
                "location": location, "size": size, "user_size": sizes[0],
            }  # fmt: skip
            self.snapshots = [*self.snapshots, shot][-most:]

    def _scores(self, u: Any, u_bias: Any, v: Any, v_bias: Any, n: int | None = None) -> Float:
        """Return f of the first n fixed pairs, or of all."""
        rows = (side[:, : self.sampler.d].astype(np.float32) for side in (u, v))
        biases = (np.ascontiguousarray(side, float) for side in (u_bias, v_bias))
        return np.asarray(score_pairs(self.pairs[0][:n], self.pairs[1][:n], *rows, *biases))

    def unsteadiness(self) -> float:
        """Return mean((p1 - p2)^2) / 4 of the two halves of the kept sweeps on fixed random pairs."""
        half = len(self.checks) // 2
        if half == 0:
            return math.inf
        return float(np.mean((np.mean(self.checks[:half], axis=0) - np.mean(self.checks[half:], axis=0)) ** 2) / 4)

    def posterior(self, liked_from: float | None = None) -> Posterior:
        """Return the model that the kept sweeps make, compressed to the rank that its answers need."""
        if self.kept < 2:
            raise ParameterError(
                f"{self.kept} sweeps were kept of {self.sampler.sweeps} run, {self.burn} thrown away; run more."
            )
        log, n, m = self.log, self.log.n_users, self.log.n_items
        means = {name: value / self.kept for name, value in self.sums.items()}
        u, v = self.product.factors(defaults.MOST_RANK)
        chosen = np.random.default_rng(0).permutation(len(log.users))[:20_000]
        a, b = log.users[chosen], log.items[chosen]
        liked = (log.ratings[chosen] >= self.ratings.middle()).astype(np.int64)
        rank = smallest_rank(a, b, liked, means["user_bias"][a] + means["item_bias"][b], u, v)
        variance = (means["square of f"] - means["f"] ** 2) * self.kept / (self.kept - 1)
        log_variance = additive_log_variance(*self.pairs, variance, n, m)
        columns = [side.columns.of_rows(0) for side in (self.sampler.user_side, self.sampler.item_side)]
        notes, cold = [], []
        for name, known, level, counts in zip(("users", "items"), columns, log_variance, log.counts(), strict=True):
            none = counts == 0
            cold.append(float(level[none].mean() if none.any() else np.sort(level)[-max(len(level) // 50, 1) :].mean()))
            notes += [f"{name}: {note}" for note in known.left_out]
            if none.any():
                notes.append(f"{none.sum():,} of {len(none):,} {name} have no rating: they are answered as new ones.")
        if len(log.users) < 100:
            notes.append(f"{len(log.users)} ratings teach little: answers stay near the average of the log.")
        return Posterior(
            ratings=self.ratings, user_factors=u[:n, :rank].copy(), item_factors=v[:m, :rank].copy(),
            user_bias=means["user_bias"][:n], item_bias=means["item_bias"][:m],
            user_scale=np.exp(means["user_scale"]), item_scale=np.exp(means["item_scale"]),
            user_log_variance=log_variance[0], item_log_variance=log_variance[1], thresholds=means["thresholds"],
            noise=float(means["noise"][0]), user_columns=columns[0], item_columns=columns[1],
            user_coefficients=np.c_[u[n:, :rank], means["user_bias"][n:]],
            item_coefficients=np.c_[v[m:, :rank], means["item_bias"][m:]], cold_log_variance=(cold[0], cold[1]),
            sweeps=self.sampler.sweeps, kept=self.kept, notes=notes,
            liked_from=self.ratings.middle() if liked_from is None else liked_from,
            snapshots={**self._stacked(), "counts": log.counts()[0]},
        )  # fmt: skip


class RunningProduct:
    """Hold mean of U_s V_s' over sweeps as one pair of factors, never wider than `most` columns.

    A buffer of stacked [U_1 .. U_S] and [V_1 .. V_S] is cut back to `keep` columns by a truncated SVD of the product of
    their roots, the best approximation of that rank.
    """

    def __init__(
        self, n_users: int, n_items: int, keep: int = defaults.MOST_RANK, most: int = 2 * defaults.MOST_RANK
    ) -> None:
        self.users: Float32 = np.zeros((n_users, 0), np.float32)
        self.items: Float32 = np.zeros((n_items, 0), np.float32)
        self.keep, self.most, self.count = keep, most, 0
        self._pending: list[tuple[Float32, Float32]] = []

    def add(self, users: Any, items: Any) -> None:
        """Add one sweep's rows."""
        self._pending.append((users.astype(np.float32), items.astype(np.float32)))
        self.count += 1
        if self.users.shape[1] + len(self._pending) * users.shape[1] >= self.most:
            self.users, self.items = self.factors(self.keep, mean=False)
            self._pending = []

    def factors(self, rank: int, mean: bool = True) -> tuple[Float32, Float32]:
        """Return user and item factors of at most `rank` columns, strongest first."""
        users = np.concatenate([self.users, *(u for u, _ in self._pending)], axis=1)
        items = np.concatenate([self.items, *(v for _, v in self._pending)], axis=1)
        if users.shape[1] == 0:
            return users, items
        roots = [_root(side) for side in (users, items)]
        small = roots[0].T @ roots[1]
        squares, left = np.linalg.eigh(small @ small.T)
        strengths = np.sqrt(np.maximum(squares[::-1], 0))
        k = min(rank, int((strengths > 1e-6 * strengths[0]).sum()))
        size, left = np.sqrt(strengths[:k]), left[:, ::-1][:, :k]
        right = small.T @ left / strengths[:k]
        scale = math.sqrt(1 / max(self.count, 1) if mean else 1.0)
        turns = [np.linalg.solve(root.T, turn * size * scale) for root, turn in zip(roots, (left, right), strict=True)]
        return users @ turns[0].astype(np.float32), items @ turns[1].astype(np.float32)


def _root(x: Float32) -> Float:
    """Return the lower root of x'x, which is small; with columns that repeat each other, of a little more."""
    square = x.astype(float).T @ x.astype(float)
    return np.asarray(np.linalg.cholesky(square + 1e-12 * np.trace(square) * np.eye(len(square))))


def smallest_rank(users: Int, items: Int, liked: Int, scores: Float, u: Float32, v: Float32) -> int:
    """Return the smallest rank that loses less than .0005 AUC on these pairs of the log; `scores` is all but u . v."""
    parts = u[users] * v[items]
    low, high = 0, int(u.shape[1])
    if liked.min() == liked.max():
        return high
    full = roc_auc(liked, scores + parts.sum(axis=1))
    while low < high:  # more columns order better, so halving finds the rank
        middle = (low + high) // 2
        if full - roc_auc(liked, scores + parts[:, :middle].sum(axis=1)) < defaults.RANK_LOSS:
            high = middle
        else:
            low = middle + 1
    return low


def additive_log_variance(
    users: Int, items: Int, variance: Float, n_users: int, n_items: int, rounds: int = 20, prior: float = 2.0
) -> tuple[Float, Float]:
    """Fit log variance = a_u + b_i by least squares on sampled pairs, rows of few pairs shrunk to the mean."""
    log = np.log(np.maximum(variance, 1e-12))
    centre = log.mean()
    a, b = np.zeros(n_users), np.zeros(n_items)
    counts_u, counts_i = np.bincount(users, minlength=n_users), np.bincount(items, minlength=n_items)
    for _ in range(rounds):
        a = np.bincount(users, log - centre - b[items], n_users) / (counts_u + prior)
        b = np.bincount(items, log - centre - a[users], n_items) / (counts_i + prior)
    rest = variance / np.exp(centre + a[users] + b[items])
    # exp of a mean of logs is below the mean: the level is set by the variances themselves
    return a + centre + float(np.log(rest.mean())), b
