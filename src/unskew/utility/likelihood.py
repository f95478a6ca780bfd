"""The likelihood of selection on utility: which pairs were seen and what their ratings are, in one loss.

Notation of `utility.law`: z the explained utility, said by the prediction; rates a_u b_i exp(slope z), whose activity
and exposure log(a_u b_i) a role "activity" says; the slope is said by a role of its own, and t = k slope.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy.special import log_expit
from torch import Tensor

from unskew.risk.sample import Pairs, Sample
from unskew.utility.law import mean_tilt, seen_log_odds

LARGEST_Z, LARGEST_RATE = 15.0, 20.0
STEP = 1e-4  # for the derivative with respect to t
BOUND = 0.95  # of |t|


class _SeenLogOdds(torch.autograd.Function):
    """log m_t(z) and log(1 - m_t(z)); exact with respect to z, a central difference with respect to t."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        at, tilt = z.detach().double().numpy(), float(t)
        liked, disliked = seen_log_odds(at, tilt)
        density = np.exp(-tilt * at + log_expit(at) + log_expit(-at)) / mean_tilt(tilt)
        above, below = seen_log_odds(at, tilt + STEP), seen_log_odds(at, tilt - STEP)
        by_t = [(high - low) / (2 * STEP) for high, low in zip(above, below, strict=True)]
        slopes = density / np.exp(liked), -density / np.exp(disliked), *by_t
        ctx.slopes = tuple(torch.from_numpy(part).to(z.dtype) for part in slopes)
        one, other = (torch.from_numpy(part).to(z.dtype) for part in (liked, disliked))
        return one, other

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        liked_z, disliked_z, liked_t, disliked_t = ctx.slopes
        one, other = gradients
        return one * liked_z + other * disliked_z, (one * liked_t + other * disliked_t).sum()


def tilt(pairs: Pairs, unexplained: float, slope: str = "slope") -> Tensor:
    """t = k slope, as a number, kept where the law holds."""
    return (unexplained * pairs.logit(slope)[0]).clamp(-BOUND, BOUND)


def seen_rating_error(v: Sample, unexplained: float, role: str = "prediction") -> Tensor:
    """-(1/|O|) sum_O log P(r | seen): the naive risk of a net that speaks of all pairs instead of seen ones."""
    o = v.observed
    return o.total(_rating_error(o, unexplained, role)) / o.total(torch.ones_like(o.ratings))


def _rating_error(o: Pairs, unexplained: float, role: str) -> Tensor:
    z = o.logit(role).clamp(-LARGEST_Z, LARGEST_Z)
    liked, disliked = _SeenLogOdds.apply(z, tilt(o, unexplained))  # type: ignore[no-untyped-call]
    error: Tensor = -o.ratings * liked - (1 - o.ratings) * disliked
    return error


def log_rate(pairs: Pairs, role: str = "prediction", activity: str = "activity", slope: str = "slope") -> Tensor:
    """log(a_u b_i) + slope z."""
    z = pairs.logit(role).clamp(-LARGEST_Z, LARGEST_Z)
    return (pairs.logit(activity) + pairs.logit(slope) * z).clamp(-LARGEST_RATE, LARGEST_RATE)


def seen_error(v: Sample) -> Tensor:
    """-(1/|O|) [sum_O log(1 - exp(-rate)) - sum_{D - O} rate]: of which pairs were seen."""
    o, d = v.observed, v.sampled
    chosen = -torch.log(-torch.expm1(-log_rate(o).exp()))
    left = (1 - d.seen) * log_rate(d).exp()
    return (o.total(chosen) + d.total(left)) / o.total(torch.ones_like(o.ratings))


def utility_likelihood(v: Sample, unexplained: float) -> Tensor:
    """Both together, per seen pair: what selection on utility makes of a log."""
    return seen_rating_error(v, unexplained) + seen_error(v)
