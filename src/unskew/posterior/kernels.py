"""Compute what a sweep does for every rating and row. Whatever is random is handed in, so threads change no bit."""

import math

import numpy as np
from numpy.typing import NDArray

from unskew.compiled import njit

Float = NDArray[np.float64]
Float32 = NDArray[np.float32]
Int = NDArray[np.int64]

# Without "nnan" and "ninf": the code compares numbers that may be infinite.
MATH = {"contract", "reassoc", "nsz", "arcp"}
PIECE = 4096
BEYOND = 0.5
"""How far a drawn row lies beyond its conditional mean, seen from the row before, as a share of their distance."""
FRESH = math.sqrt(1 - BEYOND**2)

GRID = 128
"""Points a unit at which `normal_cdf` is known."""
GRID_END = 37
BELOW = np.array([0.5 * math.erfc(k / GRID / math.sqrt(2)) for k in range(GRID_END * GRID + 1)])
DENSITY = np.exp(-((np.arange(len(BELOW)) / GRID) ** 2) / 2) / math.sqrt(2 * math.pi)


@njit(fastmath=MATH, cache=True, nogil=True)
def normal_cdf(x: float) -> float:
    """Return P(N(0, 1) <= x), precise in the lower tail: to 1e-12, by Taylor's series around the next known point."""
    t = min(abs(x), GRID_END)
    k = int(t * GRID + 0.5)
    at, a = k / GRID, (k / GRID) ** 2
    h = at - t
    rest = (a * (a - 6) + 3) / 120 + h * at * (a * (a - 10) + 15) / 720
    series = h * (1 + h * (at / 2 + h * ((a - 1) / 6 + h * (at * (a - 3) / 24 + h * rest))))
    below: float = BELOW[k] + DENSITY[k] * series
    return below if x < 0 else 1 - below


@njit(fastmath=MATH, cache=True, nogil=True)
def normal_quantile(p: float) -> float:
    """Return the inverse of `normal_cdf` to 1e-7: Wichura's PPND7 of algorithm AS 241 (Applied Statistics 37, 1988)."""
    q = p - 0.5
    if abs(q) <= 0.425:
        r = 0.180625 - q * q
        a = ((59.109374720 * r + 159.29113202) * r + 50.434271938) * r + 3.3871327179
        return q * a / (((67.187563600 * r + 78.757757664) * r + 17.895169469) * r + 1.0)
    r = math.sqrt(-math.log(max(min(p, 1.0 - p), 1e-300)))
    if r <= 5.0:
        r -= 1.6
        a = ((0.17023821103 * r + 1.3067284816) * r + 2.7568153900) * r + 1.4234372777
        x = a / ((0.12021132975 * r + 0.73700164250) * r + 1.0)
    else:
        r -= 5.0
        a = ((0.017337203997 * r + 0.42868294337) * r + 3.0812263860) * r + 6.6579051150
        x = a / ((0.012258202635 * r + 0.24197894225) * r + 1.0)
    return -x if q < 0 else x


@njit(fastmath=MATH, cache=True, nogil=True)
def truncate_normals(low: Float, high: Float, u: Float) -> None:
    """Turn u into the u-quantiles of N(0, 1) between low and high; upper tails are reflected, where digits are kept."""
    for k in range(len(u)):  # a loop that the compiler turns into vectors
        flip = low[k] > 0.0
        below, above = normal_cdf(-high[k] if flip else low[k]), normal_cdf(-low[k] if flip else high[k])
        u[k] = below + (1.0 - u[k] if flip else u[k]) * (above - below)
    for k in range(len(u)):
        x = normal_quantile(u[k])
        u[k] = min(max(-x if low[k] > 0.0 else x, low[k]), high[k])


