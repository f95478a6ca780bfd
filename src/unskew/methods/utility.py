"""Naive, corrected for selection on utility: what is said of seen pairs, mapped to what holds for all."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from scipy.special import expit, logit
from torch import Tensor

from unskew.data.log import RatingLog
from unskew.data.split import holdout_split
from unskew.methods.base import NetMethod
from unskew.methods.weighting import Naive
from unskew.nets.base import Net, NetRecipe
from unskew.propensity.tables import Uniform
from unskew.propensity.utility import Utility
from unskew.recommender import Recommender
from unskew.risk.estimators import naive
from unskew.training.checks import check_number
from unskew.training.fitted import Occasion
from unskew.training.loop import train
from unskew.training.options import Training
from unskew.training.plan import Fit, Plan, Role, Stage, Update
from unskew.utility.selection import Selection


class MappedNets:
    """The average, in probability, of naive nets, mapped by a selection; one net without a slope is that net itself."""

    stored: ClassVar[tuple[str, ...]] = ("nets", "selection")
    holds: ClassVar[dict[str, type]] = {"selection": Selection}

    def __init__(self, nets: list[Net], selection: Selection) -> None:
        self.nets, self.selection = nets, selection

    def __call__(self, users: Tensor, items: Tensor) -> Tensor:
        logits = self.nets[0](users, items) if len(self.nets) == 1 else self._averaged(users, items)
        if not self.selection.slope:
            return logits
        mapped = self.selection.population(logits.double().numpy(), users.numpy())
        return torch.from_numpy(mapped.astype(np.float32))

    def _averaged(self, users: Tensor, items: Tensor) -> Tensor:
        mean = np.mean([expit(net(users, items).double().numpy()) for net in self.nets], axis=0)
        return torch.from_numpy(logit(np.clip(mean, 1e-7, 1 - 1e-7)).astype(np.float32))

    def user_vectors(self, users: Tensor) -> Tensor:
        return self.nets[0].user_vectors(users)


@dataclass(frozen=True)
class Maps:
    """The role of the mapped nets: the net of role "naive", more like it if asked for, and the role "selection"."""

    fitted: ClassVar[type] = MappedNets
    naive: Naive
    n_members: int

    @property
    def net(self) -> NetRecipe:
        return self.naive.net

    def fit_on(self, occasion: Occasion, previous: Any) -> MappedNets:
        players = occasion.view.cast.players
        seeds = occasion.generator.integers(2**63, size=self.n_members - 1).tolist()
        members = [self.member(occasion.split.log, occasion.training, seed) for seed in seeds]
        return MappedNets([players["naive"], *members], players["selection"].selection)

    def member(self, log: RatingLog, training: Training, seed: int) -> Net:
        """The net of a naive fit with this seed, hold-out and all."""
        split = holdout_split(log, training.holdout, by=training.holdout_by, seed=seed)
        trained = train(self.naive.plan(), split, seed=seed, training=training, title="member")
        net: Net = trained.cast.players["prediction"]
        return net


@dataclass(frozen=True, kw_only=True)
class NaiveUtility(NetMethod):
    """Naive, mapped from what is said of seen pairs to what holds for all by selection on utility (docs/utility.md).

    The map is monotone, so every ranking is Naive's; without evidence for selection so is every bit. `utility` says how
    the selection is estimated. With `n_members` above 1 the average of so many Naive nets with other seeds is mapped.
    """

    utility: Utility = field(default_factory=lambda: Utility(base=Uniform()))
    n_members: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(self, "n_members", least=1)

    def plan(self) -> Plan:
        base = Naive(net=self.net, learning_rate=self.learning_rate, l2=self.l2, error=self.error)
        roles = {
            "naive": self.learner(),
            "selection": Role(self.utility),
            "prediction": Role(Maps(base, self.n_members)),
        }
        risk = partial(naive, role="naive")
        stages = (
            Stage("naive", (Update(("naive",), risk),), validate=risk),
            Stage("selection", fits=(Fit("selection"),)),
            Stage("prediction", fits=(Fit("prediction"),)),
        )
        return Plan(roles, stages, self.error_function)

    def at(self, model: Recommender, unexplained: float) -> Recommender:
        """Only the map depends on the assumption: no net is trained."""
        utility = replace(self.utility, unexplained=unexplained)
        selection = utility.refitted(model.player("selection"), model.log)
        mapped = MappedNets(model.player("prediction").nets, selection.selection)
        players = {**model.cast.players, "selection": selection, "prediction": mapped}
        return replace(model, method=replace(self, utility=utility), cast=replace(model.cast, players=players))
