"""Sample the Bayesian factor model by Gibbs sweeps, each conditional in closed form.

y_ui = v_u . w_i + b_u + b_i + s_u t_i e, e ~ N(0, 1). The rating is level k where thresholds k and k + 1 enclose y;
they take the constant in. Of two levels each context of a rating (where it was shown) may have a threshold of its own:
one additive term. Rows X of users, (v_u, b_u), and of items have the prior N(F B, L^-1), F the columns known
beforehand, every shrinkage learned; s_u^2, t_i^2 ~ InverseGamma(a, a). Ratings lie sorted by user; kernels walk the
rows they are given, so that threads share them out.
"""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np

from unskew.compiled import n_threads
from unskew.posterior import defaults
from unskew.posterior.exposure import Columns
from unskew.posterior.kernels import PIECE, Float, Int, draw_prior, sample_rows, score_pieces
from unskew.special import ndtri

FAR = 1e30
SHARED = 20_000  # ratings from which threads share the work


def sweep_rng(seed: int, sweep: int) -> np.random.Generator:
    """Return the generator of one sweep: counter-based, keyed by the seed, its counter the sweep."""
    return np.random.Generator(np.random.Philox(key=[seed, 0], counter=[0, 0, sweep, 0]))


@dataclass
class RowPrior:
    """Hold the precision L of rows, the coefficients B of their columns, and the precision of each coefficient row."""

    precision: Float
    coefficients: Float
    column_precision: Float

    def draw(
        self, rng: np.random.Generator, n: int, fx: Float, xx: Float, ff: Float, groups: Int, w: float,
        of_columns: tuple[float, float], df: float,
    ) -> None:  # fmt: skip
        """Draw L, B and the columns' precisions in turn, given n rows by F'X, X'X and F'F.

        L ~ Wishart(df, w I), row j of B ~ N(0, (l_j L)^-1), l ~ Gamma(shape, rate), one a group. L is drawn with B
        integrated out: L | X ~ Wishart(df + n, (I / w + X'X - X'F A^-1 F'X)^-1), A = F'F + diag(l).
        """
        (c, p), (shape, rate) = fx.shape, of_columns
        bartlett, chi = rng.standard_normal((p, p)), rng.standard_gamma((df + n - np.arange(p)) / 2)
        normals, gammas = rng.standard_normal((p, c)), rng.standard_gamma(shape + np.bincount(groups) * p / 2)
        given = fx, xx, ff, groups, w, rate, bartlett, chi, normals, gammas
        draw_prior(*given, self.precision, self.coefficients, self.column_precision)


class Side:
    """Hold one side of the log: its rows (factors, then the bias), their scales and prior, where its ratings are.

    `mean` are the conditional means that the last rows were drawn around, `left` the squared residuals that they leave,
    in units of their variance. Rows start small: wide ones are forgotten slowly by rows of few ratings.
    """

    def __init__(self, rng: np.random.Generator, d: int, columns: Columns, codes: Int, place: Int, other: Int) -> None:
        n, c = columns.values.shape
        self.n, self.columns, self.place, self.other = n, columns, place, other
        self.rows = np.concatenate([0.1 * rng.standard_normal((n, d)), np.zeros((n, 1))], axis=1)
        self.scale, self.left, self.mean = np.ones(n), np.zeros(n), np.zeros((n, d + 1), np.float32)
        self.prior = RowPrior(10.0 * np.eye(d + 1), np.zeros((c, d + 1)), np.ones(c))
        self.counts = np.bincount(codes, minlength=n)
        self.pointer = np.concatenate([[0], np.cumsum(self.counts)])
        self.known = columns.values.T @ columns.values


