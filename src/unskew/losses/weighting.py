"""Estimates of the mean error over all pairs from the seen ones; each function reads like its formula.

Notation: D all pairs, O the seen ones, e the error, p the propensity. `total` sums over the pairs that rows stand for,
so the same function holds on a batch, on a hold-out and on a whole matrix.
"""

from typing import Any

from unskew.losses.batch import View
from unskew.losses.columns import log_error, square


def naive(v: View, role: str = "prediction") -> Any:
    """(1/|O|) sum_O e: right only if the seen pairs are a random sample."""
    return v.observed.mean(v.observed.error(role))


def ips(v: View) -> Any:
    """(1/|D|) sum_O e / p: unbiased if p is the true propensity (Schnabel et al., ICML 2016)."""
    o = v.observed
    return o.total(o.error() * o.inverse_propensity()) / v.n_pairs


def snips(v: View, role: str = "prediction") -> Any:
    """sum_O (e / p) / sum_O (1 / p): self-normalised, bounded by the largest error (Swaminathan & Joachims 2015)."""
    o = v.observed
    weight = o.inverse_propensity()
    return o.total(o.error(role) * weight) / o.total(weight)


def eib(v: View, imputed: Any) -> Any:
    """(1/|D|) [ sum_O e + sum_{D - O} e_imputed ]: errors of unseen pairs are imputed (Steck, RecSys 2010).

    `imputed` are the imputed errors of the sampled pairs.
    """
    o, d = v.observed, v.sampled
    return (o.total(o.error()) + d.total((1 - d.seen) * imputed)) / v.n_pairs


def seen_likelihood(v: View) -> Any:
    """-(1/|D|) [ sum_O log p + sum_{D - O} log(1 - p) ]: the loss of a propensity net over all pairs.

    Seen pairs come from the observed rows and unseen ones from the sampled rows, each for as many pairs as they stand
    for, so the net is fitted to the true base rate |O|/|D| at any ratio of the two.
    """
    o, d = v.observed, v.sampled
    seen, unseen = o.error("propensity", 1.0, log_error), d.error("propensity", 0.0, log_error)
    return (o.total(seen) + d.total((1 - d.seen) * unseen)) / v.n_pairs


def seen_squares(v: View) -> Any:
    """(1/|D|) sum_D (o - p)^2: what public code fits propensities by."""
    o, d = v.observed, v.sampled
    seen, unseen = square(1 - o.probability("propensity")), (1 - d.seen) * square(d.probability("propensity"))
    return (o.total(seen) + d.total(unseen)) / v.n_pairs
