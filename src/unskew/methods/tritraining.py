"""Asymmetric tri-training: two weighted models label random pairs for a third."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from unskew.methods.base import PropensityMethod
from unskew.methods.space import LogUniform, Space
from unskew.risk.estimators import naive, snips
from unskew.risk.joint import agreement
from unskew.training.checks import check_number
from unskew.training.plan import Loss, Plan, Stage, Update
from unskew.training.view import View

FIRST, SECOND = "first_labeller", "second_labeller"


@dataclass(frozen=True, kw_only=True)
class AT(PropensityMethod):
    """Asymmetric tri-training: two labellers, agreement within a tolerance, a third learner (Saito, SIGIR 2020).

    Two nets are trained by SNIPS and a third on the plain ratings, each on batches of its own. Then random pairs about
    which the two agree within `tolerance` (epsilon) are labelled by the first, and the third and the second learn those
    labels; the first would learn its own, which changes nothing. Kept is the third net of lowest weighted risk.
    """

    tolerance: float = 0.05
    pairs_per_row: float = 5.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(self, "tolerance", above=0)
        check_number(self, "pairs_per_row", above=0)

    def space(self) -> Space:
        return super().space() | {"tolerance": LogUniform(0.005, 0.5)}

    def labelled(self, role: str) -> Loss:
        """The mean error of a role against the first labeller over the pairs on which the labellers agree."""

        def loss(v: View) -> Tensor:
            agreed = agreement(v, FIRST, SECOND, self.tolerance).detach()
            error = v.sampled.imputed_error(role, imputation=FIRST)
            return v.sampled.total(agreed * error) / v.sampled.total(agreed).clamp(min=1)

        return loss

    def plan(self) -> Plan:
        roles = {
            "propensity": self.propensity_role(),
            FIRST: self.learner(),
            SECOND: self.learner(),
            "prediction": self.learner(),
        }
        first = (
            Update(("prediction",), naive, own_batch=True),
            Update((FIRST,), lambda v: snips(v, FIRST), own_batch=True),
            Update((SECOND,), lambda v: snips(v, SECOND), own_batch=True),
        )
        second = (
            Update(("prediction",), self.labelled("prediction"), own_batch=True),
            Update((SECOND,), self.labelled(SECOND), own_batch=True),
        )
        stages = (
            self.propensity_stage(),
            Stage("labellers", first, validate=lambda v: snips(v, FIRST) + snips(v, SECOND)),
            Stage("prediction", second, validate=snips),
        )
        return Plan(roles, stages, self.error_function, self.pairs_per_row)
