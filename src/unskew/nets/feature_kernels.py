"""Compiled kernels for factor nets with features: rows are put together when they are first read after a step.

A side of the net, users or items, is (ids, shared, starts, places, amounts, stamps, rows): the tables of ids and of
features, what is known of each id as the entries of a sparse matrix, and `rows`, where those of ids whose stamp is of
now hold the sum of both.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
from numba import prange

from unskew.nets.kernels import ENDINGS, compiled, families, group_by_row, is_for_many, parts


def _freshen(codes, now, ids, shared, starts, places, amounts, stamps, rows):  # type: ignore[no-untyped-def]
    """Put together the rows of those codes whose stamp is old; -1 is nobody's."""
    stale, count = np.empty(len(codes), np.int64), 0
    for n in range(len(codes)):
        code = codes[n]
        if code >= 0 and stamps[code] != now:
            stamps[code], stale[count] = now, code
            count += 1
    for k in prange(count):
        code = stale[k]
        row, own = rows[code], ids[code]
        for c in range(len(row)):
            row[c] = own[c]
        for entry in range(starts[code], starts[code + 1]):
            amount, feature = amounts[entry], shared[places[entry]]
            for c in range(len(row)):
                row[c] += amount * feature[c]


def _described_dot(users, items, offset, now, user_side, item_side, out):  # type: ignore[no-untyped-def]
    """`gather_dot` of rows that are put together first."""
    freshen(users, now, *user_side)  # type: ignore[name-defined] # noqa: F821
    freshen(items, now, *item_side)  # type: ignore[name-defined] # noqa: F821
    return gather_dot(users, items, user_side[6], item_side[6], offset, 1, out)  # type: ignore[name-defined] # noqa: F821


def _learn_shared(touched, readings, gradient, l2, rate, side, state):  # type: ignore[no-untyped-def]
    """A step of the features' rows: each gets the gradients of all touched rows it is part of, times its amounts there.

    `readings` tells where the readings of each touched row start, so a feature is read as often as its owners are.
    """
    starts, places, amounts = side[2], side[3], side[4]
    n_entries = 0
    for row in touched:
        n_entries += starts[row + 1] - starts[row]
    feature, owner = np.empty(n_entries, np.int64), np.empty(n_entries, np.int64)
    amount, count, k = np.empty(n_entries, np.float32), np.empty(n_entries, np.int64), 0
    for g in range(len(touched)):
        for entry in range(starts[touched[g]], starts[touched[g] + 1]):
            feature[k], owner[k], amount[k] = places[entry], g, amounts[entry]
            count[k] = readings[g + 1] - readings[g]
            k += 1
    order, features, first = group_by_row(feature)
    slopes = sum_by_row(order, first, owner, amount, gradient, 0)  # type: ignore[name-defined] # noqa: F821
    read = np.zeros(len(first), np.int64)
    for g in range(len(features)):
        read[g + 1] = read[g]
        for k in range(first[g], first[g + 1]):
            read[g + 1] += count[order[k]]
    adam(features, read, slopes, l2, rate, *state)  # type: ignore[name-defined] # noqa: F821


def _learn_described(  # type: ignore[no-untyped-def]
    users, items, slopes, l2, rate, now, user_side, item_side, user_state, item_state, offset_state, *shared_states
):
    """One step of a net with features from d loss / d logit of the pairs it has read; see `kernels._learn`."""
    freshen(users, now, *user_side)  # type: ignore[name-defined] # noqa: F821
    freshen(items, now, *item_side)  # type: ignore[name-defined] # noqa: F821
    user_order, user_touched, user_starts = group_by_row(users)
    item_order, item_touched, item_starts = group_by_row(items)
    user_gradient = sum_by_row(user_order, user_starts, items, slopes, item_side[6], 1)  # type: ignore[name-defined] # noqa: F821
    item_gradient = sum_by_row(item_order, item_starts, users, slopes, user_side[6], 1)  # type: ignore[name-defined] # noqa: F821
    adam(user_touched, user_starts, user_gradient, l2, rate, *user_state)  # type: ignore[name-defined] # noqa: F821
    adam(item_touched, item_starts, item_gradient, l2, rate, *item_state)  # type: ignore[name-defined] # noqa: F821
    learn_shared(user_touched, user_starts, user_gradient, l2, rate, user_side, shared_states[0])  # type: ignore[name-defined] # noqa: F821
    learn_shared(item_touched, item_starts, item_gradient, l2, rate, item_side, shared_states[1])  # type: ignore[name-defined] # noqa: F821
    total = 0.0
    for slope in slopes:
        total += slope
    gradient, first_row = np.full((1, 1), total, np.float32), np.zeros(1, np.int64)
    adam(first_row, np.array([0, 1]), gradient, np.float32(0), rate, *offset_state)  # type: ignore[name-defined] # noqa: F821


@cache
def family(parallel: bool) -> SimpleNamespace:
    """All kernels of these nets' steps, for one thread or for many."""
    ending, pieces = ENDINGS[parallel], dict(parts(parallel))
    pieces["freshen"] = compiled(_freshen, ending, parallel=parallel)
    pieces["learn_shared"] = compiled(_learn_shared, ending, **pieces)
    steps: dict[str, Callable[..., Any]]
    steps = {"described_dot": _described_dot, "learn_described": _learn_described}
    return SimpleNamespace(**{name: compiled(function, ending, **pieces) for name, function in steps.items()})


on_one_thread, on_many_threads = families(family)


def for_work(multiplications: int) -> SimpleNamespace:
    """The kernels for a call of this size."""
    return on_many_threads if is_for_many(multiplications) else on_one_thread
