"""CVIB: no propensity and no imputation, but predictions that agree on average between seen and random pairs."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from unskew.methods.base import NetMethod
from unskew.methods.space import LogUniform, Space
from unskew.risk.estimators import naive
from unskew.risk.joint import contrast, negative_entropy
from unskew.training.checks import check_number
from unskew.training.plan import Plan, Stage, Update
from unskew.training.view import View


@dataclass(frozen=True, kw_only=True)
class CVIB(NetMethod):
    """Counterfactual variational information bottleneck: no propensity at all (Wang et al., NeurIPS 2020).

    Adds to the naive risk `contrast` times the cross-entropy between the mean predictions on seen and on random
    pairs (alpha), and `confidence` times the negative entropy of predictions (gamma), in its symmetric form.
    """

    contrast: float = 0.1
    confidence: float = 0.05

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(self, "contrast", least=0)
        check_number(self, "confidence", least=0)

    def space(self) -> Space:
        return super().space() | {"contrast": LogUniform(0.01, 1.0), "confidence": LogUniform(0.005, 0.5)}

    def loss(self, v: View) -> Tensor:
        return naive(v) + self.contrast * contrast(v) + self.confidence * negative_entropy(v)

    def plan(self) -> Plan:
        stage = Stage("prediction", (Update(("prediction",), self.loss),), validate=naive)
        return Plan({"prediction": self.learner()}, (stage,), self.error_function)
