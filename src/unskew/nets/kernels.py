"""Compiled kernels for factor nets: logits by gather-dot, and an Adam step on the rows a batch has touched.

Every row is summed and moved by one thread, in the order of the batch, so the bits do not depend on the number
of threads. All but large batches stay on one thread, where waking a second would cost more than it saves.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from threading import Lock
from types import FunctionType, SimpleNamespace
from typing import Any

import numba
import numpy as np
from numba import prange
from numpy.typing import NDArray

from unskew.nets.ahead import ROWS_AHEAD, ask_for
from unskew.nets.table import EPSILON, FIRST_DECAY, SECOND_DECAY

PARALLEL_FROM = 6_000_000  # multiplications in a call: below, two threads take longer than one
RADIX_BITS = 11
LAST_STEP = 20_000  # later steps need no correction in single precision
FIRST_SCALE, SECOND_SCALE = (
    np.array([1.0, *(1 - decay ** np.arange(1.0, LAST_STEP + 1))]) for decay in (FIRST_DECAY, SECOND_DECAY)
)
STRIDE, SHRINK = (1 / FIRST_SCALE).astype(np.float32), (1 / np.sqrt(SECOND_SCALE)).astype(np.float32)
ENDINGS = {False: "", True: "_in_parallel"}  # of the names of kernels for one thread, and for many
REORDERED_SUMS = {"reassoc", "contract", "nsz"}  # lets a dot product use the whole width of the processor


@numba.njit(cache=True)
def group_by_row(index: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """(order, touched, starts): readings sorted by row, the rows, and where the readings of each row start.

    A stable radix sort: its cost depends on the batch and hardly on the size of the table.
    """
    n = len(index)
    order, spare = np.arange(n), np.empty(n, np.int64)
    largest, shift = index.max() if n else 0, 0
    while shift == 0 or (largest >> shift) > 0:
        digits = min(RADIX_BITS, 64 - shift)
        counts = np.zeros(min(1 << digits, (largest >> shift) + 1) + 1, np.int64)
        mask = (1 << digits) - 1
        for k in range(n):
            counts[((index[k] >> shift) & mask) + 1] += 1
        for k in range(1, len(counts)):
            counts[k] += counts[k - 1]
        for k in range(n):
            digit = (index[order[k]] >> shift) & mask
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


def _gather_dot(users, items, user_rows, item_rows, offset, biased, out):  # type: ignore[no-untyped-def]
    """out[n] = v_u . w_i (+ b_u + b_i + c), the biases in the last column of both tables; says how many are unknown."""
    factors, unknown = user_rows.shape[1] - biased, 0
    for n in prange(len(users)):
        u, i = users[n], items[n]
        if u < 0 or i < 0:
            unknown += 1
        else:
            user, item, total = user_rows[u], item_rows[i], np.float32(0.0)
            for c in range(factors):
                total += user[c] * item[c]
            if biased:
                total += user[factors] + item[factors] + offset
            out[n] = total
    return unknown


def _sum_by_row(order, starts, others, slopes, other_rows, biased):  # type: ignore[no-untyped-def]
    """One row for each touched row g: the sum over its readings of d loss / d logit times the other side's row."""
    width = other_rows.shape[1]
    factors, out = width - biased, np.zeros((len(starts) - 1, width), np.float32)
    for g in prange(len(starts) - 1):
        row = out[g]
        for k in range(starts[g], starts[g + 1]):
            slope, other = slopes[order[k]], other_rows[others[order[k]]]
            for c in range(factors):
                row[c] += slope * other[c]
            if biased:
                row[factors] += slope
    return out


