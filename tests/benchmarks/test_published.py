"""Claims about what public code does: experts that flee to zero, propensities that collapse, a late stop."""

from __future__ import annotations

import importlib
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import unskew
from unskew import registry
from unskew.calibration.experts import ExpertPlatt
from unskew.calibration.platt import Examples
from unskew.errors import DataError
from unskew.losses.columns import value_of
from unskew.nets.base import NetContext
from unskew.nets.factors import MF
from unskew.propensity.counted import Uniform
from unskew.propensity.factors import Factors
from unskew.registry import make
from unskew.training.loop import Loop, train
from unskew.training.options import Training

sys.path.insert(0, str(Path(__file__).parents[2]))
unskew.registered()
BUILT_IN = dict(registry._entries)
published = importlib.import_module("benchmarks.published")
PUBLISHED = {key: entry for key, entry in registry._entries.items() if key not in BUILT_IN}
registry._entries = BUILT_IN
TRAINING = Training(max_epochs=1000, batch_size=128, holdout_by="last", progress=False)


@pytest.fixture(autouse=True)
def _published_are_registered(monkeypatch):
    """Here alone: other tests are about what the package brings."""
    monkeypatch.setattr(registry, "_entries", BUILT_IN | PUBLISHED)


def rng():
    return np.random.default_rng(1)


def alike(n=1500, n_seen=200, n_users=30):
    """Seen and unseen pairs for which a collapsed propensity answers the same, and user vectors that are all zero."""
    labels = (np.arange(n) < n_seen).astype(float)
    return Examples(
        np.full(n, -0.55), labels, np.ones(n), np.arange(n) % n_users, np.zeros((n_users + 1, 4), np.float32)
    )


def without_noise(fitted, e):
    weights, slopes, intercepts = fitted.tables
    row = e.users if len(weights) > 1 else 0 * e.users
    a, b = (table[e.users if len(table) > 1 else 0 * e.users] for table in (slopes, intercepts))
    return (weights[row] / (1 + np.exp(-(a * e.logits[:, None] + b)))).sum(1)


def test_the_contrast_makes_experts_flee_to_zero():
    """All users look alike, so all that can fall is the variation that the noise brings."""
    calibrated = replace(alike(), logits=np.full(1500, np.log(200 / 1300)))
    contrasted, ours = (
        without_noise(spec.fit(calibrated, rng=rng()), calibrated)
        for spec in (published.PublishedExperts(steps=100), ExpertPlatt())
    )
    assert ours == pytest.approx(200 / 1500, abs=1e-6)
    assert (contrasted < 0.5 * 200 / 1500).all()


@pytest.mark.parametrize("objective", ["contrast", "likelihood"])
def test_slopes_of_the_experts_are_differences(objective):
    spec, drawn = published.PublishedExperts(objective=objective, n_experts=3), rng()
    maps, gate = drawn.normal(size=(3, 2)), drawn.normal(size=(3, 5))
    s, y, w, x = drawn.normal(size=20), drawn.integers(2, size=20) * 1.0, drawn.random(20), drawn.normal(size=(20, 5))

    def loss(maps, gate):
        alpha = published.softmax(x @ gate.T, 1)
        m = (published.noisy(alpha, 0.7, rng()) / (1 + np.exp(-(s[:, None] * maps[:, 0] + maps[:, 1])))).sum(1)
        if objective == "contrast":
            return -(y * np.log(np.exp(m) / np.exp(m).sum())).sum()
        return -(w * (y * np.log(m) + (1 - y) * np.log(1 - m))).sum()

    found = spec.slopes(maps, gate, s, y, w, x, 0.7, rng())
    for place, slopes in enumerate(found):
        for at in np.ndindex(slopes.shape):
            step = [np.zeros_like(maps), np.zeros_like(gate)]
            step[place][at] = 1e-5
            difference = (loss(maps + step[0], gate + step[1]) - loss(maps - step[0], gate - step[1])) / 2e-5
            assert slopes[at] == pytest.approx(difference, rel=1e-5, abs=1e-7)


def test_experts_draw_noise_at_use_alike_for_alike():
    spec = published.PublishedExperts(steps=2)
    fitted = spec.fit(alike(), rng=rng())
    logits, users = np.linspace(-2, 2, 50, dtype=np.float32), np.arange(50, dtype=np.int32) % 30
    first, again = (fitted.calibrated(logits, users) for _ in range(2))
    assert (first == again).all()
    fitted.tables = (*fitted.tables[:1], *(table + np.arange(5, dtype=np.float32) for table in fitted.tables[1:]))
    loaded = spec.from_state(fitted.state())
    noisy = loaded.calibrated(logits, users)
    examples = Examples(logits, logits, logits, users, np.zeros((31, 4), np.float32))
    assert np.abs(noisy - without_noise(fitted, examples)).max() > 0.01
    assert (noisy == fitted.calibrated(logits, users)).all()


