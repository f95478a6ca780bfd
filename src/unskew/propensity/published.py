"""The propensity net of the released DCE code: for reproducing published numbers, not for use."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from unskew.data.split import Split
from unskew.nets.base import NetRecipe
from unskew.nets.dense import Dense
from unskew.nets.factors import NCF
from unskew.propensity.base import FittedPropensity
from unskew.propensity.factors import Factors


@dataclass(frozen=True, kw_only=True)
class PublishedFactors(Factors):
    """p = sigmoid(a_u + b_i + c) by squared error with dense weight decay, read where it was trained.

    With the released decay of 0.252 all vectors go to 0 and p to one constant, where 2 (p - |O|/|D|) p (1 - p) and the
    pull of the decay on c are in balance: about 0.36 on Coat, of whose pairs 0.08 are seen. That is let pass here.
    """

    tolerance: ClassVar[float | None] = 1e-4

    net: NetRecipe = field(default_factory=lambda: Dense(net=NCF(n_factors=16, hidden=False, spread=1.0)))
    n_folds: int | None = 1
    learning_rate: float = 0.0593
    l2: float = 0.252
    loss: Literal["likelihood", "squared"] = "squared"

    def check(self, fitted: FittedPropensity, split: Split, seed: int) -> None:
        """Nothing is refused: the collapse is part of what is reproduced."""
