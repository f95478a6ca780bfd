"""Naive nets read only where they were not trained, and what they say taken apart into effects and interaction."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from unskew.data.hashing import pair_fold
from unskew.data.log import RatingLog
from unskew.data.split import Split
from unskew.nets.base import Net, NetRecipe
from unskew.risk.errors import log_error
from unskew.risk.estimators import naive
from unskew.training.history import History
from unskew.training.loop import train
from unskew.training.options import Training
from unskew.training.plan import Plan, Role, Stage, Update
from unskew.training.threads import one_thread
from unskew.utility.leading import CALIBRATION_ROWS, Led, can_be_led
from unskew.utility.ordered import Levels, fit_ordered

Codes = NDArray[np.integer]
Values = NDArray[np.float64]

AT_ONCE = 1 << 18
UNUSED = 1 / 64  # pairs sampled for each rating of a batch: the naive risk looks at none
ENOUGH_LEFT_OUT = 100_000  # ratings that tell for sure whether nets have learned interactions
HARDLY_ANY = 0.1  # standard deviation of logits; interactions of less tell next to nothing of a slope
LED = "Nets of a random start learned hardly any interactions, so they started from leading directions of the ratings."


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
    """Train a naive net outside each fold, stopping early by the ratings inside it.

    Once enough ratings have been left out, at the latest after the last fold, nets are asked for interactions. If they
    learned hardly any they begin again from leading directions (see `utility.leading`), unless those know no more.
    """
    folds, history = Folds(log, n_folds, n_repeats, seed, training), History()
    asked = range(min(math.ceil(ENOUGH_LEFT_OUT * n_folds / len(log)), folds.total))
    nets, led = folds.train(role, asked, history), False
    known = folds.interactions_of(nets)
    if known < HARDLY_ANY and all(map(can_be_led, nets)):
        others = folds.train(role, asked, history, led=True)
        led = folds.interactions_of(others) > known
        if led:
            nets = others
            history.notes.append(LED)
    nets += folds.train(role, range(len(asked), folds.total), history, led=led)
    return CrossFitted(nets, seed, n_repeats), history


@dataclass(frozen=True, eq=False)
class Folds:
    """The folds of a log, those of one dealing after the other, and how nets are trained outside them."""

    log: RatingLog
    n_folds: int
    n_repeats: int
    seed: int
    training: Training

    @property
    def total(self) -> int:
        return self.n_folds * self.n_repeats

    def train(self, role: Role, numbers: range, history: History, *, led: bool = False) -> list[Net]:
        """A net for each of these folds."""
        stage = Stage("prediction", (Update(("prediction",), naive),), validate=naive)
        nets = []
        for number in numbers:
            split = self.split(number)
            net = Led(net=role.net, split=split) if led and isinstance(role.net, NetRecipe) else role.net
            plan = Plan({"prediction": replace(role, net=net)}, (stage,), log_error, UNUSED)
            title = f"utility fold {number + 1}/{self.total}" + " led" * led
            training = self.training.inside(f"{'led' if led else 'fold'}.{number + 1}")
            trained = train(plan, split, seed=self.seed, training=training, title=title)
            nets.append(trained.cast.players["prediction"])
            history.take_in(title, trained)
        return nets

    def split(self, number: int) -> Split:
        rows = self.inside(number)
        left = np.ones(len(self.log), bool)
        left[rows] = False
        return Split(self.log, np.flatnonzero(left), rows)

    def inside(self, number: int) -> NDArray[np.int64]:
        """The rows of a fold."""
        repeat, fold = divmod(number, self.n_folds)
        return np.flatnonzero(pair_fold(self.seed + repeat, self.log.users, self.log.items, self.n_folds) == fold)

    def interactions_of(self, nets: list[Net]) -> float:
        """The spread of what nets of the first folds know of interactions, as ratings left out of each bear it out."""
        levels, parts, level = Levels.of(self.log.ratings), [], []
        with one_thread(), torch.no_grad():
            for number, net in enumerate(nets):
                rows = self.inside(number)
                some = rows[:: 1 + len(rows) * len(nets) // CALIBRATION_ROWS]
                users, items = (np.asarray(codes[some], np.int64) for codes in (self.log.users, self.log.items))
                parts.append(_parts(net, users, items))
                level.append(levels.level(self.log.ratings[some]))
        said = np.concatenate(parts)
        fitted = fit_ordered(said, np.concatenate(level), len(levels)).counted_once(max(len(nets) / self.n_folds, 1.0))
        return float(fitted.slopes[2] * said[:, 2].std()) if fitted.sure(2) else 0.0
