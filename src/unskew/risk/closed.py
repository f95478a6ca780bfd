"""Closed forms of the risks that train most: d risk / d logit of every row in one compiled pass, without autograd.

The formulas are those of `estimators` and `robust` for the log error e = softplus(s) - y s, where s is the logit held
within its bounds; tests hold each to the derivative that PyTorch finds. A loss takes one by the decorator
`closed_form`; the loop uses it where the learning net can take slopes, and differentiates the loss itself elsewhere.
A closed form hands the slopes to the rows by `learn` and says the risk, or None if the errors are not log errors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
import torch
from torch import Tensor

from unskew.fast import WIDE, sigmoid, softplus
from unskew.risk.errors import log_error
from unskew.risk.sample import Pairs, Sample

LossT = TypeVar("LossT", bound=Callable[..., Tensor])
ClosedForm = Callable[..., float | None]
# The cache of these kernels holds those of fast.py too, and is renewed when this file changes: change both.


def closed_form(form: ClosedForm) -> Callable[[LossT], LossT]:
    """Let a loss, a function or a method, be trained by its closed form, called with the same arguments."""

    def attach(loss: LossT) -> LossT:
        loss.closed_form = form  # type: ignore[attr-defined]
        return loss

    return attach


def mean_error(v: Sample) -> float | None:
    """Of `estimators.naive`."""
    return _weighted_mean(v, torch.ones_like(v.observed.ratings), None)


def weighted_error(v: Sample) -> float | None:
    """Of `estimators.ips`."""
    return _weighted_mean(v, v.observed.inverse_propensity(), v.n_pairs)


def self_normalised_error(v: Sample, role: str = "prediction") -> float | None:
    """Of `estimators.snips`."""
    return _weighted_mean(v, v.observed.inverse_propensity(), None, role)


def _weighted_mean(v: Sample, weight: Tensor, divisor: float | None, role: str = "prediction") -> float | None:
    if v.error_function is not log_error:
        return None
    o = v.observed
    scale = o.weight / (o.total(weight).item() if divisor is None else divisor)
    value, slopes = _errors(o.logit(role).numpy(), o.ratings.numpy(), weight.numpy(), scale, v.largest_logit)
    o.learn(role, slopes)
    return float(value)


def doubly_robust(v: Sample, prediction: str = "prediction", imputation: str = "imputation") -> float | None:
    """Of `robust.dr`: on seen pairs (e - e_imputed) / p = (r_imputed - r) s / p, which is linear in the logit."""
    if v.error_function is not log_error:
        return None
    o, d = v.observed, v.sampled
    correction, slopes = _corrections(
        o.logit(prediction).numpy(),
        o.ratings.numpy(),
        o.probability(imputation).numpy(),
        o.inverse_propensity().numpy(),
        o.weight / v.n_pairs,
        v.largest_logit,
    )
    o.learn(prediction, slopes)
    imputed = d.probability(imputation)
    ones = torch.ones_like(imputed)
    direct, slopes = _errors(
        d.logit(prediction).numpy(), imputed.numpy(), ones.numpy(), d.weight / v.n_pairs, v.largest_logit
    )
    d.learn(prediction, slopes)
    return float(correction + direct)


def imputation_gap(v: Sample, weight: Tensor, epsilon: Tensor | None = None) -> float | None:
    """Of `robust.imputation_error` or `robust.targeted_imputation_error`, times `robust.per_stake`.

    e - e_imputed = (r_imputed - r) s and e1 - e0 = -s, so the loss is the mean of
    (r_imputed - r - epsilon h / s)^2, weighted by s^2 times `weight`.
    """
    if v.error_function is not log_error:
        return None
    o = v.observed
    stake = o.logit("prediction").clamp(-v.largest_logit, v.largest_logit)
    scale = o.weight / max(o.total(weight * stake.square()).item(), 1e-12)
    shift = torch.zeros_like(stake) if epsilon is None else epsilon * (o.inverse_propensity() - 1)
    value, slopes = _gaps(
        o.logit("imputation").numpy(), o.ratings.numpy(), stake.numpy(), shift.numpy(), weight.numpy(), scale
    )
    o.learn("imputation", slopes)
    return float(value)


def likelihood_of_seeing(v: Sample, role: str = "propensity") -> float:
    """Of `estimators.seen_likelihood`."""
    seen, unseen = (
        _likelihood(pairs, role, sign, pairs.weight / v.n_pairs) for pairs, sign in ((v.observed, -1), (v.sampled, 1))
    )
    return seen + unseen


def _likelihood(pairs: Pairs, role: str, sign: int, scale: float) -> float:
    """sum softplus(sign s) over the observed rows, or over those sampled rows that were not seen."""
    left_out = pairs.seen.numpy() if sign > 0 else np.zeros(len(pairs.seen), np.float32)
    value, slopes = _softplus_sum(pairs.logit(role).numpy(), left_out, sign, scale)
    pairs.learn(role, slopes)
    return float(value)


@numba.njit(cache=True, fastmath=WIDE, error_model="numpy")
def _errors(logits: Any, labels: Any, weights: Any, scale: Any, bound: Any) -> Any:
    """scale * sum of weight (softplus(s) - y s), and its slopes."""
    value, slopes = 0.0, np.zeros(len(logits), np.float32)
    for n in range(len(logits)):
        s = np.float32(min(max(logits[n], -bound), bound))
        value += weights[n] * (softplus(s) - labels[n] * s)
        if abs(logits[n]) <= bound:
            slopes[n] = scale * weights[n] * (sigmoid(s) - labels[n])
    return scale * value, slopes


@numba.njit(cache=True, fastmath=WIDE, error_model="numpy")
def _corrections(logits: Any, ratings: Any, imputed: Any, weights: Any, scale: Any, bound: Any) -> Any:
    """scale * sum of weight (r_imputed - r) s, and its slopes."""
    value, slopes = 0.0, np.zeros(len(logits), np.float32)
    for n in range(len(logits)):
        change = weights[n] * (imputed[n] - ratings[n])
        value += change * min(max(logits[n], -bound), bound)
        if abs(logits[n]) <= bound:
            slopes[n] = scale * change
    return scale * value, slopes


@numba.njit(cache=True, fastmath=WIDE, error_model="numpy")
def _gaps(logits: Any, ratings: Any, stakes: Any, shifts: Any, weights: Any, scale: Any) -> Any:
    """scale * sum of weight ((r_imputed - r) s - shift)^2, and its slopes."""
    value, slopes = 0.0, np.empty(len(logits), np.float32)
    for n in range(len(logits)):
        imputed = sigmoid(logits[n])
        gap = (imputed - ratings[n]) * stakes[n] - shifts[n]
        value += weights[n] * gap * gap
        slopes[n] = 2 * scale * weights[n] * gap * stakes[n] * imputed * (1 - imputed)
    return scale * value, slopes


@numba.njit(cache=True, fastmath=WIDE, error_model="numpy")
def _softplus_sum(logits: Any, left_out: Any, sign: Any, scale: Any) -> Any:
    """scale * sum over the rows that are not left out of softplus(sign s), and its slopes."""
    value, slopes = 0.0, np.empty(len(logits), np.float32)
    for n in range(len(logits)):
        s = np.float32(sign) * logits[n]
        value += (1 - left_out[n]) * softplus(s)
        slopes[n] = scale * sign * (1 - left_out[n]) * sigmoid(s)
    return scale * value, slopes
