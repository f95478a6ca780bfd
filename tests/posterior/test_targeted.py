"""The targeted correction is doubly robust, opens its gate on evidence alone, and leaves the rest to the bit."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.special import expit, logit

from unskew.posterior import targeted
from unskew.posterior.exposure import Pairs, directions
from unskew.posterior.targeted import group_users, means_by_group, ridge_logistic, shrunk_logistic, target


def world(seed, n_users=300, n_items=200):
    """Chances of liking and of seeing that follow one thing, what is seen, ratings of all pairs."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n_users, 1)) + rng.standard_normal((1, n_items))
    q, p = expit(0.8 * x - 0.5), expit(1.0 * x - 2.5)
    return q, p, rng.random(q.shape) < p, (rng.random(q.shape) < q).astype(int), rng


def corrected(q, p, seen, ratings, rng, force=False):
    """The correction of an imputation q with propensities p, and its answers for all pairs."""
    users, items = np.nonzero(seen)
    fold, experts = rng.integers(5, size=len(users)), np.arange(len(q)) % 3
    found = target(ratings[seen], logit(q[seen]), np.log(p[seen]), users, items, experts, fold, 1 / p[seen])
    found = replace(found, applied=True) if force else found
    everybody = np.repeat(np.arange(len(q)), q.shape[1])
    return found, expit(found.logits(logit(q.ravel()), np.log(p.ravel()), everybody)).reshape(q.shape)


@pytest.mark.parametrize("wrong", ["imputation", "propensity"])
def test_mean_and_risk_are_right_if_either_is(wrong):
    """Naive is off, each simple estimator where its one part is, ours never."""
    found = []
    for seed in range(8):
        q, p, seen, ratings, rng = world(seed)
        q_used, p_used = q, p
        if wrong == "imputation":
            q_used = np.full_like(q, ratings[seen].mean()) + 0.1 * rng.random(q.shape) - 0.05
        else:
            p_used = np.full_like(p, seen.mean()) * rng.uniform(0.8, 1.25, p.shape)
        r = corrected(q_used, p_used, seen, ratings, rng, force=True)[1]
        weighted = (ratings[seen] / p_used[seen]).sum() / (1 / p_used[seen]).sum()
        robust = q_used.mean() + ((ratings - q_used) / p_used)[seen].sum() / q.size  # the estimator of DR-JL and DCE-DR
        means = np.array([r.mean(), ratings[seen].mean(), q_used.mean(), weighted, robust]) - q.mean()
        loss = (0.6 - ratings) ** 2
        risks = np.array([(r * 0.4**2 + (1 - r) * 0.6**2).mean(), loss[seen].mean()]) - loss.mean()
        found.append([*means, *risks])
    bias, error = np.abs(np.mean(found, axis=0)), np.std(found, axis=0) / np.sqrt(8)
    ours, naive, imputed, weighted, robust, risk, naive_risk = bias
    assert ours < 0.015 + 3 * error[0]
    assert abs(ours - robust) < 0.01 + 3 * error[4]
    assert ours < 0.25 * min(naive, imputed if wrong == "imputation" else weighted)
    assert risk < 0.25 * naive_risk


@pytest.mark.parametrize("against", [1.0, 0.0])
def test_an_order_that_left_out_ratings_contradict_is_flat_and_never_reversed(against):
    """All of it, or that of one of three groups of users."""
    rng, n = np.random.default_rng(0), 6000
    users, items, z = rng.integers(90, size=n), rng.integers(50, size=n), rng.normal(size=n)
    signs = np.where((users % 3 == 0) | (against > 0), -1.0, 1.0)
    liked, fold = (rng.random(n) < expit(1 + signs * z)).astype(int), rng.integers(5, size=n)
    found = target(liked, z, np.zeros(n), users, items, np.arange(90) % 3, fold, np.ones(n))
    slopes = found.coefficients[1] + found.deviations[:, 1]
    assert found.applied
    assert slopes[0] == pytest.approx(1e-3)
    assert slopes[1:] == pytest.approx([1e-3, 1e-3] if against else [1, 1], abs=1e-6 if against else 0.15)
    assert expit(found.logits(z, np.zeros(n), users)).mean() == pytest.approx(liked.mean(), abs=0.01)


