"""Run a sampler and average its kept sweeps into a model of ordinary vectors."""

import math
from typing import Any

import numpy as np

from unskew.errors import ParameterError
from unskew.metrics.table import roc_auc
from unskew.posterior import defaults
from unskew.posterior.answers import Posterior, Ratings, Rows
from unskew.posterior.exposure import Pairs
from unskew.posterior.gibbs import Sampler
from unskew.posterior.kernels import Float, Float32, Int, score_pairs
from unskew.runtime import Bar
from unskew.special import ndtr

ROWS = 100_000
SHOT_BYTES = 64e6  # that item rows of all shots together take
WAITING = 8_000_000  # numbers of a product that may wait to be cut


class Chain:
    """Hold a sampler and the averages over its kept sweeps; `run` goes on from wherever it is.

    Ends that cancel in every answer (the size of f, s and thresholds; their location) are fixed in the averages, never
    in the chain: f, thresholds over the mean scale, thresholds around the middle one. A `short` chain, of a fold,
    keeps no track of how steady its answers are and nothing for fold-in.
    """

    def __init__(self, log: Pairs, ratings: Ratings, sampler: Sampler, *, burn: int, short: bool = False) -> None:
        self.ratings, self.sampler, self.burn, self.short, self.n_ratings = (
            ratings,
            sampler,
            burn,
            short,
            len(log.users),
        )
        self.chosen = log.rows(np.random.default_rng(0).permutation(self.n_ratings)[:20_000])  # which tell the rank
        self.product = RunningProduct(log.n_users, log.n_items)
        self.sums: dict[str, Any] = {}
        self.shots: dict[str, Any] = {}
        self.checks: list[Float32] = []
        n, m, rng = log.n_users, log.n_items, np.random.default_rng([sampler.seed, 5])
        self.n_checked = 0 if short else min(defaults.CHECKED_PAIRS, 4 * n * m)
        # four pairs of every row, and enough of the average new ones
        every = [np.concatenate([np.repeat(np.arange(size), 4), np.full(100, size - 1)]) for size in (n, m)]
        users = rng.integers(n, size=self.n_checked), every[0], rng.integers(n, size=len(every[1]))
        items = rng.integers(m, size=self.n_checked), rng.integers(m, size=len(every[0])), every[1]
        self.pairs: tuple[Int, Int] = np.concatenate(users), np.concatenate(items)

    @property
    def kept(self) -> int:
        """Return how many sweeps the averages hold."""
        return self.product.count

    def run(self, sweeps: int, bar: Bar | None = None) -> None:
        """Run further sweeps; of those after the burn-in every second is kept."""
        for _ in range(sweeps):
            self.sampler.sweep()
            if self.sampler.sweeps > self.burn and (self.sampler.sweeps - self.burn) % defaults.THIN == 0:
                self._keep()
            if bar is not None:
                bar.advance()

    def state(self) -> dict[str, Any]:
        """Return the sampler's state and the averages as plain arrays."""
        users, items = self.product.factors(self.product.keep)
        found = {"product.users": users, "product.items": items, "product.count": self.kept, "burn": self.burn}
        for name, held in (("sums", self.sums), ("shots", self.shots)):
            found |= {f"{name}.{key}": value for key, value in held.items()}
        return {name: np.array(value) for name, value in (found | self.sampler.state()).items()}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a state of the same log, averages and all; for another log restore the sampler alone."""
        self.sampler.restore(state)
        self.product.blocks = [(state["product.users"], state["product.items"])]
        self.product.count, self.burn = int(state["product.count"]), int(state["burn"])
        self.sums, self.shots = (
            {key.removeprefix(start): np.array(value) for key, value in state.items() if key.startswith(start)}
            for start in ("sums.", "shots.")
        )

    def _keep(self) -> None:
        """Add the last sweep to the averages: drawn rows of users times conditional mean rows of items.

        E[u w] = E[u E[w | u]]: exact, and it varies less than drawn rows of both. Means of both are biased, by less
        than the noise of drawn rows in a short chain: there they are used.
        """
        s, (users, items), n = self.sampler, self.pairs, self.n_checked
        a, b, d, thresholds = s.user_side, s.item_side, s.d, s.average_thresholds
        inner = thresholds[1:-1]
        sizes = [math.exp(np.log(side.scale).mean()) for side in (a, b)]
        size, location = sizes[0] * sizes[1], float(inner[len(inner) // 2])

        def factors(u: Any, u_bias: Any, v: Any) -> tuple[Float32, Float32]:
            """Return vectors whose product is f, biases first, around its location and over its size."""
            left = np.column_stack([u_bias - location, np.ones(a.n), u[:, :d]]) / size
            return left.astype(np.float32), np.column_stack([np.ones(b.n), v[:, d], v[:, :d]]).astype(np.float32)

        mean = factors(a.mean if self.short else a.rows, a.mean[:, d], b.mean)
        self.product.add(mean[0][:, 2:], mean[1][:, 2:])
        drawn = score_pairs(users, items, *factors(a.rows, a.rows[:, d], b.rows))
        found: dict[str, Any] = {"f": drawn, "square of f": drawn**2, "thresholds": (inner - location) / size}
        found |= {"user_scale": np.log(a.scale / sizes[0]), "item_scale": np.log(b.scale / sizes[1])}
        found["context"] = (location - s.thresholds[s.own]) / size  # by how much each moves f
        found |= {"user_bias": (a.mean[:, d] - location) / size, "item_bias": b.mean[:, d] / size}
        self.sums = {name: self.sums.get(name, 0.0) + value for name, value in found.items()}
        if self.short:
            return
        sd = a.scale[users[:n]] * b.scale[items[:n]] / size
        self.checks.append(ndtr(score_pairs(users[:n], items[:n], *mean) / sd).astype(np.float32))
        most = int(np.clip(SHOT_BYTES / (4 * b.n * (d + 1)), 1, defaults.SHOTS))
        if len(self.shots.get("rows", ())) < most or self.kept % 8 == 0:
            shot: dict[str, Any] = {
                "rows": b.rows.astype(np.float32), "scale": b.scale, "precision": a.prior.precision,
                "coefficients": a.prior.coefficients, "thresholds": thresholds, "location": location, "size": size,
                "user_size": sizes[0],
            }  # fmt: skip
            for name, value in shot.items():
                one = np.array(value)[None]
                self.shots[name] = np.concatenate([self.shots.get(name, one[:0]), one])[-most:]

    def unsteadiness(self) -> float:
        """Return mean((p1 - p2)^2) / 4 of the two halves of the kept sweeps on fixed random pairs."""
        half = len(self.checks) // 2
        if half == 0:
            return math.inf
        return float(np.mean((np.mean(self.checks[:half], axis=0) - np.mean(self.checks[half:], axis=0)) ** 2) / 4)

    def posterior(self, liked_from: float | None = None, **rest: Any) -> Posterior:
        """Return the model that the kept sweeps make, compressed to the rank that its answers need."""
        if self.kept < 2:
            raise ParameterError(
                f"{self.kept} sweeps were kept of {self.sampler.sweeps} run, {self.burn} thrown away; run more."
            )
        chosen, a, b = self.chosen, self.sampler.user_side, self.sampler.item_side
        means = {name: value / self.kept for name, value in self.sums.items()}
        u, v = (side / math.sqrt(self.kept) for side in self.product.factors(defaults.MOST_RANK))
        biases = (means["user_bias"], np.ones(a.n)), (np.ones(b.n), means["item_bias"])
        u, v = (
            np.hstack([np.column_stack(own).astype(np.float32), rows]) for own, rows in zip(biases, (u, v), strict=True)
        )
        liked = (chosen.ratings >= self.ratings.middle()).astype(np.int64)
        rank = smallest_rank(liked, u[chosen.users] * v[chosen.items])
        variance = (means["square of f"] - means["f"] ** 2) * self.kept / (self.kept - 1)
        log_variance = additive_log_variance(*self.pairs, variance, a.n, b.n)
        notes = []
        for name, side in (("users", a), ("items", b)):
            notes += [f"{name}: {note}" for note in side.columns.notes]
            if none := int((side.counts[:-1] == 0).sum()):
                notes.append(
                    f"{none:,} of {side.n - 1:,} {name} have nothing in the log: they are answered as new ones."
                )
        if len(moved := means["context"]) > 1 and chosen.context is not None:
            ends = f"{moved.min():+.2f} to {moved.max():+.2f}"
            notes.append(f"{len(moved)} contexts of rows move their score by {ends}; answers are for an average one.")
        if self.n_ratings < 100:
            notes.append(f"{self.n_ratings} rows teach little: answers stay near the average of the log.")
        return Posterior(
            ratings=self.ratings, users=Rows(u[:, :rank].copy(), np.exp(means["user_scale"]), log_variance[0]),
            items=Rows(v[:, :rank].copy(), np.exp(means["item_scale"]), log_variance[1]),
            thresholds=means["thresholds"], sweeps=self.sampler.sweeps, notes=notes,
            liked_from=self.ratings.middle() if liked_from is None else liked_from,
            shots=self.shots | {"known": a.columns.values[-1], "counts": a.counts}, **rest,
        )  # fmt: skip


class RunningProduct:
    """Hold the sum of U_s V_s' over sweeps as factors in blocks, cut back to `keep` columns when `most` are there.

    A cut is the best approximation of that rank: a truncated SVD. Its time is the third power of the columns, or of the
    rows if these are fewer: where they are far fewer, many columns wait for one cut.
    """

    def __init__(self, n_users: int, n_items: int, keep: int = defaults.MOST_RANK, most: int | None = None) -> None:
        waiting = WAITING // (n_users + n_items)
        self.most = most or (waiting if waiting > 8 * max(n_users, n_items) else 2 * keep)
        self.blocks = [(np.zeros((n_users, 0), np.float32), np.zeros((n_items, 0), np.float32))]
        self.keep, self.count = keep, 0

    def add(self, users: Float32, items: Float32) -> None:
        """Add one sweep's rows."""
        self.blocks.append((users, items))
        self.count += 1
        if sum(users.shape[1] for users, _ in self.blocks) >= self.most:
            self.blocks = [self.factors(self.keep)]

    def factors(self, rank: int) -> tuple[Float32, Float32]:
        """Return user and item factors of the sum, of at most `rank` columns, strongest first."""
        sides = [np.hstack(side) for side in zip(*self.blocks, strict=True)]
        bases = [_coordinates(side) for side in sides]
        small = bases[0] @ bases[1].T
        squares, left = np.linalg.eigh(small @ small.T)
        strengths = np.sqrt(np.maximum(squares[::-1], 0))
        k = min(rank, int((strengths > 1e-6 * strengths[:1]).sum()))
        size, left = np.sqrt(strengths[:k]), left[:, ::-1][:, :k]
        right = small.T @ left / strengths[:k]
        found = []
        for side, base, turn in zip(sides, bases, (left * size, right * size), strict=True):
            found.append(turn if len(base) == len(side) else side @ np.linalg.solve(base, turn).astype(np.float32))
        return found[0].astype(np.float32), found[1].astype(np.float32)


