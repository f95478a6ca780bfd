"""Examples with a known truth."""

import numpy as np
import pytest
from scipy.special import expit

from unskew.calibration.platt import Examples


def _examples(n=4000, n_users=40, a=1.0, b=0.0, seed=0, labels=None, weights=None, vectors=None):
    """Logits whose calibrated probability is sigmoid(a s + b); a and b may be one value a user."""
    rng = np.random.default_rng(seed)
    users = rng.integers(n_users, size=n)
    s = rng.normal(-1, 1.5, n)
    a, b = (np.broadcast_to(x, n_users)[users] for x in (a, b))
    labels = expit(a * s + b) if labels is None else labels
    weights = np.ones(n) if weights is None else weights
    vectors = rng.normal(size=(n_users + 1, 3)).astype(np.float32) if vectors is None else vectors
    return Examples(s, labels, weights, users, vectors)


def _grouped(seed, n_users=200, n=6000):
    """Two groups of users, visible in their vectors, whose model is over- and under-confident; truth and groups."""
    rng = np.random.default_rng(seed)
    group = np.arange(n_users + 1) % 2
    vectors = np.column_stack([group * 2 - 1 + rng.normal(0, 0.3, n_users + 1), rng.normal(size=n_users + 1)])
    of_users = group[:-1]
    a, b = np.where(of_users, 0.4, 1.8), np.where(of_users, -1.0, 0.5)
    e = _examples(n, n_users, a, b, seed, vectors=vectors.astype(np.float32))
    drawn = (rng.random(n) < e.labels).astype(float)
    return Examples(e.logits, drawn, e.weights, e.users, e.vectors), e.labels, of_users


@pytest.fixture
def rng():
    return np.random.default_rng(1)


@pytest.fixture
def examples():
    return _examples


@pytest.fixture
def grouped():
    return _grouped


@pytest.fixture
def answers():
    return lambda fitted, e: fitted.calibrated(e.logits, e.users)
