"""Draw the prior of the rows of one side: rows X ~ N(F B, L^-1), every shrinkage learned."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from unskew.compiled import njit
from unskew.errors import DataError
from unskew.posterior.draws import MATH, Float, Int

CHUNK = 256


@dataclass(frozen=True)
class Columns:
    """Hold what is known of the rows of one side beforehand: an intercept, features, who saw what.

    Columns of one group share one precision; `left_out` says in sentences what could not be used.
    """

    values: Float
    groups: Int
    centre: Float
    scale: Float
    n_features: int = 0
    left_out: tuple[str, ...] = ()

    @staticmethod
    def of(n: int, features: Float | None = None, *blocks: tuple[str, Float, bool]) -> Columns:
        """Join features and blocks (name, values, one shared precision?) behind an intercept, standardised."""
        parts, groups, left_out = [np.ones((n, 1))], [0], []
        centres, scales = [np.zeros(1)], [np.ones(1)]
        given = [] if features is None else [("features", np.asarray(features, float), False)]
        for name, values, shared in (*given, *blocks):
            if values.shape[1] == 0:
                continue
            if values.shape[0] != n:
                raise DataError(f"{name} have {values.shape[0]:,} rows, where {n:,} are needed; give one row for each.")
            bad = np.argwhere(~np.isfinite(values))
            if len(bad):
                raise DataError(
                    f"{name} hold {values[tuple(bad[0])]} in row {bad[0][0]}, column {bad[0][1]}; "
                    "give finite numbers, or a column of its own for what is missing."
                )
            size = np.maximum(np.abs(values).max(axis=0), 1e-300)
            values = values / size  # squares of 1e300 stay finite
            centre, spread = values.mean(axis=0), values.std(axis=0)
            flat = spread <= 1e-12
            if flat.any():
                left_out.append(f"{int(flat.sum())} of {len(flat)} columns of {name} are constant: they teach nothing.")
            spread[flat] = np.inf  # a constant column becomes 0 in every row, for new rows as well
            parts.append((values - centre) / spread)
            centres.append(centre * size)
            scales.append(spread * size)
            start = groups[-1] + 1
            groups += [start] * values.shape[1] if shared else range(start, start + values.shape[1])
        return Columns(
            np.ascontiguousarray(np.concatenate(parts, axis=1)),
            np.array(groups),
            np.concatenate(centres),
            np.concatenate(scales),
            0 if features is None else given[0][1].shape[1],
            tuple(left_out),
        )

    def of_rows(self, n: int) -> Columns:
        """Return what the columns are, with the values of the first n rows alone."""
        return replace(self, values=self.values[:n])

    def of_new(self, features: Float | None = None) -> Float:
        """Return the columns of a row that has no rating, with these features or those of the average row."""
        known, n = -self.centre / self.scale, self.n_features
        known[0] = 1.0
        if features is not None and len(features) != n:
            raise DataError(f"{len(features)} features are given, where the model was fitted with {n}; give as many.")
        known[1 : 1 + n] = 0.0 if features is None else known[1 : 1 + n] + features / self.scale[1 : 1 + n]
        return known


@dataclass
class RowPrior:
    """Hold the precision L of rows, the coefficients B of their columns, and the precision of each coefficient row."""

    precision: Float
    coefficients: Float
    column_precision: Float

    @staticmethod
    def start(width: int, columns: int) -> RowPrior:
        """Return the point from which sampling starts."""
        return RowPrior(10.0 * np.eye(width), np.zeros((columns, width)), np.ones(columns))

    def draw(
        self,
        rng: np.random.Generator,
        n: int,
        gram: Float,
        known: Float,
        groups: Int,
        w: float,
        shape: float,
        df: float,
    ) -> None:
        """Draw L, B and the columns' precisions in turn, given rows by `gram` = [F X]'X and `known` = F'F.

        L ~ Wishart(df, w I), row j of B ~ N(0, (l_j L)^-1), l ~ Gamma(shape, shape), one a group. L is drawn with B
        integrated out: L | X ~ Wishart(df + n, (I / w + X'X - X'F A^-1 F'X)^-1), A = F'F + diag(l).
        """
        c, p = known.shape[0], gram.shape[1]
        lower, root = rng.standard_normal((p, p)), np.sqrt(rng.chisquare(df + n - np.arange(p)))
        for i in range(p):
            lower[i, i], lower[i, i + 1 :] = root[i], 0.0
        noise = rng.standard_normal((c, p))
        self.precision, self.coefficients = matrix_normal_wishart(known, self.column_precision, gram, w, lower, noise)
        size = ((self.coefficients @ self.precision) * self.coefficients).sum(axis=1)
        members = np.bincount(groups)
        drawn = rng.gamma(shape + members * p / 2, 1 / (shape + np.bincount(groups, size) / 2))
        self.column_precision = np.maximum(drawn, 1e-12)[groups]


@njit(fastmath=MATH, cache=True, nogil=True)
def cholesky(a: Float) -> Float:
    """Return the lower root of a positive matrix, a = root root'."""
    n = len(a)
    root = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1):
            total = a[i, j]
            for h in range(j):
                total -= root[i, h] * root[j, h]
            root[i, j] = math.sqrt(max(total, 1e-300)) if i == j else total / root[j, j]
    return root


@njit(fastmath=MATH, cache=True, nogil=True)
def solve(root: Float, b: Float, transposed: bool) -> Float:
    """Return root^-1 b, or root'^-1 b."""
    n, m = b.shape
    x = b.copy()
    for step in range(n):
        i = n - 1 - step if transposed else step
        for j in range(m):
            x[i, j] /= root[i, i]
        for h in range(n - 1 - step):
            k = h if transposed else n - 1 - h
            factor = root[i, k] if transposed else root[k, i]
            for j in range(m):
                x[k, j] -= factor * x[i, j]
    return x


@njit(fastmath=MATH, cache=True, nogil=True)
def matrix_normal_wishart(
    known: Float, weights: Float, gram: Float, w: float, bartlett: Float, noise: Float
) -> tuple[Float, Float]:
    """Turn standard draws into L (by Bartlett's decomposition) and B | L of `RowPrior.draw`."""
    c, p = len(known), gram.shape[1]
    a = known.copy()
    for j in range(c):
        a[j, j] += weights[j]
    root = cholesky(a)
    fx, inner, turned = np.empty((c, p)), np.empty((p, p)), np.empty((p, c))
    for i in range(p):
        for h in range(c):
            fx[h, i], turned[i, h] = gram[h, i], noise[h, i]
    half = solve(root, fx, False)
    for i in range(p):
        for j in range(p):
            inner[i, j] = gram[c + i, j] + (1.0 / w if i == j else 0.0)
            for h in range(c):
                inner[i, j] -= half[h, i] * half[h, j]
    # Any root M of the scale, M M' = scale, will do: with scale^-1 = C C' it is C'^-1.
    factor = solve(cholesky(inner), bartlett, True)
    precision = np.zeros((p, p))
    for i in range(p):
        for j in range(p):
            for h in range(p):
                precision[i, j] += factor[i, h] * factor[j, h]
    spread = solve(cholesky(precision), turned, True)
    for i in range(p):
        for h in range(c):
            half[h, i] += spread[i, h]
    return precision, solve(root, half, True)


@njit(fastmath=MATH, cache=True, nogil=True)
def gram_parts(chunks: Int, known: Float, rows: Float, bias: Float, d: int, out: Float) -> None:
    """Add up [F X]'X by fixed chunks of rows, so that threads change no bit; the last column of X is the bias."""
    c = known.shape[1]
    for chunk in chunks:
        for r in range(chunk * CHUNK, min((chunk + 1) * CHUNK, len(rows))):
            for i in range(c + d + 1):
                x = known[r, i] if i < c else (rows[r, i - c] if i < c + d else bias[r])
                if x != 0.0:
                    for j in range(d):
                        out[chunk, i, j] += x * rows[r, j]
                    out[chunk, i, d] += x * bias[r]
