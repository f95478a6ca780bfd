"""Doubly robust risks: imputed errors for all pairs, corrected on the seen ones.

Notation as in `weighting`; e_imputed is the error of the prediction against the imputed rating.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from unskew.losses.batch import Rows, View
from unskew.losses.columns import Array, square


def dr(v: View, prediction: str = "prediction", imputation: str = "imputation") -> Any:
    """(1/|D|) [ sum_D e_imputed + sum_O (e - e_imputed) / p ]: unbiased if either p or the imputation is true.

    Wang et al., ICML 2019.
    """
    o, d = v.observed, v.sampled
    residual = o.residual(prediction, imputation) * o.inverse_propensity()
    return (d.total(d.imputed_error(prediction, imputation)) + o.total(residual)) / v.n_pairs


def inverse(w: Array) -> Array:
    """1/p, of w = 1/p: the weights of DR-JL's imputation."""
    return w


def variance(w: Array) -> Array:
    """(1 - p) / p^2, the variance of o/p: the weights of MRDR's imputation (Guo et al., SIGIR 2021)."""
    return np.asarray(w * (w - 1))


def imputation_error(
    v: View,
    weigh: Callable[[Array], Array] = inverse,
    target: Array | None = None,
    prediction: str = "prediction",
    imputation: str = "imputation",
) -> Any:
    """sum_O weight (e - e_imputed - target)^2 / sum_O weight (e1 - e0)^2; `weigh` makes the weight from 1/p.

    e - e_imputed = (e1 - e0)(r - r_imputed), so the numerator alone, (1/|D|) sum_O (e - e_imputed)^2 / p in the papers,
    fades wherever the prediction is undecided, and any L2 would take over. Divided by the mean effect of the label it
    is a weighted mean of (r - r_imputed)^2; the divisor is nothing that the imputation can move.
    """
    o = v.observed
    weight, gap = weigh(o.inverse_propensity()), o.residual(prediction, imputation)
    gap = gap if target is None else gap - target
    return o.total(weight * square(gap)) / max(o.total(weight * o.label_effect(prediction) ** 2), 1e-12)


def target_epsilon(o: Rows) -> Any:
    """epsilon = sum_O h (e - e_imputed) / sum_O h^2, h = 1/p - 1: then sum_O h (e - e_imputed - epsilon h) = 0.

    If all propensities are 1 there is nothing to correct and epsilon is 0.
    """
    h = o.inverse_propensity() - 1
    return o.total(h * o.residual()) / max(o.total(h * h), 1e-12)


def targeted_dr(v: View) -> Any:
    """Weigh as `dr` with imputed errors e_imputed + epsilon h, epsilon differentiated (Li et al., ICLR 2023).

    (1/|D|) [ sum_D (e_imputed + epsilon h) + sum_O (e - e_imputed - epsilon h) / p ].
    """
    o, d, epsilon, weight = v.observed, v.sampled, target_epsilon(v.observed), v.observed.inverse_propensity()
    direct = d.total(d.imputed_error()) + epsilon * d.total(d.inverse_propensity() - 1)
    residual = o.total(o.residual() * weight) - epsilon * o.total((weight - 1) * weight)
    return (direct + residual) / v.n_pairs


def targeted_imputation_error(v: View, weigh: Callable[[Array], Array] = inverse) -> Any:
    """Return the imputation error around epsilon h, epsilon held fixed: the imputation learns what is left."""
    epsilon, h = v.held(target_epsilon(v.observed)), v.observed.inverse_propensity() - 1
    return imputation_error(v, weigh, (epsilon * h).astype(h.dtype))
