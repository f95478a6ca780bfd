"""Spectral and ridge exposure: closed forms, calibration on worlds with known chances, bounded memory."""

import os
import tracemalloc

import numpy as np
import pytest
from scipy.optimize import minimize

from unskew.errors import ParameterError
from unskew.posterior.exposure import Pairs
from unskew.propensity import exposure as e
from unskew.propensity.exposure import Joint, Ridge, Spectral, calibrate, conditional_logit, fit_choice, with_rates
from unskew.propensity.scorers import Gram, SpectralScorer
from unskew.selection.slope import estimate_slope


def world(seed=0, n_users=200, n_items=150, strength=1.0, level=-2.7):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(0, 0.5, n_users), rng.normal(0, 1, n_items)
    u, v = rng.standard_normal((n_users, 2)), rng.standard_normal((n_items, 2))
    logits = level + a[:, None] + b[None] + strength * u @ v.T / 2
    seen = rng.random(logits.shape) < 1 / (1 + np.exp(-logits))
    users, items = np.nonzero(seen)
    return users, items, logits, seen


@pytest.mark.parametrize("shape", [(12, 30), (30, 12)])
def test_ridge_agrees_with_the_dense_closed_form(shape):
    rng = np.random.default_rng(0)
    x = (rng.random(shape) < 0.3).astype(float)
    x[0], x[:, 0] = 1, 1
    users, items = np.nonzero(x)
    p = np.linalg.inv(x.T @ x + 7 * np.eye(shape[1]))
    b = np.eye(shape[1]) - p / np.diag(p)[None]
    assert np.allclose(np.diag(b), 0)
    every = [g.ravel() for g in np.indices(shape)]
    scores = Gram(Pairs(users, items, *shape)).scorer(7.0).scores(*every)
    assert np.allclose(scores.reshape(shape), x @ b)


def test_ridge_refuses_a_square_that_is_too_large():
    users = np.arange(4000)
    with pytest.raises(ParameterError, match="take Spectral"):
        Gram(Pairs(users, users, 4000, 4000))


def test_conditional_logit_finds_the_maximum():
    rng, group = np.random.default_rng(0), np.repeat(np.arange(40), 30)
    x, y = rng.standard_normal((1200, 2)) * [1, 3] + [5, 0], np.zeros(1200)
    chance = np.exp(x @ [0.8, -0.3])
    for rows in np.arange(1200).reshape(40, 30):
        y[rng.choice(rows, 3, False, chance[rows] / chance[rows].sum())] = 1
    weight = np.where(y == 1, 1.0, rng.uniform(1, 4, 1200))

    def loss(b):
        total = np.log(np.bincount(group, weight * np.exp(x @ b)))
        return (np.bincount(group, y) * total).sum() - (y * (x @ b)).sum()

    found, likelihood = conditional_logit(x, y, weight, group)
    best = minimize(loss, np.zeros(2), tol=1e-10)
    assert np.allclose(found, best.x, atol=1e-4)
    assert np.isclose(likelihood, -best.fun / y.sum(), atol=1e-6)


def fit(spec, log, fold=None):
    """The exposure with its rates, and its folds."""
    rng = np.random.default_rng(0)
    folded = spec.by_folds(log, log.folds(5, rng) if fold is None else fold, rng)
    return with_rates(log, folded, rng), folded


@pytest.mark.parametrize("spec", [Spectral(), Ridge(), Joint()])
def test_exposure_is_calibrated_and_tells_seen_from_unseen(spec):
    users, items, logits, seen = world(n_users=300, n_items=200, strength=2.0, level=-4.0)
    log = Pairs(users, items, 300, 200)
    fitted, folded = fit(spec, log)
    u, i = (g.ravel() for g in np.indices((300, 200)))
    p = (1 / (1 + np.exp(-fitted.logits(u, i).astype(float)))).reshape(300, 200)
    assert np.allclose(p.sum(1), seen.sum(1), rtol=1e-3, atol=0.02)  # each user's p sum to his count
    truth = 1 / (1 + np.exp(-logits))
    counts = seen.sum(1)[:, None] * seen.sum(0)[None] / seen.sum()
    hidden = ~seen  # pairs that took no part with a vote of their own
    assert np.mean((p - truth)[hidden] ** 2) < 0.9 * np.mean((counts - truth)[hidden] ** 2)
    kept = log.folds(10, np.random.default_rng(2)) != 0
    part, _ = fit(spec, log.rows(kept))
    open_cells = np.ones((300, 200), bool)
    open_cells[users[kept], items[kept]] = False
    a, b = np.nonzero(open_cells & (np.bincount(items[kept], minlength=200) > 0)[None])
    y = seen[a, b].astype(float)
    slope, _ = conditional_logit(part.logits(a, b)[:, None].astype(float), y, np.ones(len(y)), a)
    assert abs(slope[0] - 1) < 0.12
    assert np.isfinite(folded.held_out).mean() > 0.99
    assert fitted.logits(u[:5], i[:5]).dtype == np.float32


