"""Losses of methods that learn without propensities, with several roles at once, or under a worst case."""

from typing import Any

import numpy as np

from unskew.losses.batch import View
from unskew.losses.columns import Array, clip, log, log_error, value_of

SMALL = 1e-6


def contrast(v: View) -> Any:
    """-m_O log m_D - (1 - m_O) log(1 - m_D), m the mean prediction on observed and on sampled pairs (CVIB).

    Wang et al., NeurIPS 2020, on means: pairing a random pair with an observed one would mean nothing.
    """
    seen = v.observed.mean(v.observed.probability())
    drawn = clip(v.sampled.mean(v.sampled.probability()), SMALL, 1 - SMALL)
    return -1.0 * seen * log(drawn) - (1 - seen) * log(1 - drawn)


def negative_entropy(v: View) -> Any:
    """Return the mean of r log r + (1 - r) log(1 - r) on observed pairs: lowest where predictions are undecided."""
    r = clip(v.observed.probability(), SMALL, 1 - SMALL)
    return v.observed.mean(r * log(r) + (1 - r) * log(1 - r))


def entire_space(v: View) -> Any:
    """(1/|D|) sum_D of the cross-entropy of p r against o r, the label of seen-and-liked (Ma et al., SIGIR 2018).

    o r is known everywhere: the rating on seen pairs, 0 on all others.
    """
    o, d = v.observed, v.sampled
    both, drawn = (clip(rows.probability("propensity") * rows.probability(), SMALL, 1 - SMALL) for rows in (o, d))
    on_seen = o.ratings * log(both) + (1 - o.ratings) * log(1 - both)
    return -1.0 * (o.total(on_seen) + d.total((1 - d.seen) * log(1 - drawn))) / v.n_pairs


def counterfactual(v: View) -> Any:
    """sum_{D - O} -log r* / (1 - p) / sum_{D - O} 1 / (1 - p): a second tower that takes what was unseen for unwanted.

    r* stands for 1 - r, whose label is 1 on every unseen row (DCMT: Zhu et al., ICDE 2023).
    """
    d = v.sampled
    weight = (1 - d.seen) / np.maximum(1 - value_of(d.probability("propensity")), SMALL)
    return d.total(weight * d.error("counterfactual", 1.0, log_error)) / max(d.total(weight), SMALL)


def opposition(v: View) -> Any:
    """(1/|D|) sum_D |1 - r - r*|: both towers together leave nothing over (DCMT)."""
    d = v.sampled
    gap = 1 - d.probability() - d.probability("counterfactual")
    return d.total(gap * np.sign(value_of(gap))) / v.n_pairs


def relevance(v: View) -> Any:
    """(1/|D|) sum_D [ (y/p) e1 + (1 - y/p) e0 ], y = 1 on positive rows and 0 on all others, p that of being exposed.

    Its expectation is that of the error against what is relevant (Saito et al., WSDM 2020): sum_D e0 + sum_O (y/p)(e1 -
    e0).
    """
    o, d = v.observed, v.sampled
    gained = o.ratings * o.inverse_propensity() * (o.error(label=1.0) - o.error(label=0.0))
    return (d.total(d.error(label=0.0)) + o.total(gained)) / v.n_pairs


def balance(v: View) -> Any:
    """(1/|D|) sum_D (o/p) (e_imputed - mean e_imputed): zero if weighting by 1/p balances imputed errors.

    Li et al., ICLR 2023 (StableDR). The mean is over all pairs; p learns, the errors do not.
    """
    o, d = v.observed, v.sampled
    centre = v.held(d.total(d.imputed_error())) / v.n_pairs
    gap = v.held(o.imputed_error()) - np.float32(centre)
    return o.total(gap / clip(o.probability("propensity"), SMALL)) / v.n_pairs


def worst_weights(gap: Array, weight: Array, bound: float) -> Array:
    """Return the v in [1 + (w - 1)/bound, 1 + (w - 1) bound] that maximises sum v gap: an end of each interval.

    w = 1/p; hidden confounders may have made the odds of p wrong by a factor of at most `bound`.
    """
    return np.where(gap > 0, 1 + (weight - 1) * bound, 1 + (weight - 1) / bound)


def agreement(v: View, first: str, second: str, tolerance: float) -> Array:
    """1 for sampled pairs on which two roles at rest differ by at most the tolerance."""
    gap = np.abs(value_of(v.sampled.probability(first)) - value_of(v.sampled.probability(second)))
    return np.asarray(gap <= tolerance, gap.dtype)
