"""Slope and level: worlds with a known law of seeing; a log without evidence or power changes nothing and says so."""

import numpy as np
import pytest
from scipy.special import ndtr

from unskew.errors import ParameterError
from unskew.posterior.exposure import Pairs
from unskew.posterior.factors import BayesianFactors, Problem, sample
from unskew.selection.level import level, most_likely_k, random_pair_probability, shift
from unskew.selection.slope import Slope, estimate_slope


class Truth:
    """Answers f itself."""

    def __init__(self, f):
        self.f = f

    def scores(self, users, items):
        return self.f[users, items]


def world(slope, seed=0, n_users=300, n_items=150, level=0.06, by="f", spread=1.0):
    rng = np.random.default_rng(seed)
    u, v = rng.normal(0, spread, (n_users, 2)), rng.normal(0, 0.7, (n_items, 2))
    f = u @ v.T + rng.normal(0, 0.4, n_users)[:, None] + rng.normal(0, 0.4, n_items)[None]
    y = f + rng.standard_normal(f.shape)
    drive = rng.normal(0, 0.5, n_users)[:, None] + rng.normal(0, 0.5, n_items)[None] + slope * (y if by == "y" else f)
    rate = np.exp(drive)
    seen = rng.random(f.shape) < 1 - np.exp(-rate * level / rate.mean())
    return Pairs(*np.nonzero(seen), n_users, n_items), y, f, seen


def slope_of(log, y, model, cut=0.0):
    """The slope that the log shows by one and the same model for every fold."""
    liked = (y[log.users, log.items] > cut).astype(int)
    fold = log.folds(5, np.random.default_rng(1))
    return estimate_slope(log, liked, fold, dict.fromkeys(range(5), Truth(model)), np.random.default_rng(0))


@pytest.mark.parametrize("slope", [0.0, 0.3, 0.6])
def test_slope_is_recovered_from_the_log(slope):
    worlds = [world(slope, seed) for seed in range(3)]
    found = [slope_of(log, y, f, 0.3) for log, y, f, _ in worlds]
    values, errors = np.array([s.value for s in found]), np.array([s.error for s in found])
    assert abs(values.mean() - slope) < 0.08
    assert np.abs(values - slope).max() < 5 * errors.max()
    assert errors.max() < 0.06
    assert all(s.evidence for s in found) if slope else sum(s.evidence for s in found) <= 1
    assert np.allclose([s.calibration for s in found], 1, atol=0.15)


def test_sampled_cells_agree_with_all_cells(monkeypatch):
    log, y, f, _ = world(0.5)
    whole = slope_of(log, y, f)
    monkeypatch.setattr("unskew.selection.slope.MOST_CELLS", 30_000)
    assert abs(whole.value - slope_of(log, y, f).value) < 2.5 * whole.error


def test_pairs_seen_often_do_not_hide_the_slope():
    """Where one pair of five is seen, rates meet a ceiling: the slope is still found, within a quarter."""
    log, y, f, seen = world(0.6, level=0.25)
    found = slope_of(log, y, f)
    assert seen.mean() > 0.15
    assert found.evidence
    assert 0.45 < found.value < 0.75


def test_small_logs_have_no_power_and_say_so():
    log, y, f, _ = world(0.5, n_users=60, n_items=40, level=0.12, spread=0.2)
    found = slope_of(log, y, f)
    assert found.used == 0 or found.evidence
    assert "cannot tell" in Slope(0.3, 0.4, 0.5).sentence()
    assert "no evidence" in Slope(0.05, 0.06, 0.5).sentence()
    assert Slope(0.05, 0.06, 0.5).used == 0
    tiny = slope_of(log.rows(slice(50)), y, f)
    assert "cannot tell" in tiny.sentence()
    assert tiny.used == 0


def test_interactions_that_nothing_confirms_tell_no_slope():
    """Models of noise: the slope would be a ratio by what is 0 up to chance."""
    log, y, f, _ = world(0.5)
    found = slope_of(log, y, np.random.default_rng(1).standard_normal(f.shape))
    assert found.used == 0
    assert not np.isfinite(found.error)


@pytest.fixture(scope="module")
def fitted():
    log, y, _, seen = world(0.7, seed=1, n_users=250, n_items=120, level=0.12, by="y")
    settings = BayesianFactors(n_factors=3, sweeps=80, exposure=False, history=False)
    ratings = np.digitize(y[log.users, log.items], [-0.7, 0.3, 1.2]) - 1.0
    return sample(Problem(log._replace(ratings=ratings), settings, liked_from=1.0)).posterior, y, seen


def test_shift_of_a_normal_latent_is_exact():
    """Density times exp(s y) moves a normal by s times its variance: checked by weighting draws."""
    f, v, noise, s = 0.4, 0.3, 1.2, 0.5
    y = np.random.default_rng(0).normal(f, np.sqrt(v + noise), 2_000_000)
    chosen = np.average(y > 0.2, weights=np.exp(s * y))
    assert abs(chosen - ndtr((f + s * (v + noise) - 0.2) / np.sqrt(v + noise))) < 0.002


def test_level_moves_to_the_truth_with_k_one(fitted):
    posterior, y, seen = fitted
    u, i = np.nonzero(~seen)
    truth, raw = (y[u, i] > 0.3).mean(), posterior.probability(u, i).mean()
    assert raw - truth > 0.1
    assert abs(random_pair_probability(posterior, u, i, 0.7, 1.0).mean() - truth) < 0.35 * (raw - truth)
    assert random_pair_probability(posterior, u, i, 0.7, 1.0).mean() < (
        random_pair_probability(posterior, u, i, 0.7, 0.0).mean()
    )
    assert np.array_equal(random_pair_probability(posterior, u, i, 0.0, 1.0), posterior.probability(u, i))
    with pytest.raises(ParameterError, match="unexplained=2"):
        shift(posterior, u, i, 0.5, 2.0)


def test_random_ratings_tell_k(fitted):
    posterior, rng, slope = fitted[0], np.random.default_rng(0), Slope(0.7, 0.1, 0.5)
    u, i = rng.integers(250, size=4000), rng.integers(120, size=4000)
    for k in (0.1, 0.6):
        liked = (rng.random(4000) < random_pair_probability(posterior, u, i, 0.7, k)).astype(int)
        value, error = most_likely_k(posterior, u, i, liked, 0.7)
        assert abs(value - k) < 4 * error < 0.4
        assert level(posterior, slope, Pairs(u, i, 250, 120, liked), rng)[0] == value
        found, (band, few) = level(posterior, slope, Pairs(u[:40], i[:40], 250, 120, liked[:40]), rng)
        assert found is None
        assert "too few to tell" in few
        assert "no log can tell" in band
    assert level(posterior, Slope(0.1, 0.1, 0.5), Pairs(u, i, 250, 120, liked), rng) == (None, [])
