"""The flagship end to end: parts act on evidence, say so, and else leave the posterior to the bit."""

from dataclasses import replace

import numpy as np
from scipy.special import ndtr

from unskew.methods.bayesian import Corrected, fit_corrected
from unskew.posterior.exposure import Pairs
from unskew.posterior.factors import BayesianFactors, Problem
from unskew.posterior.flat import unflat

SETTINGS = BayesianFactors(n_factors=3, sweeps=80, history=False)


def part_from(state):
    return unflat(Corrected, {key: np.array(value) for key, value in state.items()})


def world(seed, slope, n_users=220, n_items=140, level=0.12):
    rng = np.random.default_rng(seed)
    u, v = rng.normal(0, 1, (n_users, 2)), rng.normal(0, 0.7, (n_items, 2))
    f = u @ v.T + rng.normal(0, 0.4, n_users)[:, None] + rng.normal(0, 0.4, n_items)[None]
    y = f + rng.standard_normal(f.shape)
    rate = np.exp(rng.normal(0, 0.5, n_users)[:, None] + rng.normal(0, 0.5, n_items)[None] + slope * f)
    seen = rng.random(f.shape) < 1 - np.exp(-rate * level / rate.mean())
    ratings = np.digitize(y[seen], [-0.7, 0.3, 1.2]).astype(float)
    return Pairs(*np.nonzero(seen), *seen.shape, ratings), f, np.nonzero(~seen)


def test_no_evidence_leaves_the_posterior_to_the_bit():
    log, _, (u, i) = world(0, 0.0)
    part = fit_corrected(Problem(log, SETTINGS, liked_from=2.0))
    assert not part.slope.evidence
    assert not part.targeted.applied
    assert np.array_equal(part.answer(u, i), part.probability(u, i))
    assert np.isfinite(part.logits(u, i)).all()
    for words in ("no evidence", "correction does not act", "Calibration by left-out ratings"):
        assert any(words in note for note in part.notes)
    assert part.platt is None
    platt = replace(part.targeted, coefficients=np.array([0.3, 0.5, 0.0]), deviations=np.zeros((1, 2)), applied=True)
    platt = replace(platt, experts=np.zeros(log.n_users, int))
    calibrated = replace(part, platt=platt)
    raw = part.logits(u, i).astype(float)
    assert np.allclose(calibrated.logits(u, i), 0.3 + 0.5 * raw, atol=1e-5)
    again = part_from(calibrated.state())
    assert np.array_equal(again.answer(u, i), calibrated.answer(u, i))
    again = part_from(part.state())
    order, order_again = (each.order_scores("choice", u, i, np.random.default_rng(0)) for each in (part, again))
    assert np.isfinite(order).all()
    assert np.array_equal(order, order_again)
    assert np.array_equal(again.answer(u, i), part.answer(u, i))
    assert np.array_equal(again.exposure.logits(u, i), part.exposure.logits(u, i))
    assert np.array_equal(again.targeted.residuals, part.targeted.residuals)
    assert again.notes == part.notes


def test_liking_that_drives_seeing_is_found_and_the_level_falls():
    log, f, (u, i) = world(1, 0.7)
    part = fit_corrected(Problem(log, SETTINGS, liked_from=2.0))
    truth, raw, ours = (
        ndtr(f[u, i] - 0.3).mean(),
        part.probability(u, i).mean(),
        part.answer(u, i).mean(),
    )
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
