"""What mixtures of Platt maps say, compiled."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from unskew.fast import WIDE, sigmoid

LARGEST_LOGIT = 30.0
_BOUND = np.float32(LARGEST_LOGIT)
# The cache of these kernels holds those of fast.py too, and is renewed when this file changes: change both.


@numba.njit(cache=True, fastmath=WIDE, error_model="numpy")
def mixed(logits: Any, rows: Any, weights: Any, slopes: Any, intercepts: Any) -> Any:
    """sum_k w_k sigmoid(a_k s + b_k) of every example, by its row of each table; a table of one row serves all."""
    w, a, b = np.int64(len(weights) > 1), np.int64(len(slopes) > 1), np.int64(len(intercepts) > 1)
    out, said = np.zeros(len(logits), np.float32), np.empty(len(logits), np.float32)
    for k in range(weights.shape[1]):
        for n in range(len(logits)):
            s = min(max(logits[n], -_BOUND), _BOUND)
            said[n] = slopes[a * rows[n], k] * s + intercepts[b * rows[n], k]
        for n in range(len(logits)):
            said[n] = sigmoid(said[n])
        for n in range(len(logits)):
            out[n] += weights[w * rows[n], k] * said[n]
    return out


@numba.njit(cache=True, error_model="numpy")
def mean_said(logits: Any, rows: Any, shares: Any, weights: Any, slopes: Any, intercepts: Any, shift: Any) -> Any:
    """The same in double precision with every intercept shifted, averaged over examples by their shares."""
    w, a, b = np.int64(len(weights) > 1), np.int64(len(slopes) > 1), np.int64(len(intercepts) > 1)
    total = 0.0
    for n in range(len(logits)):
        said = 0.0
        for k in range(weights.shape[1]):
            z = slopes[a * rows[n], k] * logits[n] + intercepts[b * rows[n], k] + shift
            said += weights[w * rows[n], k] / (1 + np.exp(-z))
        total += shares[n] * said
    return total
