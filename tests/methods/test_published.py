"""Claims about what public code does: experts that flee to zero, propensities that collapse, a late stop."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import unskew
from unskew.calibration.platt import Examples
from unskew.calibration.published import noisy
from unskew.errors import DataError, ParameterError
from unskew.training.stopping import Flatline

TRAINING = unskew.Training(max_epochs=1000, batch_size=128, holdout_by="last", progress=False)


def rng():
    return np.random.default_rng(1)


def alike(n=1500, n_seen=200, n_users=30):
    """Seen and unseen pairs of whom a collapsed propensity says the same, and users whose vectors are all zero."""
    labels = (np.arange(n) < n_seen).astype(float)
    users = np.arange(n) % n_users
    return Examples(
        np.full(n, -0.55), labels, np.ones(n), users, np.zeros((n_users, 4), np.float32), np.arange(n_users)
    )


def said(fitted, e):
    mix, a, b = fitted.maps(e.user_codes[e.users], e.vectors[e.users])
    return (mix / (1 + np.exp(-(a * e.logits[:, None] + b)))).sum(1)


def test_the_contrast_does_not_calibrate_what_is_already_calibrated_but_makes_the_experts_flee_to_zero():
    """Nobody can be told apart, so all that can fall is the variation that the noise brings."""
    calibrated = replace(alike(), logits=np.full(1500, np.log(200 / 1300)))
    contrasted, ours = (
        said(recipe.fit(calibrated, generator=rng()), calibrated)
        for recipe in (unskew.PublishedExperts(steps=100), unskew.ExpertPlatt())
    )
    assert ours == pytest.approx(200 / 1500, abs=1e-6)
    assert (contrasted < 0.5 * 200 / 1500).all()


def test_the_constants_of_the_assignment_stay_as_they_were_drawn():
    short, long = (unskew.PublishedExperts(steps=steps).fit(alike(), generator=rng()) for steps in (1, 20))
    assert (short.mixture.gate.value[:, -1] == long.mixture.gate.value[:, -1]).all()
    assert (short.mixture.maps.value != long.mixture.maps.value).all()


def test_cold_noise_chooses_each_expert_as_often_as_alpha_says():
    alpha = torch.tensor([0.5, 0.3, 0.2])
    beta = noisy(alpha.repeat(20_000, 1), 1e-3, rng())
    np.testing.assert_allclose(beta.mean(0), alpha, atol=0.015)
    assert (beta.max(1).values > 0.99).float().mean() > 0.98


def test_experts_draw_noise_while_training_looks_them_up_and_none_for_whoever_asks_later():
    class Role:
        def user_vectors(self, users):
            return torch.zeros(len(users), 4)

    fitted = unskew.PublishedExperts(steps=2).fit(alike(), generator=rng())
    logits, users = torch.linspace(-2, 2, 50), torch.arange(50) % 30
    tables = fitted.tables(Role(), np.arange(30))
    noisily, again = (fitted.looked_up(logits, users, tables) for _ in range(2))
    assert (noisily == again).all()  # so that a resumed run has the same bits
    plainly = fitted.calibrated(logits, users, Role())
    assert (noisily != plainly).any()
    assert (fitted.calibrated(logits[7:9], users[7:9], Role()) == plainly[7:9]).all()


def test_the_published_propensity_collapses_where_decay_and_squared_error_are_in_balance():
    """Of constant p = sigmoid(c) the gradient is 2 (p - t) p (1 - p) + l2 c, t the share of pairs that are seen."""
    log = unskew.simulate(n_users=60, n_items=50, density=0.1, seed=4).log
    training = replace(TRAINING, batch_size=32)
    p = unskew.PublishedFactors().fit(log, training=training).pair(*np.divmod(np.arange(3000), 50))
    assert np.ptp(p) < 1e-4
    mean, t = float(p.mean()), len(log) / log.n_pairs
    assert 2 * (mean - t) * mean * (1 - mean) + 0.252 * np.log(mean / (1 - mean)) == pytest.approx(0, abs=0.01)
    with pytest.raises(DataError, match=r"of every pair|over all pairs"):
        unskew.Factors(**vars(unskew.PublishedFactors())).fit(log, training=training)


def test_training_stops_at_the_seventh_epoch_that_falls_too_little_and_keeps_the_last_state():
    risks = [10.0, 9.0, 8.9999, 8.0, 9.0, 8.99, 8.9899, 7.0, 7.0, 7.0, 7.0, 7.0]
    rule, ended = Flatline(1e-3, ()), []
    for risk in risks:
        rule.record(risk, {})
        ended.append(rule.exhausted)
    assert ended.index(True) == 11  # 8.9999, 9.0, 8.9899 and four of 7.0
    assert rule.kept_epoch == 12


def test_the_prediction_learns_before_the_imputation_and_stops_by_its_training_risk():
    stage = unskew.DRJLPublished().plan().stages[1]
    assert [update.trains for update in stage.updates] == [("prediction",), ("imputation",)]
    log = unskew.simulate(n_users=40, n_items=30, density=0.2, seed=1).log
    method = unskew.DRJLPublished(propensity=unskew.Uniform(), clip=0.0, learning_rate=0.05)
    model = method.fit(log, training=TRAINING)
    kept = model.history.kept["prediction"]
    assert kept == len(model.history.of("prediction")) < 200
    split = model.split
    r, s = log.ratings[split.train_rows], model.predict_codes(split.train.users, split.train.items)
    errors = -np.log(np.where(r == 1, s, 1 - s))
    assert model.history.risk("prediction") == pytest.approx(errors.mean(), rel=1e-4)


def test_rates_of_the_imputation_out_of_range_are_refused():
    with pytest.raises(ParameterError, match="imputation_learning_rate of DRJLPublished must be"):
        unskew.DRJLPublished(imputation_learning_rate=0.0)
