"""DR-MSE: DR-JL with other weights of the imputation's errors."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from unskew.methods.robust import DRJL
from unskew.methods.space import Choice, Space
from unskew.training.checks import check_number
from unskew.training.view import View


@dataclass(frozen=True, kw_only=True)
class DRMSE(DRJL):
    """DR-MSE: the imputation is fitted where its error hurts bias and variance of DR (Dai et al., KDD 2022).

    Imputation weights lambda (1 - p)^2 / p^3 + (1 - lambda)(1 - p) / p^2, lambda = `trade_off`: 1 is DR-BIAS, 0 MRDR.
    """

    trade_off: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(self, "trade_off", least=0, most=1)

    def space(self) -> Space:
        """The trade-off only if it is one: at either end this is another method, and so it remains."""
        between = self.trade_off not in (0, 1)
        return super().space() | ({"trade_off": Choice((0.25, 0.5, 0.75))} if between else {})

    def imputation_weight(self, v: View) -> Tensor:
        """lambda (1 - p)^2 / p^3 + (1 - lambda)(1 - p) / p^2, w = 1/p: w (w - 1) [lambda (w - 1) + 1 - lambda]."""
        share = self.trade_off
        w = v.observed.inverse_propensity()
        return w * (w - 1) * (share * (w - 1) + 1 - share)
