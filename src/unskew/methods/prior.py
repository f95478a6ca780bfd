"""An imputation that learns nothing: the mean rating of the log for every pair."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from unskew.nets.base import Catalogue
from unskew.training.fitted import Occasion


class ConstantRating:
    """A role that says the same of every pair."""

    stored: ClassVar[tuple[str, ...]] = ("logit",)

    def __init__(self, logit: float) -> None:
        self.logit = logit

    def __call__(self, users: Tensor, items: Tensor) -> Tensor:
        return torch.full((len(users),), self.logit, device=users.device)

    def user_vectors(self, users: Tensor) -> Tensor:
        return torch.zeros(len(users), 1)


@dataclass(frozen=True)
class MeanRating:
    """Fits itself to the mean of the training ratings."""

    fitted: ClassVar[type] = ConstantRating

    def fit_on(self, occasion: Occasion, previous: Any) -> ConstantRating:
        return ConstantRating(Catalogue(0, 0, base_rate=occasion.split.facts.train_mean).base_logit)
