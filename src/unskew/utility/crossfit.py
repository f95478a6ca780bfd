"""Naive nets read only where they were not trained, and what they say taken apart into effects and interaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from unskew.data.hashing import pair_fold
from unskew.data.log import RatingLog
from unskew.data.split import Split
from unskew.nets.base import Net
from unskew.risk.errors import log_error
from unskew.risk.estimators import naive
from unskew.training.history import History
from unskew.training.loop import train
from unskew.training.options import Training
from unskew.training.plan import Plan, Role, Stage, Update
from unskew.training.threads import one_thread

Codes = NDArray[np.integer]
Values = NDArray[np.float64]

AT_ONCE = 1 << 18
UNUSED = 1 / 64  # pairs sampled for each rating of a batch: the naive risk looks at none


@dataclass(frozen=True, eq=False)
class CrossFitted:
    """One naive net a fold of pairs; a pair, seen or not, is read from the net that was trained without its fold.

    Pairs are dealt into folds `n_repeats` times anew, and `nets` holds those of one dealing after the other.
    """

    nets: list[Net]
    seed: int
    n_repeats: int = 1

    @property
    def n_folds(self) -> int:
        return len(self.nets) // self.n_repeats

    def fold(self, users: Codes, items: Codes, repeat: int = 0) -> NDArray[np.int64]:
        return pair_fold(self.seed + repeat, users, items, self.n_folds)

    def nets_of(self, repeat: int) -> list[Net]:
        return self.nets[repeat * self.n_folds : (repeat + 1) * self.n_folds]

    def vectors(self, n_users: int) -> NDArray[np.float32]:
        """One row a user, for networks that tell users apart: those of the first net."""
        return self.nets[0].user_vectors(torch.arange(n_users)).numpy()

    def mean_parts(self, users: Codes, items: Codes) -> Values:
        """The parts averaged over all dealings: of the seen pairs still what nets say that were not trained on them."""
        return np.asarray(np.mean([self.parts(users, items, repeat) for repeat in range(self.n_repeats)], axis=0))

    def parts(self, users: Codes, items: Codes, repeat: int = 0) -> Values:
        """One row a pair: user effect, item effect and interaction, which add up to the logit less its average.

        The effect of a user is what the net says of that user and the average item, the interaction is what is left.
        """
        parts = np.empty((len(users), 3))
        with one_thread(), torch.no_grad():
            for start in range(0, len(users), AT_ONCE):
                chunk = slice(start, start + AT_ONCE)
                u, i = (np.asarray(codes[chunk], np.int64) for codes in (users, items))
                fold = self.fold(u, i, repeat)
                for number, net in enumerate(self.nets_of(repeat)):
                    inside = np.flatnonzero(fold == number)
                    parts[start + inside] = _parts(net, u[inside], i[inside])
        return parts


def _parts(net: Net, users: NDArray[np.int64], items: NDArray[np.int64]) -> Values:
    average = float(net(torch.tensor([-1]), torch.tensor([-1])))
    user = _of_each(users, lambda codes: net(codes, torch.full_like(codes, -1))) - average
    item = _of_each(items, lambda codes: net(torch.full_like(codes, -1), codes)) - average
    logit = net(torch.from_numpy(users), torch.from_numpy(items)).double().numpy()
    return np.stack([user, item, logit - average - user - item], axis=1)


def _of_each(codes: NDArray[np.int64], say: Callable[[torch.Tensor], torch.Tensor]) -> Values:
    distinct, place = np.unique(codes, return_inverse=True)
    return np.asarray(say(torch.from_numpy(distinct)).double().numpy()[place])


def cross_fit(
    role: Role, log: RatingLog, n_folds: int, n_repeats: int, *, seed: int, training: Training
) -> tuple[CrossFitted, History]:
    """Train a naive net outside each fold, stopping early by the ratings inside it."""
    stage = Stage("prediction", (Update(("prediction",), naive),), validate=naive)
    plan = Plan({"prediction": role}, (stage,), log_error, UNUSED)
    nets, history = [], History()
    splits = (split for repeat in range(n_repeats) for split in _splits(log, n_folds, seed + repeat))
    for number, split in enumerate(splits, 1):
        title = f"utility fold {number}/{n_folds * n_repeats}"
        trained = train(plan, split, seed=seed, training=training.inside(f"fold.{number}"), title=title)
        nets.append(trained.cast.players["prediction"])
        history.take_in(title, trained)
    return CrossFitted(nets, seed, n_repeats), history


def _splits(log: RatingLog, n_folds: int, seed: int) -> Iterator[Split]:
    fold = pair_fold(seed, log.users, log.items, n_folds)
    for number in range(n_folds):
        yield Split(log, np.flatnonzero(fold != number), np.flatnonzero(fold == number))
