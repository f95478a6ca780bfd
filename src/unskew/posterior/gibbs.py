"""Sample the Bayesian factor model by Gibbs sweeps, each conditional in closed form.

y_ui = v_u . w_i + b_u + b_i + s_u t_i sigma e, e ~ N(0, 1). The rating is level k where thresholds k and k + 1 enclose
y (sigma = 1; thresholds take the constant in), or y itself for ratings on a continuum. Rows (v_u, b_u) have the prior
of `prior.py`; s_u^2, t_i^2 ~ InverseGamma(a, a). Ratings lie sorted by user; each kernel walks the rows it is given, so
that threads share them out, and every draw has a counter of its own (`draws.py`): the bits do not depend on threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unskew.compiled import n_threads, njit
from unskew.posterior import defaults
from unskew.posterior.draws import (
    HOST,
    ITEM_SCALES,
    ITEMS,
    LATENT,
    MATH,
    START,
    USER_SCALES,
    USERS,
    Float,
    Float32,
    Int,
    draw_log_size,
    gamma_draw,
    host_rng,
    normal_cdf,
    normal_quantile,
    philox,
    truncated_normal,
    uniform,
)
from unskew.posterior.prior import CHUNK, Columns, RowPrior, gram_parts

FAR = 1e30
PIECE = 4096


@njit(fastmath=MATH, cache=True, nogil=True)
def score_pieces(
    pieces: Int, users: Int, items: Int, levels: Int, y: Float, u: Float, ub: Float, v: Float, vb: Float, d: int,
    s: Float, t: Float, old: Float, new: Float, f: Float, out: Float,
) -> None:  # fmt: skip
    """Compute f of every rating, and by level the log-likelihood gained by new thresholds: odd, even, both.

    With one level (a continuum) out[:, 0, 0] becomes the sum of squared residuals over s^2 t^2. The logarithm of a
    product is taken only before it could leave the range of numbers.
    """
    n_levels = len(old) - 1
    for piece in pieces:
        product = np.ones((n_levels, 3))
        for k in range(piece * PIECE, min((piece + 1) * PIECE, len(users))):
            a, b = users[k], items[k]
            x = ub[a] + vb[b]
            for j in range(d):
                x += u[a, j] * v[b, j]
            f[k] = x
            scale = 1.0 / (s[a] * t[b])
            if n_levels == 1:
                out[piece, 0, 0] += ((y[k] - x) * scale) ** 2
                continue
            level = levels[k]
            low, high = (old[level] - x) * scale, (old[level + 1] - x) * scale
            low_new, high_new = (new[level] - x) * scale, (new[level + 1] - x) * scale
            if low > 0.0:
                low, high, low_new, high_new = -low, -high, -low_new, -high_new
            cl = 0.0 if level == 0 else normal_cdf(low)
            cl_new = 0.0 if level == 0 else normal_cdf(low_new)
            ch = 1.0 if level == n_levels - 1 else normal_cdf(high)
            ch_new = 1.0 if level == n_levels - 1 else normal_cdf(high_new)
            if low < 0.0 and level == n_levels - 1 and old[level] - x > 0.0:
                ch = ch_new = 0.0  # reflected: the end at infinity lies below
            before = 1.0 / max(abs(ch - cl), 1e-100)
            lower_only, upper_only = max(abs(ch - cl_new), 1e-100) * before, max(abs(ch_new - cl), 1e-100) * before
            odd = level % 2 == 1
            product[level, 0] *= lower_only if odd else upper_only
            product[level, 1] *= upper_only if odd else lower_only
            product[level, 2] *= max(abs(ch_new - cl_new), 1e-100) * before
            for j in range(3):
                if not 1e-100 < product[level, j] < 1e100:
                    out[piece, level, j] += math.log(product[level, j])
                    product[level, j] = 1.0
        if n_levels > 1:
            for level in range(n_levels):
                for j in range(3):
                    out[piece, level, j] += math.log(product[level, j])


@njit(fastmath=MATH, cache=True, nogil=True)
def draw_row(
    a: Float, b: Float, p: int, precision: Float, shift: Float, known: Float, noise: Float,
    row: int, sweep: int, stream: int, seed: int, mean: NDArray[np.float32],
) -> None:  # fmt: skip
    """Draw N(A^-1 b, A^-1) into b, with A = a + L and b = b + L B' f; the mean is kept as well."""
    for c in range(known.shape[1]):
        if known[row, c] != 0.0:
            for j in range(p):
                b[j] += known[row, c] * shift[c, j]
    for i in range(p):
        for j in range(i + 1):
            a[i, j] += precision[i, j]
    for j in range(p - 1, -1, -1):  # A = R'R, R lower; starts of rows at a time, which the compiler turns into vectors
        inverse = 1.0 / math.sqrt(a[j, j])
        b[j] *= inverse
        for i in range(j):
            a[j, i] *= inverse
        for i in range(j):
            factor = a[j, i]
            b[i] -= factor * b[j]
            for h in range(i + 1):
                a[i, h] -= factor * a[j, h]
        a[j, j] = inverse
    for j in range(0, p, 2):
        b0, b1, b2, b3 = philox(row, j, sweep, stream, seed)
        noise[j] = normal_quantile(uniform(b0, b1))
        if j + 1 < p:
            noise[j + 1] = normal_quantile(uniform(b2, b3))
    for i in range(p):
        total, free = b[i], noise[i]
        for j in range(i):
            total -= a[i, j] * b[j]
            free -= a[i, j] * noise[j]
        b[i], noise[i] = total * a[i, i], free * a[i, i]
    for i in range(p):
        mean[row, i] = b[i]
        b[i] += noise[i]