class Sampler:
    """Hold the state of the chain on one log; `sweep` moves all of it once.

    Ratings are levels 0, 1, .. With a `context` of each rating, numbered from 0, levels r become 3 context + r, and lie
    between thresholds -FAR, t of the context, FAR.
    """

    def __init__(
        self, users: Int, items: Int, ratings: Any, n_levels: int, user_columns: Columns, item_columns: Columns, *,
        d: int = defaults.FACTORS, prior_scale: float = defaults.PRIOR_SCALE, seed: int = 0,
        of_columns: tuple[float, float] = defaults.COLUMN_PRIOR, scale_shape: float = defaults.SCALE_SHAPE,
        row_df: float | None = None, threads: int | None = None, context: Int | None = None,
    ) -> None:  # fmt: skip
        self.row_df = d + 1 if row_df is None else row_df
        self.d, self.w, self.seed = d, prior_scale, seed
        self.n_levels = n_levels if context is None else 3 * int(context.max()) + 2
        self.of_columns, self.scale_shape = of_columns, scale_shape
        self.threads = threads or n_threads()
        self.sweeps = 0
        n = len(users)
        order = np.lexsort((items, users))
        self.users, self.items = (codes[order].astype(np.int64, copy=False) for codes in (users, items))
        self.levels = ratings[order].astype(np.int64, copy=False)
        self.y, self.f = np.zeros(n), np.zeros(n)
        by_item, rng = np.argsort(self.items, kind="stable"), np.random.default_rng([seed, 1])
        self.user_side = Side(rng, d, user_columns, self.users, np.arange(n), self.items)
        self.item_side = Side(rng, d, item_columns, self.items[by_item], by_item, self.users[by_item])
        counts = np.bincount(self.levels, minlength=n_levels)
        share = np.clip(np.cumsum(counts)[:-1] / n, 1e-4, 1 - 1e-4)
        inner = defaults.START_SIZE * (ndtri(share) + 1e-6 * np.arange(len(share)))
        self.thresholds = np.concatenate([[-FAR], inner, [FAR]])
        self.own, self.in_context = slice(1, -1), np.ones(1)  # which thresholds move, and the share of ratings of each
        if context is not None:
            self.levels += 3 * context[order]
            self.thresholds = np.tile(self.thresholds, int(context.max()) + 1)
            self.own, self.in_context = slice(1, None, 3), np.bincount(context) / n
        self.level_counts = np.bincount(self.levels, minlength=self.n_levels)

    @property
    def average_thresholds(self) -> Float:
        """Return the thresholds of an average context."""
        if self.own.step is None:
            return self.thresholds
        return np.array([-FAR, self.in_context @ self.thresholds[self.own], FAR])

    def sweep(self) -> None:
        """Draw everything once: thresholds, latent ratings, scales, rows of users, of items, priors.

        Numbers that ratings and rows are drawn by come first: their place in the stream is that of the row.
        """
        rng, a, b = sweep_rng(self.seed, self.sweeps), self.user_side, self.item_side
        uniforms, normals = self._numbers(rng)
        gammas = [rng.standard_gamma(self.scale_shape + side.counts / 2) for side in (a, b)]
        self._thresholds(rng)
        self._rows(a, b, uniforms, gammas[0], normals[0])
        self._rows(b, a, uniforms[:0], gammas[1], normals[1])
        self._rescale(rng)
        for side in (a, b):
            self._draw_prior(rng, side, side.n)
        self.sweeps += 1

    def _numbers(self, rng: np.random.Generator) -> tuple[Float, list[Float]]:
        """Return the numbers that latent ratings and rows of both sides are drawn by."""
        return rng.random(len(self.users)), [rng.random(side.rows.shape) for side in (self.user_side, self.item_side)]

    def _draw_prior(self, rng: np.random.Generator, side: Side, n: int) -> None:
        """Draw the prior of a side given its first n rows."""
        known, rows = side.columns.values[:n], side.rows[:n]
        square = side.known if n == side.n else known.T @ known
        rest = square, side.columns.groups, self.w, self.of_columns, self.row_df
        side.prior.draw(rng, n, known.T @ rows, rows.T @ rows, *rest)

    def state(self) -> dict[str, Any]:
        """Return what the next sweep depends on besides the log."""
        found: dict[str, Any] = {"thresholds": self.thresholds, "sweeps": self.sweeps}
        for name, side in (("user", self.user_side), ("item", self.item_side)):
            own = {"rows": side.rows, "scale": side.scale, **vars(side.prior)}
            found |= {f"{name}.{key}": value for key, value in own.items()}
        return {key: np.array(value) for key, value in found.items()}

    def restore(self, state: dict[str, Any], longer: bool = False) -> None:
        """Go on from a state of this log, or of one that this is `longer` than.

        Then columns of who-saw-what are others and rows are more: priors are drawn anew given the rows that are known;
        new rows, and the average one, begin at their prior means.
        """
        kept = state["thresholds"]
        alike = len(kept) == len(self.thresholds)  # or contexts of new rows are not known
        self.thresholds[self.own] = kept[self.own] if alike else kept[np.abs(kept) < FAR].mean()
        self.sweeps = int(state["sweeps"])
        rng = np.random.default_rng([self.seed, 31, self.sweeps])
        for name, side in (("user", self.user_side), ("item", self.item_side)):
            n = len(state[f"{name}.rows"]) - longer
            side.rows[:n], side.scale[:n] = state[f"{name}.rows"][:n], state[f"{name}.scale"][:n]
            if longer:
                self._draw_prior(rng, side, n)
                side.rows[n:] = side.columns.values[n:] @ side.prior.coefficients
            else:
                side.prior = RowPrior(*(state[f"{name}.{key}"].copy() for key in vars(side.prior)))

    def _thresholds(self, rng: np.random.Generator) -> None:
        """Move each threshold by a random-walk step on the likelihood with y integrated out, odd ones first.

        One pass over the log serves both: its sums by level tell the ratio of the even ones in either case.
        """
        old, counts = self.thresholds, self.level_counts
        step = 1 / np.sqrt(np.maximum(np.minimum(counts[:-1], counts[1:]), 1))
        new = old.copy()
        new[1:-1] += step * rng.standard_normal(self.n_levels - 1)
        chance = np.log(rng.random(self.n_levels + 1))
        gain = self._scored(old, new)
        kept, moved = old.copy(), np.zeros(self.n_levels + 1, bool)
        for k in [*range(1, self.n_levels, 2), *range(2, self.n_levels, 2)]:
            total = (old[k] ** 2 - new[k] ** 2) / (2 * defaults.THRESHOLD_SD**2)
            for level in (k - 1, k):
                if k % 2:
                    total += gain[level, 0]
                else:  # the odd threshold of this level is its other end
                    odd_moved = moved[level + 1 if level == k else level]
                    total += gain[level, 2] - gain[level, 0] if odd_moved else gain[level, 1]
            if kept[k - 1] < new[k] < kept[k + 1] and chance[k] < total:
                kept[k], moved[k] = new[k], True
        self.thresholds = kept

    def _scored(self, old: Float, new: Float) -> Float:
        """Find f of every rating; return, by level, what new thresholds gain: odd ones, even ones, both."""
        a, b, pieces = self.user_side, self.item_side, np.arange(-(-len(self.users) // PIECE))
        out = np.zeros((len(pieces), self.n_levels, 3))
        rows = a.rows, b.rows, a.scale, b.scale
        self._share(pieces, score_pieces, self.users, self.items, self.levels, *rows, old, new, self.f, out)
        return np.asarray(out.sum(axis=0))

    def _rows(self, side: Side, other: Side, uniforms: Float, gammas: Float, normals: Float) -> None:
        """Draw the rows of one side given the other."""
        prior = side.prior
        self._share(
            np.arange(side.n), sample_rows, side.pointer, side.place, side.other, self.levels, self.thresholds, self.y,
            self.f, side.rows, other.rows, side.scale, 1 / other.scale, self.scale_shape, prior.precision,
            prior.coefficients @ prior.precision, side.columns.values, uniforms, gammas, normals, side.mean, side.left,
            (0,) * (self.d + 1),
        )  # fmt: skip

    def _rescale(self, rng: np.random.Generator) -> float:
        """Draw the size c of f, y and thresholds at once: one by one they creep (Liu and Sabatti, Biometrika 87, 2000).

        y, t, rows of users, biases of items -> c times; their priors along with them (B -> c B, L -> L / c^2), which
        leaves these as likely as before. What changes, with the Jacobian and the measure d c / c, is c^(n + K - 1 -
        (p + 1) df) exp(-c^2 (sum of residuals^2 + sum of t^2 / sd^2) / 2 - (tr L_u + L_i,bias) / (2 w c^2)). Return c.
        """
        a, b, inner = self.user_side, self.item_side, self.thresholds[self.own]
        power = len(self.users) + len(inner) - (self.d + 2) * self.row_df
        up = (b.left.sum() + (inner**2).sum() / defaults.THRESHOLD_SD**2) / 2
        down = (np.trace(a.prior.precision) + b.prior.precision[-1, -1]) / (2 * self.w)
        c = math.exp(draw_log_size(rng, power, up, down))
        for grown in (inner, a.rows, a.mean, a.prior.coefficients, b.rows[:, -1], b.mean[:, -1]):
            grown *= c
        a.prior.precision /= c**2
        b.prior.coefficients[:, -1] *= c
        b.prior.precision[-1] /= c
        b.prior.precision[:, -1] /= c
        return c

    def _share(self, work: Int, kernel: Callable[..., None], *args: Any) -> None:
        """Run a kernel on all work, each thread, this one too, on every n-th piece: so are long rows shared out."""
        if self.threads == 1 or len(self.users) < SHARED:
            kernel(work, *args)
            return
        first, *rest = (work[k :: self.threads].copy() for k in range(self.threads))
        with ThreadPoolExecutor(self.threads - 1) as pool:
            others = [pool.submit(kernel, each, *args) for each in rest]
            kernel(first, *args)
            for done in others:
                done.result()


SAMPLER: ContextVar[Callable[..., Sampler]] = ContextVar("sampler", default=Sampler)
"""What makes the samplers of fits; `unskew.distributed` sets another."""


def draw_log_size(rng: np.random.Generator, power: float, up: float, down: float) -> float:
    """Move x, now 0, of log-density power x - up e^2x - down e^-2x by slice sampling (Neal, Annals of Statistics 31).

    The width, twice the standard deviation at the mode, is the same wherever on this line x is now.
    """

    width, floor = math.sqrt(2) * (power**2 + 16 * up * down) ** -0.25, math.log(1 - rng.random())

    def inside(x: float) -> bool:
        return power * x - up * math.expm1(2 * x) - down * math.expm1(-2 * x) > floor

    low = -width * rng.random()
    high = low + width
    while inside(low):
        low -= width
    while inside(high):
        high += width
    while True:
        x = float(low + (high - low) * rng.random())
        if inside(x):
            return x
        low, high = (x, high) if x < 0 else (low, x)