def test_gate_opens_on_evidence_alone():
    opened = 0
    for seed in range(6):
        q, *rest = world(seed)
        found, answers = corrected(q, *rest)
        opened += found.applied
        if not found.applied:
            assert np.array_equal(answers, expit(logit(q)))
            assert "does not act" in found.sentence("The correction", "log-loss", "ratings")
    assert opened <= 1


def test_what_the_imputation_misses_is_found_and_corrected():
    q, p, seen, ratings, rng = world(9)
    found, answers = corrected(np.full_like(q, 0.5), p, seen, ratings, rng)
    assert found.applied
    assert found.gain > 2 * found.error
    assert found.coefficients[2] > 0.2  # p tells what the imputation misses
    assert found.residuals[9, 0] - found.residuals[0, 0] > 0.2
    assert np.mean((answers - q) ** 2) < 0.3 * np.mean((ratings[seen].mean() - q) ** 2)
    true, _ = corrected(q, p, seen, ratings, rng)
    means, errors, counts = true.residuals.T
    assert (np.abs(means) < 4 * errors).all()
    assert counts[:10].sum() == seen.sum() == counts[10:].sum()


def test_answers_that_are_too_sure_are_calibrated():
    """Without p, weights and experts the map is Platt's: a + b logit, and it too acts on evidence alone."""
    q, _, seen, ratings, rng = world(3)
    users, items = np.nonzero(seen)
    fold, zero = rng.integers(5, size=len(users)), np.zeros(len(users))
    for sure, acts in ((1.0, False), (2.5, True)):
        given = ratings[seen], sure * logit(q[seen]), zero, users, items, np.zeros(300, int), fold, zero + 1
        found = target(*given)
        assert found.applied == acts
        if acts:
            answers = found.logits(sure * logit(q).ravel(), 0.0, np.zeros(q.size, int))
            assert np.mean((expit(answers) - q.ravel()) ** 2) < 0.002


def test_deviations_of_experts_are_found_or_shrunk_to_nothing(monkeypatch):
    rng, rounds = np.random.default_rng(0), []
    monkeypatch.setattr(targeted, "ridge_logistic", lambda *own: rounds.append(0) or ridge_logistic(*own))
    x = np.c_[np.ones(6000), rng.standard_normal((6000, 2))]
    group, offset = np.arange(6000) % 4, np.array([0.8, -0.8, 0.4, -0.4])
    y = (rng.random(6000) < expit(x @ [0.2, 1.0, 0.3] + offset[group])).astype(int)
    beta, deviations = shrunk_logistic(x, y, np.ones(6000), group, 4)
    assert np.allclose(deviations[:, 0] + beta[0], offset + 0.2, atol=0.25)
    assert np.allclose(beta[1:], [1, 0.3], atol=0.15)
    assert len(rounds) == 10  # until variances stand still
    design = np.c_[x, np.eye(4)[group], np.eye(4)[group] * x[:, 1:2]]
    p = expit(design @ np.r_[beta, deviations.T.ravel()])
    slope = design.T @ (y - p)  # which the priors hold: of the map a tenth of how far it is from (0, 1, 0)
    np.testing.assert_allclose(slope[:3], 0.1 * (beta - [0, 1, 0]), atol=1e-6)
    found = deviations.T / slope[3:].reshape(2, 4)  # of deviations that over their variances, at which these are
    np.testing.assert_allclose(found, np.tile(found[:, :1], 4), rtol=1e-3)
    penalty = np.r_[np.full(3, 0.1), np.repeat(1 / found[:, 0], 4)]
    spread = np.diag(np.linalg.inv((design * (p * (1 - p))[:, None]).T @ design + np.diag(penalty)))[3:]
    known = 4 - spread.reshape(2, 4).sum(1) / found[:, 0]
    np.testing.assert_allclose(found[:, 0], np.maximum((deviations**2).sum(0) / known, 1e-4), rtol=0.011)
    y = (rng.random(6000) < expit(x @ [0.2, 1.0, 0.3])).astype(int)
    assert np.abs(shrunk_logistic(x, y, np.ones(6000), group, 4)[1]).max() < 0.1


