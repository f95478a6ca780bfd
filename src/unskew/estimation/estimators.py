"""Estimates of a mean (or a ratio of means) over all pairs from the seen ones, with the influence of every unit.

Standard errors come from influence functions and take the propensities as given.

Metrics of pairs have the *pair* as their unit. The catalogue is what it is and chance decides which of its pairs are
seen, each by itself given its propensity: that is the model by which weighting is right at all. The variance of
(1/|D|) sum_O w x, w = 1/p, is then (1/|D|^2) sum_D (1 - p)/p x^2, estimated by (1/|D|^2) sum_O w (w - 1) x^2 (Horvitz &
Thompson, 1952); ratios by linearisation.

Metrics of lists have the *user* as their unit. They average one number a user, only some users' lists may be looked
at, and what a user sees of one list hangs together; so rows are added up by user before they are squared. The
interval is then for users like these.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unskew.errors import DataError
from unskew.estimation.estimate import Estimate
from unskew.estimation.evidence import Evidence
from unskew.estimation.scores import Values
from unskew.estimation.terms import Imputed, Terms
from unskew.metrics.intervals import effective_sample_size


def naive(terms: Terms, evidence: Evidence) -> Estimate:
    """sum_O a / sum_O b: right only if the seen pairs are a random sample, of the lists if the metric is of lists."""
    return _self_normalised(terms, np.ones(len(terms.a)), chance=np.ones(len(terms.a)))


def snips(terms: Terms, evidence: Evidence) -> Estimate:
    """sum_O w a / sum_O w b (Swaminathan & Joachims, 2015)."""
    w = evidence.weights[terms.rows]
    return _self_normalised(terms, w, chance=np.sqrt(1 - 1 / w))


def ips(terms: Terms, evidence: Evidence) -> Estimate:
    """(1/|D|) sum_O w a, for a ratio divided by (1/|D|) sum_O w b (Schnabel et al., ICML 2016)."""
    w = evidence.weights[terms.rows]
    return _corrected(terms, w, w, None, evidence)


def eib(terms: Terms, evidence: Evidence) -> Estimate:
    """(1/|D|) [ sum_O a + sum_{D - O} a_imputed ]: the doubly robust form with all weights 1 (Steck, RecSys 2010)."""
    ones = np.ones(len(terms.a))
    return _corrected(terms, ones, evidence.weights[terms.rows], terms.imputed, evidence)


def dr(terms: Terms, evidence: Evidence) -> Estimate:
    """(1/|D|) [ sum_D a_imputed + sum_O w (a - a_imputed) ] (Wang et al., ICML 2019)."""
    w = evidence.weights[terms.rows]
    return _corrected(terms, w, w, terms.imputed, evidence)


def tdr(terms: Terms, evidence: Evidence) -> Estimate:
    """dr with a_imputed + epsilon h, h = w - 1, epsilon = sum_O h (a - a_imputed) / sum_O h^2 (Li et al., ICLR 2023).

    The estimate moves with epsilon by K = mean_D h - (1/|D|) sum_O w h, which is 0 but for chance; so a seen pair that
    is left a residual x has the influence [w + |D| K h / sum_O h^2] x / |D|. As epsilon follows the few pairs with the
    largest h, x is what it would be had epsilon been fitted without its pair, x / (1 - h^2 / sum_O h^2).
    """
    assert terms.imputed is not None
    w, said, n = evidence.weights[terms.rows], terms.imputed, terms.n_pairs
    h, everywhere = w - 1, evidence.covariate_pairs
    square = max(float(h @ h), 1e-12)  # if all weights are 1 there is nothing to correct
    # Users have no h of their own here: its mean over the catalogue serves them all.
    of_unit = everywhere if terms.owner is None else everywhere.mean()
    e_a = float(h @ (terms.a - said.a)) / square
    b, direct_b = said.b, said.direct_b
    if b is not None and direct_b is not None:
        e_b = float(h @ (terms.b - b)) / square
        b, direct_b = b + e_b * h, direct_b + e_b * everywhere
    targeted = Imputed(said.a + e_a * h, b, said.direct_a + e_a * of_unit, direct_b)
    leverage = (w + (n * float(everywhere.mean()) - float(w @ h)) * h / square) / (1 - np.minimum(h**2 / square, 0.999))
    return _corrected(terms, w, w, targeted, evidence, leverage)


@dataclass(frozen=True)
class Estimator:
    """An estimator by name and what it asks for."""

    run: Callable[[Terms, Evidence], Estimate]
    weighs: bool
    imputes: bool


ESTIMATORS = {
    "naive": Estimator(naive, weighs=False, imputes=False),
    "ips": Estimator(ips, weighs=True, imputes=False),
    "snips": Estimator(snips, weighs=True, imputes=False),
    "eib": Estimator(eib, weighs=True, imputes=True),
    "dr": Estimator(dr, weighs=True, imputes=True),
    "tdr": Estimator(tdr, weighs=True, imputes=True),
}


def _self_normalised(terms: Terms, w: Values, chance: Values) -> Estimate:
    total = float(w @ terms.b)
    if total <= 0:
        raise DataError("No rating counts for this metric (none is in a list, or none is liked); leave the metric out.")
    value = float(w @ terms.a) / total
    rows = w * (terms.a - value * terms.b) / total
    influence = rows * chance if terms.owner is None else _of_users(rows, terms.owner, terms.n_owners)
    return Estimate(value, influence, _sample(terms, w))


def _corrected(
    terms: Terms,
    factor: Values,
    w: Values,
    imputed: Imputed | None,
    evidence: Evidence,
    leverage: Values | None = None,
) -> Estimate:
    """mean_D a_imputed + (1/|D|) sum_O factor (a - a_imputed), for a ratio divided by the same of b.

    A residual has the influence `leverage` on the sum, the factor itself unless told otherwise.
    """
    n, zero = terms.n_pairs, np.zeros(len(terms.a))
    a = terms.a - (zero if imputed is None else imputed.a)
    above = float(factor @ a) / n + (0.0 if imputed is None else float(imputed.direct_a.mean()))
    b, below = zero, 1.0
    if terms.ratio:
        b = terms.b - (zero if imputed is None or imputed.b is None else imputed.b)
        below = float(factor @ b) / n
        if imputed is not None and imputed.direct_b is not None:
            below += float(imputed.direct_b.mean())
        if below <= 0:
            raise DataError("No rating counts for this metric (none is liked); leave the metric out.")
    value = above / below
    rows = (factor if leverage is None else leverage) * (a - value * b) / (n * below)
    sample = _sample(terms, w)
    if terms.owner is not None:
        lists = 0.0 if imputed is None else imputed.direct_a / (below * terms.n_owners)
        return Estimate(value, _of_users(rows, terms.owner, terms.n_owners, lists), sample)
    drawn = None if imputed is None or evidence.whole else imputed.direct_a / below
    return Estimate(value, rows * np.sqrt(1 - 1 / w), sample, drawn)


def _of_users(rows: Values, owner: NDArray[np.int64], n_owners: int, more: Values | float = 0.0) -> Values:
    """Rows added up by user, less their mean: the sum of squares is the variance of a sum over independent users."""
    summed = np.bincount(owner, rows, n_owners) + more
    return np.asarray((summed - summed.mean()) * np.sqrt(n_owners / max(n_owners - 1, 1)))


def _sample(terms: Terms, w: Values) -> float:
    """Of the seen pairs that count: for a list those that are in it."""
    return effective_sample_size(w[terms.b != 0])