@njit(fastmath=MATH, cache=True, nogil=True)
def score_pieces(
    pieces: Int, users: Int, items: Int, levels: Int, u: Float, v: Float, s: Float, t: Float, old: Float,
    new: Float, f: Float, out: Float,
) -> None:  # fmt: skip
    """Compute f of every rating, and by level the log-likelihood gained by new thresholds: odd, even, both.

    The logarithm of a product is taken only before it could leave the range of numbers.
    """
    n_levels, d = len(old) - 1, u.shape[1] - 1
    below = np.empty((4, PIECE))
    for piece in pieces:
        product, start, end = np.ones((n_levels, 3)), piece * PIECE, min((piece + 1) * PIECE, len(users))
        for k in range(start, end):
            a, b = users[k], items[k]
            x = u[a, d] + v[b, d]
            for j in range(d):
                x += u[a, j] * v[b, j]
            f[k] = x
        for k in range(start, end):
            scale, level, x = 1.0 / (s[users[k]] * t[items[k]]), levels[k], f[k]
            scale = -scale if old[level] > x else scale  # an upper tail is reflected, where digits are kept
            below[0, k - start], below[1, k - start] = (old[level] - x) * scale, (new[level] - x) * scale
            below[2, k - start], below[3, k - start] = (old[level + 1] - x) * scale, (new[level + 1] - x) * scale
        for k in range(end - start):  # a loop that the compiler turns into vectors
            low, low_new = normal_cdf(below[0, k]), normal_cdf(below[1, k])
            high, high_new = normal_cdf(below[2, k]), normal_cdf(below[3, k])
            before = 1.0 / max(abs(high - low), 1e-100)
            below[0, k] = max(abs(high_new - low), 1e-100) * before
            below[1, k] = max(abs(high - low_new), 1e-100) * before
            below[2, k] = max(abs(high_new - low_new), 1e-100) * before
        for k in range(start, end):
            level, odd = levels[k], levels[k] % 2
            product[level, odd] *= below[0, k - start]
            product[level, 1 - odd] *= below[1, k - start]
            product[level, 2] *= below[2, k - start]
            for j in range(3):
                if not 1e-100 < product[level, j] < 1e100:
                    out[piece, level, j] += math.log(product[level, j])
                    product[level, j] = 1.0
        for level in range(n_levels):
            for j in range(3):
                out[piece, level, j] += math.log(product[level, j])


@njit(fastmath=MATH, cache=True, nogil=True)
def quadratic(a: Float, x: Float, n: int) -> float:
    """Return x'a x, at least 0; a is read up to its diagonal."""
    total = 0.0
    for i in range(n):
        half = 0.5 * a[i, i] * x[i]
        for j in range(i):
            half += a[i, j] * x[j]
        total += 2.0 * x[i] * half
    return max(total, 0.0)


@njit(fastmath=MATH, cache=True, nogil=True)
def draw_row(a: Float, two: Float, b: Float, noise: Float, p: int) -> None:
    """Turn b into A^-1 b and the standard normal `noise` into a draw of N(0, A^-1); a loses A to L and 1 / D.

    A = L'D L, L unit lower, its last two rows at a time, of a length that the compiler turns into vectors: what lies
    above the diagonal is of no meaning.
    """
    for j in range(p - 1, 0, -2):
        k = j - 1
        below, ratio = 1.0 / a[j, j], a[j, k] / a[j, j]
        own = 1.0 / (a[k, k] - ratio * a[j, k])
        for i in range((k | 3) + 1):
            two[0, i], two[1, i] = a[j, i], a[k, i] - ratio * a[j, i]
            two[2, i], two[3, i] = below * two[0, i], own * two[1, i]
        b[k] -= ratio * b[j]
        for i in range(k):
            b[i] -= two[2, i] * b[j] + two[3, i] * b[k]
        for i in range(k):
            x, y = two[0, i], two[1, i]
            for h in range((i | 3) + 1):
                a[i, h] -= x * two[2, h] + y * two[3, h]
        for i in range(k):
            a[j, i], a[k, i] = two[2, i], two[3, i]
        a[j, k], a[j, j], a[k, k] = ratio, below, own
    if p % 2:
        a[0, 0] = 1.0 / a[0, 0]
    for i in range(p):
        total, free = b[i] * a[i, i], noise[i] * math.sqrt(a[i, i])
        for j in range(i):
            total -= a[i, j] * b[j]
            free -= a[i, j] * noise[j]
        b[i], noise[i] = total, free