def test_newton_ends_where_the_slope_is_nothing(monkeypatch):
    """Wherever it starts, and though a coordinate, of which there is nothing, is at its place at once."""
    rng, penalty, centre = np.random.default_rng(0), np.array([0.1, 2.0, 0.5]), np.array([0.0, 1.0, 0.3])
    x, weights = np.c_[np.ones(200), rng.normal(0, 3, 200), np.zeros(200)], rng.uniform(0.5, 2, 200)
    y = (rng.random(200) < expit(x @ [0.5, 0.4, 0])).astype(int)
    for start in (centre, np.array([9.0, -5.0, 0.0])):
        for given in (x, csr_array(x)):
            b, information = ridge_logistic(given, y, weights, penalty, centre, start)
            p = expit(x @ b)
            assert x.T @ (weights * (y - p)) == pytest.approx(penalty * (b - centre), abs=1e-6)
            expected = (x * (weights * p * (1 - p))[:, None]).T @ x + np.diag(penalty)
            np.testing.assert_allclose(information, expected, rtol=1e-6, atol=1e-9)
    path = []  # of which no step moves anything by more than 2
    monkeypatch.setattr(targeted, "expit", lambda z: path.append(z) or expit(z))
    ridge_logistic(np.eye(2), y[:2], np.full(2, 9.0), np.full(2, 0.01), np.zeros(2), np.array([9.0, 0.5]))
    assert np.abs(np.diff(path, axis=0)).max() == pytest.approx(2)


def test_means_by_group_have_the_errors_of_their_sums():
    values, weights, group = np.array([1.0, 0, 0.5, 2]), np.array([0.1, 0.3, 0.2, 0.2]), np.array([0, 0, 2, 2])
    found = means_by_group(values, weights, group, 3)
    spread = [np.hypot(0.1 * 0.75, 0.3 * 0.25) / 0.4, 0, np.hypot(0.2 * 0.75, 0.2 * 0.75) / 0.4]
    np.testing.assert_allclose(found, np.c_[[0.25, 0, 1.25], spread, [2, 0, 2]], atol=1e-9)


def test_users_are_grouped_by_what_they_are():
    rng = np.random.default_rng(0)
    centre = np.repeat(np.eye(3) * 6, 50, axis=0)
    group = group_users(centre + rng.standard_normal((150, 3)), rng, 3)
    assert len(np.unique(group)) == 3
    assert all(len(np.unique(group[k * 50 : k * 50 + 50])) == 1 for k in range(3))
    two = np.repeat(np.eye(2) * 9, 20, axis=0) + rng.standard_normal((40, 2))
    assert len(np.unique(group_users(two, rng))) == 2  # of at least 20
    assert len(np.unique(group_users(rng.standard_normal((200, 3)), rng))) == 5
    for vectors in (np.zeros((5, 2)), np.zeros((100, 2)), np.zeros((100, 0))):
        assert group_users(vectors, rng).max() == 0


def test_experts_do_not_confirm_themselves():
    """Groups by who-saw-what find nothing in noise; groups by each user's own mean rating would."""
    rng = np.random.default_rng(1)
    users, items = np.nonzero(rng.random((200, 100)) < 0.12)
    liked, fold = rng.integers(2, size=(2, len(users)))
    log_p = np.log(rng.uniform(0.05, 0.3, len(users)))
    mean = np.bincount(users, liked, 200) / np.maximum(np.bincount(users, minlength=200), 1)
    fair, leaky = (
        target(liked, 0 * log_p, log_p, users, items, group_users(known, rng), fold, np.exp(-log_p))
        for known in (directions(Pairs(users, items, 200, 100), most=4, least=4).users, mean[:, None])
    )
    assert not fair.applied
    assert leaky.gain > fair.gain + 2 * fair.error


