"""Losses of methods that learn without propensities, with several nuisances at once, or under a worst case."""

from __future__ import annotations

import torch
from torch import Tensor

from unskew.risk.sample import Pairs, Sample

SMALL = 1e-6


def contrast(v: Sample) -> Tensor:
    """-m_O log m_D - (1 - m_O) log(1 - m_D), m the mean prediction on observed and on sampled pairs (CVIB).

    Wang et al., NeurIPS 2020, on means: pairing a random pair with an observed one would mean nothing.
    """
    seen = _mean(v.observed, v.observed.probability())
    drawn = _mean(v.sampled, v.sampled.probability()).clamp(SMALL, 1 - SMALL)
    return -seen * drawn.log() - (1 - seen) * (1 - drawn).log()


def negative_entropy(v: Sample) -> Tensor:
    """The mean of r log r + (1 - r) log(1 - r) on observed pairs: lowest where predictions are undecided."""
    r = v.observed.probability().clamp(SMALL, 1 - SMALL)
    return _mean(v.observed, r * r.log() + (1 - r) * (1 - r).log())


def _mean(pairs: Pairs, values: Tensor) -> Tensor:
    return pairs.total(values) / pairs.total(torch.ones_like(values))


def entire_space(v: Sample) -> Tensor:
    """(1/|D|) sum_D of the cross-entropy of p r against o r, the label of seen-and-liked (Ma et al., SIGIR 2018).

    o r is known everywhere: the rating on seen pairs, 0 on all others.
    """
    o, d = v.observed, v.sampled
    both = (o.probability("propensity") * o.probability()).clamp(SMALL, 1 - SMALL)
    on_seen = -o.ratings * both.log() - (1 - o.ratings) * (1 - both).log()
    elsewhere = -(1 - (d.probability("propensity") * d.probability()).clamp(SMALL, 1 - SMALL)).log()
    return (o.total(on_seen) + d.total((1 - d.seen) * elsewhere)) / v.n_pairs


def balance(v: Sample) -> Tensor:
    """(1/|D|) sum_D (o/p) (e_imputed - mean e_imputed): zero if weighting by 1/p balances imputed errors.

    Li et al., ICLR 2023 (StableDR). The mean is over all pairs; p has gradient, the errors have not.
    """
    o, d = v.observed, v.sampled
    centre = (d.total(d.imputed_error()) / v.n_pairs).detach()
    return o.total((o.imputed_error().detach() - centre) / o.probability("propensity").clamp(min=SMALL)) / v.n_pairs


def worst_weights(gap: Tensor, weight: Tensor, bound: float) -> Tensor:
    """The v in [1 + (w - 1)/bound, 1 + (w - 1) bound] that maximises sum v gap: an end of each interval.

    w = 1/p; hidden confounders may have made the odds of p wrong by a factor of at most `bound`.
    """
    low, high = 1 + (weight - 1) / bound, 1 + (weight - 1) * bound
    return torch.where(gap > 0, high, low)


def agreement(v: Sample, first: str, second: str, tolerance: float) -> Tensor:
    """1 for sampled pairs about which two roles differ by at most the tolerance."""
    gap = (v.sampled.probability(first) - v.sampled.probability(second)).abs()
    return (gap <= tolerance).to(gap.dtype)
