"""A personal propensity: a net that tells seen pairs from all pairs, read only where it was not trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np

from unskew.data.population import AllPairs, Folds, shifted
from unskew.losses.columns import Array
from unskew.losses.weighting import seen_likelihood, seen_squares
from unskew.nets.base import Net, NetSpec, Part, State
from unskew.nets.factors import MF
from unskew.propensity.additive import activity
from unskew.propensity.base import FittedPropensity, Propensity, refuse_collapsed
from unskew.settings import setting
from unskew.training.loop import train
from unskew.training.options import History
from unskew.training.plan import Given, Plan, Role, Stage, Update

F = np.float32
LARGE_LOG = 100_000  # ratings: from here on half of them teach a net as much as four fifths


class CrossFitted(FittedPropensity):
    """One net a fold of pairs, side by side in one; a pair, seen or not, is answered by the one trained without it.

    `new_users` are the effects of users that came after the fit, who are as the average user else.
    """

    def __init__(self, net: Net, folds: Folds, history: History | None = None, new_users: Any = ()) -> None:
        self.net, self.folds, self.history, self.out_of_fold = net, folds, history, folds.n > 1
        self.new_users = np.asarray(new_users, np.float32)

    def logits(self, users: Array, items: Array) -> Array:
        new = users - self.folds.population.n_users
        known = self.net.logits(*self.folds.placed(np.where(new < 0, users, -1), items, -1))
        return known if not len(self.new_users) else known + np.append(self.new_users, F(0))[np.maximum(new, -1)]

    def user_vectors(self, users: Array) -> Array:
        """Return the vectors that the nets have of these users, one after the other."""
        n_users = self.folds.population.n_users
        users = np.where(users < n_users, users, -1)
        return np.hstack([self.net.user_vectors(shifted(users, n * n_users)) for n in range(self.folds.n)])

    def state(self) -> dict[str, Array]:
        n, seed, population = self.folds
        new = {"new_users": self.new_users} if len(self.new_users) else {}
        return {**self.net.state(), "folds": np.array([n, seed, *population], np.int64), **new}

    def sizes(self) -> tuple[int | None, int | None]:
        n, _, population = self.folds
        known = (size is None or size == n * own for size, own in zip(self.net.sizes(), population, strict=True))
        return (population.n_users + len(self.new_users), population.n_items) if all(known) else (0, 0)

    def extended(self, counts: Array, owner: Part | None = None) -> CrossFitted:
        """New users are as the average user but for their activity, which only nets with biases can tell."""
        new = np.zeros(len(counts))
        if "offset" in self.net.state():
            items = np.arange(self.folds.population.n_items, dtype=np.int32)
            logits = self.logits(np.full_like(items, -1), items)
            new = activity(np.clip(counts, 1, len(items) - 1), logits)
        return CrossFitted(self.net, self.folds, self.history, np.append(self.new_users, new))


@dataclass(frozen=True, kw_only=True)
class Factors(Propensity):
    """p = sigmoid(net(u, i)), trained by maximum likelihood on seen and sampled pairs at the true base rate.

    Cross-fitted: all pairs of the population, seen or not, are put into `n_folds` folds, and each pair is read from
    the net trained without its fold, because a net read on its own training pairs is overconfident. `n_folds=None` is
    5, and 2 for logs of 100,000 ratings and more; `n_folds=1` is the classifier of the literature, without that
    protection; `loss="squared"` is what public code minimises.
    """

    net: NetSpec = setting(factory=lambda: MF(n_factors=16, init_std=0.1))
    n_folds: int | None = setting(None, least=1, most=100)
    learning_rate: float = setting(0.01, above=0)
    l2: float = setting(0.01, least=0)
    pairs_per_row: float = setting(2.0, above=0)
    loss: Literal["likelihood", "squared"] = "likelihood"

    def plan(self) -> Plan:
        loss = seen_likelihood if self.loss == "likelihood" else seen_squares
        stage = Stage("propensity", ((Update(("propensity",), loss),),), validate=loss)
        role = Role(self.net, self.learning_rate, self.l2, starts_at="seen")
        return Plan({"propensity": role}, (stage,), pairs_per_row=self.pairs_per_row)

    def fit_in(self, given: Given) -> CrossFitted:
        log = given.log
        n_folds = self.n_folds or (2 if len(log) >= LARGE_LOG else 5)
        folds = Folds(n_folds, given.seed, AllPairs(log.n_users, log.n_items))
        apart = folds if n_folds > 1 else None
        trained = train(self.plan(), given.split, seed=given.seed, training=given.training, folds=apart)
        fitted = CrossFitted(trained.parts["propensity"], folds, trained.history)
        refuse_collapsed(fitted, log, given.seed)
        return fitted

    def from_state(self, state: State, owner: Part | None = None) -> CrossFitted:
        n, seed, n_users, n_items = (int(number) for number in state["folds"])
        net = self.net.from_state({name: of for name, of in state.items() if name not in ("folds", "new_users")})
        return CrossFitted(cast(Net, net), Folds(n, seed, AllPairs(n_users, n_items)), None, state.get("new_users", ()))
