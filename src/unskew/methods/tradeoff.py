"""DR-MSE and MRDR with double learning: variants of DR-JL that change how the imputation learns."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from unskew.methods.robust import DRJL, MRDR
from unskew.methods.space import Choice, Space
from unskew.risk.estimators import snips
from unskew.training.checks import check_number
from unskew.training.plan import Copy, Plan, Stage, Update
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


@dataclass(frozen=True, kw_only=True)
class MRDRDL(MRDR):
    """MRDR with double learning: copy, then alternate (Guo et al., SIGIR 2021).

    Every epoch the imputation takes over the prediction's state, learns the seen ratings by cross-entropy weighted with
    (1 - p) / p^2 for a whole pass, and then rests while the prediction minimises the doubly robust risk for a pass.
    """

    def imputation_loss(self, v: View) -> Tensor:
        o, weight = v.observed, self.imputation_weight(v)
        return o.total(weight * o.error("imputation")) / o.total(weight).clamp(min=1e-12)

    def plan(self) -> Plan:
        base = super().plan()
        updates = (
            Update(("imputation",), self.imputation_loss, turn=0),
            Update(("prediction",), self.prediction_loss, turn=1),
        )
        copies = (Copy("prediction", "imputation", per="epoch"),)
        return replace(base, stages=(base.stages[0], Stage("prediction", updates, copies=copies, validate=snips)))
