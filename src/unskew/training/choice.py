"""Whether a net should read features, by validation: two nets fitted side by side, one that reads them and one not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unskew.data.log import RatingLog
from unskew.errors import DivergedError
from unskew.group import Group
from unskew.training.loop import train
from unskew.training.options import Training
from unskew.training.plan import Plan

MOST_RATINGS = 100_000  # to compare on; of a larger log those of random users
STREAM = 0x66656174


@dataclass(frozen=True)
class Comparison:
    """The validation risks of a net with features and of one without, and on how many held-out ratings."""

    about: str
    with_features: float
    without: float
    n_held_out: int

    @property
    def favours_features(self) -> bool:
        return self.with_features < self.without

    def __str__(self) -> str:
        verb = "favours" if self.favours_features else "does not favour"
        return (
            f"Validation {verb} features for {self.about}: risk {self.with_features:.4f} with them, "
            f"{self.without:.4f} without, on {self.n_held_out:,} held-out ratings."
        )


def is_open(net: Any, log: RatingLog) -> bool:
    """Whether there is anything to decide about the net."""
    return log.features != (None, None) and leaves_open(net)


def leaves_open(net: Any) -> bool:
    """Whether the net leaves to others whether it reads features."""
    return getattr(net, "features", None) == "auto" and getattr(net, "biases", True)


def with_features(net: Any, read: bool) -> Any:
    """The net with its mind made up."""
    return replace(net, features="always" if read else "never")


def compare_features(
    about: str, net: Any, plan: Callable[[Any], Plan], log: RatingLog, group: Group, *, seed: int, training: Training
) -> Comparison:
    """Carry out the plan of one stage with either net on the same rows, stopped early as every fit is.

    Each of several workers compares on its own users and by itself; their risks are averaged, so all decide alike.
    """
    part = some_users(log, MOST_RATINGS, seed)
    split = training.split(part, seed)
    risks = []
    for read, name in ((True, "with"), (False, "without")):
        options, chosen = replace(training.inside(f"features-{name}"), spread=False), plan(with_features(net, read))
        try:
            trained = train(chosen, split, seed=seed, training=options, title=f"{name} features,")
            risks.append(trained.history.risk(chosen.stages[0].name))
        except DivergedError:
            risks.append(float("inf"))
    n = len(split.holdout_rows)
    total, *sums = group.total([n, *(n * risk for risk in risks)]).tolist()
    return Comparison(about, sums[0] / total, sums[1] / total, int(total))


def some_users(log: RatingLog, most: int, seed: int) -> RatingLog:
    """The log of as many random users as together have no more than so many ratings, at least two; or all of it."""
    if len(log) <= most:
        return log
    order = np.random.default_rng([seed, STREAM]).permutation(log.n_users)
    within = np.cumsum(np.bincount(log.users, minlength=log.n_users)[order]) <= most
    codes = np.sort(order[: max(int(within.sum()), 2)])
    return log.of_users(codes, np.isin(log.users, codes), lambda users: np.searchsorted(codes, users))
