"""StableDR: self-normalised weighting with a propensity that balances imputed errors inside the loop."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor

from unskew.methods.base import NetMethod
from unskew.methods.space import CLIP, LogUniform, Space
from unskew.nets.base import NetRecipe
from unskew.nets.factors import MF
from unskew.risk.estimators import seen_likelihood, snips
from unskew.risk.joint import balance
from unskew.risk.robust import imputation_error, per_stake
from unskew.training.checks import check_choice, check_number, check_rule
from unskew.training.plan import Plan, Role, Stage, Update
from unskew.training.view import View


@dataclass(frozen=True, kw_only=True)
class StableDR(NetMethod):
    """Stabilised doubly robust: SNIPS with a propensity constrained to balance imputed errors (Li et al., ICLR 2023).

    Per batch the imputation learns as in DR-JL (`imputation="mrdr"`: with MRDR's weights), the propensity minimises its
    likelihood + `balance` times the squared imbalance (1/|D|) sum_D (o/p)(e_imputed - mean), and the prediction
    minimises the self-normalised risk. The propensity is a net, `propensity_net`, trained once beforehand.
    """

    propensity_net: NetRecipe = field(default_factory=lambda: MF(n_factors=16, spread=0.1))
    propensity_l2: float = 0.01
    clip: float | None = None
    balance: float = 10.0
    imputation: Literal["dr", "mrdr"] = "dr"
    pairs_per_row: float = 2.0

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("propensity_l2", "balance"):
            check_number(self, name, least=0)
        check_rule(self, "clip", least=0, most=1)
        check_choice(self, "imputation", ("dr", "mrdr"))
        check_number(self, "pairs_per_row", above=0)

    def space(self) -> Space:
        own: Space = {"clip": CLIP, "propensity_l2": LogUniform(0.001, 0.1), "balance": LogUniform(1.0, 100.0)}
        return super().space() | own

    def imputation_loss(self, v: View) -> Tensor:
        weight = v.observed.inverse_propensity()
        if self.imputation == "mrdr":
            weight = weight * (weight - 1)
        return imputation_error(v, weight) * per_stake(v, weight)

    def propensity_loss(self, v: View) -> Tensor:
        return seen_likelihood(v) + self.balance * balance(v).square()

    def plan(self) -> Plan:
        clip = self.clip
        propensity = Role(self.propensity_net, self.learning_rate, self.propensity_l2, clip=clip, starts_at="seen")
        roles = {"propensity": propensity, "imputation": self.learner(), "prediction": self.learner()}
        updates = (
            Update(("imputation",), self.imputation_loss),
            Update(("propensity",), self.propensity_loss),
            Update(("prediction",), snips),
        )
        stages = (
            Stage("propensity", (Update(("propensity",), seen_likelihood),), validate=seen_likelihood),
            Stage("prediction", updates, validate=snips),
        )
        return Plan(roles, stages, self.error_function, self.pairs_per_row)