@njit(fastmath=MATH, cache=True, nogil=True)
def sample_rows(
    rows: Int, pointer: Int, place: Int, other: Int, levels: Int, thresholds: Float, y: Float, f: Float, x: Float,
    z: Float, scale: Float, weight: Float, shape: float, precision: Float, shift: Float, known: Float,
    uniforms: Float, gammas: Float, normals: Float, mean: Float32, left: Float, width: tuple[int, ...],
) -> None:  # fmt: skip
    """Draw, for each row of one side: latent ratings (of users, by uniforms), its scale, the row given the other side.

    Rows are overrelaxed: a draw keeps its distribution and leans away from the last one, so that errors of means cancel
    (Adler, Physical Review D 23, 1981). `mean` becomes the conditional means.
    Rating `place[k]` of the log is the k-th of this side. The last column of rows is the bias; weight is one over the
    scale of the other side. `a` becomes the square of (z, 1, y - bias), four ratings at a time, so that its last row
    holds what pulls the row and the quadratic form of (x, -1) the residuals: left[r], in units of their variance.
    Uniforms are used up. `width` has an entry for each column of rows: how many loops run over is known when compiled.
    """
    p, n_known = len(width), known.shape[1]
    d, q = p - 1, (p | 3) + 1
    a, root, block, two = np.zeros((q, q)), np.zeros((q, q)), np.zeros((4, q)), np.zeros((4, q))
    b, drawn = np.empty(q), np.empty(p)
    most = 0
    for r in rows:
        most = max(most, pointer[r + 1] - pointer[r])
    low, high = np.empty(most), np.empty(most)
    for r in rows:
        start, end = pointer[r], pointer[r + 1]
        if len(uniforms) > 0:  # ratings lie by user: place[k] = k
            n = end - start
            for k in range(n):
                inverse, level, x0 = weight[other[start + k]] / scale[r], levels[start + k], f[start + k]
                low[k], high[k] = (thresholds[level] - x0) * inverse, (thresholds[level + 1] - x0) * inverse
            truncate_normals(low[:n], high[:n], uniforms[start:end])
            for k in range(start, end):
                y[k] = f[k] + uniforms[k] * scale[r] / weight[other[k]]
        for k in range(end - start):  # by itself, as it waits for memory
            low[k] = y[place[start + k]]
        for i in range(q):
            for j in range(q):
                a[i, j] = 0.0
        for k in range(start, end, 4):
            for h in range(4):
                at = min(k + h, end - 1)
                o = other[at]
                w = weight[o] if k + h < end else 0.0
                for j in range(d):
                    block[h, j] = w * z[o, j]
                block[h, d], block[h, p] = w, w * (low[at - start] - z[o, d])
            for i in range(0, p + 1, 2):
                x0, x1, x2, x3 = block[0, i], block[1, i], block[2, i], block[3, i]
                t0, t1, t2, t3 = block[0, i + 1], block[1, i + 1], block[2, i + 1], block[3, i + 1]
                for j in range((i | 3) + 1):
                    z0, z1, z2, z3 = block[0, j], block[1, j], block[2, j], block[3, j]
                    a[i, j] += x0 * z0 + x1 * z1 + x2 * z2 + x3 * z3
                    a[i + 1, j] += t0 * z0 + t1 * z1 + t2 * z2 + t3 * z3
        for j in range(p):
            b[j], drawn[j] = x[r, j], normal_quantile(normals[r, j])
        b[p] = -1.0
        scale[r] = math.sqrt((shape + quadratic(a, b, p + 1) / 2.0) / gammas[r])
        inverse = 1.0 / scale[r] ** 2
        for i in range(p):
            b[i] = a[p, i] * inverse
            for j in range(i + 1):
                root[i, j] = a[i, j] * inverse + precision[i, j]
        for c in range(0, n_known, 4):
            c1, c2, c3 = min(c + 1, n_known - 1), min(c + 2, n_known - 1), min(c + 3, n_known - 1)
            k0, k1 = known[r, c], known[r, c1] if c1 == c + 1 else 0.0
            k2, k3 = known[r, c2] if c2 == c + 2 else 0.0, known[r, c3] if c3 == c + 3 else 0.0
            for j in range(p):
                b[j] += k0 * shift[c, j] + k1 * shift[c1, j] + k2 * shift[c2, j] + k3 * shift[c3, j]
        draw_row(root, two, b, drawn, p)
        for j in range(p):
            mean[r, j] = b[j]
            b[j] += FRESH * drawn[j] - BEYOND * (x[r, j] - b[j])
            x[r, j] = b[j]
        left[r] = inverse * quadratic(a, b, p + 1)


@njit(fastmath=MATH, cache=True, nogil=True)
def find_root(a: Float) -> None:
    """Turn a into its lower root, A = R R'; what is above the diagonal stays."""
    for i in range(len(a)):
        for j in range(i + 1):
            total = a[i, j]
            for k in range(j):
                total -= a[i, k] * a[j, k]
            a[i, j] = total / a[j, j] if j < i else math.sqrt(total)


