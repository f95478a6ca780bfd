"""Propensity experts as the released DCE code fits them: for reproduction only."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from unskew.calibration.experts import ExpertBatch, ExpertPlatt, FittedExperts, Mixture
from unskew.calibration.platt import Examples


@dataclass(frozen=True, kw_only=True)
class PublishedExperts(ExpertPlatt):
    """Experts that minimise -mean over seen pairs of log softmax(p over the batch): a contrast, not a calibration.

    The released code hands probabilities to a multi-class loss. Adding a constant to every p changes nothing, so
    nothing draws the mean to the base rate. Experts start at a = 1, b = -1 and stay as training leaves them: neither
    solved on their users nor shifted to the base rate.
    """

    shrinkage: float = 0.0

    def start(self, examples: Examples) -> tuple[float, float]:
        return 1.0, -1.0

    def objective(self, mixed: Tensor, batch: ExpertBatch) -> Tensor:
        return -(batch.labels * torch.log_softmax(mixed, 0)).sum() / batch.labels.sum()

    @torch.no_grad()
    def at_rest(
        self, mixture: Mixture, examples: Examples, vectors: Tensor, common: tuple[float, float], hard: bool
    ) -> FittedExperts:
        maps = mixture.maps.value.double()
        slopes, intercepts = maps[:, 0].exp().numpy(), maps[:, 1].clone().numpy()
        return FittedExperts.at_rest(mixture, slopes, intercepts, hard, vectors)
