"""The bounds of the DCE paper's theory: the forms that are true beside the forms that are printed.

As proved, the paper's "ECE" is the mean gap pair by pair, A_p = mean_D |p - p_hat| or A_q = mean_D |q - r_tilde|. The
ECE that can be measured averages within bins before it takes absolute values, so it is never larger, and may be zero
where the gap is not: with it the bounds are false (`unskew.theory.COUNTER_EXAMPLES`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from unskew.metrics.calibration import calibration_error
from unskew.theory.checks import Values, columns, require_probabilities
from unskew.theory.lemma import bias, expected_residual, label_variance, variance

ROUNDING = 1e-9  # of sums in floating point


@dataclass(frozen=True)
class Bound:
    """A quantity and what is said to bound it.

    `exact` never exceeds `sharp`, `by_gap` and `by_largest_gap`; `as_printed` has ECE and MCE over bins in place of
    the gaps and is no bound.
    """

    exact: float
    sharp: float
    by_gap: float
    by_largest_gap: float
    as_printed: tuple[float, float]

    @property
    def holds(self) -> bool:
        """Whether the true forms hold, up to rounding; they always do."""
        return self._below(self.sharp, self.by_gap, self.by_largest_gap)

    @property
    def holds_as_printed(self) -> bool:
        return self._below(*self.as_printed)

    def _below(self, *bounds: float) -> bool:
        return all(self.exact <= bound * (1 + ROUNDING) + ROUNDING**2 for bound in bounds)


def theorem_2(p: ArrayLike, p_hat: ArrayLike, residual: ArrayLike, *, n_bins: int = 15) -> Bound:
    """|Bias| <= rho A_p <= rho max_D |p - p_hat| with rho = max_D |e - e_imputed|/p_hat, for any residual.

    Sharp: mean_D |p - p_hat| |e - e_imputed|/p_hat. Printed: rho ECE and rho MCE of the propensity.
    """
    exact = abs(bias(p, p_hat, residual))
    p, p_hat, residual = columns(p=p, p_hat=p_hat, residual=residual)
    slope = np.abs(residual) / p_hat
    return _bound(exact, slope, p, p_hat, n_bins)


def corollary_3(
    p: ArrayLike,
    p_hat: ArrayLike,
    q: ArrayLike,
    r_tilde: ArrayLike,
    e1: ArrayLike,
    e0: ArrayLike,
    *,
    n_bins: int = 15,
) -> Bound:
    """|Bias| <= pi A_q <= pi max_D |q - r_tilde| with pi = max_D |p_hat - p| |e1 - e0|/p_hat.

    The bias is over seeing and rating, and a pair is seen independently of its rating; for given ratings r pass q =
    r, which makes A_q the mean |r - r_tilde|. Errors must be linear in the label. Printed: pi ECE and pi MCE of the
    imputation.
    """
    exact = abs(bias(p, p_hat, expected_residual(q, r_tilde, e1, e0)))
    p, p_hat, q, r_tilde, e1, e0 = columns(p=p, p_hat=p_hat, q=q, r_tilde=r_tilde, e1=e1, e0=e0)
    slope = np.abs(p_hat - p) * np.abs(e1 - e0) / p_hat
    return _bound(exact, slope, q, r_tilde, n_bins)


def _bound(exact: float, slope: Values, truth: Values, said: Values, n_bins: int) -> Bound:
    """Of a mean of slope times gap: the mean itself, and the largest slope times the mean and the largest gap."""
    gap, steepest = np.abs(truth - said), slope.max()
    ece, mce = _binned(truth, said, n_bins)
    return Bound(
        exact=exact,
        sharp=float((slope * gap).mean()),
        by_gap=float(steepest * gap.mean()),
        by_largest_gap=float(steepest * gap.max()),
        as_printed=(float(steepest * ece), float(steepest * mce)),
    )


def theorem_4(
    p: ArrayLike,
    p_hat: ArrayLike,
    q: ArrayLike,
    r_tilde: ArrayLike,
    e1: ArrayLike,
    e0: ArrayLike,
    *,
    n_bins: int = 15,
) -> Bound:
    """Var <= omega A_q^2 + L and Var <= (omega/|D|) max_D (q - r_tilde)^2 + L.

    omega = max_D p (1 - p)(e1 - e0)^2/p_hat^2 and L is `label_variance`, zero for given ratings (pass q = r). Sharp:
    (omega/|D|) mean_D (q - r_tilde)^2 + L. The first line is true and of no use: a variance falls with |D| and this
    bound does not. Printed: without L, with ECE and MCE over bins.
    """
    residual = expected_residual(q, r_tilde, e1, e0)
    labels = label_variance(p, p_hat, q, e1, e0)
    exact = variance(p, p_hat, residual) + labels
    p, p_hat, q, r_tilde, e1, e0 = columns(p=p, p_hat=p_hat, q=q, r_tilde=r_tilde, e1=e1, e0=e0)
    gap, omega, n = np.abs(q - r_tilde), (p * (1 - p) * ((e1 - e0) / p_hat) ** 2).max(), len(q)
    ece, mce = _binned(q, r_tilde, n_bins)
    return Bound(
        exact=exact,
        sharp=float(omega * (gap**2).mean() / n) + labels,
        by_gap=float(omega * gap.mean() ** 2) + labels,
        by_largest_gap=float(omega * (gap**2).max() / n) + labels,
        as_printed=(float(omega * ece**2), float(omega * mce**2 / n)),
    )


def _binned(truth: Values, said: Values, n_bins: int) -> tuple[float, float]:
    require_probabilities(truth=truth, said=said)
    return (
        calibration_error(truth, said, n_bins=n_bins),
        calibration_error(truth, said, n_bins=n_bins, norm="max"),
    )
