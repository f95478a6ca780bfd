"""Estimates of the mean error over all pairs from the seen ones; each function reads like its formula.

Notation: D all pairs, O the seen ones, e the error, p the propensity. `total` sums over all the cells that rows
stand for, so the same functions hold on a mini-batch, on a hold-out and on a full matrix.
"""

from __future__ import annotations

import torch
from torch import Tensor

from unskew.risk.closed import Seeing, Weighted, alike, by_inverse_propensity, closed_form
from unskew.risk.sample import Sample


@closed_form(Weighted(alike, normalised=True))
def naive(v: Sample, role: str = "prediction") -> Tensor:
    """(1/|O|) sum_O e: right only if the seen pairs are a random sample."""
    o = v.observed
    return o.total(o.error(role)) / o.total(torch.ones_like(o.ratings))


@closed_form(Weighted(by_inverse_propensity, normalised=False))
def ips(v: Sample) -> Tensor:
    """(1/|D|) sum_O e / p: unbiased if p is the true propensity (Schnabel et al., ICML 2016)."""
    o = v.observed
    return o.total(o.error() * o.inverse_propensity()) / v.n_pairs


@closed_form(Weighted(by_inverse_propensity, normalised=True))
def snips(v: Sample, role: str = "prediction") -> Tensor:
    """sum_O (e / p) / sum_O (1 / p): self-normalised, bounded by the largest error (Swaminathan & Joachims 2015)."""
    o = v.observed
    weight = o.inverse_propensity()
    return o.total(o.error(role) * weight) / o.total(weight)


def eib(v: Sample, imputed: Tensor) -> Tensor:
    """(1/|D|) [ sum_O e + sum_{D - O} e_imputed ]: errors of unseen pairs are imputed (Steck, RecSys 2010).

    `imputed` are the imputed errors of the sampled pairs.
    """
    o, d = v.observed, v.sampled
    return (o.total(o.error()) + d.total((1 - d.seen) * imputed)) / v.n_pairs


@closed_form(Seeing())
def seen_likelihood(v: Sample, role: str = "propensity") -> Tensor:
    """-(1/|D|) [ sum_O log p + sum_{D - O} log(1 - p) ]: the loss of a propensity net over all pairs.

    Seen pairs come from the observed rows and unseen ones from the sampled rows, each for as many cells as they
    stand for, so the net is fitted to the true base rate |O|/|D| at any ratio of the two.
    """
    o, d = v.observed, v.sampled
    positive = torch.nn.functional.softplus(-o.logit(role))
    negative = (1 - d.seen) * torch.nn.functional.softplus(d.logit(role))
    return (o.total(positive) + d.total(negative)) / v.n_pairs


def seen_squares(v: Sample, role: str = "propensity") -> Tensor:
    """(1/|D|) sum_D (o - p)^2: what public code fits propensities by."""
    o, d = v.observed, v.sampled
    positive = (1 - torch.sigmoid(o.logit(role))).square()
    negative = (1 - d.seen) * torch.sigmoid(d.logit(role)).square()
    return (o.total(positive) + d.total(negative)) / v.n_pairs
