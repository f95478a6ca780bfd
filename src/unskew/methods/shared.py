"""Doubly robust learning on shared rows: what somebody has looked at teaches what they like."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from torch import Tensor

from unskew.methods.robust import DRML
from unskew.methods.space import LogUniform, Space
from unskew.nets.base import NetRecipe
from unskew.nets.factors import MF
from unskew.nets.towers import Tower, Trunk
from unskew.risk.estimators import seen_likelihood, snips
from unskew.risk.robust import dr
from unskew.training.checks import check_number
from unskew.training.plan import Plan, Role, Stage, Update
from unskew.training.view import View


@dataclass(frozen=True, kw_only=True)
class SharedDR(DRML):
    """DR-ML whose prediction stands on vectors that also learn who has seen what, as in Multi-DR.

    The prediction minimises DR + `exposure_weight` times the likelihood of being seen of a second tower on its vectors.
    That tower weights nothing: p is a `propensity` of its own, cross-fitted and at rest, and so is the imputation while
    the prediction learns. Therefore both can be calibrated, which Multi-DR's towers, moved in one step, cannot.
    """

    net: Trunk = field(default_factory=Trunk)
    imputation_net: NetRecipe = field(default_factory=MF)
    exposure_weight: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(self, "exposure_weight", least=0)

    def space(self) -> Space:
        return super().space() | {"exposure_weight": LogUniform(0.1, 10.0)}

    def prediction_loss(self, v: View) -> Tensor:
        return dr(v) + self.exposure_weight * seen_likelihood(v, "exposure")

    def imputation_role(self) -> Role:
        return replace(super().imputation_role(), net=self.imputation_net)

    def plan(self) -> Plan:
        trunk = self.learner()
        tower = replace(trunk, net=Tower(), on="trunk")
        roles = {
            "propensity": self.propensity_role(),
            "imputation": self.imputation_role(),
            "trunk": trunk,
            "exposure": replace(tower, starts_at="seen"),
            "prediction": tower,
        }
        updates = (
            Update(("imputation",), self.imputation_loss),
            Update(("trunk", "exposure", "prediction"), self.prediction_loss),
        )
        stages = self.propensity_stage(), Stage("prediction", updates, validate=snips)
        return Plan(roles, stages, self.error_function, self.pairs_per_row)
