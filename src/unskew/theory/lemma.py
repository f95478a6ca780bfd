"""Bias and variance of the estimators, exactly, when everything is known (Lemma 1 of the DCE paper and its kin).

One value a pair, over all n = |D| pairs:

    p, p_hat      true and estimated probability of being seen
    q, r_tilde    true and imputed probability of a positive rating
    e1, e0        error of the prediction if the rating is 1, if it is 0 (`label_errors`)
    residual      e - e_imputed, which is (q - r_tilde)(e1 - e0) for errors that are linear in the label

Whether a pair is seen is independent of all other pairs and, but for `rating_driven_bias`, of its own rating. Ratings
that are fixed are the case q = r in {0, 1}. p_hat and r_tilde must not depend on which pairs happened to be seen.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from unskew.metrics.checks import require_choice
from unskew.metrics.table import PROBABILITY_FLOOR
from unskew.theory.checks import Values, columns, require_probabilities, require_propensity


def label_errors(prediction: ArrayLike, error: str = "log") -> tuple[Values, Values]:
    """(e1, e0): "log" is (-log r, -log(1 - r)), r held 1e-6 off 0 and 1; "squared" is ((1 - r)^2, r^2)."""
    require_choice(error, "error", ("log", "squared"))
    (r,) = columns(prediction=prediction)
    require_probabilities(prediction=r)
    if error == "squared":
        return (1 - r) ** 2, r**2
    r = np.clip(r, PROBABILITY_FLOOR, 1 - PROBABILITY_FLOOR)
    return -np.log(r), -np.log1p(-r)


def expected_residual(q: ArrayLike, r_tilde: ArrayLike, e1: ArrayLike, e0: ArrayLike) -> Values:
    """(q - r_tilde)(e1 - e0): e - e_imputed, averaged over the rating, if the error is linear in the label.

    True of cross-entropy and of the *expected* square y (1 - r)^2 + (1 - y) r^2. The plug-in square (r - y)^2 leaves
    q(1 - q) more, so no imputation, not even the truth, makes it vanish.
    """
    q, r_tilde, e1, e0 = columns(q=q, r_tilde=r_tilde, e1=e1, e0=e0)
    require_probabilities(q=q, r_tilde=r_tilde)
    return np.asarray((q - r_tilde) * (e1 - e0))


def bias(p: ArrayLike, p_hat: ArrayLike, residual: ArrayLike) -> float:
    """E[DR] - truth = (1/|D|) sum_D (p - p_hat)/p_hat (e - e_imputed); with residual = e it is that of IPS.

    Lemma 1 states its absolute value. Zero if p_hat = p or if e_imputed = e.
    """
    p, p_hat, residual = columns(p=p, p_hat=p_hat, residual=residual)
    require_probabilities(p=p)
    require_propensity(p_hat)
    return float(((p - p_hat) / p_hat * residual).mean())


def variance(p: ArrayLike, p_hat: ArrayLike, residual: ArrayLike) -> float:
    """Var[DR] = (1/|D|^2) sum_D p (1 - p)/p_hat^2 (e - e_imputed)^2 over which pairs are seen, ratings fixed."""
    p, p_hat, residual = columns(p=p, p_hat=p_hat, residual=residual)
    require_probabilities(p=p)
    require_propensity(p_hat)
    return float((p * (1 - p) * (residual / p_hat) ** 2).mean() / len(p))


def label_variance(p: ArrayLike, p_hat: ArrayLike, q: ArrayLike, e1: ArrayLike, e0: ArrayLike) -> float:
    """(1/|D|^2) sum_D p q (1 - q) (e1 - e0)^2/p_hat^2: what drawing the ratings as well adds to `variance`.

    It is zero for fixed ratings and is the part that the printed Theorem 4 has lost.
    """
    p, p_hat, q, e1, e0 = columns(p=p, p_hat=p_hat, q=q, e1=e1, e0=e0)
    require_probabilities(p=p, q=q)
    require_propensity(p_hat)
    return float((p * q * (1 - q) * ((e1 - e0) / p_hat) ** 2).mean() / len(p))


def naive_bias(p: ArrayLike, error: ArrayLike) -> float:
    """sum_D p e / sum_D p - mean_D e: the mean over seen pairs against the mean over all, for many pairs."""
    p, error = columns(p=p, error=error)
    require_probabilities(p=p)
    return float(np.average(error, weights=p) - error.mean())


def eib_bias(p: ArrayLike, residual: ArrayLike) -> float:
    """-(1/|D|) sum_D (1 - p)(e - e_imputed): unseen pairs are taken at their imputed error."""
    p, residual = columns(p=p, residual=residual)
    require_probabilities(p=p)
    return float(-((1 - p) * residual).mean())


def rating_driven_bias(
    p1: ArrayLike, p0: ArrayLike, p_hat: ArrayLike, q: ArrayLike, r_tilde: ArrayLike, e1: ArrayLike, e0: ArrayLike
) -> float:
    """E[DR] - truth if a pair is seen with probability p1 when its rating is 1 and p0 when it is 0.

    (1/|D|) sum_D [ q p1 (1 - r_tilde) - (1 - q) p0 r_tilde ] (e1 - e0)/p_hat - (q - r_tilde)(e1 - e0).
    Not zero for p_hat = P(seen) and r_tilde = q: one propensity a pair cannot undo a choice made by its rating.
    """
    named = columns(p1=p1, p0=p0, p_hat=p_hat, q=q, r_tilde=r_tilde, e1=e1, e0=e0)
    p1, p0, p_hat, q, r_tilde, e1, e0 = named
    require_probabilities(p1=p1, p0=p0, q=q, r_tilde=r_tilde)
    require_propensity(p_hat)
    seen = q * p1 * (1 - r_tilde) - (1 - q) * p0 * r_tilde
    return float(((seen / p_hat - (q - r_tilde)) * (e1 - e0)).mean())