def _coordinates(x: Float32) -> Float:
    """Return C with x = Q C, Q orthogonal: x itself, or what is above the diagonal if x has more rows than columns.

    Columns that repeat each other are made a little longer.
    """
    if len(x) <= x.shape[1]:
        return x.astype(float)
    parts = (x[start : start + ROWS] for start in range(0, len(x), ROWS))  # a copy of 64 bits of all would be large
    square = sum(part.astype(float).T @ part.astype(float) for part in parts)
    return np.asarray(np.linalg.cholesky(square + 1e-12 * np.trace(square) * np.eye(len(square))).T)


def smallest_rank(liked: Int, parts: Float32) -> int:
    """Return the fewest columns that lose less than .0005 AUC; `parts` is what each adds to f, the first two biases."""
    low, high = 2, int(parts.shape[1])
    if liked.min() == liked.max():
        return high
    scores = np.cumsum(parts, axis=1)
    full = roc_auc(liked, scores[:, -1])
    while low < high:  # more columns order better, so halving finds the rank
        middle = (low + high) // 2
        if full - roc_auc(liked, scores[:, middle - 1]) < defaults.RANK_LOSS:
            high = middle
        else:
            low = middle + 1
    return low


def additive(
    users: Int, items: Int, values: Float, weights: Float, n_users: int, n_items: int, rounds: int, prior: float = 0.0
) -> tuple[Float, Float]:
    """Fit a_u + b_i to values of pairs by weighted least squares, in turns; `prior` pairs of 0 stand with each row."""
    total_u, total_i = (
        np.maximum(np.bincount(codes, weights, n) + prior, 1e-9) for codes, n in ((users, n_users), (items, n_items))
    )
    b = np.zeros(n_items)
    for _ in range(rounds):
        a = np.bincount(users, weights * (values - b[items]), n_users) / total_u
        b = np.bincount(items, weights * (values - a[users]), n_items) / total_i
    return a, b


def additive_log_variance(users: Int, items: Int, variance: Float, n_users: int, n_items: int) -> tuple[Float, Float]:
    """Fit log variance = a_u + b_i on sampled pairs, rows of few pairs shrunk to the mean."""
    log = np.log(np.maximum(variance, 1e-12))
    centre = log.mean()
    a, b = additive(users, items, log - centre, np.ones(len(log)), n_users, n_items, rounds=20, prior=2.0)
    rest = variance / np.exp(centre + a[users] + b[items])
    # exp of a mean of logs is below the mean: the level is set by the variances themselves
    return a + centre + float(np.log(rest.mean())), b
