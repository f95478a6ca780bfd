"""Activity and exposure at a given slope: margins fitted to elements, and the likelihood they leave."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

SWEEPS, TOLERANCE = 200, 1e-4  # until no factor moves by more than this share; the likelihood errs by its square
HALF = 0.6931471805599453  # the rate at which the chance of being seen is 1/2


@numba.njit(cache=True)
def fit_margins(
    start: Any, item: Any, weight: Any, case: Any, groups: Any, items: Any, a: Any, b: Any, rare: bool
) -> tuple[float, float]:
    """Maximum likelihood of a_g and b_i, in place.

    Element n of group g has x = a_g b_i weight_n events on average and is a case if it has any: with chance
    1 - exp(-x) or, where cases are `rare`, x. `groups` and `items` count cases; those without any have no rate.
    Iterative scaling: each factor in turn becomes (events of its cases) / (expected events at factor 1), a case having
    1 event if rare and else E[events | any] = x / (1 - exp(-x)), which makes it an EM algorithm for the chances.
    Returns the log-likelihood, sum over cases of log(exp(x) - 1), or log x, minus the sum over elements of x, and the
    share of elements with a chance above 1/2.
    """
    expected, events = np.empty(len(b)), np.empty(len(b))
    for _ in range(SWEEPS):
        moved = 0.0
        expected[:], events[:] = 0.0, 0.0
        for g in range(len(a)):
            if groups[g] == 0.0:
                continue
            at_one, own = 0.0, 0.0
            for n in range(start[g], start[g + 1]):
                at_one += b[item[n]] * weight[n]
                if case[n]:
                    own += events_of(a[g] * b[item[n]] * weight[n], rare)
            before, a[g] = a[g], own / max(at_one, 1e-300)
            moved = max(moved, abs(before - a[g]) / max(a[g], 1e-300))
            for n in range(start[g], start[g + 1]):
                x = a[g] * weight[n]
                expected[item[n]] += x
                if case[n]:
                    events[item[n]] += events_of(x * b[item[n]], rare)
        for i in range(len(b)):
            if items[i] > 0.0:
                before, b[i] = b[i], events[i] / max(expected[i], 1e-300)
                moved = max(moved, abs(before - b[i]) / max(b[i], 1e-300))
        if moved < TOLERANCE:
            break
    likelihood, above = 0.0, 0
    for g in range(len(a)):
        for n in range(start[g], start[g + 1]):
            x = a[g] * b[item[n]] * weight[n]
            above += x > HALF
            if case[n]:
                likelihood += np.log(x) if rare else x + np.log(-np.expm1(-x))
            likelihood -= x
    return likelihood, above / max(len(item), 1)


@numba.njit(cache=True)
def scores_of_groups(
    start: Any, item: Any, weight: Any, case: Any, utility: Any, a: Any, b: Any, rare: bool, out: Any
) -> None:
    """Score and information of each group about its own slope, its activity adapting: one row a group, two columns.

    With fitted margins: score is the sum over events of cases of z less its mean, information events times the variance
    of z, mean and variance over the group's elements weighted by their rates.
    """
    for g in range(len(start) - 1):
        total, first, second, events, own = 0.0, 0.0, 0.0, 0.0, 0.0
        for n in range(start[g], start[g + 1]):
            x = a[g] * b[item[n]] * weight[n]
            total += x
            first += x * utility[n]
            second += x * utility[n] ** 2
            if case[n]:
                events += events_of(x, rare)
                own += events_of(x, rare) * utility[n]
        mean = first / max(total, 1e-300)
        out[g, 0] = own - events * mean
        out[g, 1] = events * max(second / max(total, 1e-300) - mean**2, 0.0)


@numba.njit(cache=True)
def events_of(x: float, rare: bool) -> float:
    """How many events a case of rate x has had on average."""
    return 1.0 if rare or x < 1e-12 else x / -np.expm1(-x)
