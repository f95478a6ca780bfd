"""What public code minimises where it departs from the papers: for reproducing published numbers, not for use.

The departures are those of the released DCE code and its relatives: the C-form of the doubly robust objective, the
imputed error with its arguments swapped, and propensities fitted by squared error with an additive net.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from unskew.methods.robust import DRJL
from unskew.nets.base import NetRecipe
from unskew.nets.factors import MF, NCF
from unskew.propensity.base import Propensity
from unskew.propensity.factors import Factors
from unskew.risk.errors import log_error
from unskew.training.view import View


def literature_net() -> NetRecipe:
    return MF(n_factors=16, biases=False, spread=1.0)


def literature_propensity() -> Propensity:
    return Factors(net=NCF(n_factors=16, hidden=False, spread=1.0), n_folds=1, l2=1e-4, loss="squared")


@dataclass(frozen=True, kw_only=True)
class DRJLPublished(DRJL):
    """DR-JL as public code has it: e/p - e_imputed on seen pairs, swapped arguments in the imputation loss.

    Prediction: (1/(G B)) [sum_O (e/p - e_imputed) + sum_sampled e_imputed], G pairs a rating: not doubly robust.
    Imputation: sum_O (e - e'_imputed)^2 / p with e'_imputed = cross-entropy of r_imputed against the *prediction*,
    which pulls the imputation towards the prediction. `l2` is what a weight decay of 1e-3 on every row and step comes
    to per reading on Coat with batches of 128; the imputation's loss is a sum, so its share is 128 times smaller.
    """

    net: NetRecipe = field(default_factory=literature_net)
    propensity: Propensity = field(default_factory=literature_propensity)
    learning_rate: float = 0.01
    l2: float = 0.25
    imputation_l2: float | None = 0.002
    clip: float | None = 0.05
    pairs_per_row: float = 1.0

    def prediction_loss(self, v: View) -> Tensor:
        o, d = v.observed, v.sampled
        imputed = d.imputed_error()
        on_seen = o.sum(o.error() * o.inverse_propensity() - o.imputed_error())
        return (on_seen + d.sum(imputed)) / d.sum(torch.ones_like(imputed)).detach()

    def imputation_loss(self, v: View) -> Tensor:
        o = v.observed
        prediction = torch.sigmoid(o.logit()).detach()
        swapped = log_error(o.logit("imputation"), prediction)
        return o.sum(o.inverse_propensity() * (o.error().detach() - swapped).square())
