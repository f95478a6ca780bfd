"""Multi-task methods: propensity, prediction and imputation as towers on shared vectors, moved in one step."""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from unskew.losses.batch import Loss
from unskew.losses.doubly_robust import dr, imputation_error
from unskew.losses.joint import counterfactual, entire_space, opposition
from unskew.losses.weighting import ips, seen_likelihood, snips
from unskew.methods.base import NetMethod
from unskew.methods.settings import CLIP, LogUniform
from unskew.nets.base import NetSpec
from unskew.nets.factors import MF, Tower
from unskew.settings import setting
from unskew.training.plan import Plan, Role, Stage, Update


@dataclass(frozen=True, kw_only=True)
class MultiTask(NetMethod):
    """Towers on shared vectors that take one step together."""

    net: NetSpec = setting(factory=lambda: MF(biases=False))
    clip: float | None = setting(None, least=0, most=1, search=CLIP)
    pairs_per_row: float = setting(2.0, above=0)

    @abstractmethod
    def step(self) -> Iterator[Update]:
        """Return what learns from which loss; every role that is named is a tower."""

    def validation(self) -> Loss:
        return snips

    def plan(self) -> Plan:
        # As many losses pull at the vectors, so the L2 that stands against one of them counts as often.
        step = tuple(self.step())
        towers = dict.fromkeys(role for update in step for role in update.trains)
        vectors = self.learner()._replace(l2_factor=float(len(towers)))
        tower = vectors._replace(part=Tower(), shares_with="vectors")
        roles: dict[str, Role] = {"vectors": vectors, "propensity": tower._replace(clip=self.clip, starts_at="seen")}
        roles |= {role: tower for role in ("counterfactual", "imputation", "prediction") if role in towers}
        stage = Stage("prediction", (step,), validate=self.validation())
        return Plan(roles, (stage,), self.error, self.pairs_per_row)


@dataclass(frozen=True, kw_only=True)
class MultiDR(MultiTask):
    """Multi-task doubly robust: three towers on shared vectors, one joint step (Zhang et al., WWW 2020).

    Minimises the likelihood of being seen + `prediction_weight` DR + `imputation_weight` sum_O (e - e_imputed)^2 / p.
    Weights and labels of one tower are constants for the others; only the shared vectors tie them together.
    """

    prediction_weight: float = setting(1.0, least=0, search=LogUniform(0.1, 10.0))
    imputation_weight: float = setting(1.0, least=0, search=LogUniform(0.1, 10.0))

    def step(self) -> Iterator[Update]:
        yield Update(("propensity",), seen_likelihood)
        yield Update(("prediction",), dr, self.prediction_weight)
        yield Update(("imputation",), imputation_error, self.imputation_weight)


@dataclass(frozen=True, kw_only=True)
class ESCM2DR(MultiDR):
    """Entire-space multi-task model with a counterfactual DR regulariser (Wang et al., SIGIR 2022).

    Multi-DR's loss + `entire_space_weight` times the cross-entropy of p r against seen-and-liked over all pairs, the
    one term in which propensity and prediction train each other. It treats unseen as disliked: a large weight biases
    predictions down.
    """

    entire_space_weight: float = setting(0.1, least=0, search=LogUniform(0.01, 1.0))

    def step(self) -> Iterator[Update]:
        yield from super().step()
        yield Update(("propensity", "prediction"), entire_space, self.entire_space_weight)


@dataclass(frozen=True, kw_only=True)
class EntireSpace(MultiTask):
    """Entire-space multi-task models of clicks and conversions: what was seen and what came of it learn together.

    Minimises the likelihood of being seen + `entire_space_weight` times the cross-entropy of p r against seen-and-liked
    over the population (ESMM: Ma et al., SIGIR 2018) + `prediction_weight` times a `risk` of the prediction, "ips" for
    ESCM2-IPS (Wang et al., SIGIR 2022) or "snips". With `counterfactual_weight` a second tower learns that unseen
    rows are unwanted, and differs from 1 - r at that price (DCMT: Zhu et al., ICDE 2023): a pull of r towards 0.
    """

    risk: Literal["none", "ips", "snips"] = "none"
    prediction_weight: float = setting(1.0, least=0, search=LogUniform(0.1, 10.0))
    entire_space_weight: float = setting(1.0, least=0, search=LogUniform(0.1, 10.0))
    counterfactual_weight: float = setting(0.0, least=0)

    def validation(self) -> Loss:
        return entire_space if self.risk == "none" else snips

    def step(self) -> Iterator[Update]:
        yield Update(("propensity",), seen_likelihood)
        if self.risk != "none":
            yield Update(("prediction",), ips if self.risk == "ips" else snips, self.prediction_weight)
        if self.counterfactual_weight:
            yield Update(("counterfactual",), counterfactual, self.prediction_weight)
            yield Update(("prediction", "counterfactual"), opposition, self.counterfactual_weight)
        yield Update(("propensity", "prediction"), entire_space, self.entire_space_weight)
