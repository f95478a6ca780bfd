"""Draw random numbers that depend on a key and a counter alone, so that neither threads nor order change a bit."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy import uint64
from numpy.typing import NDArray

from unskew.compiled import njit

Float = NDArray[np.float64]
Float32 = NDArray[np.float32]
Int = NDArray[np.int64]

# Without "nnan" and "ninf": the code compares numbers that may be infinite.
MATH = {"contract", "reassoc", "nsz", "arcp"}
LOW = np.uint64(0xFFFFFFFF)
SHIFT = np.uint64(32)
LATENT, USERS, ITEMS, USER_SCALES, ITEM_SCALES, HOST, START = range(7)
"""Streams of the counter: no two draws of a sweep share one."""


@njit(cache=True, nogil=True)
def philox(c0: int, c1: int, c2: int, c3: int, seed: int) -> Any:
    """Return 128 random bits for a counter and a key: Philox 4x32-10 (Salmon et al., SC 2011)."""
    a, b, c, d = uint64(c0), uint64(c1), uint64(c2), uint64(c3)
    k0, k1 = uint64(seed) & LOW, uint64(seed) >> SHIFT
    for _ in range(10):
        x, y = uint64(0xD2511F53) * a, uint64(0xCD9E8D57) * c
        a, b, c, d = (y >> SHIFT) ^ b ^ k0, y & LOW, (x >> SHIFT) ^ d ^ k1, x & LOW
        k0, k1 = (k0 + uint64(0x9E3779B9)) & LOW, (k1 + uint64(0xBB67AE85)) & LOW
    return a, b, c, d


@njit(cache=True, nogil=True)
def uniform(high: int, low: int) -> float:
    """Turn 64 bits into a number above 0 and below 1."""
    bits = (uint64(high) << uint64(20)) | (uint64(low) >> uint64(12))
    return float(bits) * 2.0**-52 + 2.0**-53


@njit(cache=True, nogil=True)
def normal_cdf(x: float) -> float:
    """Return P(N(0, 1) <= x), precise in the lower tail."""
    return 0.5 * math.erfc(-x * 0.7071067811865476)


@njit(fastmath=MATH, cache=True, nogil=True)
def normal_quantile(p: float) -> float:
    """Return the inverse of `normal_cdf` to 1e-16: Wichura's algorithm AS 241 (Applied Statistics 37, 1988)."""
    q = p - 0.5
    if abs(q) <= 0.425:
        r = 0.180625 - q * q
        a = ((r * 2509.0809287301226727 + 33430.575583588128105) * r + 67265.770927008700853) * r
        a = (((a + 45921.953931549871457) * r + 13731.693765509461125) * r + 1971.5909503065514427) * r
        a = (a + 133.14166789178437745) * r + 3.387132872796366608
        b = ((r * 5226.495278852545925 + 28729.085735721942674) * r + 39307.89580009271061) * r
        b = (((b + 21213.794301586595867) * r + 5394.1960214247511077) * r + 687.1870074920579083) * r
        return q * a / ((b + 42.313330701600911252) * r + 1.0)
    r = math.sqrt(-math.log(p if q < 0 else 1.0 - p))
    if r <= 5.0:
        r -= 1.6
        a = ((r * 7.7454501427834140764e-4 + 0.0227238449892691845833) * r + 0.24178072517745061177) * r
        a = (((a + 1.27045825245236838258) * r + 3.64784832476320460504) * r + 5.7694972214606914055) * r
        a = (a + 4.6303378461565452959) * r + 1.42343711074968357734
        b = ((r * 1.05075007164441684324e-9 + 5.475938084995344946e-4) * r + 0.0151986665636164571966) * r
        b = (((b + 0.14810397642748007459) * r + 0.68976733498510000455) * r + 1.6763848301838038494) * r
        b = (b + 2.05319162663775882187) * r + 1.0
    else:
        r -= 5.0
        a = ((r * 2.01033439929228813265e-7 + 2.71155556874348757815e-5) * r + 0.0012426609473880784386) * r
        a = (((a + 0.026532189526576123093) * r + 0.29656057182850489123) * r + 1.7848265399172913358) * r
        a = (a + 5.4637849111641143699) * r + 6.6579046435011037772
        b = ((r * 2.04426310338993978564e-15 + 1.4215117583164458887e-7) * r + 1.8463183175100546818e-5) * r
        b = (((b + 7.868691311456132591e-4) * r + 0.0148753612908506148525) * r + 0.13692988092273580531) * r
        b = (b + 0.59983220655588793769) * r + 1.0
    return -a / b if q < 0 else a / b


@njit(fastmath=MATH, cache=True, nogil=True)
def truncated_normal(low: float, high: float, u: float) -> float:
    """Return the u-quantile of N(0, 1) between low and high; an upper tail is reflected, where digits are kept."""
    flip = low > 0.0
    if flip:
        low, high, u = -high, -low, 1.0 - u
    if high < -20.0:  # density falls like a Rayleigh's: relative error below 1 / high^2
        x = -math.sqrt(high * high - 2.0 * math.log(u))
    else:
        below = normal_cdf(low)
        x = normal_quantile(max(below + u * (normal_cdf(high) - below), 1e-300))
    x = min(max(x, low), high)
    return -x if flip else x


@njit(fastmath=MATH, cache=True, nogil=True)
def gamma_draw(shape: float, row: int, sweep: int, stream: int, seed: int) -> float:
    """Draw from Gamma(shape, 1), shape above 1/3: Marsaglia and Tsang's squeeze (ACM TOMS 26, 2000)."""
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    for attempt in range(1000):
        b0, b1, b2, b3 = philox(row, attempt, sweep, stream, seed)
        x = normal_quantile(uniform(b0, b1))
        v = (1.0 + c * x) ** 3
        if v > 0.0 and math.log(uniform(b2, b3)) < 0.5 * x * x + d - d * v + d * math.log(v):
            return d * v
    return d


def draw_log_size(rng: np.random.Generator, power: float, up: float, down: float) -> float:
    """Draw x of log-density power x - up e^2x - down e^-2x: rejection below a plateau and two tangents of its sides."""
    z = (power + math.sqrt(power**2 + 16 * up * down)) / (4 * up)
    mode, r = math.log(z) / 2, 1 / math.sqrt(4 * up * z + 4 * down / z)

    def height(x: float) -> float:
        move = math.expm1(2 * x), math.expm1(-2 * x)
        return power * x - up * z * move[0] - down / z * move[1]

    def slope(x: float) -> float:
        return power - 2 * up * z * math.exp(2 * x) + 2 * down / z * math.exp(-2 * x)

    ends = [(height(side), -slope(side) * (1 if side > 0 else -1)) for side in (-r, r)]
    areas = [math.exp(ends[0][0]) / ends[0][1], 2 * r, math.exp(ends[1][0]) / ends[1][1]]
    while True:
        part, u = rng.random() * sum(areas), rng.random()
        if part < areas[1]:
            x, envelope = r * (2 * u - 1), 0.0
        else:
            side = 0 if part < areas[0] + areas[1] else 1
            beyond = -math.log(1 - u) / ends[side][1]
            x, envelope = (r + beyond) * (1 if side else -1), ends[side][0] - ends[side][1] * beyond
        if math.log(1 - rng.random()) < height(x) - envelope:
            return mode + x


def host_rng(seed: int, sweep: int, stream: int) -> np.random.Generator:
    """Return the generator of the few draws made outside of kernels, keyed alike."""
    return np.random.Generator(np.random.Philox(key=[seed, stream], counter=[0, 0, sweep, 0]))
