"""A propensity that errs in a known way: right in order, wrong in level and confidence, group by group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from unskew.data.world import World
from unskew.propensity.base import Codes, FittedPropensity, Propensity, Values

# How a model errs about each group of users: its logit is a s + b where the true one is s.
OVER, UNDER, RIGHT = (1.7, 0.6), (0.5, -1.6), (1.0, 0.0)


class FittedDistorted(FittedPropensity):
    """sigmoid(a_g logit(p) + b_g) for the users of group g; the vectors show the group, under noise."""

    def __init__(self, world: World, groups: tuple[tuple[float, float], ...], noise: float) -> None:
        self.world, self.maps = world, np.array(groups)
        shown = np.eye(len(groups))[np.arange(world.n_users) % len(groups)]
        jitter = np.random.default_rng([world.seed, 53]).normal(0, noise, shown.shape)
        self.shown = (shown + jitter).astype(np.float32)

    def pair(self, users: Codes, items: Codes) -> Values:
        p = np.clip(self.world.propensity(users, items), 1e-9, 1 - 1e-9)
        a, b = self.maps[users % len(self.maps)].T
        return np.asarray(expit(a * logit(p) + b))

    def vectors(self, users: Codes) -> NDArray[np.float32]:
        return np.asarray(self.shown[users])


@dataclass(frozen=True)
class Distorted(Propensity):
    """The true propensity of a world, told by a model that is over- or under-confident about groups of users."""

    world: World
    groups: tuple[tuple[float, float], ...] = (OVER, UNDER, RIGHT)
    noise: float = 0.3

    def fit_split(self, split: Any, **_: Any) -> FittedPropensity:
        return FittedDistorted(self.world, self.groups, self.noise)
