"""Propensities fitted once for many fits of methods that differ elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from unskew.data.log import RatingLog
from unskew.data.split import Split
from unskew.methods.base import Method
from unskew.propensity.base import FittedPropensity, Propensity
from unskew.propensity.factors import Factors, FittedFactors
from unskew.training.options import Training


@dataclass(frozen=True, eq=False)
class Remembered(Propensity):
    """A propensity that is fitted when it is first asked for: the same settings, rows and seed give the same bits."""

    fitted = FittedFactors

    recipe: Factors
    known: dict[Any, FittedPropensity]

    def fit_split(self, split: Split, *, seed: int, training: Training, unbiased: RatingLog | None) -> FittedPropensity:
        key = self.recipe, seed, training
        if key not in self.known:
            self.known[key] = self.recipe.fit_split(split, seed=seed, training=training, unbiased=unbiased)
        return self.known[key]


def remembering(method: Any, known: dict[Any, FittedPropensity]) -> Any:
    """The method with nets of propensities remembered in `known`, for fits on one log, whose splits the seed tells."""
    parts = vars(method)
    changed = {name: Remembered(part, known) for name, part in parts.items() if isinstance(part, Factors)}
    if isinstance(parts.get("base"), Method):
        changed["base"] = remembering(parts["base"], known)
    return replace(method, **changed) if changed else method
