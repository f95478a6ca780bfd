"""Bias, variance and bounds of doubly robust estimates (Kweon & Yu, WWW 2024), true forms next to the printed ones.

One value a pair over all n = |D| pairs, or one for all: p and p_hat the true and the estimated chance of being seen, q
and r_tilde the true and the imputed chance of a positive rating, e1 and e0 the error of the prediction if the rating is
1 and 0, residual = e - e_imputed. A pair is seen independently of all others and of its own rating. Given ratings are
the case q = r. p_hat and r_tilde must not depend on which pairs happened to be seen.

As proved, the paper's "ECE" is the mean gap pair by pair, mean |p - p_hat| or mean |q - r_tilde|. An ECE that can be
measured averages within bins first: it is never larger, may be zero where the gap is not, and with it no bound holds.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unskew.errors import DataError, chosen
from unskew.metrics.calibration import calibration_error
from unskew.metrics.checks import Values, finite_vector, refuse_rows, require_unit_interval
from unskew.metrics.table import logarithmic, squared


class Bound(NamedTuple):
    """A quantity and its bounds: it never exceeds `sharp`, `by_gap` and `by_largest_gap`.

    `as_printed` has ECE and MCE over bins in place of the gaps and is no bound.
    """

    exact: float
    sharp: float
    by_gap: float
    by_largest_gap: float
    as_printed: tuple[float, float]


def label_errors(prediction: ArrayLike, error: str = "log") -> tuple[Values, Values]:
    """(e1, e0): (-log r, -log(1 - r)), r held 1e-6 off 0 and 1, or with "squared" ((1 - r)^2, r^2)."""
    chosen(error, "error", ("log", "squared"))
    (r,) = _columns(prediction=prediction)
    cell = {"log": logarithmic, "squared": squared}[error]
    return cell(r, np.ones_like(r)), cell(r, np.zeros_like(r))


def expected_residual(q: ArrayLike, r_tilde: ArrayLike, e1: ArrayLike, e0: ArrayLike) -> Values:
    """(q - r_tilde)(e1 - e0): e - e_imputed over the rating, for cross-entropy and y (1 - r)^2 + (1 - y) r^2.

    The plug-in square (r - y)^2 leaves q(1 - q) more, so no imputation, not even the truth, makes it vanish.
    """
    q, r_tilde, e1, e0 = _columns(q=q, r_tilde=r_tilde, e1=e1, e0=e0)
    return np.asarray((q - r_tilde) * (e1 - e0))


def bias(p: ArrayLike, p_hat: ArrayLike, residual: ArrayLike) -> float:
    """E[DR] - truth = mean_D (p - p_hat)/p_hat (e - e_imputed), Lemma 1; with residual = e it is that of IPS."""
    p, p_hat, residual = _columns(p=p, p_hat=p_hat, residual=residual)
    return float(((p - p_hat) / p_hat * residual).mean())


def variance(p: ArrayLike, p_hat: ArrayLike, residual: ArrayLike) -> float:
    """Var[DR] = (1/n) mean_D p (1 - p)/p_hat^2 (e - e_imputed)^2 over which pairs are seen, ratings given (Lemma 1)."""
    p, p_hat, residual = _columns(p=p, p_hat=p_hat, residual=residual)
    return float((p * (1 - p) * (residual / p_hat) ** 2).mean() / len(p))


def label_variance(p: ArrayLike, p_hat: ArrayLike, q: ArrayLike, e1: ArrayLike, e0: ArrayLike) -> float:
    """(1/n) mean_D p q (1 - q)(e1 - e0)^2/p_hat^2: what drawn ratings add; the printed Theorem 4 has lost it."""
    p, p_hat, q, e1, e0 = _columns(p=p, p_hat=p_hat, q=q, e1=e1, e0=e0)
    return float((p * q * (1 - q) * ((e1 - e0) / p_hat) ** 2).mean() / len(p))


def theorem_2(p: ArrayLike, p_hat: ArrayLike, residual: ArrayLike) -> Bound:
    """|Bias| <= rho mean_D |p - p_hat| <= rho max_D |p - p_hat|, rho = max_D |e - e_imputed|/p_hat.

    Sharp: mean_D |p - p_hat| |e - e_imputed|/p_hat. Printed: rho ECE and rho MCE of the propensity.
    """
    exact = abs(bias(p, p_hat, residual))
    p, p_hat, residual = _columns(p=p, p_hat=p_hat, residual=residual)
    return _bound(exact, np.abs(residual) / p_hat, p, p_hat)


def corollary_3(
    p: ArrayLike, p_hat: ArrayLike, q: ArrayLike, r_tilde: ArrayLike, e1: ArrayLike, e0: ArrayLike
) -> Bound:
    """|Bias| <= pi mean_D |q - r_tilde| <= pi max_D |q - r_tilde|, pi = max_D |p_hat - p| |e1 - e0|/p_hat.

    The bias is over seeing and rating; errors must be linear in the label. Printed: with ECE and MCE of the imputation.
    """
    exact = abs(bias(p, p_hat, expected_residual(q, r_tilde, e1, e0)))
    p, p_hat, q, r_tilde, e1, e0 = _columns(p=p, p_hat=p_hat, q=q, r_tilde=r_tilde, e1=e1, e0=e0)
    return _bound(exact, np.abs(p_hat - p) * np.abs(e1 - e0) / p_hat, q, r_tilde)


def theorem_4(p: ArrayLike, p_hat: ArrayLike, q: ArrayLike, r_tilde: ArrayLike, e1: ArrayLike, e0: ArrayLike) -> Bound:
    """Var <= omega (mean_D |q - r_tilde|)^2 + L and Var <= (omega/n) max_D (q - r_tilde)^2 + L.

    omega = max_D p (1 - p)(e1 - e0)^2/p_hat^2 and L = `label_variance`. Sharp: (omega/n) mean_D (q - r_tilde)^2 + L.
    The first is true and of no use: a variance falls with n and it does not. Printed: without L, with ECE and MCE.
    """
    labels = label_variance(p, p_hat, q, e1, e0)
    exact = variance(p, p_hat, expected_residual(q, r_tilde, e1, e0)) + labels
    p, p_hat, q, r_tilde, e1, e0 = _columns(p=p, p_hat=p_hat, q=q, r_tilde=r_tilde, e1=e1, e0=e0)
    omega, n = float((p * (1 - p) * ((e1 - e0) / p_hat) ** 2).max()), len(q)
    gap, ece, mce = _gaps(q, r_tilde)
    sharp, by_gap, largest = (omega * x + labels for x in ((gap**2).mean() / n, gap.mean() ** 2, (gap**2).max() / n))
    return Bound(exact, float(sharp), float(by_gap), float(largest), (omega * ece**2, omega * mce**2 / n))


def _bound(exact: float, slope: Values, truth: Values, estimate: Values) -> Bound:
    """Return the mean of slope times gap, and the largest slope times the mean and the largest gap."""
    (gap, ece, mce), most = _gaps(truth, estimate), float(slope.max())
    return Bound(exact, float((slope * gap).mean()), most * gap.mean(), most * gap.max(), (most * ece, most * mce))


def _gaps(truth: Values, estimate: Values) -> tuple[Values, float, float]:
    ece, mce = (calibration_error(truth, estimate, norm=norm) for norm in ("mean", "max"))
    return np.abs(truth - estimate), ece, mce


def _columns(**named: ArrayLike) -> tuple[Values, ...]:
    """Return finite columns of one length, probabilities where they must be; a single number stands for every pair."""
    vectors = {name: finite_vector(np.atleast_1d(np.asarray(values)), name) for name, values in named.items()}
    length = max(vector.size for vector in vectors.values())
    for name, vector in vectors.items():
        if vector.size not in (1, length):
            raise DataError(f"{name} has {vector.size} values for {length} pairs; give one a pair or one for all.")
        if name not in ("e1", "e0", "residual"):
            require_unit_interval(vector, name)
    if "p_hat" in vectors:
        refuse_rows(vectors["p_hat"] == 0, vectors["p_hat"], "p_hat", "is 0, by which nothing can be divided")
    return tuple(np.broadcast_to(vector, length) for vector in vectors.values())
