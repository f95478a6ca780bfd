"""Propensity experts as the released DCE code fits them: for reproduction only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
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

    def change(self, total: NDArray[np.float32], batch: ExpertBatch) -> NDArray[np.float32]:
        """softmax(p) - y / sum y."""
        chosen = np.exp(total - total.max())
        return np.asarray(chosen / chosen.sum() - batch.labels / batch.labels.sum(), np.float32)

    @torch.no_grad()
    def at_rest(
        self, mixture: Mixture, examples: Examples, vectors: Tensor, common: tuple[float, float], hard: bool
    ) -> FittedExperts:
        maps = mixture.maps.value.double()
        slopes, intercepts = maps[:, 0].exp().numpy(), maps[:, 1].clone().numpy()
        return FittedExperts.at_rest(mixture, slopes, intercepts, hard, vectors)