def test_held_out_scores_have_not_seen_the_pair():
    users, items, _, _ = world(n_users=60, n_items=50)
    log = Pairs(users, items, 60, 50)
    fold = log.folds(5, np.random.default_rng(0))
    found = Spectral().by_folds(log, fold, np.random.default_rng(1))
    for k in range(5):
        rows = np.flatnonzero((fold == k) & np.isfinite(found.held_out))
        scorer = SpectralScorer.of(log.rows(fold != k), 32)
        assert np.allclose(scorer.columns(users[rows], items[rows]) @ found.coefficients, found.held_out[rows])


def test_both_kinds_together_are_likelier_than_either(monkeypatch):
    users, items, _, _ = world(n_users=200, n_items=150, strength=2.0, level=-3.6)
    log = Pairs(users, items, 200, 150)
    fold, found = log.folds(5, np.random.default_rng(0)), []
    for spec in (Joint(), Spectral(), Ridge()):
        columns = spec.by_folds(log, fold, np.random.default_rng(1)).columns
        found.append(calibrate(log, fold, columns, np.random.default_rng(2))[1])
    assert found[0] > max(found[1:])
    monkeypatch.setattr("unskew.propensity.scorers.MOST_SIDE", 100)  # a ridge is not affordable
    assert isinstance(Joint().by_folds(log, fold, np.random.default_rng(1)).scorer, SpectralScorer)


class Hashed:
    """Answers for any pair, and holds nothing."""

    @staticmethod
    def scores(users, items):
        return (users * 7919 + items * 31) % 101 / 101 - 0.5


@pytest.mark.skipif(not os.environ.get("UNSKEW_LONG"), reason="a minute long")
def test_memory_does_not_grow_with_all_pairs():
    rng = np.random.default_rng(0)
    n_users, n_items, n = 100_000, 50_000, 200_000
    key = np.unique(rng.integers(n_users, size=n) * n_items + (n_items * rng.random(n) ** 2).astype(np.int64))
    users, items = np.divmod(key, n_items)
    log = Pairs(users, items, n_users, n_items)
    tracemalloc.start()
    fold = log.folds(2, rng)
    fitted, _ = fit(Spectral(directions=4), log, fold)
    liked = Hashed.scores(users, items) > 0
    slope = estimate_slope(log, liked.astype(int), fold, dict.fromkeys(range(2), Hashed), rng)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.5e9  # all pairs would be 5 billion numbers
    assert np.isfinite(fitted.logits(users[:100], items[:100])).all()
    assert abs(slope.value) < 4 * slope.error < 0.1


def test_rates_meet_their_counts_whatever_the_scores():
    rng = np.random.default_rng(0)
    eta = np.concatenate([rng.normal(0, 4, (30, 200)), np.full((2, 200), -20.0), np.zeros((2, 200))])
    eta[30, 0], eta[31, :100] = 10, 20
    weight, target = rng.uniform(1, 5, 200), rng.uniform(0.01, 0.99, 34) * 400
    rates = e.solved_rates(eta, weight, target)
    assert np.allclose(1 / (1 + np.exp(-(rates[:, None] + eta))) @ weight, target, rtol=1e-4)


@pytest.mark.parametrize("spec", [Spectral(), Joint()])
def test_choice_ranks_by_what_is_seen_and_liked(spec):
    users, items, logits, seen = world(strength=2.0)
    rng = np.random.default_rng(5)
    taste = rng.normal(0, 1.5, 150)
    chance = 1 / (1 + np.exp(-np.tile(taste, (200, 1))))
    liked = (rng.random(len(users)) < chance[users, items]).astype(int)
    log = Pairs(users, items, 200, 150)
    fold = log.folds(5, rng)
    exposure = spec.by_folds(log, fold, rng)

    def answer(u, i):
        return chance[u, i]

    found = fit_choice(log, liked, fold, exposure, dict.fromkeys(range(5), answer), rng)
    u, i = np.nonzero(~seen)
    truth = (1 / (1 + np.exp(-logits)) * chance)[u, i]
    ours = found.scores(exposure.scorer, answer, u, i)
    assert np.corrcoef(ours, np.log(truth))[0, 1] > 0.7
    assert np.corrcoef(ours, np.log(truth))[0, 1] > np.corrcoef(np.log(chance[u, i]), np.log(truth))[0, 1]
    assert 0.6 < found.coefficients[3] < 1.4  # of log P(liked), behind the columns of one kind
    assert log.seen().nnz == len(users)
