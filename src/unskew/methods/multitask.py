"""Multi-task methods: propensity, prediction and imputation as towers on shared vectors, moved in one step."""

from __future__ import annotations

from dataclasses import dataclass

from unskew.losses.doubly_robust import dr, imputation_error
from unskew.losses.joint import entire_space
from unskew.losses.weighting import seen_likelihood, snips
from unskew.methods.base import NetMethod
from unskew.methods.settings import CLIP, LogUniform
from unskew.nets.towers import SharedEmbedding, Tower
from unskew.settings import setting
from unskew.training.plan import Plan, Role, Stage, Step, Update


@dataclass(frozen=True, kw_only=True)
class MultiDR(NetMethod):
    """Multi-task doubly robust: three towers on shared vectors, one joint step (Zhang et al., WWW 2020).

    Minimises the likelihood of being seen + `prediction_weight` DR + `imputation_weight` sum_O (e - e_imputed)^2 / p.
    Weights and labels of one tower are constants for the others; only the shared vectors tie them together.
    """

    net: SharedEmbedding = setting(factory=SharedEmbedding)
    clip: float | None = setting(None, least=0, most=1, search=CLIP)
    prediction_weight: float = setting(1.0, least=0, search=LogUniform(0.1, 10.0))
    imputation_weight: float = setting(1.0, least=0, search=LogUniform(0.1, 10.0))
    pairs_per_row: float = setting(2.0, above=0)

    def step(self) -> Step:
        return (
            Update(("propensity",), seen_likelihood),
            Update(("prediction",), dr, self.prediction_weight),
            Update(("imputation",), imputation_error, self.imputation_weight),
        )

    def plan(self) -> Plan:
        # Three losses pull at the vectors, so the L2 that stands against one of them counts three times.
        vectors = self.learner()._replace(l2_factor=3.0)
        tower = vectors._replace(part=Tower(), shares_with="vectors")
        roles: dict[str, Role] = {
            "vectors": vectors,
            "propensity": tower._replace(clip=self.clip, starts_at="seen"),
            "imputation": tower,
            "prediction": tower,
        }
        return Plan(roles, (Stage("prediction", (self.step(),), validate=snips),), self.error, self.pairs_per_row)


@dataclass(frozen=True, kw_only=True)
class ESCM2DR(MultiDR):
    """Entire-space multi-task model with a counterfactual DR regulariser (Wang et al., SIGIR 2022).

    Multi-DR's loss + `entire_space_weight` times the cross-entropy of p r against seen-and-liked over all pairs, the
    one term in which propensity and prediction train each other. It treats unseen as disliked: a large weight biases
    predictions down.
    """

    entire_space_weight: float = setting(0.1, least=0, search=LogUniform(0.01, 1.0))

    def step(self) -> Step:
        return (*super().step(), Update(("propensity", "prediction"), entire_space, self.entire_space_weight))
