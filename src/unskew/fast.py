"""exp, sigmoid and softplus in single precision that compiled loops can run at the whole width of the processor."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

WIDE = {"reassoc", "contract", "nsz", "arcp"}  # what a loop may do to be vectorised; infinities and NaN stay theirs
_POWERS_OF_TWO = (2.0 ** np.arange(-126, 128)).astype(np.float32)
_MOST = np.float32(87.0)  # exp of anything beyond leaves the normal numbers
_PER_LOG_TWO = np.float32(1 / np.log(2))
# log 2 in two parts, the first exact in few bits, so that x - k log 2 keeps its last ones.
_LOG_TWO, _REST_OF_LOG_TWO = np.float32(0.693359375), np.float32(np.log(2) - 0.693359375)
# The best polynomial for (exp(r) - 1 - r) / r^2 on |r| <= log(2) / 2, highest power first (Moshier, Cephes, expf).
_C5, _C4, _C3, _C2, _C1, _C0 = (
    np.float32(c)
    for c in (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
)
_ODD = tuple(np.float32(1 / n) for n in range(1, 14, 2))
_ZERO, _HALF, _ONE, _TWO = (np.float32(c) for c in (0.0, 0.5, 1.0, 2.0))


@numba.njit(cache=True, fastmath=WIDE, error_model="numpy", inline="always")
def exp(x: Any) -> Any:
    """exp(x) = 2^k exp(r), r = x - k log 2, to the last bit or two; x is held within +-87 first. That of NaN is NaN."""
    x = min(max(x, -_MOST), _MOST)
    k = np.floor(x * _PER_LOG_TWO + _HALF)
    power = np.int32(k if k == k else _ZERO)  # NaN is no place in the table
    r = x - k * _LOG_TWO - k * _REST_OF_LOG_TWO
    tail = ((((_C5 * r + _C4) * r + _C3) * r + _C2) * r + _C1) * r + _C0
    return (tail * r * r + r + _ONE) * _POWERS_OF_TWO[power + np.int32(126)]


@numba.njit(cache=True, fastmath=WIDE, error_model="numpy", inline="always")
def sigmoid(s: Any) -> Any:
    """1 / (1 + exp(-s))."""
    return _ONE / (_ONE + exp(-s))


@numba.njit(cache=True, fastmath=WIDE, error_model="numpy", inline="always")
def softplus(s: Any) -> Any:
    """log(1 + exp(s)) = max(s, 0) + log(1 + e), e = exp(-|s|).

    log(1 + e) = 2 artanh(z), z = e / (2 + e) <= 1/3, by its series up to z^13.
    """
    e = exp(-abs(s))
    z = e / (_TWO + e)
    q = z * z
    series = (((((_ODD[6] * q + _ODD[5]) * q + _ODD[4]) * q + _ODD[3]) * q + _ODD[2]) * q + _ODD[1]) * q + _ONE
    return max(s, _ZERO) + _TWO * z * series