def test_the_gain_is_that_of_maps_on_ratings_they_have_not_seen() -> None:
    rng, n = np.random.default_rng(3), 3000
    users, items, fold = rng.integers(60, size=n), rng.integers(40, size=n), rng.integers(3, size=n)
    experts, logit_q, log_p = np.arange(60) % 3, rng.normal(0, 2, n), rng.normal(-2, 0.5, n)
    group = experts[users]
    liked = (rng.random(n) < expit(np.array([0.2, 1.0, 2.5])[group] * logit_q)).astype(np.int64)
    w = rng.exponential(size=n)
    found, w = target(liked, logit_q, log_p, users, items, experts, fold, w), w / w.mean()
    x, worth = np.stack([np.ones(n), logit_q, log_p - np.average(log_p, weights=w)], axis=1), w / np.mean(w**2)
    mapped = np.empty(n)
    for k in range(3):
        beta, own = shrunk_logistic(*(of[fold != k] for of in (x, liked, worth, group)), 3)
        mapped[fold == k] = (x @ beta + own[group, 0] + own[group, 1] * logit_q)[fold == k]
    before, after = (np.logaddexp(0, z) - liked * z for z in (logit_q, mapped))
    assert found.gain == pytest.approx(np.average(before - after, weights=w), abs=1e-9)
    around = w * (before - after - found.gain)  # its error is that of a mean: of what lies around it
    of_users, of_items = (
        (np.bincount(codes, around) ** 2).sum() * m / (m - 1) for codes, m in ((users, 60), (items, 40))
    )
    variance = max(of_users + of_items - (around**2).sum(), of_users, of_items)
    assert found.error == pytest.approx(np.sqrt(variance) / n)
    assert found.applied
    beta, own = shrunk_logistic(x, liked, worth, group, 3)
    moved = beta[0] - beta[2] * np.average(log_p, weights=w)
    np.testing.assert_allclose(found.coefficients, [moved, *beta[1:]], atol=1e-9)
    np.testing.assert_allclose(found.deviations, own, atol=1e-9)
    by_tenth, by_expert = np.split(found.residuals[:, 2], [10])
    assert by_tenth.tolist() == [300] * 10
    assert by_expert.tolist() == np.bincount(group).tolist()
    (a, b, c), own = found.coefficients, found.deviations[group].T
    answers = found.logits(logit_q, log_p, users)
    np.testing.assert_allclose(answers, a + own[0] + (b + own[1]) * logit_q + c * log_p)
    more = found.with_new(2)  # who have no expert
    np.testing.assert_allclose(more.logits(logit_q, log_p, 60 + users % 2), a + b * logit_q + c * log_p)
    np.testing.assert_array_equal(more.logits(logit_q, log_p, users), answers)


def test_one_rating_that_outweighs_all_others_corrects_nothing():
    rng, n = np.random.default_rng(0), 400
    users, items, fold, liked = np.arange(n) % 40, np.arange(n) // 40, np.arange(n) % 5, rng.integers(0, 2, n)
    logit_q = np.where(liked == 1, -1.0, 1.0)  # wrong of each, so that any map gains
    w = np.r_[1.0, np.full(n - 1, 1e-4)]
    found = target(liked, logit_q, -np.log(w), users, items, np.zeros(40, int), fold, w)
    assert found.gain > 2 * found.error
    assert not found.applied
    sentence = found.sentence("The map", "log-loss", "ratings")
    assert sentence.endswith(" in log-loss, worth fewer than 30 of equal weight.")