@njit(fastmath=MATH, cache=True, nogil=True)
def residual_squares(total: float, a: Float, b: Float, x: Float, p: int) -> float:
    """Return the sum of w (y - z.x)^2 = sum of w y^2 - 2 x.b + x'a x, at least 0; a is read below its diagonal."""
    for i in range(p):
        half = 0.5 * a[i, i] * x[i] - b[i]
        for j in range(i):
            half += a[i, j] * x[j]
        total += 2.0 * x[i] * half
    return max(total, 0.0)


@njit(fastmath=MATH, cache=True, nogil=True)
def sample_rows(
    rows: Int, pointer: Int, place: Int, other: Int, levels: Int, thresholds: Float, y: Float, f: Float, x: Float,
    xb: Float, z: Float, zb: Float, d: int, scale: Float, other_scale: Float, weight: Float, noise: float, shape: float,
    by_user: bool,
    precision: Float, shift: Float, known: Float, sweep: int, seed: int, mean: NDArray[np.float32], left: Float,
) -> None:  # fmt: skip
    """Draw, for each row of one side: latent ratings (users only), its scale, and the row given the other side z.

    Rating `place[k]` of the log is the k-th of this side. z is padded: column d is 1 and the rest 0, so that four
    ratings at a time are added to the precision by whole vectors. left[r] becomes the sum of w (y - f)^2 of the row
    as drawn, its own scale in w.
    """
    p, q = d + 1, z.shape[1]
    a, b, drawn = np.empty((q, q)), np.empty(q), np.empty(q)
    data, pull = np.empty((q, q)), np.empty(q)
    for r in rows:
        start, end = pointer[r], pointer[r + 1]
        if by_user and len(thresholds) > 2:
            for g in range(start, end):  # ratings lie by user: place[g] = g
                sd, level = scale[r] * other_scale[other[g]], levels[g]
                b0, b1, _, _ = philox(g & 0xFFFFFFFF, g >> 32, sweep, LATENT, seed)
                low, high = (thresholds[level] - f[g]) / sd, (thresholds[level + 1] - f[g]) / sd
                y[g] = f[g] + sd * truncated_normal(low, high, uniform(b0, b1))
        total = 0.0
        for i in range(q):
            b[i] = 0.0
            for j in range(q):
                a[i, j] = 0.0
        k = start
        while k + 4 <= end:
            o0, o1, o2, o3 = other[k], other[k + 1], other[k + 2], other[k + 3]
            w0, w1, w2, w3 = weight[o0], weight[o1], weight[o2], weight[o3]
            y0, y1 = y[place[k]] - zb[o0], y[place[k + 1]] - zb[o1]
            y2, y3 = y[place[k + 2]] - zb[o2], y[place[k + 3]] - zb[o3]
            total += w0 * y0 * y0 + w1 * y1 * y1 + w2 * y2 * y2 + w3 * y3 * y3
            y0, y1, y2, y3 = w0 * y0, w1 * y1, w2 * y2, w3 * y3
            for j in range(q):
                b[j] += y0 * z[o0, j] + y1 * z[o1, j] + y2 * z[o2, j] + y3 * z[o3, j]
            for i in range(p):
                x0, x1, x2, x3 = w0 * z[o0, i], w1 * z[o1, i], w2 * z[o2, i], w3 * z[o3, i]
                for j in range((i | 3) + 1):
                    a[i, j] += x0 * z[o0, j] + x1 * z[o1, j] + x2 * z[o2, j] + x3 * z[o3, j]
            k += 4
        while k < end:
            o0 = other[k]
            w0, y0 = weight[o0], y[place[k]] - zb[o0]
            total += w0 * y0 * y0
            for i in range(p):
                x0 = w0 * z[o0, i]
                b[i] += x0 * y0
                for j in range((i | 3) + 1):
                    a[i, j] += x0 * z[o0, j]
            k += 1
        x[r, d] = xb[r]
        squares = residual_squares(total, a, b, x[r], p)
        chance = gamma_draw(shape + (end - start) / 2.0, r, sweep, USER_SCALES if by_user else ITEM_SCALES, seed)
        scale[r] = math.sqrt((shape + squares / (2.0 * noise)) / chance)
        inverse = 1.0 / (noise * scale[r] ** 2)
        for i in range(p):
            b[i] *= inverse
            pull[i] = b[i]
            for j in range(i + 1):
                a[i, j] *= inverse
                data[i, j] = a[i, j]
        draw_row(a, b, p, precision, shift, known, drawn, r, sweep, USERS if by_user else ITEMS, seed, mean)
        left[r] = residual_squares(total * inverse, data, pull, b, p)
        for j in range(d):
            x[r, j] = b[j]
        x[r, d] = 1.0
        xb[r] = b[d]