def _adam(touched, starts, gradient, l2, rate, value, first, second, steps, decay):  # type: ignore[no-untyped-def]
    """Move each touched row by Adam with its own step count; l2 is counted per reading of the row."""
    readings, epsilon = starts[-1], np.float32(EPSILON)
    first_share, second_share = np.float32(1 - FIRST_DECAY), np.float32(1 - SECOND_DECAY)
    for g in prange(len(touched)):
        ahead = touched[min(g + ROWS_AHEAD, len(touched) - 1)]
        for table in (value, first, second):
            ask_for(table, ahead)
        row = touched[g]
        steps[row] += 1
        step = int(min(steps[row], LAST_STEP))
        stride, shrink = rate * STRIDE[step], SHRINK[step]
        share = np.float32(l2 * (starts[g + 1] - starts[g]) / readings)
        slopes, v, m, s = gradient[g], value[row], first[row], second[row]
        for c in range(len(slopes)):
            slope = slopes[c] + decay[c] * share * v[c]
            m[c] += first_share * (slope - m[c])
            s[c] += second_share * (slope * slope - s[c])
            v[c] -= stride * m[c] / (np.sqrt(s[c]) * shrink + epsilon)


def _learn(users, items, slopes, biased, l2, rate, user_state, item_state, offset_state):  # type: ignore[no-untyped-def]
    """One step of a net from d loss / d logit of the pairs it has read.

    A state is (value, first moment, second moment, steps, decay). Both gradients come before either step: each reads
    the other side's rows as they were.
    """
    user_order, user_touched, user_starts = group_by_row(users)
    item_order, item_touched, item_starts = group_by_row(items)
    user_gradient = sum_by_row(user_order, user_starts, items, slopes, item_state[0], biased)  # type: ignore[name-defined] # noqa: F821
    item_gradient = sum_by_row(item_order, item_starts, users, slopes, user_state[0], biased)  # type: ignore[name-defined] # noqa: F821
    adam(user_touched, user_starts, user_gradient, l2, rate, *user_state)  # type: ignore[name-defined] # noqa: F821
    adam(item_touched, item_starts, item_gradient, l2, rate, *item_state)  # type: ignore[name-defined] # noqa: F821
    if biased:
        total = 0.0
        for slope in slopes:
            total += slope
        gradient, first_row = np.full((1, 1), total, np.float32), np.zeros(1, np.int64)
        adam(first_row, np.array([0, 1]), gradient, np.float32(0), rate, *offset_state)  # type: ignore[name-defined] # noqa: F821


def _item_side(users, items, slopes, biased, user_rows, out):  # type: ignore[no-untyped-def]
    """Fill `out` with the items' gradients from these readings, row by row, then with how often each was read.

    The last two numbers are the sum of all slopes, the gradient of the offset, and the number of readings.
    """
    width = user_rows.shape[1]
    n_items, factors, total = (len(out) - 2) // (width + 1), width - biased, 0.0
    out[:] = 0
    rows, counts = out[: n_items * width].reshape(n_items, width), out[n_items * width : -2]
    for n in range(len(slopes)):
        slope, row, user = slopes[n], rows[items[n]], user_rows[users[n]]
        for c in range(factors):
            row[c] += slope * user[c]
        if biased:
            row[factors] += slope
        counts[items[n]] += np.float32(1.0)
        total += slope
    out[-2], out[-1] = total, len(slopes)


def _user_side(users, items, slopes, biased, item_rows):  # type: ignore[no-untyped-def]
    """(touched, starts, gradient) of the users."""
    order, touched, starts = group_by_row(users)
    return touched, starts, sum_by_row(order, starts, items, slopes, item_rows, biased)  # type: ignore[name-defined] # noqa: F821


