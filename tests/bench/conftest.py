"""A tiny world, and rules by which a trial on it takes an instant."""

from __future__ import annotations

from dataclasses import replace

import pytest

import unskew
from unskew.bench import Judging

SHORT = unskew.Training(max_epochs=2, progress=False)


@pytest.fixture(scope="session")
def world() -> unskew.World:
    return unskew.simulate(40, 30, density=0.3, test_per_user=6, seed=4)


@pytest.fixture(scope="session")
def judging() -> Judging:
    return Judging(folds=3, judges=2, training=SHORT)


@pytest.fixture(scope="session")
def plain(judging: Judging) -> Judging:
    """Without the judges' own propensities."""
    return replace(judging, criterion="log_loss")
