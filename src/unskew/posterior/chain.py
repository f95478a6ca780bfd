"""Run a sampler and average its kept sweeps into a model of ordinary vectors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import ndtr

from unskew.errors import ParameterError
from unskew.posterior import defaults
from unskew.posterior.answers import Posterior, Ratings
from unskew.posterior.compress import RunningProduct, additive_log_variance, smallest_rank
from unskew.posterior.draws import Float, Int
from unskew.posterior.exposure import Pairs
from unskew.posterior.gibbs import Sampler, score_pairs

Progress = Callable[[int, int, str], None]
"""Called with the number of sweeps run, how many there will be, and what they are for."""


class Chain:
    """Hold a sampler and the averages over its kept sweeps; `run` goes on from wherever it is.

    Ends that cancel in every answer (the size of f, s and thresholds; their location) are fixed in the averages, never
    in the chain: f, thresholds over the mean scale, thresholds around the middle one. A `short` chain, of a fold,
    keeps no track of how steady its answers are and nothing for fold-in.
    """

    def __init__(self, log: Pairs, ratings: Ratings, sampler: Sampler, *, burn: int, short: bool = False) -> None:
        self.log, self.ratings, self.sampler, self.burn, self.short = log, ratings, sampler, burn, short
        sides = sampler.user_side, sampler.item_side
        lengths = [side.n + len(side.prior.coefficients) for side in sides]
        self.product = RunningProduct(*lengths)
        rng = np.random.default_rng([sampler.seed, 5])
        self.n_checked = 0 if short else min(defaults.CHECKED_PAIRS, 4 * log.n_users * log.n_items)
        every = [np.repeat(np.arange(side.n), 4) for side in sides]
        others = [rng.integers(side.n, size=self.n_checked) for side in sides]
        across = rng.integers(log.n_users, size=len(every[1])), rng.integers(log.n_items, size=len(every[0]))
        self.pairs: tuple[Int, Int] = (
            np.concatenate([others[0], every[0], across[0]]),
            np.concatenate([others[1], across[1], every[1]]),
        )
        self.sums: dict[str, Float] = {
            "user_bias": np.zeros(lengths[0]), "item_bias": np.zeros(lengths[1]), "user_scale": np.zeros(sides[0].n),
            "item_scale": np.zeros(sides[1].n), "thresholds": np.zeros(len(sampler.thresholds) - 2),
            "noise": np.zeros(1), "f": np.zeros(len(self.pairs[0])), "square of f": np.zeros(len(self.pairs[0])),
        }  # fmt: skip
        self.checks: list[Float] = []
        self.snapshots: list[dict[str, Any]] = []

    @property
    def kept(self) -> int:
        """Return how many sweeps the averages hold."""
        return self.product.count

    def run(self, sweeps: int, progress: Progress | None = None, what: str = "sweeps", total: int = 0) -> None:
        """Run further sweeps; of those after the burn-in every third is kept, every second of a short chain."""
        thin = defaults.FOLD_THIN if self.short else defaults.THIN
        for _ in range(sweeps):
            self.sampler.sweep()
            if self.sampler.sweeps > self.burn and (self.sampler.sweeps - self.burn) % thin == 0:
                self._keep()
            if progress is not None:
                progress(self.sampler.sweeps, total or sweeps, what)

    def state(self) -> dict[str, Any]:
        """Return the sampler's state and the averages as plain arrays."""
        users, items, _ = self.product.factors(self.product.keep, mean=False)
        found = {"product.users": users, "product.items": items, "product.count": self.kept, "burn": self.burn}
        found |= {f"sums.{name}": value for name, value in self.sums.items()}
        found |= {f"shots.{name}": value for name, value in self._stacked().items()}
        return {name: np.array(value) for name, value in (found | self.sampler.state()).items()}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a state of the same log, averages and all; for another log restore the sampler alone."""
        self.sampler.restore(state)
        self.product.users, self.product.items = state["product.users"], state["product.items"]
        self.product.count, self.burn = int(state["product.count"]), int(state["burn"])
        self.sums = {name: np.array(state[f"sums.{name}"]) for name in self.sums}
        shots = {name.removeprefix("shots."): value for name, value in state.items() if name.startswith("shots.")}
        self.snapshots = [{name: value[k] for name, value in shots.items()} for k in range(len(shots["rows"]))]

    def _stacked(self) -> dict[str, Any]:
        """Return what fold-in averages over, an array a name."""
        names = self.snapshots[0] if self.snapshots else ()
        return {name: np.stack([np.asarray(shot[name]) for shot in self.snapshots]) for name in names}

    def _keep(self) -> None:
        """Add the last sweep to the averages: drawn rows of users times conditional mean rows of items.

        E[u w] = E[u E[w | u]]: exact, and it varies less than drawn rows of both. Means of both are biased, by less
        than the noise of drawn rows in a short chain: there they are used.
        """
        s, d, sums = self.sampler, self.sampler.d, self.sums
        a, b = s.user_side, s.item_side
        sizes = [math.exp(np.log(side.scale).mean()) for side in (a, b)]
        size, inner = sizes[0] * sizes[1], s.thresholds[1:-1]
        location = float(inner[len(inner) // 2]) if len(inner) else 0.0
        rows = a.mean if self.short else a.rows
        users = np.concatenate([rows[:, :d], a.prior.coefficients[:, :d]])
        self.product.add(users / size, np.concatenate([b.mean[:, :d], b.prior.coefficients[:, :d]]))
        for name, side, own in (("user", a, sizes[0]), ("item", b, sizes[1])):
            sums[f"{name}_bias"] += np.concatenate([side.mean[:, d], side.prior.coefficients[:, d]]) / size
            sums[f"{name}_scale"] += np.log(side.scale / own)
        sums["user_bias"][: a.n + 1] -= location / size  # the first coefficient is the intercept of new users
        sums["thresholds"] += (inner - location) / size
        sums["noise"] += s.noise
        drawn = (self._scores(a.rows, a.bias, b.rows, b.bias) - location) / size
        sums["f"] += drawn
        sums["square of f"] += drawn**2
        if self.short:
            return
        n = self.n_checked
        f = self._scores(rows, a.mean[:, d], b.mean, b.mean[:, d], n)
        sd = math.sqrt(s.noise) * a.scale[self.pairs[0][:n]] * b.scale[self.pairs[1][:n]]
        self.checks.append(ndtr((f - location) / sd).astype(np.float32))
        most = int(np.clip(64e6 / (4 * b.n * (d + 1)), 1, defaults.SNAPSHOTS))  # in 64 MB
        if len(self.snapshots) < most or self.kept % 8 == 0:
            shot = {
                "rows": np.c_[b.rows[:, :d], b.bias].astype(np.float32), "scale": b.scale.copy(), "noise": s.noise,
                "precision": a.prior.precision, "coefficients": a.prior.coefficients, "thresholds": s.thresholds,
                "location": location, "size": size, "user_size": sizes[0],
            }  # fmt: skip
            self.snapshots = [*self.snapshots, shot][-most:]

    def _scores(self, u: Any, u_bias: Any, v: Any, v_bias: Any, n: int | None = None) -> Float:
        """Return f of the first n fixed pairs, or of all."""
        users, items = self.pairs[0][:n], self.pairs[1][:n]
        rows = (side[:, : self.sampler.d].astype(np.float32) for side in (u, v))
        biases = (np.ascontiguousarray(side, float) for side in (u_bias, v_bias))
        found: Float = score_pairs(users, items, *rows, *biases)
        return found

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
        u, v, _ = self.product.factors(defaults.MOST_RANK)
        chosen = np.random.default_rng(0).permutation(len(log.users))[:20_000]
        a, b = log.users[chosen], log.items[chosen]
        liked = (log.ratings[chosen] >= self.ratings.middle()).astype(np.int64)
        rank = smallest_rank(a, b, liked, means["user_bias"][a] + means["item_bias"][b], u, v)
        variance = (means["square of f"] - means["f"] ** 2) * self.kept / (self.kept - 1)
        log_variance = additive_log_variance(*self.pairs, variance, n, m)
        without = [counts == 0 for counts in log.counts()]
        cold = [
            float(level[none].mean() if none.any() else np.sort(level)[-max(len(level) // 50, 1) :].mean())
            for level, none in zip(log_variance, without, strict=True)
        ]
        columns = [side.columns.of_rows(0) for side in (self.sampler.user_side, self.sampler.item_side)]
        notes = []
        for name, known, none in zip(("users", "items"), columns, without, strict=True):
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
