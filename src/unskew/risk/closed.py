"""Closed forms of the risks that train most: d risk / d logit of every row in one compiled pass, without autograd.

The formulas are those of `estimators` and `robust` for the log error e = softplus(s) - y s, where s is the logit held
within its bounds; tests hold each to the derivative that PyTorch finds. A loss takes one by the decorator
`closed_form`; the loop uses it where the learning net can take slopes, and differentiates the loss itself elsewhere.
A closed form hands the slopes to the rows by `learn` and says the risk, or None if the errors are not log errors. It is
an object, so that whoever knows nets too can take many steps of it at once (`express`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numba
import numpy as np
import torch
from torch import Tensor

from unskew.fast import WIDE, sigmoid, softplus
from unskew.risk.errors import log_error
from unskew.risk.sample import Pairs, Sample

LossT = TypeVar("LossT", bound=Callable[..., Tensor])
# The cache of these kernels holds those of fast.py too, and is renewed when this file changes: change both.


class ClosedForm(Protocol):
    """A risk that tells who learns d risk / d logit."""

    def __call__(self, v: Sample) -> float | None: ...


def closed_form(form: ClosedForm | Callable[[Any], ClosedForm | None]) -> Callable[[LossT], LossT]:
    """Let a loss be trained by its closed form; that of a method is found from whom it belongs to."""

    def attach(loss: LossT) -> LossT:
        loss.closed_form = form  # type: ignore[attr-defined]
        return loss

    return attach


def form_of(loss: Callable[..., Tensor]) -> ClosedForm | None:
    """The closed form of a loss, if it has one."""
    form, owner = getattr(loss, "closed_form", None), getattr(loss, "__self__", None)
    found: ClosedForm | None = form if form is None or owner is None else form(owner)
    return found


def alike(v: Sample) -> Tensor:
    """1 for every observed row."""
    return torch.ones_like(v.observed.ratings)


def by_inverse_propensity(v: Sample) -> Tensor:
    """1/p of every observed row."""
    return v.observed.inverse_propensity()


@dataclass(frozen=True)
class Weighted:
    """Of `estimators.naive`, `ips` and `snips`: weighted errors over the sum of the weights, or over all pairs."""

    weight: Callable[[Sample], Tensor]
    normalised: bool
    role: str = "prediction"

    def __call__(self, v: Sample) -> float | None:
        if v.error_function is not log_error:
            return None
        o, role, weight = v.observed, self.role, self.weight(v)
        scale = o.weight / (o.total(weight).item() if self.normalised else v.n_pairs)
        value, slopes = errors(o.logit(role).numpy(), o.ratings.numpy(), weight.numpy(), scale, v.largest_logit)
        o.learn(role, slopes)
        return float(value)


@dataclass(frozen=True)
class DoublyRobust:
    """Of `robust.dr`: on seen pairs (e - e_imputed) / p = (r_imputed - r) s / p, which is linear in the logit."""

    def __call__(self, v: Sample, prediction: str = "prediction", imputation: str = "imputation") -> float | None:
        if v.error_function is not log_error:
            return None
        o, d = v.observed, v.sampled
        correction, slopes = corrections(
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
        direct, slopes = errors(
            d.logit(prediction).numpy(), imputed.numpy(), ones.numpy(), d.weight / v.n_pairs, v.largest_logit
        )
        d.learn(prediction, slopes)
        return float(correction + direct)


@dataclass(frozen=True)
class Gap:
    """Of `robust.imputation_error`, or `robust.targeted_imputation_error`, times `robust.per_stake`.

    e - e_imputed = (r_imputed - r) s and e1 - e0 = -s, so the loss is the mean of
    (r_imputed - r - epsilon h / s)^2, weighted by s^2 times `weight`; epsilon is 0 unless `targeted`.
    """

    weight: Callable[[Any], Tensor]
    targeted: bool = False

    def __call__(self, v: Sample) -> float | None:
        if v.error_function is not log_error:
            return None
        o, weight = v.observed, self.weight(v)
        stake = o.logit("prediction").clamp(-v.largest_logit, v.largest_logit)
        scale = o.weight / max(o.total(weight * stake.square()).item(), 1e-12)
        shift = torch.zeros_like(stake)
        if self.targeted:
            guess, h = torch.sigmoid(o.logit("imputation")), o.inverse_propensity() - 1
            along = o.total(h * (guess - o.ratings) * stake)
            shift = along / o.total(h.square()).clamp(min=1e-12) * h
        value, slopes = gaps(
            o.logit("imputation").numpy(), o.ratings.numpy(), stake.numpy(), shift.numpy(), weight.numpy(), scale
        )
        o.learn("imputation", slopes)
        return float(value)


@dataclass(frozen=True)
class Seeing:
    """Of `estimators.seen_likelihood`."""

    def __call__(self, v: Sample, role: str = "propensity") -> float:
        parts = (v.observed, -1), (v.sampled, 1)
        seen, unseen = (self._likelihood(pairs, role, sign, pairs.weight / v.n_pairs) for pairs, sign in parts)
        return seen + unseen

    def _likelihood(self, pairs: Pairs, role: str, sign: int, scale: float) -> float:
        """sum softplus(sign s) over the observed rows, or over those sampled rows that were not seen."""
        left_out = pairs.seen.numpy() if sign > 0 else np.zeros(len(pairs.seen), np.float32)
        value, slopes = softplus_sum(pairs.logit(role).numpy(), left_out, sign, scale)
        pairs.learn(role, slopes)
        return float(value)


@numba.njit(cache=True, fastmath=WIDE, error_model="numpy")
def errors(logits: Any, labels: Any, weights: Any, scale: Any, bound: Any) -> Any:
    """scale * sum of weight (softplus(s) - y s), and its slopes."""
    value, slopes = 0.0, np.zeros(len(logits), np.float32)
    for n in range(len(logits)):
        s = np.float32(min(max(logits[n], -bound), bound))
        value += weights[n] * (softplus(s) - labels[n] * s)
        if abs(logits[n]) <= bound:
            slopes[n] = scale * weights[n] * (sigmoid(s) - labels[n])
    return scale * value, slopes


@numba.njit(cache=True, fastmath=WIDE, error_model="numpy")
def corrections(logits: Any, ratings: Any, imputed: Any, weights: Any, scale: Any, bound: Any) -> Any:
    """scale * sum of weight (r_imputed - r) s, and its slopes."""
    value, slopes = 0.0, np.zeros(len(logits), np.float32)
    for n in range(len(logits)):
        change = weights[n] * (imputed[n] - ratings[n])
        value += change * min(max(logits[n], -bound), bound)
        if abs(logits[n]) <= bound:
            slopes[n] = scale * change
    return scale * value, slopes


@numba.njit(cache=True, fastmath=WIDE, error_model="numpy")
def gaps(logits: Any, ratings: Any, stakes: Any, shifts: Any, weights: Any, scale: Any) -> Any:
    """scale * sum of weight ((r_imputed - r) s - shift)^2, and its slopes."""
    value, slopes = 0.0, np.empty(len(logits), np.float32)
    for n in range(len(logits)):
        imputed = sigmoid(logits[n])
        gap = (imputed - ratings[n]) * stakes[n] - shifts[n]
        value += weights[n] * gap * gap
        slopes[n] = 2 * scale * weights[n] * gap * stakes[n] * imputed * (1 - imputed)
    return scale * value, slopes


@numba.njit(cache=True, fastmath=WIDE, error_model="numpy")
def softplus_sum(logits: Any, left_out: Any, sign: Any, scale: Any) -> Any:
    """scale * sum over the rows that are not left out of softplus(sign s), and its slopes."""
    value, slopes = 0.0, np.empty(len(logits), np.float32)
    for n in range(len(logits)):
        s = np.float32(sign) * logits[n]
        value += (1 - left_out[n]) * softplus(s)
        slopes[n] = scale * sign * (1 - left_out[n]) * sigmoid(s)
    return scale * value, slopes
