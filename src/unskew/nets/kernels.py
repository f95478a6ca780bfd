"""Compiled loops over rows of tables: scores of pairs, what pairs teach, and Adam.

A table (`nets.base.Table`) is value[row][column], moments[first, second][row][column], gradients[place][column], and
marks[steps, readings, place, touched][row], whose last column counts the touched rows. Large tables wait for memory:
values lie together, as most kernels read nothing else, and gradients are packed, a row having a place among them from
its first reading to the step. One thread: the bits do not depend on how many there are.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from unskew.compiled import njit

F = np.float32
WIDE = {"reassoc", "contract", "nsz", "arcp"}  # lets compiled loops use the whole width of the processor
kernel: Callable[..., Any] = njit(cache=True, fastmath=WIDE, error_model="numpy")

# Bias corrections of Adam, of the stride and of the root, by the number of steps; beyond the last they are 1 to the
# last bit. A kernel is handed them: what it holds itself it would be compiled with.
_STEPS = np.arange(1, 20_001)
CORRECTIONS = np.stack([np.append(1, 1 / x) for x in (1 - 0.9**_STEPS, np.sqrt(1 - 0.999**_STEPS))]).astype(F)
_ZERO, _FIRST, _SECOND, _TINY = F(0), F(0.1), F(0.001), F(1e-8)


@njit(cache=True, fastmath=WIDE, error_model="numpy", inline="always")
def count(codes: Any, marks: Any) -> None:
    """Count the readings of rows, and list and place those that are read for the first time, without a branch on it."""
    n_touched = marks[3, -1]
    for n in range(len(codes)):
        row = codes[n]
        new = marks[1, row] == 0
        marks[3, n_touched] = row
        marks[2, row] = n_touched if new else marks[2, row]
        marks[1, row] += 1
        n_touched += new
    marks[3, -1] = n_touched


@kernel
def dot(users: Any, items: Any, V: Any, W: Any, offset: Any, biased: Any, out: Any) -> None:
    """v_u . w_i (+ b_u + b_i + c); biases are the last columns."""
    width = V.shape[1] - biased
    for n in range(len(users)):
        user, item = V[users[n]], W[items[n]]
        total = user[width] + item[width] + offset[0, 0] if biased else _ZERO
        for c in range(width):
            total += user[c] * item[c]
        out[n] = total


@kernel
def dot_learn(
    users: Any, items: Any, slopes: Any, V: Any, W: Any, of_users: Any, of_items: Any, of_offset: Any,
    u_marks: Any, i_marks: Any, o_marks: Any, biased: Any,
) -> None:  # fmt: skip
    """Add to the gradient of each row the slopes times the rows of the other side.

    Biases come before the loop over factors: written after it they would keep it from being compiled in full width.
    """
    width = V.shape[1] - biased
    count(users, u_marks)
    count(items, i_marks)
    for n in range(len(users)):
        u, i, slope = users[n], items[n], slopes[n]
        user, item, of_user, of_item = V[u], W[i], of_users[u_marks[2, u]], of_items[i_marks[2, i]]
        if biased:
            of_user[width] += slope
            of_item[width] += slope
        for c in range(width):
            to_user, to_item = of_user[c] + slope * item[c], of_item[c] + slope * user[c]
            of_user[c], of_item[c] = to_user, to_item
    if biased:
        o_marks[1, 0] = o_marks[3, -1] = 1
        for n in range(len(slopes)):
            of_offset[0, 0] += slopes[n]


@kernel
def tower_dot(users: Any, items: Any, V: Any, W: Any, mix: Any, bu: Any, bi: Any, offset: Any, out: Any) -> None:
    """m . (v_u * w_i) + b_u + b_i + c."""
    m = mix[0]
    for n in range(len(users)):
        user, item = V[users[n]], W[items[n]]
        total = bu[users[n], 0] + bi[items[n], 0] + offset[0, 0]
        for c in range(len(m)):
            total += m[c] * user[c] * item[c]
        out[n] = total


@kernel
def tower_learn(
    users: Any, items: Any, slopes: Any, V: Any, W: Any, mix: Any,
    of_users: Any, of_items: Any, of_mix: Any, of_bu: Any, of_bi: Any, of_offset: Any,
    u_marks: Any, i_marks: Any, m_marks: Any, bu_marks: Any, bi_marks: Any, o_marks: Any,
) -> None:  # fmt: skip
    """Add to all gradients of a tower what its pairs teach; its vectors may be another net's."""
    m, to_mix = mix[0], of_mix[0]
    for marks in (u_marks, bu_marks):
        count(users, marks)
    for marks in (i_marks, bi_marks):
        count(items, marks)
    for n in range(len(users)):
        u, i, slope = users[n], items[n], slopes[n]
        of_bu[bu_marks[2, u], 0] += slope
        of_bi[bi_marks[2, i], 0] += slope
        user, item, of_user, of_item = V[u], W[i], of_users[u_marks[2, u]], of_items[i_marks[2, i]]
        for c in range(len(m)):
            to_user, to_item = of_user[c] + slope * m[c] * item[c], of_item[c] + slope * m[c] * user[c]
            of_user[c], of_item[c] = to_user, to_item
        for c in range(len(m)):
            to_mix[c] += slope * user[c] * item[c]
    for marks in (o_marks, m_marks):
        marks[1, 0] = marks[3, -1] = 1
    for n in range(len(slopes)):
        of_offset[0, 0] += slopes[n]


@kernel
def scatter(index: Any, given: Any, gradients: Any, marks: Any) -> None:
    """Add a gradient for each reading to the rows that were read."""
    count(index, marks)
    for n in range(len(index)):
        of_row = gradients[marks[2, index[n]]]
        for c in range(given.shape[1]):
            of_row[c] += given[n, c]


@kernel
def adam(
    values: Any, moments: Any, gradients: Any, marks: Any, decay: Any, rate: Any, l2: Any, corrections: Any
) -> None:
    """Move each touched row by Adam (Kingma & Ba 2015) with its own step count; rows share the L2 by their readings."""
    n_rows, n_touched, readings = len(values), marks[3, -1], 0
    if 8 * n_touched > n_rows:  # memory is read fastest in order; rows are listed anew without a branch
        place = 0
        for row in range(n_rows):
            marks[3, place] = row
            place += marks[1, row] != 0
    for t in range(n_touched):
        readings += marks[1, marks[3, t]]
    for t in range(n_touched):
        row = marks[3, t]
        marks[0, row] += 1
        step = marks[0, row] if marks[0, row] < corrections.shape[1] else corrections.shape[1] - 1
        stride, shrink = F(rate) * corrections[0, step], corrections[1, step]
        share = F(l2 * marks[1, row] / readings)
        value, first, second, gradient = values[row], moments[0, row], moments[1, row], gradients[marks[2, row]]
        for c in range(len(value)):  # all is read before anything is written: the compiler cannot know rows are apart
            slope = gradient[c] + decay[c] * share * value[c]
            m, s = first[c] + _FIRST * (slope - first[c]), second[c] + _SECOND * (slope * slope - second[c])
            moved = value[c] - stride * m / (np.sqrt(s) * shrink + _TINY)
            value[c], gradient[c], first[c], second[c] = moved, _ZERO, m, s
        marks[1, row] = 0
    marks[3, -1] = 0
