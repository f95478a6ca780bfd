"""Compiled kernels for mixtures of Platt maps: what they say, and how that changes with maps and mixture.

For an example of user u with the raw logit s, mixed = sum_k beta_uk sigmoid(a_k s + b_k).
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from unskew.calibration.platt import LARGEST_LOGIT
from unskew.fast import WIDE, sigmoid

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
def noisy_assignment(scores: Any, uniform: Any, tau: Any) -> Any:
    """beta_u = softmax((scores_u + g_u) / tau), with Gumbel noise g = -log(-log U)."""
    beta = np.empty_like(scores)
    for u in range(len(scores)):
        largest = np.float32(-np.inf)
        for k in range(scores.shape[1]):
            inside = min(max(uniform[u, k], np.float32(1e-10)), np.float32(1 - 1e-7))
            beta[u, k] = (scores[u, k] - np.log(-np.log(inside))) / tau
            largest = max(largest, beta[u, k])
        total = np.float32(0.0)
        for k in range(scores.shape[1]):
            beta[u, k] = np.exp(beta[u, k] - largest)
            total += beta[u, k]
        beta[u] /= total
    return beta


@numba.njit(cache=True, fastmath=WIDE, error_model="numpy")
def said_and_mixed(logits: Any, users: Any, beta: Any, slopes: Any, intercepts: Any) -> Any:
    """What each of K maps says of each example, one row a map, and the mixture of it by the rows of beta."""
    said, total = np.empty((len(slopes), len(logits)), np.float32), np.zeros(len(logits), np.float32)
    for k in range(len(slopes)):
        row, a, b = said[k], slopes[k], intercepts[k]
        for n in range(len(logits)):
            row[n] = sigmoid(a * logits[n] + b)
        for n in range(len(logits)):
            total[n] += beta[users[n], k] * row[n]
    return said, total


@numba.njit(cache=True, error_model="numpy")
def cross_entropy_change(total: Any, labels: Any, weights: Any) -> Any:
    """d / d mixed of -sum w [y log mixed + (1 - y) log(1 - mixed)], mixed held away from 0 and 1."""
    change = np.zeros_like(total)
    for n in range(len(total)):
        if np.float32(1e-7) <= total[n] <= np.float32(1 - 1e-7):
            change[n] = weights[n] * ((1 - labels[n]) / (1 - total[n]) - labels[n] / total[n])
    return change


@numba.njit(cache=True, fastmath=WIDE, error_model="numpy")
def gradients(change: Any, said: Any, logits: Any, users: Any, beta: Any, slopes: Any, tau: Any) -> Any:
    """d loss / d scores and d loss / d (log a_k, b_k), from `change` = d loss / d mixed."""
    of_scores, of_maps = np.zeros_like(beta), np.zeros((len(slopes), 2), np.float32)
    for k in range(len(slopes)):
        row, of_slope, of_intercept = said[k], np.float32(0.0), np.float32(0.0)
        for n in range(len(logits)):
            of_scores[users[n], k] += change[n] * row[n]
            of_map = change[n] * beta[users[n], k] * row[n] * (np.float32(1.0) - row[n])
            of_slope += of_map * logits[n]
            of_intercept += of_map
        of_maps[k, 0], of_maps[k, 1] = of_slope * slopes[k], of_intercept
    for u in range(len(beta)):
        mean = np.float32(0.0)
        for k in range(len(slopes)):
            mean += beta[u, k] * of_scores[u, k]
        for k in range(len(slopes)):
            of_scores[u, k] = beta[u, k] * (of_scores[u, k] - mean) / tau
    return of_scores, of_maps
