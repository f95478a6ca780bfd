"""Doubly robust methods: a prediction, an imputation that learns beside it, and a propensity."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from torch import Tensor

from unskew.methods.base import PropensityMethod
from unskew.methods.prior import MeanRating
from unskew.methods.space import L2Range, Space
from unskew.risk.closed import DoublyRobust, Gap, closed_form
from unskew.risk.estimators import snips
from unskew.risk.robust import (
    dr,
    imputation_error,
    per_stake,
    targeted_dr,
    targeted_imputation_error,
)
from unskew.training.checks import check_choice, check_number
from unskew.training.plan import Fit, Plan, Role, Stage, Update
from unskew.training.view import View


@dataclass(frozen=True, kw_only=True)
class DRJL(PropensityMethod):
    """Doubly robust joint learning: imputation and prediction take turns on every batch (Wang et al., ICML 2019).

    The imputation minimises (1/|D|) sum_O (e - e_imputed)^2 / p, on every batch divided by the mean stake (see
    `risk.robust.per_stake`), the prediction minimises the doubly robust risk. `imputation_l2` defaults to `l2`;
    `pairs_per_row` is the number of pairs sampled for each rating of a batch.
    """

    imputation_l2: float | None = None
    pairs_per_row: float = 2.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(self, "pairs_per_row", above=0)
        if self.imputation_l2 is not None:
            check_number(self, "imputation_l2", least=0)

    def space(self) -> Space:
        return super().space() | {"imputation_l2": L2Range(0.001, 1.0, when_none=self.l2)}

    @closed_form(lambda self: Gap(self.imputation_weight))
    def imputation_loss(self, v: View) -> Tensor:
        weight = self.imputation_weight(v)
        return imputation_error(v, weight) * per_stake(v, weight)

    def imputation_weight(self, v: View) -> Tensor:
        """1/p."""
        return v.observed.inverse_propensity()

    @closed_form(lambda self: DoublyRobust())
    def prediction_loss(self, v: View) -> Tensor:
        return dr(v)

    def imputation_role(self) -> Role:
        return self.learner() if self.imputation_l2 is None else replace(self.learner(), l2=self.imputation_l2)

    def plan(self) -> Plan:
        roles = {
            "propensity": self.propensity_role(),
            "imputation": self.imputation_role(),
            "prediction": self.learner(),
        }
        updates = Update(("imputation",), self.imputation_loss), Update(("prediction",), self.prediction_loss)
        stages = self.propensity_stage(), Stage("prediction", updates, validate=snips)
        return Plan(roles, stages, self.error_function, self.pairs_per_row)


@dataclass(frozen=True, kw_only=True)
class DR(DRJL):
    """Doubly robust around a constant: every imputed rating is the log's mean, and nothing is learned beside it."""

    def space(self) -> Space:
        return without_imputation(super().space())

    def plan(self) -> Plan:
        return around_a_constant(super().plan())


def without_imputation(space: Space) -> Space:
    """The space of a method whose imputation does not learn."""
    return {name: dimension for name, dimension in space.items() if name != "imputation_l2"}


def around_a_constant(plan: Plan) -> Plan:
    """The plan with the log's mean as the imputation, instead of a net that learns before the prediction."""
    propensity, learning = plan.stages
    prior = Stage("prior", fits=(Fit("imputation"),))
    roles = {**plan.roles, "imputation": Role(MeanRating())}
    return replace(plan, roles=roles, stages=(propensity, prior, replace(learning, updates=learning.updates[1:])))


@dataclass(frozen=True, kw_only=True)
class MRDR(DRJL):
    """More robust doubly robust: the imputation is fitted where its error makes the risk vary (Guo et al., SIGIR 2021).

    Imputation weights (1 - p) / p^2, the variance of o/p.
    """

    def imputation_weight(self, v: View) -> Tensor:
        """(1 - p) / p^2."""
        weight = v.observed.inverse_propensity()
        return weight * (weight - 1)


@dataclass(frozen=True, kw_only=True)
class TDR(DRJL):
    """Targeted doubly robust: imputed errors are corrected along h = 1/p - 1 (Li et al., ICLR 2023).

    The correction adds epsilon h to each imputed error. `learning="collaborative"` lets the imputation learn around it,
    "joint" as in DR-JL; with "none" every imputed rating is the log's mean, and only the correction adapts. With
    `differentiate=False` epsilon is a constant for the prediction, whose gradient is then that of plain DR.
    Differentiated, the correction gives clipped ratings back some of the weight that the clip took, and the risk asks
    for about twice the `l2`, which the rule gives it.
    """

    learning: Literal["collaborative", "joint", "none"] = "collaborative"
    differentiate: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self, "learning", ("collaborative", "joint", "none"))

    def space(self) -> Space:
        space = super().space()
        return without_imputation(space) if self.learning == "none" else space

    def learner(self) -> Role:
        return replace(super().learner(), l2_factor=2.0 if self.differentiate else 1.0)

    @closed_form(lambda self: Gap(self.imputation_weight, targeted=self.learning != "joint"))
    def imputation_loss(self, v: View) -> Tensor:
        if self.learning == "joint":
            return super().imputation_loss(v)
        weight = self.imputation_weight(v)
        return targeted_imputation_error(v, weight) * per_stake(v, weight)

    @closed_form(lambda self: None if self.differentiate else DoublyRobust())
    def prediction_loss(self, v: View) -> Tensor:
        # A constant epsilon adds h, which the prediction cannot move: plain DR has the same derivative.
        return targeted_dr(v) if self.differentiate else dr(v)

    def plan(self) -> Plan:
        plan = super().plan()
        return around_a_constant(plan) if self.learning == "none" else plan


@dataclass(frozen=True, kw_only=True)
class TMRDR(TDR, MRDR):
    """Targeted doubly robust whose imputation is weighted as in MRDR, by (1 - p) / p^2."""
