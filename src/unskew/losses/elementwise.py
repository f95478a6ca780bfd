"""Compiled functions of single numbers, and the errors of predictions with their slopes, for float32 and float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numba
import numpy as np
from numba import types
from numba.extending import overload
from numpy.typing import NDArray

Array = NDArray[Any]
F = np.float32
LARGEST_LOGIT = F(13.8)  # of logits inside errors: doubly robust risks are unbounded below in the logit
WIDE = {"reassoc", "contract", "nsz", "arcp"}  # lets compiled loops use the whole width of the processor
kernel: Callable[..., Any] = numba.njit(cache=True, fastmath=WIDE, error_model="numpy")

_POWERS = (2.0 ** np.arange(-126, 128)).astype(F)
_PER_LOG2, _LOG2, _LOG2_REST = F(1 / math.log(2)), F(0.693359375), F(math.log(2) - 0.693359375)
_C5, _C4, _C3, _C2, _C1, _C0 = (
    F(c) for c in (1.98756915e-4, 1.39819995e-3, 8.33345191e-3, 4.16657959e-2, 1.66666665e-1, 5.00000012e-1)
)
ZERO, HALF, ONE, TWO, _MOST = F(0), F(0.5), F(1), F(2), F(87)
_ODD = tuple(F(1 / n) for n in (13, 11, 9, 7, 5, 3))
_S13, _S11, _S9, _S7, _S5, _S3 = _ODD


def exp(x: Any) -> Any:
    """e^x inside kernels: by Cephes' polynomial for float32, 2^k e^r with r = x - k log 2, exact for float64."""
    raise TypeError("unskew.losses.elementwise.exp is for compiled code.")


@overload(exp, inline="always")
def _exp(x: Any) -> Any:
    def exact(x: Any) -> Any:
        return math.exp(x)

    def polynomial(x: Any) -> Any:
        bounded = min(max(x, -_MOST), _MOST)
        k = np.floor(bounded * _PER_LOG2 + HALF)
        r = bounded - k * _LOG2 - k * _LOG2_REST
        found = (((((_C5 * r + _C4) * r + _C3) * r + _C2) * r + _C1) * r + _C0) * r * r + r + ONE
        place: Any = np.int32(k) + np.int32(126)  # of NaN anywhere: without bounds the table would be left
        return found * _POWERS[min(max(place, 0), 253)]

    return exact if x == types.float64 else polynomial


def log_one_plus(e: Any) -> Any:
    """log(1 + e) of e in [0, 1] inside kernels: for float32 by the series of 2 artanh(z), z = e / (2 + e)."""
    raise TypeError("unskew.losses.elementwise.log_one_plus is for compiled code.")


@overload(log_one_plus, inline="always")
def _log_one_plus(e: Any) -> Any:
    def exact(e: Any) -> Any:
        return math.log1p(e)

    def series(e: Any) -> Any:
        z = e / (TWO + e)
        q = z * z
        return TWO * z * (((((((q * _S13 + _S11) * q + _S9) * q + _S7) * q + _S5) * q) + _S3) * q + ONE)

    return exact if e == types.float64 else series


@kernel
def sigmoid(s: Any) -> Any:
    """1 / (1 + e^-s), number by number."""
    p = np.empty_like(s)
    for n in range(len(s)):
        p[n] = ONE / (ONE + exp(-s[n]))
    return p


@kernel
def _log_error(s: Any, y: Any) -> Any:
    value, slope = np.empty_like(s), np.empty_like(s)
    for n in range(len(s)):
        t = min(max(s[n], -LARGEST_LOGIT), LARGEST_LOGIT)
        e = exp(-abs(t))
        value[n] = log_one_plus(e) + (t if t > ZERO else ZERO) - y[n] * t
        slope[n] = (ONE if t > ZERO else e) / (ONE + e) - y[n] if t == s[n] else ZERO
    return value, slope


@kernel
def _squared_error(s: Any, y: Any) -> Any:
    value, slope = np.empty_like(s), np.empty_like(s)
    for n in range(len(s)):
        t = min(max(s[n], -LARGEST_LOGIT), LARGEST_LOGIT)
        r = ONE / (ONE + exp(-t))
        value[n] = r * r + y[n] * (ONE - TWO * r)
        slope[n] = TWO * r * (ONE - r) * (r - y[n]) if t == s[n] else ZERO
    return value, slope


def expit(x: Array) -> Array:
    """1 / (1 + e^-x) in plain NumPy, without overflow; SciPy's takes a quarter of a second to import."""
    return np.exp(-np.logaddexp(0, -np.asarray(x)))  # type: ignore[no-any-return]


class Error(NamedTuple):
    """An error e(s, y) of the logit s against a label y in [0, 1], linear in the label: a soft label is an expectation.

    `of(s, y)` gives e and d e / d s, `label_effect(s)` is e(s, 1) - e(s, 0). Logits enter within 13.8 of 0.
    """

    of: Callable[[Array, Array], tuple[Array, Array]]
    label_effect: Callable[[Array], Array]


def _bounded(s: Array) -> Array:
    return np.minimum(np.maximum(s, -LARGEST_LOGIT), LARGEST_LOGIT)


ERRORS = {
    # cross-entropy, softplus(s) - y s
    "log": Error(_log_error, lambda s: -_bounded(s)),
    # squared error in its expected form, y (1 - r)^2 + (1 - y) r^2 = (r - y)^2 + y (1 - y): the plug-in (r - y)^2
    # leaves y (1 - y) out and makes doubly robust risks biased even under perfect imputation
    "squared": Error(_squared_error, lambda s: 1 - 2 * sigmoid(_bounded(s))),
}
