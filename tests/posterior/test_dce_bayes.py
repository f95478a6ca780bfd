"""Slope, level and the flagship end to end: parts act on evidence, say so, and else leave the posterior to the bit."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtr

import unskew
from unskew.errors import DataError
from unskew.methods.bayesian import Corrected, corrected
from unskew.posterior.answers import Rows
from unskew.posterior.chain import Chain
from unskew.posterior.exposure import Pairs
from unskew.posterior.factors import BayesianFactors, Problem, sample
from unskew.posterior.flat import unflat
from unskew.selection.slope import Slope, estimate_slope, level, most_likely_k, random_pair_probability

SETTINGS = BayesianFactors(n_factors=3, sweeps=80, history=False)
SMALLER = {"n_users": 220, "n_items": 140, "level": 0.12}


class Truth:
    """Answers f itself, the product of some vectors if these are asked for."""

    def __init__(self, f, *vectors):
        self.f = f
        if vectors:
            self.users, self.items = (Rows(x, np.ones(len(x)), np.zeros(len(x))) for x in vectors)

    def scores(self, users, items):
        return self.f[users, items]


def world(slope, seed=0, n_users=300, n_items=150, level=0.06, by="f", spread=1.0):
    """A log whose pairs are seen by a law of known slope, in four levels, liked above .3; y, f and what was seen."""
    rng = np.random.default_rng(seed)
    u, v = rng.normal(0, spread, (n_users, 2)), rng.normal(0, 0.7, (n_items, 2))
    f = u @ v.T + rng.normal(0, 0.4, n_users)[:, None] + rng.normal(0, 0.4, n_items)[None]
    y = f + rng.standard_normal(f.shape)
    drive = rng.normal(0, 0.5, n_users)[:, None] + rng.normal(0, 0.5, n_items)[None] + slope * (y if by == "y" else f)
    rate = np.exp(drive)
    seen = rng.random(f.shape) < 1 - np.exp(-rate * level / rate.mean())
    ratings = np.digitize(y[seen], [-0.7, 0.3, 1.2]).astype(float)
    return Pairs(*np.nonzero(seen), n_users, n_items, ratings), y, f, seen


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


def test_sampled_cells_agree_with_all_cells_and_noise_tells_no_slope(monkeypatch):
    log, y, f, _ = world(0.5)
    whole = slope_of(log, y, f)
    noise = slope_of(log, y, np.random.default_rng(1).standard_normal(f.shape))  # a ratio by what is 0 up to chance
    assert noise.used == 0
    assert not np.isfinite(noise.error)
    monkeypatch.setattr("unskew.selection.slope.MOST_CELLS", 30_000)
    assert abs(whole.value - slope_of(log, y, f).value) < 2.5 * whole.error


@pytest.mark.parametrize("slope", [0.0, 0.5])
def test_what_goes_with_features_is_not_taken_for_liking(slope):
    """People come across what goes with their features, and like it; only the rest of liking tells the slope."""
    rng, found = np.random.default_rng(0), []
    x, z, u, v = (rng.standard_normal((n, d)) for d in (6, 2) for n in (300, 150))
    f = 0.3 * x @ z.T + 0.7 * u @ v.T
    rate = np.exp(0.25 * x @ z.T + slope * f)
    log = Pairs(*np.nonzero(rng.random(f.shape) < 0.06 * rate / rate.mean()), 300, 150)
    liked = (f + rng.standard_normal(f.shape) > 0)[log.users, log.items].astype(int)
    models = dict.fromkeys(range(5), Truth(f, np.c_[0.3 * x, 0.7 * u], np.c_[z, v]))
    for features in ((x, z), (None, None)):
        given = log, liked, log.folds(5, np.random.default_rng(1)), models, np.random.default_rng(0), features
        found.append(estimate_slope(*given))
    assert abs(found[0].value - slope) < 4 * found[0].error
    assert found[1].value > found[0].value + 0.1


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


@pytest.fixture(scope="module")
def fitted():
    log, y, _, seen = world(0.7, seed=1, n_users=250, n_items=120, level=0.12, by="y")
    return sample(Problem(log, replace(SETTINGS, exposure=False), liked_from=2.0)).posterior, y, seen


def test_level_moves_to_the_truth_with_k_one(fitted):
    posterior, y, seen = fitted
    u, i = np.nonzero(~seen)
    truth, raw = (y[u, i] > 0.3).mean(), posterior.probability(u, i).mean()
    at_zero, at_one = (random_pair_probability(posterior, u, i, 0.7, k).mean() for k in (0.0, 1.0))
    assert raw - truth > 0.1
    assert abs(at_one - truth) < 0.35 * (raw - truth)
    assert at_one < at_zero
    assert np.array_equal(random_pair_probability(posterior, u, i, 0.0, 1.0), posterior.probability(u, i))


def test_random_ratings_tell_k(fitted):
    posterior, rng, slope = fitted[0], np.random.default_rng(0), Slope(0.7, 0.1, 0.5)
    u, i = rng.integers(250, size=4000), rng.integers(120, size=4000)
    for k in (0.1, 0.6):
        liked = (rng.random(4000) < random_pair_probability(posterior, u, i, 0.7, k)).astype(int)
        value, error = most_likely_k(posterior, u, i, liked, 0.7)
        assert abs(value - k) < 4 * error < 0.4
        random = Pairs(u, i, 250, 120, liked)
        assert level(posterior, slope, random, rng)[0] == value
        found, (band, few) = level(posterior, slope, random.rows(slice(40)), rng)
        assert found is None
        assert "too few to tell" in few
        assert "no log can tell" in band
    assert level(posterior, Slope(0.1, 0.1, 0.5), random, rng) == (None, [])


def test_no_evidence_leaves_the_posterior_to_the_bit():
    log, _, _, seen = world(0.0, **SMALLER)
    u, i = np.nonzero(~seen)
    part = corrected(sample(Problem(log, SETTINGS, liked_from=2.0)))
    assert not part.slope.evidence
    assert not part.targeted.applied
    assert np.array_equal(part.answer(u, i), part.probability(u, i))
    assert np.isfinite(part.logits(u, i)).all()
    for words in ("no evidence", "correction does not act", "Calibration by left-out ratings"):
        assert any(words in note for note in part.notes)
    assert part.platt is None
    one = {"deviations": np.zeros((1, 2)), "experts": np.zeros(log.n_users, int), "applied": True}
    calibrated = replace(part, platt=replace(part.targeted, coefficients=np.array([0.3, 0.5, 0.0]), **one))
    assert np.allclose(calibrated.logits(u, i), 0.3 + 0.5 * part.logits(u, i).astype(float), atol=1e-5)
    for kept in (calibrated, part):
        again = unflat(Corrected, {key: np.array(value) for key, value in kept.state().items()})
        assert np.array_equal(again.answer(u, i), kept.answer(u, i))
        assert np.array_equal(again.exposure.logits(u, i), kept.exposure.logits(u, i))
        order, order_again = (each.order_scores("choice", u, i, np.random.default_rng(0)) for each in (kept, again))
        assert np.isfinite(order).all()
        assert np.array_equal(order, order_again)
        assert np.array_equal(again.targeted.residuals, kept.targeted.residuals)
        assert again.notes == kept.notes


def test_of_a_large_log_some_users_tell_what_folds_are_asked(monkeypatch):
    """Folds are fitted to the ratings of some users; what they tell is that of all, and holds for every user."""
    log, _, _, seen = world(0.7, seed=1, n_users=600, n_items=140, level=0.12)
    u, i = np.nonzero(~seen)
    monkeypatch.setattr("unskew.posterior.defaults.FEWEST_USERS", 100)
    problem, found, asked = Problem(log, SETTINGS, liked_from=2.0), [], []
    for large in (10**9, len(log.users) // 2):
        monkeypatch.setattr("unskew.posterior.defaults.LARGE", large)
        fitted = sample(problem)
        asked.append(fitted.some[0].log)
        found.append(corrected(fitted))
    assert asked[0] is log
    monkeypatch.setattr("unskew.posterior.defaults.FEWEST_USERS", 600)
    assert problem.of_some()[0] is problem  # all of them are enough
    assert asked[1].n_users == pytest.approx(300, abs=1)
    own = fitted.some[1]
    assert np.isin(log.users, own).sum() == len(asked[1].users) == len(fitted.fold)
    assert (own[asked[1].users] == log.users[np.isin(log.users, own)]).all()
    assert found[1].slope.value == pytest.approx(found[0].slope.value, abs=3 * found[1].slope.error)
    for answer in (lambda part: part.answer(u, i), lambda part: part.exposure.logits(u, i)):
        assert np.corrcoef(*map(answer, found))[0, 1] > 0.97
    order = found[1].order_scores("choice", u, i, np.random.default_rng(0))
    assert np.isfinite(order).all()
    rates = np.exp(-np.logaddexp(0, -found[1].exposure.logits(*np.indices(seen.shape).reshape(2, -1)).astype(float)))
    assert rates.reshape(seen.shape).sum(axis=1) == pytest.approx(seen.sum(axis=1), rel=0.01, abs=0.011)


def test_a_log_of_which_nothing_can_be_held_out_is_refused_before_the_fit(monkeypatch):
    """Of two liked ratings lists by choice learn nothing: the fit goes on without them."""
    monkeypatch.setattr(Chain, "run", lambda *_: pytest.fail("the fit has begun"))
    log = unskew.RatingLog.from_arrays(np.arange(10), np.arange(10), np.arange(10) % 5 + 1.0, positive=3)
    with pytest.raises(DataError, match="no item has two ratings"):
        unskew.make("dce-bayes").fit(log)


def test_few_liked_ratings_leave_lists_without_choice():
    users, items = np.divmod(np.arange(60), 6)
    liked = (users == items).astype(float)
    log = unskew.RatingLog.from_arrays(users, items, liked, positive=1)
    model = unskew.make("dce-bayes", factors=SETTINGS).fit(log)
    assert model.order() == "liking"
    assert any("lists go by liking" in note for note in model.history.notes)


def test_liking_that_drives_seeing_is_found_and_the_level_falls():
    log, _, f, seen = world(0.7, seed=1, **SMALLER)
    u, i = np.nonzero(~seen)
    part = corrected(sample(Problem(log, SETTINGS, liked_from=2.0)))
    truth, raw, ours = ndtr(f[u, i] - 0.3).mean(), part.probability(u, i).mean(), part.answer(u, i).mean()
    assert part.slope.evidence
    assert abs(part.slope.value - 0.7) < 0.3
    assert raw - truth > 0.01
    assert abs(ours - truth) < raw - truth
    assert part.answer(u, i, 1.0).mean() < ours


def test_folds_have_not_seen_what_they_answer():
    """Ratings of pure noise: answers to left-out ones carry no trace of them."""
    rng = np.random.default_rng(0)
    users, items = np.nonzero(rng.random((120, 80)) < 0.15)
    ratings = rng.integers(2, size=len(users)).astype(float)
    settings = replace(SETTINGS, exposure=False, sweeps=None)
    problem = Problem(Pairs(users, items, 120, 80, ratings), settings, liked_from=1.0)
    fold, margin = problem.folds(), np.zeros(len(users))
    for k in range(5):
        rows = fold == k
        margin[rows] = problem.without_fold(fold, k).margin(users[rows], items[rows])
    assert np.corrcoef(margin, ratings)[0, 1] < 3 / np.sqrt(len(users))