@njit(fastmath=MATH, cache=True, nogil=True)
def solve_root(root: Float, b: Float, transposed: bool) -> None:
    """Turn b into R^-1 b or R'^-1 b of a lower root R."""
    n = len(root)
    for step in range(n):
        i = n - 1 - step if transposed else step
        for other in range(step):
            k = n - 1 - other if transposed else other
            factor = root[k, i] if transposed else root[i, k]
            for j in range(b.shape[1]):
                b[i, j] -= factor * b[k, j]
        for j in range(b.shape[1]):
            b[i, j] /= root[i, i]


@njit(fastmath=MATH, cache=True, nogil=True)
def draw_prior(
    fx: Float, xx: Float, ff: Float, groups: Int, w: float, rate: float, bartlett: Float, chi: Float, normals: Float,
    gammas: Float, precision: Float, coefficients: Float, column_precision: Float,
) -> None:  # fmt: skip
    """Draw L, B and l of a prior (`RowPrior.draw`) into the last three, given normals and gammas of rate 1."""
    (c, p), root, half, rates = fx.shape, ff.copy(), fx.copy(), np.full(len(gammas), rate)
    for k in range(p):
        bartlett[k, k:] = 0.0
        bartlett[k, k] = math.sqrt(2.0 * chi[k])
    for k in range(c):
        root[k, k] += column_precision[k]
    find_root(root)
    solve_root(root, half, False)
    scale = xx + np.eye(p) / w - half.T @ half
    find_root(scale)
    solve_root(scale, bartlett, True)  # any root M of the scale, M M' = scale, will do: this one is C'^-1
    precision[:] = bartlett @ bartlett.T
    scale[:] = precision
    find_root(scale)
    solve_root(scale, normals, True)
    half += normals.T
    solve_root(root, half, True)
    coefficients[:] = half
    weighted = half @ precision
    for k in range(c):
        rates[groups[k]] += (weighted[k] * half[k]).sum() / 2
    for k in range(c):
        column_precision[k] = max(gammas[groups[k]] / rates[groups[k]], 1e-12)


@njit(fastmath=MATH, cache=True, nogil=True)
def score_pairs(users: Int, items: Int, u: Float32, v: Float32) -> Float:
    """Return u . v for pairs."""
    out = np.empty(len(users))
    for k in range(len(users)):
        total = 0.0
        for j in range(u.shape[1]):
            total += u[users[k], j] * v[items[k], j]
        out[k] = total
    return out


@njit(cache=True, nogil=True)
def fold_row(
    items: Int, levels: Int, rows: Float, weights: Float, thresholds: Float, precision: Float, coefficients: Float,
    known: Float, shape: float, burn: int, uniforms: Float, gammas: Float, normals: Float, width: tuple[int, ...],
) -> tuple[Float, Float]:  # fmt: skip
    """Return, for the item rows of each kept sweep, the mean of a new row's conditional means and of its log-scale.

    The first `burn` of its own sweeps are left out. It stands in the file of what it calls, as Numba's cache knows of
    changes in one file only.
    """
    n_shots, p, n, n_sweeps = rows.shape[0], rows.shape[2], len(items), uniforms.shape[1]
    d, place = p - 1, np.arange(n)
    pointer, one = np.array([0, n]), np.zeros(1, np.int64)
    means, scales = np.zeros((n_shots, p)), np.zeros(n_shots)
    z, weight, f, y = np.empty((n, p)), np.empty(n), np.empty(n), np.empty(n)
    scale, left, mean = np.ones(1), np.zeros(1), np.zeros((1, p), np.float32)
    for k in range(n_shots):
        for j in range(n):
            z[j], weight[j] = rows[k, items[j]], weights[k, items[j]]
        shift, x = coefficients[k] @ precision[k], known @ coefficients[k]
        scale[0] = 1.0
        for sweep in range(n_sweeps):
            for j in range(n):
                f[j] = z[j, d] + x[0, d]
                for h in range(d):
                    f[j] += z[j, h] * x[0, h]
            sample_rows(
                one, pointer, place, place, levels, thresholds[k], y, f, x, z, scale, weight, shape, precision[k],
                shift, known, uniforms[k, sweep], gammas[k, sweep], normals[k, sweep], mean, left, width,
            )  # fmt: skip
            if sweep >= burn:
                means[k] += mean[0] / (n_sweeps - burn)
                scales[k] += np.log(scale[0]) / (n_sweeps - burn)
    return means, scales
