"""Claims about what public code does: experts that flee to zero, propensities that collapse, a late stop."""

import importlib
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, log_softmax

import unskew
from unskew import MF, DataError, Factors, Training, Uniform, registry
from unskew.calibration.experts import ExpertPlatt, assigned, gumbel
from unskew.calibration.platt import Examples
from unskew.losses.columns import value_of
from unskew.nets.base import NetContext
from unskew.training.loop import Loop, train

unskew.registered()
BUILT_IN = dict(registry._entries)
published = importlib.import_module("benchmarks.published")
PUBLISHED = {key: entry for key, entry in registry._entries.items() if key not in BUILT_IN}
registry._entries = BUILT_IN
TRAINING = Training(max_epochs=1000, batch_size=128, holdout_by="last", progress=False)
LOG = unskew.simulate(n_users=40, n_items=30, density=0.2, seed=1).log


@pytest.fixture(autouse=True)
def _published_are_registered(monkeypatch):
    """Here alone: other tests are about what the package brings."""
    monkeypatch.setattr(registry, "_entries", BUILT_IN | PUBLISHED)


def rng():
    return np.random.default_rng(1)


def alike(logit=-0.55, n=1500, n_seen=200, n_users=30):
    """Seen and unseen pairs for which a collapsed propensity answers the same, and user vectors that are all zero."""
    labels, vectors = (np.arange(n) < n_seen).astype(float), np.zeros((n_users + 1, 4), np.float32)
    return Examples(np.full(n, logit), labels, np.ones(n), np.arange(n) % n_users, vectors)


def without_noise(fitted, e):
    weights, slopes, intercepts = (table[e.users if len(table) > 1 else 0 * e.users] for table in fitted.tables)
    return (weights * expit(slopes * e.logits[:, None] + intercepts)).sum(1)


def test_the_contrast_makes_experts_flee_to_zero():
    """All users look alike, so all that can fall is the variation that the noise brings."""
    calibrated = alike(np.log(200 / 1300))
    specs = published.PublishedExperts(steps=100), ExpertPlatt()
    contrasted, ours = (without_noise(spec.fit(calibrated, rng=rng()), calibrated) for spec in specs)
    assert ours == pytest.approx(200 / 1500, abs=1e-6)
    assert (contrasted < 0.5 * 200 / 1500).all()


@pytest.mark.parametrize("objective", ["contrast", "likelihood"])
def test_slopes_of_the_experts_are_differences(objective):
    spec, drawn = published.PublishedExperts(objective=objective, n_experts=3), rng()
    at = [drawn.normal(size=(3, 2)), drawn.normal(size=(3, 5))]
    s, y, w, x = drawn.normal(size=20), drawn.integers(2, size=20) * 1.0, drawn.random(20), drawn.normal(size=(20, 5))

    def loss(maps, gate):
        beta = assigned(x, gate, gumbel(rng(), (3, 20)), 0.7)
        m = (beta * expit(maps[:, :1] * s + maps[:, 1:])).sum(0)
        likelihood = w * (y * np.log(m) + (1 - y) * np.log(1 - m))
        return -(y * log_softmax(m) if objective == "contrast" else likelihood).sum()

    for place, slopes in enumerate(spec.slopes(*at, s, y, w, x, 0.7, rng())):
        for cell in np.ndindex(slopes.shape):
            found = []
            for move in (1e-5, -2e-5):
                at[place][cell] += move
                found.append(loss(*at))
            at[place][cell] += 1e-5
            assert slopes[cell] == pytest.approx((found[0] - found[1]) / 2e-5, rel=1e-5, abs=1e-7)


