"""One world that all files here judge: what was fitted of its log once serves them all."""

import numpy as np
import pytest

import unskew
from unskew.evaluation import judge


@pytest.fixture(scope="session")
def world() -> unskew.World:
    return unskew.simulate(150, 80, density=0.2, selection="taste", strength=0.6, interaction=1.5, seed=2)


@pytest.fixture(scope="session")
def evidence(world) -> judge.Evidence:
    return judge.gather(world.log)


@pytest.fixture(scope="session")
def scores(world):
    """A good and a poor function of ids."""
    noise = np.random.default_rng(0).normal(0, 0.3, (150, 80))
    good = lambda u, i: world.preference(np.asarray(u), np.asarray(i))  # noqa: E731
    return good, lambda u, i: np.clip(good(u, i) + noise[np.asarray(u), np.asarray(i)], 0.01, 0.99)
