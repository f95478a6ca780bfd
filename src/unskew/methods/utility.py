"""Naive, corrected for selection on utility: what is said of seen pairs, mapped to what holds for all."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from unskew.data.log import RatingLog
from unskew.methods.weighting import Naive
from unskew.propensity.tables import Uniform
from unskew.propensity.utility import Utility
from unskew.recommender import Recommender
from unskew.training.plan import Fit, Plan, Role, Stage


@dataclass(frozen=True, kw_only=True)
class NaiveUtility(Naive):
    """Naive, mapped from what is said of seen pairs to what holds for all by selection on utility (docs/utility.md).

    The map is monotone, so every ranking is Naive's; without evidence for selection so is every bit. `utility` says how
    the selection is estimated.
    """

    utility: Utility = field(default_factory=lambda: Utility(base=Uniform()))

    def plan(self) -> Plan:
        plan = super().plan()
        roles = {**plan.roles, "selection": Role(self.utility)}
        return replace(plan, roles=roles, stages=(*plan.stages, Stage("selection", fits=(Fit("selection"),))))

    def fit_plan(self, plan: Plan, log: RatingLog, **arguments: Any) -> Recommender:
        """What calibrates the prediction is fitted after it and to no hold-out, so only the fitted cast knows of it."""
        model = super().fit_plan(plan, log, **arguments)
        return replace(model, cast=replace(model.cast, calibrators={"prediction": "selection"}))

    def at(self, model: Recommender, unexplained: float) -> Recommender:
        """Only the map depends on the assumption: no net is trained."""
        utility = replace(self.utility, unexplained=unexplained)
        players = {**model.cast.players, "selection": utility.refitted(model.player("selection"), model.log)}
        return replace(model, method=replace(self, utility=utility), cast=replace(model.cast, players=players))