def test_the_propensity_collapses_where_decay_and_error_balance():
    """Of constant p = sigmoid(c) the gradient is 2 (p - t) p (1 - p) + l2 c, t the share of pairs that are seen."""
    log = unskew.simulate(n_users=60, n_items=50, density=0.1, seed=4).log
    training, spec = replace(TRAINING, batch_size=32), published.PublishedFactors()
    p = spec.fit(log, training=training).pair(*np.divmod(np.arange(3000), 50))
    assert np.ptp(p) < 1e-4
    mean, t = float(p.mean()), len(log) / log.n_pairs
    assert 2 * (mean - t) * mean * (1 - mean) + 0.252 * np.log(mean / (1 - mean)) == pytest.approx(0, abs=0.01)
    with pytest.raises(DataError, match=r"for every pair|over all pairs"):
        Factors(**vars(spec)).fit(log, training=training)


def test_a_dense_step_moves_rows_that_were_not_read():
    codes = np.zeros(1, np.int32)
    net = published.Dense(net=MF(n_factors=2, biases=False, init_std=1.0)).build(NetContext(4, 3, 0.5, ()), rng())
    before = net.value("users").copy()
    net.learn(codes, codes, np.ones(1, np.float32))
    net.step(0.1, 0.5)
    moved = net.value("users")[1:4] - before[1:4]
    np.testing.assert_allclose(moved, -0.1 * np.sign(before[1:4]), rtol=1e-4)  # Adam's first step, by the decay alone
    assert net.rest() == 0
    np.testing.assert_allclose(net.value("users")[-1], net.value("users")[:-1].mean(0), rtol=1e-5)


def test_training_stops_at_the_seventh_flat_epoch():
    rule, ended = published.Flatline(6), []
    for risk in (10.0, 9.0, 8.9999, 8.0, 9.0, 8.99, 8.9899, 7.0, 7.0, 7.0, 7.0, 7.0):
        assert not rule.record(risk)  # the last state is the one that stays
        ended.append(rule.exhausted)
    assert ended.index(True) == 11  # 8.9999, 9.0, 8.9899 and four of 7.0


def test_the_prediction_learns_first_and_stops_by_training_risk():
    stage = published.DRJLPublished().plan().stages[1]
    assert [update.trains for update in stage.updates] == [("prediction",), ("imputation",)]
    method, split = published.DRJLPublished(propensity=Uniform(), clip=0.0, learning_rate=0.05), TRAINING.split(LOG, 0)
    trained = train(method.plan(), split, training=TRAINING)
    epochs, rows = trained.history.of("prediction"), split.train_rows
    assert trained.history.kept["prediction"] == len(epochs) < 200
    r, p = LOG.ratings[rows], trained.parts.answer("prediction", LOG.users[rows], LOG.items[rows])
    assert epochs[-1].validation == pytest.approx(-np.log(np.where(r == 1, p, 1 - p)).mean(), rel=1e-4)


def test_losses_read_as_public_code_has_them(monkeypatch):
    """On one batch, against the sums written out."""
    method, seen, take = published.DRJLPublished(propensity=Uniform(), clip=0.0), [], Loop._take

    def watched(self, step, view):
        roles, o = ("prediction", "imputation"), view.observed
        logits = [rows.logits(role).astype(np.float64) for rows in (o, view.sampled) for role in roles]
        y, w = o.ratings, o.inverse_propensity()
        values = take(self, step, view)
        seen.append((step[0].trains[0], *logits, y, w, values[0]))
        return values

    def e(s, y):
        s = np.clip(s, -13.8, 13.8)
        return np.logaddexp(0, s) - y * s

    monkeypatch.setattr(Loop, "_take", watched)
    train(method.plan(), TRAINING.split(LOG, 0), training=replace(TRAINING, max_epochs=1))
    for trains, op, oi, dp, di, y, w, value in seen:
        if trains == "prediction":
            wanted = ((e(op, y) * w - e(op, expit(oi))).sum() + e(dp, expit(di)).sum()) / len(y)
        else:
            wanted = (w * (e(op, y) - (np.logaddexp(0, oi) - expit(op) * oi)) ** 2).sum()
        assert value_of(value) == pytest.approx(wanted, rel=1e-5)
