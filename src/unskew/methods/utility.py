"""Naive, corrected for selection on utility: what is said of seen pairs, mapped to what holds for all."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit, logit
from torch import Tensor

from unskew.data.log import RatingLog
from unskew.data.split import holdout_split
from unskew.methods.weighting import Naive
from unskew.nets.base import Net, NetRecipe
from unskew.propensity.tables import Uniform
from unskew.propensity.utility import Utility
from unskew.recommender import Recommender
from unskew.training.checks import check_number
from unskew.training.fitted import Occasion
from unskew.training.loop import train
from unskew.training.options import Training
from unskew.training.plan import Fit, Plan, Role, Stage


class AveragedNets:
    """The average, in probability, of nets."""

    stored: ClassVar[tuple[str, ...]] = ("nets",)

    def __init__(self, nets: list[Net]) -> None:
        self.nets = nets

    def __call__(self, users: Tensor, items: Tensor) -> Tensor:
        mean = np.mean([expit(net(users, items).double().numpy()) for net in self.nets], axis=0)
        return torch.from_numpy(logit(np.clip(mean, 1e-7, 1 - 1e-7)).astype(np.float32))

    def user_vectors(self, users: Tensor) -> Tensor:
        return self.nets[0].user_vectors(users)

    def joined_by(self, counts: NDArray[np.int64]) -> AveragedNets:
        return AveragedNets([net.joined_by(counts) for net in self.nets])


@dataclass(frozen=True)
class Averages:
    """A role that trains several nets of one naive method, each with a seed and a hold-out of its own."""

    fitted: ClassVar[type] = AveragedNets
    naive: Naive
    n_members: int

    @property
    def net(self) -> NetRecipe:
        return self.naive.net

    def fit_on(self, occasion: Occasion, previous: Any) -> AveragedNets:
        seeds = occasion.generator.integers(2**63, size=self.n_members).tolist()
        options = [occasion.training.inside(f"member.{number}") for number in range(self.n_members)]
        members = zip(options, seeds, strict=True)
        return AveragedNets([self.member(occasion.split.log, training, seed) for training, seed in members])

    def member(self, log: RatingLog, training: Training, seed: int) -> Net:
        split = holdout_split(log, training.holdout, by=training.holdout_by, seed=seed)
        trained = train(self.naive.plan(), split, seed=seed, training=training, title="member")
        net: Net = trained.cast.players["prediction"]
        return net


@dataclass(frozen=True, kw_only=True)
class NaiveUtility(Naive):
    """Naive, mapped from what is said of seen pairs to what holds for all by selection on utility (docs/utility.md).

    The map is monotone, so every ranking is Naive's; without evidence for selection so is every bit. `utility` says how
    the selection is estimated. With `n_members` above 1 the average, in probability, of so many naive nets is mapped.
    """

    utility: Utility = field(default_factory=lambda: Utility(base=Uniform()))
    n_members: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(self, "n_members", least=1)

    def plan(self) -> Plan:
        plan = super().plan()
        if self.n_members > 1:
            member = Naive(net=self.net, learning_rate=self.learning_rate, l2=self.l2, error=self.error)
            averaged = {"prediction": Role(Averages(member, self.n_members))}
            plan = replace(plan, roles=averaged, stages=(Stage("prediction", fits=(Fit("prediction"),)),))
        roles = {**plan.roles, "selection": Role(self.utility)}
        return replace(plan, roles=roles, stages=(*plan.stages, Stage("selection", fits=(Fit("selection"),))))

    def fit_plan(self, plan: Plan, log: RatingLog, **arguments: Any) -> Recommender:
        """What calibrates the prediction is fitted after it and to no hold-out, so only the fitted cast knows of it."""
        model = super().fit_plan(plan, log, **arguments)
        return replace(model, cast=replace(model.cast, calibrators={"prediction": "selection"}))

    def at(self, model: Recommender, unexplained: float) -> Recommender:
        """Only the map depends on the assumption: no net is trained."""
        utility = replace(self.utility, unexplained=unexplained)
        players = {**model.cast.players, "selection": utility.refitted(model.player("selection"), model.log)}
        return replace(model, method=replace(self, utility=utility), cast=replace(model.cast, players=players))