@njit(fastmath=MATH, cache=True, nogil=True)
def score_pairs(users: Int, items: Int, u: Float32, v: Float32, ub: Float, vb: Float) -> Float:
    """Return u . v + both biases for pairs."""
    out = np.empty(len(users))
    for k in range(len(users)):
        total = ub[users[k]] + vb[items[k]]
        for j in range(u.shape[1]):
            total += u[users[k], j] * v[items[k], j]
        out[k] = total
    return out


@dataclass
class Side:
    """Hold one side of the log: its rows, their scales and prior, and where its ratings are."""

    n: int
    columns: Columns
    rows: Float
    bias: Float
    scale: Float
    prior: RowPrior
    pointer: Int
    place: Int
    other: Int
    mean: NDArray[np.float32]
    """Conditional means that the last rows were drawn around (factors, then the bias)."""
    left: Float
    """Squared residuals that the last rows leave, in units of their variance."""
    order: Int = field(init=False)
    known: Float = field(init=False)

    def __post_init__(self) -> None:
        """Put rows in order of length: walked with a stride, every thread gets its share of the long ones."""
        self.order = np.argsort(-np.diff(self.pointer), kind="stable")
        self.known = np.einsum("ri,rj->ij", self.columns.values, self.columns.values)


class Sampler:
    """Hold the state of the chain on one log; `sweep` moves all of it once.

    Ratings are levels 0, 1, .. (`n_levels` above 1) or standardised values (`n_levels` = 1).
    """

    def __init__(
        self, users: Int, items: Int, ratings: Any, n_levels: int, user_columns: Columns, item_columns: Columns, *,
        d: int = defaults.FACTORS, prior_scale: float = defaults.PRIOR_SCALE, seed: int = 0,
        column_shape: float = defaults.COLUMN_SHAPE, scale_shape: float = defaults.SCALE_SHAPE,
        row_df: float | None = None, threads: int | None = None,
    ) -> None:  # fmt: skip
        self.row_df = d + 1 if row_df is None else row_df
        self.d, self.w, self.seed, self.n_levels = d, prior_scale, seed, n_levels
        self.column_shape, self.scale_shape = column_shape, scale_shape
        self.threads = threads or n_threads()
        self.sweeps, self.noise = 0, 1.0
        n = len(users)
        order = np.lexsort((items, users))
        self.users, self.items = users[order].astype(np.int64), items[order].astype(np.int64)
        self.levels = np.zeros(n, np.int64) if n_levels == 1 else ratings[order].astype(np.int64)
        self.y = ratings[order].astype(float) if n_levels == 1 else np.zeros(n)
        self.f = np.zeros(n)
        by_item = np.argsort(self.items, kind="stable")
        rng = host_rng(seed, 0, START)
        self.user_side = self._side(rng, user_columns, self.users, np.arange(n), self.items)
        self.item_side = self._side(rng, item_columns, self.items[by_item], by_item, self.users[by_item])
        counts = np.bincount(self.levels, minlength=n_levels)
        share = np.clip(np.cumsum(counts)[:-1] / n, 1e-4, 1 - 1e-4)
        inner = np.array([normal_quantile(x) + 1e-6 * k for k, x in enumerate(share)], float)
        self.thresholds = np.concatenate([[-FAR], defaults.START_SIZE * inner, [FAR]])

    def _side(self, rng: np.random.Generator, columns: Columns, codes: Int, place: Int, other: Int) -> Side:
        """Start one side: small random rows, unit scales; wide ones are forgotten slowly by rows of few ratings."""
        n = len(columns.values)
        rows = np.zeros((n, (self.d | 3) + 1))
        rows[:, : self.d] = 0.1 * rng.standard_normal((n, self.d))
        rows[:, self.d] = 1.0
        pointer = np.concatenate([[0], np.cumsum(np.bincount(codes, minlength=n))])
        prior = RowPrior.start(self.d + 1, columns.values.shape[1])
        mean = np.zeros((n, self.d + 1), np.float32)
        return Side(n, columns, rows, np.zeros(n), np.ones(n), prior, pointer, place, other, mean, np.zeros(n))

    def sweep(self) -> None:
        """Draw everything once: thresholds or noise, latent ratings, scales, rows of users, of items, priors."""
        rng = host_rng(self.seed, self.sweeps, HOST)
        self._thresholds(rng)
        self._rows(self.user_side, self.item_side, True)
        self._rows(self.item_side, self.user_side, False)
        self._rescale(rng)
        for side in (self.user_side, self.item_side):
            chunks = np.arange(-(-side.n // CHUNK))
            parts = np.zeros((len(chunks), side.known.shape[0] + self.d + 1, self.d + 1))
            self._share(chunks, gram_parts, side.columns.values, side.rows, side.bias, self.d, parts)
            gram = parts.sum(axis=0)
            side.prior.draw(rng, side.n, gram, side.known, side.columns.groups, self.w, self.column_shape, self.row_df)
        self.sweeps += 1

    def state(self) -> dict[str, Any]:
        """Return what the next sweep depends on besides the log."""
        found: dict[str, Any] = {
            "thresholds": self.thresholds,
            "noise": np.array(self.noise),
            "sweeps": np.array(self.sweeps),
        }
        for name, side in (("user", self.user_side), ("item", self.item_side)):
            found |= {f"{name}.rows": side.rows, f"{name}.bias": side.bias, f"{name}.scale": side.scale}
            found |= {f"{name}.{key}": value for key, value in vars(side.prior).items()}
        return {key: np.array(value) for key, value in found.items()}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a state; rows that it does not hold, of new users and items, keep their start."""
        self.thresholds = state["thresholds"].copy()
        self.noise, self.sweeps = float(state["noise"]), int(state["sweeps"])
        for name, side in (("user", self.user_side), ("item", self.item_side)):
            for key, own in (("rows", side.rows), ("bias", side.bias), ("scale", side.scale)):
                own[: len(state[f"{name}.{key}"])] = state[f"{name}.{key}"]
            side.prior = RowPrior(*(state[f"{name}.{key}"].copy() for key in vars(side.prior)))

    def _thresholds(self, rng: np.random.Generator) -> None:
        """Move each threshold by a random-walk step on the likelihood with y integrated out, odd ones first.

        One pass over the log serves both: its sums by level tell the ratio of the even ones in either case. On a
        continuum the same pass finds the residuals, and the noise variance is drawn.
        """
        old, n = self.thresholds, len(self.users)
        counts = np.bincount(self.levels, minlength=self.n_levels)
        step = 1 / np.sqrt(np.maximum(np.minimum(counts[:-1], counts[1:]), 1))
        new = old.copy()
        new[1:-1] += step * rng.standard_normal(self.n_levels - 1)
        chance = np.log(rng.random(self.n_levels + 1))
        pieces = np.arange(-(-n // PIECE))
        out = np.zeros((len(pieces), self.n_levels, 3))
        a, b = self.user_side, self.item_side
        self._share(
            pieces, score_pieces, self.users, self.items, self.levels, self.y, a.rows, a.bias, b.rows, b.bias,
            self.d, a.scale, b.scale, old, new, self.f, out,
        )  # fmt: skip
        gain = out.sum(axis=0)
        if self.n_levels == 1:
            shape, rate = defaults.NOISE_SHAPE + n / 2, defaults.NOISE_RATE + gain[0, 0] / 2
            self.noise = rate / rng.gamma(shape)
            return
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

    def _rescale(self, rng: np.random.Generator) -> None:
        """Draw the size c of f, y and thresholds at once: one by one they creep (Liu and Sabatti, Biometrika 87, 2000).

        y, t, rows of users, biases of items -> c times; their priors along with them (B -> c B, L -> L / c^2), which
        leaves these as likely as before. What changes, with the Jacobian and the measure d c / c, is c^(n + K - 1 -
        (p + 1) df) exp(-c^2 (sum of residuals^2 + sum of t^2 / sd^2) / 2 - (tr L_u + L_i,bias) / (2 w c^2)).
        """
        if self.n_levels == 1:  # y is what was observed
            return
        a, b, inner = self.user_side, self.item_side, self.thresholds[1:-1]
        power = len(self.users) + len(inner) - (self.d + 2) * self.row_df
        up = (b.left.sum() + (inner**2).sum() / defaults.THRESHOLD_SD**2) / 2
        down = (np.trace(a.prior.precision) + b.prior.precision[-1, -1]) / (2 * self.w)
        c = math.exp(draw_log_size(rng, power, up, down))
        self.thresholds[1:-1] *= c
        for grown in (a.rows[:, : self.d], a.bias, a.mean, a.prior.coefficients, b.bias, b.mean[:, -1]):
            grown *= c
        a.prior.precision /= c**2
        b.prior.coefficients[:, -1] *= c
        b.prior.precision[-1] /= c
        b.prior.precision[:, -1] /= c

    def _rows(self, side: Side, other: Side, by_user: bool) -> None:
        """Draw the rows of one side given the other."""
        prior, weight = side.prior, other.scale**-2
        self._share(
            side.order, sample_rows, side.pointer, side.place, side.other, self.levels, self.thresholds, self.y,
            self.f, side.rows, side.bias, other.rows, other.bias, self.d, side.scale, other.scale, weight,
            self.noise, self.scale_shape, by_user, prior.precision, prior.coefficients @ prior.precision,
            side.columns.values, self.sweeps, self.seed, side.mean, side.left,
        )  # fmt: skip

    def _share(self, work: Int, kernel: Callable[..., None], *args: Any) -> None:
        """Run a kernel on all work, each thread on every n-th piece."""
        if self.threads == 1 or len(self.users) < 20_000:
            kernel(work, *args)
            return
        with ThreadPoolExecutor(self.threads) as pool:
            for done in [pool.submit(kernel, work[k :: self.threads].copy(), *args) for k in range(self.threads)]:
                done.result()
