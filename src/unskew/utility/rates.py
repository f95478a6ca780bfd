"""Activity and exposure at a given slope: margins fitted to elements, and the likelihood they leave."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

SWEEPS, ENOUGH = 200, 3e-4  # until a sweep raises the log-likelihood by less than this
LARGEST_STEP = 0.5  # of gamma, in a sweep
HALF = 0.6931471805599453  # the rate at which the chance of being seen is 1/2


@numba.njit(cache=True)
def fit_margins(
    start: Any,
    item: Any,
    weight: Any,
    case: Any,
    groups: Any,
    items: Any,
    a: Any,
    b: Any,
    rare: bool,
    control: Any,
    gamma: Any,
) -> tuple[float, float]:
    """Maximum likelihood of a_g and b_i, in place, and of gamma[0], if there is a `control` f: weights are then those
    given times exp(gamma f), and end as such, in place.

    Element n of group g has x = a_g b_i weight_n events on average and is a case if it has any: with chance
    1 - exp(-x) or, where cases are `rare`, x. `groups` and `items` count cases; those without any have no rate.
    Iterative scaling: each factor in turn becomes (events of its cases) / (expected events at factor 1), a case having
    1 event if rare and else E[events | any] = x / (1 - exp(-x)), which makes it an EM algorithm for the chances.
    Gamma takes a Newton step a sweep. Rare cases without a control, as in a sample of a large catalogue, converge
    slowly: there every third sweep starts from where the last two lead to (`leap`), unless that is worse. Returns the
    log-likelihood, sum over cases of log(exp(x) - 1), or log x, minus the sum over elements of x, and the share of
    elements with a chance above 1/2.
    """
    expected, events = np.empty(len(b)), np.empty(len(b))
    likelihood, above, controlled = -np.inf, 0, len(control) > 0
    leaps, steps, first, second, safe = rare and not controlled, 0, b.copy(), b.copy(), b.copy()
    if controlled:
        move(weight, control, gamma[0])
    for sweep in range(SWEEPS):
        before, likelihood, above = likelihood, 0.0, 0
        pull, hold = 0.0, 0.0
        expected[:], events[:] = 0.0, 0.0
        for g in range(len(a)):
            if groups[g] == 0.0:
                continue
            at_one, own = 0.0, 0.0
            for n in range(start[g], start[g + 1]):
                at_one += b[item[n]] * weight[n]
                if case[n]:
                    own += events_of(a[g] * b[item[n]] * weight[n], rare)
            a[g] = own / max(at_one, 1e-300)
            likelihood -= own
            for n in range(start[g], start[g + 1]):
                rate = a[g] * weight[n]
                x = rate * b[item[n]]
                expected[item[n]] += rate
                above += x > HALF
                if controlled:
                    pull += ((events_of(x, rare) if case[n] else 0.0) - x) * control[n]
                    hold += x * control[n] ** 2
                if case[n]:
                    events[item[n]] += events_of(x, rare)
                    likelihood += np.log(x) if rare else x + np.log(-np.expm1(-x))
        if steps < 0 and not likelihood >= before:  # too far, or nowhere
            b[:], likelihood, steps = safe, before, 0
            continue
        if likelihood - before < ENOUGH and steps >= 0:
            break
        first[:], second[:] = second, b
        for i in range(len(b)):
            if items[i] > 0.0:
                b[i] = events[i] / max(expected[i], 1e-300)
        steps += 1
        if leaps and steps == 2 and sweep < SWEEPS - 2:
            safe[:], steps = b, -1
            leap(first, second, b, items)
        if controlled:
            step = min(max(pull / max(hold, 1e-300), -LARGEST_STEP), LARGEST_STEP)
            gamma[0] += step
            move(weight, control, step)
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
def leap(first: Any, second: Any, b: Any, items: Any) -> None:
    """From three successive b to where they lead, in place (SQUAREM: Varadhan & Roland, Scand. J. Stat. 2008, S3).

    In logarithms, with step r = second - first, turn v = (b - second) - r and length l = max(|r| / |v|, 1):
    first + 2 l r + l^2 v, which for l = 1 is b itself.
    """
    step, turn = 0.0, 0.0
    for i in range(len(b)):
        if items[i] > 0.0:
            r = np.log(second[i] / first[i])
            step += r**2
            turn += (np.log(b[i] / second[i]) - r) ** 2
    if turn == 0.0:
        return
    length = max(np.sqrt(step / turn), 1.0)
    for i in range(len(b)):
        if items[i] > 0.0:
            r = np.log(second[i] / first[i])
            v = np.log(b[i] / second[i]) - r
            b[i] = first[i] * np.exp(2 * length * r + length**2 * v)


@numba.njit(cache=True)
def move(weight: Any, control: Any, step: float) -> None:
    """Multiply weights by exp(step f)."""
    for n in range(len(weight)):
        weight[n] *= np.exp(step * control[n])


@numba.njit(cache=True)
def events_of(x: float, rare: bool) -> float:
    """How many events a case of rate x has had on average."""
    return 1.0 if rare or x < 1e-12 else x / -np.expm1(-x)
