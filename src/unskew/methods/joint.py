"""Multi-task methods: propensity, prediction and imputation as towers on shared vectors, learned in one step."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from torch import Tensor

from unskew.methods.base import Method
from unskew.methods.space import CLIP, L2, LogUniform, Space, net_space
from unskew.nets.towers import Tower, Trunk
from unskew.risk.errors import ERRORS
from unskew.risk.estimators import seen_likelihood, snips
from unskew.risk.joint import entire_space
from unskew.training.checks import check_choice, check_number, check_rule
from unskew.training.plan import Plan, Role, Stage, Update
from unskew.training.view import ErrorFunction, View

TOWERS = ("propensity", "imputation", "prediction")


@dataclass(frozen=True, kw_only=True)
class MultiDR(Method):
    """Multi-task doubly robust: three towers on shared vectors, one joint step (Zhang et al., WWW 2020).

    Minimises the likelihood of being seen + `prediction_weight` DR + `imputation_weight` sum_O (e - e_imputed)^2 / p.
    Weights and labels of one tower are constants for the others; only the shared vectors tie them together.
    """

    net: Trunk = field(default_factory=Trunk)
    learning_rate: float = 0.01
    l2: float | None = None
    error: str = "log"
    clip: float | None = None
    prediction_weight: float = 1.0
    imputation_weight: float = 1.0
    pairs_per_row: float = 2.0

    def __post_init__(self) -> None:
        for name in ("learning_rate", "pairs_per_row"):
            check_number(self, name, above=0)
        for name in ("prediction_weight", "imputation_weight"):
            check_number(self, name, least=0)
        check_rule(self, "l2", least=0)
        check_rule(self, "clip", least=0, most=1)
        check_choice(self, "error", ERRORS)

    @property
    def error_function(self) -> ErrorFunction:
        return ERRORS[self.error]

    def space(self) -> Space:
        weights = dict.fromkeys(("prediction_weight", "imputation_weight"), LogUniform(0.1, 10.0))
        return {"l2": L2, **net_space(self.net), "clip": CLIP, **weights}

    def loss(self, v: View) -> Tensor:
        return (
            seen_likelihood(v)
            + self.prediction_weight * self.prediction_risk(v)
            + self.imputation_weight * self.imputation_risk(v)
        )

    def prediction_risk(self, v: View) -> Tensor:
        """DR with p and the imputed ratings held fixed."""
        o, d = v.observed, v.sampled
        label, drawn = o.probability("imputation").detach(), d.probability("imputation").detach()
        residual = (o.error() - self.error_function(o.logit(), label)) * o.inverse_propensity().detach()
        return (d.total(self.error_function(d.logit(), drawn)) + o.total(residual)) / v.n_pairs

    def imputation_risk(self, v: View) -> Tensor:
        """(1/|D|) sum_O (e - e_imputed)^2 / p with p and the prediction held fixed, per mean stake."""
        o = v.observed
        logit, weight = o.logit().detach(), o.inverse_propensity().detach()
        gap = self.error_function(logit, o.ratings) - self.error_function(logit, o.probability("imputation"))
        stake = o.stake().detach().square()
        return o.total(weight * gap.square()) / o.total(weight * stake).clamp(min=1e-12)

    def plan(self) -> Plan:
        trunk = Role(self.net, learning_rate=self.learning_rate, l2=self.l2)
        tower = replace(trunk, net=Tower(), on="trunk")
        roles = {
            "trunk": trunk,
            "propensity": replace(tower, clip=self.clip, starts_at="seen"),
            "imputation": tower,
            "prediction": tower,
        }
        stage = Stage("prediction", (Update(("trunk", *TOWERS), self.loss),), validate=snips)
        return Plan(roles, (stage,), self.error_function, self.pairs_per_row)


@dataclass(frozen=True, kw_only=True)
class ESCM2DR(MultiDR):
    """Entire-space multi-task model with a counterfactual DR regulariser (Wang et al., SIGIR 2022).

    Multi-DR's loss + `entire_space_weight` times the cross-entropy of p r against seen-and-liked over all pairs, the
    one term in which propensity and prediction train each other. It treats unseen as disliked: a large weight biases
    predictions down.
    """

    entire_space_weight: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(self, "entire_space_weight", least=0)

    def space(self) -> Space:
        return super().space() | {"entire_space_weight": LogUniform(0.01, 1.0)}

    def loss(self, v: View) -> Tensor:
        return super().loss(v) + self.entire_space_weight * entire_space(v)
