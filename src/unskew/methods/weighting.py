"""Methods with one prediction net and no imputation: Naive, IPS, SNIPS, EIB, CVIB, AT, Rel-MF."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np

from unskew.losses.batch import Loss, View
from unskew.losses.columns import value_of
from unskew.losses.joint import agreement, contrast, negative_entropy, relevance
from unskew.losses.weighting import eib, ips, naive, snips
from unskew.methods.base import NetMethod, PropensityMethod
from unskew.methods.settings import Choice, LogUniform
from unskew.propensity.base import Propensity
from unskew.propensity.counted import Popularity
from unskew.settings import setting
from unskew.training.plan import Plan, Stage, Update, turns


@dataclass(frozen=True, kw_only=True)
class Naive(NetMethod):
    """Fit the seen ratings and ignore how they came to be seen: (1/|O|) sum_O e."""

    def plan(self) -> Plan:
        stage = Stage("prediction", turns(prediction=naive), validate=naive)
        return Plan({"prediction": self.learner()}, (stage,), self.error, pairs_per_row=0)


@dataclass(frozen=True, kw_only=True)
class IPS(PropensityMethod):
    """Weight each seen error by its inverse propensity, (1/|D|) sum_O e / p (Schnabel et al., ICML 2016)."""

    losses: ClassVar[tuple[Loss, Loss]] = ips, snips  # to learn from, and to stop by

    def plan(self) -> Plan:
        loss, validation = self.losses
        stage = Stage("prediction", turns(prediction=loss), validate=validation)
        roles = {"prediction": self.learner(), "propensity": self.propensity_role()}
        return Plan(roles, (stage,), self.error, pairs_per_row=0)


@dataclass(frozen=True, kw_only=True)
class SNIPS(IPS):
    """IPS divided by the realised sum of weights: bounded, less variable, slightly biased."""

    losses: ClassVar[tuple[Loss, Loss]] = snips, snips


@dataclass(frozen=True, kw_only=True)
class EIB(NetMethod):
    """Give every unseen pair a fixed imputed error, (1/|D|) [sum_O e + sum_{D-O} e_imputed] (Steck, RecSys 2010).

    `imputed_rating` is the rating guessed for unseen pairs (gamma_0), `weight` how much that guess counts (omega);
    `form` is the imputed error: "absolute" omega |r - gamma_0| as in the DCE paper's text, or "same", the method's
    own error against gamma_0.
    """

    imputed_rating: float = setting(0.3, least=0, most=1, search=Choice((0.1, 0.2, 0.3, 0.4)))
    weight: float = setting(0.1, above=0, search=LogUniform(0.01, 1.0))
    form: Literal["absolute", "same"] = "same"

    def loss(self, v: View) -> Any:
        if self.form == "same":
            return eib(v, self.weight * v.sampled.error(label=self.imputed_rating))
        gap = v.sampled.probability() - self.imputed_rating
        return eib(v, self.weight * (gap * np.sign(value_of(gap))))

    def plan(self) -> Plan:
        stage = Stage("prediction", turns(prediction=self.loss), validate=self.loss)
        return Plan({"prediction": self.learner()}, (stage,), self.error)


@dataclass(frozen=True, kw_only=True)
class CVIB(NetMethod):
    """Counterfactual variational information bottleneck: no propensity at all (Wang et al., NeurIPS 2020).

    Adds to the naive risk `contrast` times the cross-entropy between the mean predictions on seen and on random
    pairs (alpha), and `confidence` times the negative entropy of predictions (gamma), in its symmetric form.
    """

    contrast: float = setting(0.1, least=0, search=LogUniform(0.01, 1.0))
    confidence: float = setting(0.05, least=0, search=LogUniform(0.005, 0.5))

    def plan(self) -> Plan:
        losses = (naive, 1.0), (contrast, self.contrast), (negative_entropy, self.confidence)
        step = tuple(Update(("prediction",), loss, weight) for loss, weight in losses)
        return Plan({"prediction": self.learner()}, (Stage("prediction", (step,), validate=naive),), self.error)


FIRST, SECOND = "first_labeller", "second_labeller"


@dataclass(frozen=True, kw_only=True)
class AT(PropensityMethod):
    """Asymmetric tri-training: two labellers, agreement within a tolerance, a third learner (Saito, SIGIR 2020).

    Two nets are trained by SNIPS and a third on the plain ratings, each on batches of its own. Then random pairs about
    which the two agree within `tolerance` (epsilon) are labelled by the first, and the third and the second learn those
    labels; the first would learn its own, which changes nothing. Kept is the third net of lowest weighted risk.
    """

    tolerance: float = setting(0.05, above=0, search=LogUniform(0.005, 0.5))
    pairs_per_row: float = setting(5.0, above=0)

    def labelled(self, v: View, role: str) -> Any:
        """Return the mean error of a role against the first labeller over the pairs on which the labellers agree."""
        d, agreed = v.sampled, agreement(v, FIRST, SECOND, self.tolerance)
        return d.total(agreed * d.imputed_error(role, imputation=FIRST)) / max(d.total(agreed), 1.0)

    def plan(self) -> Plan:
        nets = {role: self.learner() for role in (FIRST, SECOND, "prediction")}
        labellers = turns(prediction=naive, **{role: partial(snips, role=role) for role in (FIRST, SECOND)})
        labelled = turns(**{role: partial(self.labelled, role=role) for role in ("prediction", SECOND)})
        stages = (
            Stage("labellers", labellers, validate=lambda v: snips(v, FIRST) + snips(v, SECOND), own_batches=True),
            Stage("prediction", labelled, validate=snips, own_batches=True),
        )
        return Plan({"propensity": self.propensity_role(), **nets}, stages, self.error, self.pairs_per_row)


@dataclass(frozen=True, kw_only=True)
class RelMF(IPS):
    """Learn what is relevant from positive rows alone, each weighted by its chance of being exposed (WSDM 2020).

    (1/|D|) sum_D [ (y/p) e1 + (1 - y/p) e0 ], y = 1 where a positive row is and 0 elsewhere. `propensity` is relative
    by default, the root of an item's share of positives (Saito et al.): then order is learned and no level.
    """

    propensity: Propensity = setting(factory=lambda: Popularity(exponent=0.5, relative=True))
    clip: float | None = setting(0.1, least=0, most=1)
    error: Literal["log", "squared"] = "squared"
    pairs_per_row: float = setting(4.0, above=0)
    from_positives: ClassVar[bool] = True
    losses: ClassVar[tuple[Loss, Loss]] = relevance, relevance

    def plan(self) -> Plan:
        return replace(super().plan(), pairs_per_row=self.pairs_per_row)
