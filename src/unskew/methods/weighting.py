"""Methods with one net: Naive, IPS, SNIPS and EIB."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from unskew.methods.base import NetMethod, PropensityMethod
from unskew.methods.space import Choice, LogUniform, Space
from unskew.risk.estimators import eib, ips, naive, snips
from unskew.training.checks import check_choice, check_number
from unskew.training.plan import Loss, Plan, Stage, Update
from unskew.training.view import View


@dataclass(frozen=True, kw_only=True)
class Naive(NetMethod):
    """Fit the seen ratings and ignore how they came to be seen: (1/|O|) sum_O e."""

    def plan(self) -> Plan:
        stage = Stage("prediction", (Update(("prediction",), naive),), validate=naive)
        return Plan({"prediction": self.learner()}, (stage,), self.error_function)


@dataclass(frozen=True, kw_only=True)
class IPS(PropensityMethod):
    """Weight each seen error by its inverse propensity, (1/|D|) sum_O e / p (Schnabel et al., ICML 2016)."""

    def risk(self) -> Loss:
        return ips

    def plan(self) -> Plan:
        stage = Stage("prediction", (Update(("prediction",), self.risk()),), validate=snips)
        roles = {"prediction": self.learner(), "propensity": self.propensity_role()}
        return Plan(roles, (self.propensity_stage(), stage), self.error_function)


@dataclass(frozen=True, kw_only=True)
class SNIPS(IPS):
    """IPS divided by the realised sum of weights: bounded, less variable, slightly biased."""

    def risk(self) -> Loss:
        return snips


@dataclass(frozen=True, kw_only=True)
class EIB(NetMethod):
    """Give every unseen pair a fixed imputed error, (1/|D|) [sum_O e + sum_{D-O} e_imputed] (Steck, RecSys 2010).

    `imputed_rating` is the rating guessed for unseen pairs (gamma_0), `weight` how much that guess counts (omega);
    `form` is the imputed error: "absolute" omega |r - gamma_0| as in the DCE paper's text, or "same", the method's
    own error against gamma_0.
    """

    imputed_rating: float = 0.3
    weight: float = 0.1
    form: Literal["absolute", "same"] = "same"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(self, "imputed_rating", least=0, most=1)
        check_number(self, "weight", above=0)
        check_choice(self, "form", ("absolute", "same"))

    def space(self) -> Space:
        return super().space() | {"imputed_rating": Choice((0.1, 0.2, 0.3, 0.4)), "weight": LogUniform(0.01, 1.0)}

    def imputed_error(self, v: View) -> Tensor:
        """omega |r - gamma_0| or omega e(r, gamma_0) on the sampled pairs."""
        if self.form == "absolute":
            return self.weight * (torch.sigmoid(v.sampled.logit()) - self.imputed_rating).abs()
        logit = v.sampled.logit()
        return self.weight * self.error_function(logit, torch.full_like(logit, self.imputed_rating))

    def loss(self, v: View) -> Tensor:
        return eib(v, self.imputed_error(v))

    def plan(self) -> Plan:
        stage = Stage("prediction", (Update(("prediction",), self.loss),), validate=self.loss)
        return Plan({"prediction": self.learner()}, (stage,), self.error_function)
