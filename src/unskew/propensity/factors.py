"""A personal propensity: a net that tells seen pairs from all pairs, read only where it was not trained."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit

from unskew.data.hashing import pair_fold
from unskew.data.log import RatingLog
from unskew.data.split import Split
from unskew.errors import ParameterError
from unskew.group import Group
from unskew.nets.base import Catalogue, Net, NetRecipe
from unskew.nets.factors import MF, FactorNet
from unskew.propensity.activity import activity
from unskew.propensity.base import Codes, FittedPropensity, Propensity, Values, refuse_collapsed
from unskew.risk.errors import log_error
from unskew.risk.estimators import seen_likelihood, seen_squares
from unskew.training.checks import check_choice, check_number
from unskew.training.history import History
from unskew.training.loop import train
from unskew.training.options import Training
from unskew.training.plan import Plan, Role, Stage, Update

LARGE_LOG = 100_000  # ratings: from here on half of them teach a net as much as four fifths


@dataclass(frozen=True)
class FoldNets:
    """One net a fold of pairs, side by side in one: a pair teaches all of them but that of its own fold.

    Folds are a hash of the pair, seen or not. Net f has the user rows f |U| to (f + 1) |U| - 1, and items alike; only
    what belongs to no user and no item, such as the offset, is common to all. |U| are the users of this worker.
    """

    split: Split
    n_members: int
    seed: int

    @property
    def copies(self) -> int:
        return self.n_members - 1

    def placed(
        self, users: NDArray[np.int64], items: NDArray[np.int64], copy: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The rows, in the one net, of the pairs for the `copy`-th of the nets that may meet them."""
        fold = pair_fold(self.seed, self.split.group.codes(users), items, self.n_members)
        member = (fold + 1 + copy) % self.n_members
        return users + member * self.split.log.n_users, items + member * self.split.log.n_items

    def apart(self, net: Net, recipe: NetRecipe) -> list[Net]:
        """The nets of the folds, each by itself."""
        nets, facts = [], self.split.facts
        for member in range(self.n_members):
            catalogue = Catalogue(
                facts.n_users,
                facts.n_items,
                group=self.split.group,
            )
            alone = recipe.build(catalogue, torch.Generator())
            sizes = {name: len(value) for name, value in alone.state_dict().items()}
            alone.restore(
                {
                    name: value
                    if len(value) == sizes[name]
                    else value[member * sizes[name] : (member + 1) * sizes[name]]
                    for name, value in net.state_dict().items()
                }
            )
            nets.append(alone)
        return nets


class FittedFactors(FittedPropensity):
    """One net a fold of pairs; a pair is answered by the net that was trained without its fold."""

    stored = ("nets", "seed")

    def __init__(self, nets: list[Net], seed: int, history: History | None = None) -> None:
        self.nets, self.seed, self.history = nets, seed, history

    @torch.no_grad()
    def pair(self, users: Codes, items: Codes) -> Values:
        u, i = (torch.from_numpy(np.asarray(codes, np.int64)) for codes in (users, items))
        if len(self.nets) == 1:
            return np.asarray(expit(self.nets[0](u, i).double().numpy()))
        p = np.empty(len(u))
        fold = pair_fold(self.seed, self.group.codes(np.asarray(users)), items, len(self.nets))
        for number, net in enumerate(self.nets):
            inside = np.flatnonzero(fold == number)
            p[inside] = expit(net(u[inside], i[inside]).double().numpy())
        return p

    def gather(self, group: Group) -> None:
        super().gather(group)
        for net in self.nets:
            net.gather(group)

    @torch.no_grad()
    def joined_by(self, counts: NDArray[np.int64]) -> FittedFactors:
        """Newcomers are as the average user but for their activity, which only nets with biases can tell."""
        nets = [net.joined_by(counts) for net in self.nets]
        for net in nets:
            if isinstance(net, FactorNet) and net.offset is not None:
                items = torch.arange(len(net.items.value))
                logits = net(torch.full_like(items, -1), items).double().numpy()
                bias = activity(np.clip(counts, 1, len(items) - 1), logits)
                net.users.value[-len(counts) :, -1] += torch.from_numpy(bias).float()
        return FittedFactors(nets, self.seed, self.history)

    def vectors(self, users: Codes) -> NDArray[np.float32]:
        """The nets' user vectors side by side."""
        index = torch.from_numpy(np.asarray(users, np.int64))
        return np.concatenate([net.user_vectors(index).numpy() for net in self.nets], axis=1)


@dataclass(frozen=True, kw_only=True)
class Factors(Propensity):
    """p = sigmoid(net(u, i)), trained by maximum likelihood on seen and sampled pairs at the true base rate.

    Cross-fitted: all pairs of the catalogue, seen or not, are dealt into `n_folds` folds, and each pair is read from
    the net trained without its fold, because a net read on its own training pairs is overconfident. `n_folds=None` is
    5, and 2 for logs of 100,000 ratings and more; `n_folds=1` is the classifier of the literature, without that
    protection; `loss="squared"` is what public code minimises.
    """

    fitted = FittedFactors
    tolerance: ClassVar[float | None] = None  # of the stage

    net: NetRecipe = field(default_factory=lambda: MF(n_factors=16, spread=0.1))
    n_folds: int | None = None
    learning_rate: float = 0.01
    l2: float = 0.01
    pairs_per_row: float = 2.0
    loss: Literal["likelihood", "squared"] = "likelihood"

    def __post_init__(self) -> None:
        if self.n_folds is not None and self.n_folds < 1:
            raise ParameterError(f"n_folds must be at least 1, not {self.n_folds}.")
        check_choice(self, "loss", ("likelihood", "squared"))
        check_number(self, "learning_rate", above=0)
        check_number(self, "l2", least=0)
        check_number(self, "pairs_per_row", above=0)

    def plan(self) -> Plan:
        role = Role(self.net, learning_rate=self.learning_rate, l2=self.l2, starts_at="seen")
        loss = seen_likelihood if self.loss == "likelihood" else seen_squares
        stage = Stage("propensity", (Update(("propensity",), loss),), validate=loss, tolerance=self.tolerance)
        return Plan({"propensity": role}, (stage,), log_error, self.pairs_per_row)

    def fit_split(
        self, split: Split, *, seed: int, training: Training, random_ratings: RatingLog | None
    ) -> FittedPropensity:
        n_folds = self.n_folds or (2 if split.facts.n_ratings >= LARGE_LOG else 5)
        folds = FoldNets(split, n_folds, seed) if n_folds > 1 else None
        trained = train(self.plan(), split, seed=seed, training=training, members=folds)
        net: Net = trained.cast.players["propensity"]
        nets = folds.apart(net, self.net) if folds else [net]
        fitted = FittedFactors(nets, seed, trained.history)
        fitted.group = split.group
        self.check(fitted, split, seed)
        return fitted

    def check(self, fitted: FittedPropensity, split: Split, seed: int) -> None:
        """Refuse a propensity that has collapsed or misses the base rate."""
        refuse_collapsed(fitted, split, seed)
