"""Compiled kernels for factor nets: logits by gather-dot, and an Adam step on the rows a batch has touched.

Every row is summed and moved by one thread, in the order of the batch, so the bits do not depend on the number
of threads. Small batches stay on one thread, where starting a second would cost more than it saves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba import prange
from numpy.typing import NDArray

from unskew.nets.table import EPSILON, FIRST_DECAY, SECOND_DECAY

PARALLEL_FROM = 1 << 17  # multiplications in a call
RADIX_BITS = 11


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function compiled twice: for one thread, and for many when `work`, its last argument, is large."""
    serial = numba.njit(cache=True, fastmath=False)(function)
    parallel = numba.njit(cache=True, fastmath=False, parallel=True)(function)

    def call(*arguments: Any, work: int) -> Any:
        return (parallel if work >= PARALLEL_FROM else serial)(*arguments)

    return call


def _gather_dot(users, items, user_rows, item_rows, offset, biased, out):  # type: ignore[no-untyped-def]
    """out[n] = v_u . w_i (+ b_u + b_i + c), the biases in the last column of both tables."""
    factors = user_rows.shape[1] - biased
    for n in prange(len(users)):
        u, i = users[n], items[n]
        total = np.float32(0.0)
        for c in range(factors):
            total += user_rows[u, c] * item_rows[i, c]
        if biased:
            total += user_rows[u, factors] + item_rows[i, factors] + offset
        out[n] = total


def _sum_by_row(order, starts, others, slopes, other_rows, biased, out):  # type: ignore[no-untyped-def]
    """out[g] = sum over the readings of touched row g of d loss / d logit times the other side's row."""
    factors = other_rows.shape[1] - biased
    for g in prange(len(starts) - 1):
        for c in range(out.shape[1]):
            out[g, c] = 0.0
        for k in range(starts[g], starts[g + 1]):
            n = order[k]
            other, slope = others[n], slopes[n]
            for c in range(factors):
                out[g, c] += slope * other_rows[other, c]
            if biased:
                out[g, factors] += slope


def _adam(touched, starts, gradient, decay, l2, rate, value, first, second, steps):  # type: ignore[no-untyped-def]
    """Move each touched row by Adam with its own step count; l2 is counted per reading of the row."""
    readings = starts[-1]
    for g in prange(len(touched)):
        row = touched[g]
        steps[row] += 1
        first_scale = np.float32(1 - FIRST_DECAY ** steps[row])
        second_scale = np.float32(1 - SECOND_DECAY ** steps[row])
        share = np.float32(l2 * (starts[g + 1] - starts[g]) / readings)
        for c in range(gradient.shape[1]):
            slope = gradient[g, c] + decay[c] * share * value[row, c]
            first[row, c] += np.float32(1 - FIRST_DECAY) * (slope - first[row, c])
            second[row, c] += np.float32(1 - SECOND_DECAY) * (slope * slope - second[row, c])
            denominator = np.sqrt(second[row, c] / second_scale) + np.float32(EPSILON)
            value[row, c] -= rate * (first[row, c] / first_scale) / denominator


gather_dot = _compiled(_gather_dot)
sum_by_row = _compiled(_sum_by_row)
adam = _compiled(_adam)


@numba.njit(cache=True)
def group_by_row(index: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """(order, touched, starts): readings sorted by row, the rows, and where the readings of each row start.

    A stable radix sort: its cost depends on the batch and hardly on the size of the table.
    """
    n = len(index)
    order, spare = np.arange(n), np.empty(n, np.int64)
    largest, shift = index.max() if n else 0, 0
    while shift == 0 or (largest >> shift) > 0:
        counts = np.zeros((1 << RADIX_BITS) + 1, np.int64)
        for k in range(n):
            counts[((index[k] >> shift) & ((1 << RADIX_BITS) - 1)) + 1] += 1
        counts = np.cumsum(counts)
        for k in range(n):
            digit = (index[order[k]] >> shift) & ((1 << RADIX_BITS) - 1)
            spare[counts[digit]] = order[k]
            counts[digit] += 1
        order, spare = spare, order
        shift += RADIX_BITS
    touched, starts, groups = np.empty(n, np.int64), np.empty(n + 1, np.int64), 0
    for k in range(n):
        if k == 0 or index[order[k]] != index[order[k - 1]]:
            touched[groups], starts[groups] = index[order[k]], k
            groups += 1
    starts[groups] = n
    return order, touched[:groups], starts[: groups + 1]
