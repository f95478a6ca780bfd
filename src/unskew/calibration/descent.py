"""Compiled steps of mixtures of Platt maps down their cross-entropy.

For an example of user u with the raw logit s, mixed = sum_k beta_uk sigmoid(a_k s + b_k).

The parts are put into `descend` as it is compiled, not called by it, and sums that may be reordered only read: so the
bits are the same in the process that compiles it and in those that find it in the cache.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from unskew.fast import exp, sigmoid
from unskew.nets.kernels import REORDERED_SUMS
from unskew.nets.table import EPSILON, FIRST_DECAY, SECOND_DECAY

# The cache of these kernels holds those of fast.py too, and is renewed when this file changes: change both.
_ONE, _SMALLEST, _INSIDE = np.float32(1.0), np.float32(1e-10), np.float32(1e-7)
_NOTHING = np.float32(-40.0)  # a share of exp of this is lost in single precision, but slows what it is multiplied with
_part = numba.njit(cache=True, fastmath=REORDERED_SUMS, error_model="numpy", inline="always")


@_part
def scores_of(inputs: Any, gate: Any) -> Any:
    """W x_u + c of every user, the constant being the last column."""
    scores = np.empty((len(inputs), len(gate)), np.float32)
    for u in range(len(inputs)):
        for k in range(len(gate)):
            total = np.float32(0.0)
            for c in range(inputs.shape[1]):
                total += inputs[u, c] * gate[k, c]
            scores[u, k] = total
    return scores


@_part
def noisy_assignment(scores: Any, noise: Any, tau: Any) -> Any:
    """beta_u = softmax((scores_u + g_u) / tau), with Gumbel noise g = -log E where E is standard exponential."""
    beta = np.empty_like(scores)
    for u in range(len(scores)):
        largest = np.float32(-np.inf)
        for k in range(scores.shape[1]):
            beta[u, k] = (scores[u, k] - np.log(max(noise[u, k], _SMALLEST))) / tau
            largest = max(largest, beta[u, k])
        for k in range(scores.shape[1]):
            beta[u, k] -= largest
    flat = beta.reshape(-1)
    for n in range(len(flat)):
        flat[n] = exp(flat[n]) if flat[n] > _NOTHING else np.float32(0.0)
    for u in range(len(scores)):
        total = np.float32(0.0)
        for k in range(scores.shape[1]):
            total += beta[u, k]
        for k in range(scores.shape[1]):
            beta[u, k] /= total
    return beta


@_part
def mix(logits: Any, users: Any, beta: Any, maps: Any, said: Any, mixed: Any) -> None:
    """Fill `said`, one row a map, and `mixed`, with what is said of each example."""
    mixed[:] = 0
    for k in range(len(maps)):
        row, a, b = said[k], np.exp(maps[k, 0]), maps[k, 1]
        for n in range(len(logits)):
            row[n] = sigmoid(a * logits[n] + b)
        for n in range(len(logits)):
            mixed[n] += beta[users[n], k] * row[n]


@_part
def cross_entropy_change(mixed: Any, labels: Any, weights: Any, change: Any) -> None:
    """d / d mixed of -sum w [y log mixed + (1 - y) log(1 - mixed)], mixed held away from 0 and 1."""
    for n in range(len(mixed)):
        inside = _INSIDE <= mixed[n] <= _ONE - _INSIDE
        change[n] = weights[n] * ((_ONE - labels[n]) / (_ONE - mixed[n]) - labels[n] / mixed[n]) if inside else 0


@_part
def gradient_of_maps(change: Any, said: Any, logits: Any, users: Any, beta: Any, maps: Any) -> Any:
    """d loss / d (log a_k, b_k)."""
    gradient = np.empty((len(maps), 2), np.float32)
    for k in range(len(maps)):
        row, of_slope, of_intercept = said[k], np.float32(0.0), np.float32(0.0)
        for n in range(len(logits)):
            part = change[n] * beta[users[n], k] * row[n] * (_ONE - row[n])
            of_slope += part * logits[n]
            of_intercept += part
        gradient[k, 0], gradient[k, 1] = of_slope * np.exp(maps[k, 0]), of_intercept
    return gradient


@_part
def gradient_of_gate(change: Any, said: Any, users: Any, beta: Any, inputs: Any, tau: Any) -> Any:
    """d loss / d (W, c), through the scores: d beta_k / d score_l = beta_k ([k = l] - beta_l) / tau."""
    of_scores, gradient = np.zeros_like(beta), np.zeros((len(said), inputs.shape[1]), np.float32)
    for k in range(len(said)):
        row = said[k]
        for n in range(len(users)):
            of_scores[users[n], k] += change[n] * row[n]
    for u in range(len(beta)):
        mean = np.float32(0.0)
        for k in range(len(said)):
            mean += beta[u, k] * of_scores[u, k]
        for k in range(len(said)):
            of_score = beta[u, k] * (of_scores[u, k] - mean) / tau
            for c in range(inputs.shape[1]):
                gradient[k, c] += of_score * inputs[u, c]
    return gradient


@_part
def move(gradient: Any, rate: Any, value: Any, first: Any, second: Any, steps: Any) -> None:
    """Adam (Kingma & Ba 2015) on all rows, as `Table.move` does it."""
    steps += 1
    scale = np.sqrt(1 - SECOND_DECAY ** steps[0])
    stride, epsilon = np.float32(rate * scale / (1 - FIRST_DECAY ** steps[0])), np.float32(EPSILON * scale)
    for k in range(len(gradient)):
        for c in range(gradient.shape[1]):
            slope = gradient[k, c]
            first[k, c] += np.float32(1 - FIRST_DECAY) * (slope - first[k, c])
            second[k, c] += np.float32(1 - SECOND_DECAY) * (slope * slope - second[k, c])
            value[k, c] -= stride * first[k, c] / (np.sqrt(second[k, c]) + epsilon)


@numba.njit(cache=True, fastmath=REORDERED_SUMS, error_model="numpy")
def descend(
    examples: Any, inputs: Any, noise: Any, taus: Any, maps: Any, gate: Any, common: Any, shrinkage: Any, rate: Any
) -> None:
    """One step for each temperature, of maps (log a_k, b_k) and gate (W, c), in place.

    Examples are (logits, labels, weights, users), tables (value, first moment, second moment, steps); `shrinkage` draws
    the maps to the `common` one and the gate to 0.
    """
    logits, labels, weights, users = examples
    said = np.empty((len(maps[0]), len(logits)), np.float32)
    mixed, change = np.empty(len(logits), np.float32), np.empty(len(logits), np.float32)
    for step in range(len(taus)):
        beta = noisy_assignment(scores_of(inputs, gate[0]), noise[step], taus[step])
        mix(logits, users, beta, maps[0], said, mixed)
        cross_entropy_change(mixed, labels, weights, change)
        of_maps = gradient_of_maps(change, said, logits, users, beta, maps[0]) + shrinkage * (maps[0] - common)
        of_gate = gradient_of_gate(change, said, users, beta, inputs, taus[step]) + shrinkage * gate[0]
        move(of_maps, rate, maps[0], maps[1], maps[2], maps[3])
        move(of_gate, rate, gate[0], gate[1], gate[2], gate[3])