def test_the_propensity_collapses_where_decay_and_error_balance():
    """Of constant p = sigmoid(c) the gradient is 2 (p - t) p (1 - p) + l2 c, t the share of pairs that are seen."""
    log = unskew.simulate(n_users=60, n_items=50, density=0.1, seed=4).log
    training = replace(TRAINING, batch_size=32)
    p = published.PublishedFactors().fit(log, training=training).pair(*np.divmod(np.arange(3000), 50))
    assert np.ptp(p) < 1e-4
    mean, t = float(p.mean()), len(log) / log.n_pairs
    assert 2 * (mean - t) * mean * (1 - mean) + 0.252 * np.log(mean / (1 - mean)) == pytest.approx(0, abs=0.01)
    with pytest.raises(DataError, match=r"for every pair|over all pairs"):
        Factors(**vars(published.PublishedFactors())).fit(log, training=training)


def test_a_dense_step_moves_rows_that_were_not_read():
    context = NetContext(4, 3, 0.5, (np.zeros(1, np.int32), np.zeros(1, np.int32)))
    net = published.Dense(net=MF(n_factors=2, biases=False, init_std=1.0)).build(context, rng())
    before = net.value("users").copy()
    codes = np.zeros(1, np.int32)
    net.learn(codes, codes, np.ones(1, np.float32))
    net.step(0.1, 0.5)
    moved = net.value("users")[1:4] - before[1:4]
    np.testing.assert_allclose(moved, -0.1 * np.sign(before[1:4]), rtol=1e-4)  # Adam's first step, by the decay alone
    assert net.rest() == 0
    np.testing.assert_allclose(net.value("users")[-1], net.value("users")[:-1].mean(0), rtol=1e-5)


def test_training_stops_at_the_seventh_flat_epoch():
    risks = [10.0, 9.0, 8.9999, 8.0, 9.0, 8.99, 8.9899, 7.0, 7.0, 7.0, 7.0, 7.0]
    rule, ended = published.Flatline(6, 1e-3), []
    for risk in risks:
        assert not rule.record(risk)  # the last state is the one that stays
        ended.append(rule.exhausted)
    assert ended.index(True) == 11  # 8.9999, 9.0, 8.9899 and four of 7.0


def test_the_prediction_learns_first_and_stops_by_training_risk():
    stage = published.DRJLPublished().plan().stages[1]
    assert [update.trains for update in stage.updates] == [("prediction",), ("imputation",)]
    log = unskew.simulate(n_users=40, n_items=30, density=0.2, seed=1).log
    method = published.DRJLPublished(propensity=Uniform(), clip=0.0, learning_rate=0.05)
    split = TRAINING.split(log, 0)
    trained = train(method.plan(), split, training=TRAINING)
    kept = trained.history.kept["prediction"]
    assert kept == len(trained.history.of("prediction")) < 200
    users, items = log.users[split.train_rows], log.items[split.train_rows]
    r, p = log.ratings[split.train_rows], trained.parts.answer("prediction", users, items)
    errors = -np.log(np.where(r == 1, p, 1 - p))
    assert trained.history.of("prediction")[-1].validation == pytest.approx(errors.mean(), rel=1e-4)


def test_losses_read_as_public_code_has_them():
    """On one batch, against the sums written out."""
    log = unskew.simulate(n_users=40, n_items=30, density=0.2, seed=1).log
    method, seen = published.DRJLPublished(propensity=Uniform(), clip=0.0), []
    take = Loop._take

    def watched(self, step, view):
        roles = ("prediction", "imputation")
        o, d = ([rows.logits(role).astype(np.float64) for role in roles] for rows in (view.observed, view.sampled))
        y, w = view.observed.ratings, view.observed.inverse_propensity()
        values = take(self, step, view)
        seen.append((step[0].trains[0], o, d, y, w, values[0]))
        return values

    def e(s, y):
        s = np.clip(s, -13.8, 13.8)
        return np.logaddexp(0, s) - y * s

    def r(s):
        return 1 / (1 + np.exp(-s))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Loop, "_take", watched)
        train(method.plan(), TRAINING.split(log, 0), training=replace(TRAINING, max_epochs=1))
    for trains, (op, oi), (dp, di), y, w, value in seen:
        if trains == "prediction":
            wanted = ((e(op, y) * w - e(op, r(oi))).sum() + e(dp, r(di)).sum()) / len(y)
        else:
            wanted = (w * (e(op, y) - (np.logaddexp(0, oi) - r(op) * oi)) ** 2).sum()
        assert value_of(value) == pytest.approx(wanted, rel=1e-5)


def test_both_variants_are_found_by_name():
    assert make("drjl-published") == published.DRJLPublished()
    assert make("dce-dr-published") == published.released_dce_dr()
    assert make("dce-dr-published", clip=0.2).base.clip == 0.2