def _learn_together(shared, touched, starts, gradient, biased, l2, rate, user_state, item_state, offset_state):  # type: ignore[no-untyped-def]
    """One step from the users' side of this worker and the items' side of all: `_learn` for several workers."""
    width = gradient.shape[1]
    n_items = (len(shared) - 2) // (width + 1)
    rows, counts = shared[: n_items * width].reshape(n_items, width), shared[n_items * width : -2]
    own_share = np.float32(l2 * starts[-1] / shared[-1])
    adam(touched, starts, gradient, own_share, rate, *user_state)  # type: ignore[name-defined] # noqa: F821
    read = np.flatnonzero(counts)
    item_starts = np.zeros(len(read) + 1, np.int64)
    for g in range(len(read)):
        item_starts[g + 1] = item_starts[g] + np.int64(counts[read[g]])
    if len(read) < n_items:
        rows = rows[read]
    adam(read, item_starts, rows, l2, rate, *item_state)  # type: ignore[name-defined] # noqa: F821
    if biased:
        offset, first_row = np.full((1, 1), shared[-2], np.float32), np.zeros(1, np.int64)
        adam(first_row, np.array([0, 1]), offset, np.float32(0), rate, *offset_state)  # type: ignore[name-defined] # noqa: F821


def compiled(function: Callable[..., Any], ending: str, *, parallel: bool = False, **names: Any) -> Any:
    """A variant of a function in which `names` stand for compiled ones.

    The on-disk cache of numba tells functions apart by their name and not by how they are compiled, so each variant
    gets a name of its own.
    """
    assert isinstance(function, FunctionType)
    variant = FunctionType(function.__code__, {**function.__globals__, **names}, function.__name__ + ending)
    variant.__qualname__, variant.__module__ = variant.__name__, function.__module__
    return numba.njit(cache=True, parallel=parallel, fastmath=REORDERED_SUMS, error_model="numpy")(variant)


@cache
def parts(parallel: bool) -> dict[str, Any]:
    """What steps are made of, for one thread or for many."""
    pieces: dict[str, Callable[..., Any]]
    pieces = {"gather_dot": _gather_dot, "sum_by_row": _sum_by_row, "adam": _adam}
    return {name: compiled(function, ENDINGS[parallel], parallel=parallel) for name, function in pieces.items()}


@cache
def family(parallel: bool) -> SimpleNamespace:
    """All kernels of a net's steps, for one thread or for many."""
    whole: dict[str, Callable[..., Any]]
    whole = {"learn": _learn, "item_side": _item_side, "user_side": _user_side, "learn_together": _learn_together}
    steps = {name: compiled(function, ENDINGS[parallel], **parts(parallel)) for name, function in whole.items()}
    return SimpleNamespace(**steps, **parts(parallel))


# Threads that sleep while they wait: the OpenMP ones spin, and on a busy machine a step then takes fifty times as long.
_settings: Any = numba.config
if _settings.THREADING_LAYER == "default":
    _settings.THREADING_LAYER = "workqueue"
_threads_are_taken = Lock()


def _unless_taken(on_many: Callable[..., Any], on_one: Callable[..., Any]) -> Callable[..., Any]:
    """The sleeping threads serve one caller at a time; another that comes meanwhile works alone, with the same bits."""

    def call(*arguments: Any) -> Any:
        numba.get_num_threads()  # starts the threads; a kernel that is loaded with its parts out of the cache does not
        if not _threads_are_taken.acquire(blocking=False):
            return on_one(*arguments)
        try:
            return on_many(*arguments)
        finally:
            _threads_are_taken.release()

    return call


def families(compile_all: Callable[[bool], SimpleNamespace]) -> tuple[SimpleNamespace, SimpleNamespace]:
    """Kernels for one thread, and for many while nobody else uses them."""
    one, many = compile_all(False), compile_all(True)
    shared = {name: _unless_taken(kernel, vars(one)[name]) for name, kernel in vars(many).items()}
    return one, SimpleNamespace(**shared)


on_one_thread, on_many_threads = families(family)


def for_work(multiplications: int) -> SimpleNamespace:
    """The kernels for a call of this size, which give the same bits either way."""
    return on_many_threads if is_for_many(multiplications) else on_one_thread


def is_for_many(multiplications: int) -> bool:
    return multiplications >= PARALLEL_FROM and _settings.NUMBA_NUM_THREADS > 1
