"""A tiny world, and rules by which a trial on it takes an instant."""

import pytest

import unskew
from unskew.bench import Validation

SHORT = unskew.Training(max_epochs=2, progress=False)


@pytest.fixture(scope="session")
def world():
    return unskew.simulate(40, 30, density=0.3, test_per_user=6, seed=4)


@pytest.fixture(scope="session")
def validation():
    return Validation(training=SHORT)
