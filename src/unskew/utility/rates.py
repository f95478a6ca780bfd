"""Activity and exposure at a given slope: margins fitted to elements, and the likelihood they leave."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

SWEEPS, TOLERANCE = 200, 3e-5  # until no margin is missed by more than this share; the likelihood errs by its square


@numba.njit(cache=True)
def fit_margins(
    start: Any, item: Any, weight: Any, case: Any, cases_of_group: Any, cases_of_item: Any, a: Any, b: Any, rare: bool
) -> tuple[float, float, float]:
    """Fit a_g and b_i, in place, so that expected and counted cases agree for every group and every item.

    Element n of group g has the rate x = a_g b_i weight_n; it is expected to be a case with chance 1 - exp(-x) or, if
    cases are `rare`, x. Iterative scaling: each factor in turn is multiplied by counted / expected. Returns the
    log-likelihood, sum over cases of log(exp(x) - 1), or log x, minus the sum over elements of x, the largest gap left
    as a share of its margin, and the largest share of elements with a rate above log 2, a chance above 1/2.
    """
    expected = np.empty(len(b))
    gap = 0.0
    for _ in range(SWEEPS):
        gap = 0.0
        expected[:] = 0.0
        for g in range(len(a)):
            if cases_of_group[g] == 0.0:
                continue
            total = 0.0
            for n in range(start[g], start[g + 1]):
                x = a[g] * b[item[n]] * weight[n]
                total += x if rare else -np.expm1(-x)
            gap = max(gap, abs(total / cases_of_group[g] - 1))
            a[g] *= cases_of_group[g] / max(total, 1e-300)
            for n in range(start[g], start[g + 1]):
                x = a[g] * b[item[n]] * weight[n]
                expected[item[n]] += x if rare else -np.expm1(-x)
        for i in range(len(b)):
            if cases_of_item[i] > 0.0:
                gap = max(gap, abs(expected[i] / cases_of_item[i] - 1))
                b[i] *= cases_of_item[i] / max(expected[i], 1e-300)
        if gap < TOLERANCE:
            break
    likelihood, above = 0.0, 0
    for g in range(len(a)):
        for n in range(start[g], start[g + 1]):
            x = a[g] * b[item[n]] * weight[n]
            above += x > 0.6931471805599453
            if case[n]:
                likelihood += np.log(x) if rare else x + np.log(-np.expm1(-x))
            likelihood -= x
    return likelihood, gap, above / max(len(item), 1)
