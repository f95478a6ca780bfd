"""What public code minimises where it departs from the papers: for reproducing published numbers, not for use.

The departures are those of the released DCE code and its relatives: the C-form of the doubly robust objective, the
imputed error with its arguments swapped, sums instead of means over all pairs, dense weight decay on nets without
biases, propensities fitted by squared error, and a stop by the training loss. Public code also holds out the last rows
of each user, takes 128 ratings a batch on Coat and plans 1,000 epochs: that belongs to the run,
`Training(holdout_by="last", batch_size=128, max_epochs=1000)`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from unskew.calibration.published import PublishedExperts
from unskew.methods.calibrated import DoublyCalibrated
from unskew.methods.robust import DRJL
from unskew.nets.base import NetRecipe
from unskew.nets.dense import Dense
from unskew.nets.factors import MF
from unskew.propensity.base import Propensity
from unskew.propensity.published import PublishedFactors
from unskew.risk.errors import log_error
from unskew.risk.estimators import ips
from unskew.training.checks import check_number
from unskew.training.plan import Plan, Role
from unskew.training.view import View


def literature_net(n_factors: int = 16) -> NetRecipe:
    """Factors without biases that start normal, of variance 1, and learn by dense steps."""
    return Dense(net=MF(n_factors=n_factors, biases=False, spread=1.0))


@dataclass(frozen=True, kw_only=True)
class DRJLPublished(DRJL):
    """DR-JL as public code has it: e/p - e_imputed on seen pairs, swapped arguments in the imputation loss.

    Prediction: (1/B) [sum_O (e/p - e_imputed) + sum_sampled e_imputed] for a batch of B ratings: not doubly robust.
    Imputation: sum_O (e - e'_imputed)^2 / p with e'_imputed = cross-entropy of r_imputed against the *prediction*,
    which pulls the imputation towards the prediction. It learns after the prediction, and training stops when
    sum_O e/p falls no longer on the training ratings. `l2` is the weight decay of a dense Adam. The defaults are the
    values that public code has for Coat.
    """

    net: NetRecipe = field(default_factory=lambda: literature_net(8))
    propensity: Propensity = field(default_factory=lambda: PublishedFactors(learning_rate=0.01, l2=0.1))
    l2: float = 1e-3
    imputation_learning_rate: float | None = None
    clip: float | None = 0.05
    pairs_per_row: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.imputation_learning_rate is not None:
            check_number(self, "imputation_learning_rate", above=0)

    def prediction_loss(self, v: View) -> Tensor:
        o, d = v.observed, v.sampled
        on_seen = o.sum(o.error() * o.inverse_propensity() - o.imputed_error())
        return (on_seen + d.sum(d.imputed_error())) / o.sum(torch.ones_like(o.ratings)).detach()

    def imputation_loss(self, v: View) -> Tensor:
        o = v.observed
        prediction = torch.sigmoid(o.logit()).detach()
        swapped = log_error(o.logit("imputation"), prediction)
        return o.sum(o.inverse_propensity() * (o.error().detach() - swapped).square())

    def imputation_role(self) -> Role:
        rate = self.imputation_learning_rate
        return replace(super().imputation_role(), learning_rate=self.learning_rate if rate is None else rate)

    def plan(self) -> Plan:
        plan = super().plan()
        first, learning = plan.stages
        updates = learning.updates[::-1]
        return replace(plan, stages=(first, replace(learning, updates=updates, validate=ips, tolerance=1e-4)))


def released_dce_dr() -> DoublyCalibrated:
    """DCE-DR with the settings that its authors released for Coat."""
    base = DRJLPublished(
        net=literature_net(),
        propensity=PublishedFactors(),
        learning_rate=0.0216,
        l2=4.9e-3,
        imputation_learning_rate=0.0908,
        imputation_l2=0.34,
        clip=0.0903,
        pairs_per_row=2.0,
    )
    imputation = PublishedExperts(objective="likelihood", learning_rate=0.0422, l2=6.1e-4, batch_size=None)
    return DoublyCalibrated(base, propensity=PublishedExperts(), imputation=imputation)
