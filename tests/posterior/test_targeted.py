"""The targeted correction is doubly robust, opens its gate on evidence alone, and leaves the rest to the bit."""

import numpy as np
import pytest
from scipy.special import expit, logit

from unskew.posterior.targeted import group_users, shrunk_logistic, target


def world(seed, n_users=300, n_items=200):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n_users, 1)) + rng.standard_normal((1, n_items))
    q = expit(0.8 * x - 0.5)
    p = expit(1.0 * x - 2.5)
    seen = rng.random(q.shape) < p
    ratings = (rng.random(q.shape) < q).astype(int)
    return q, p, seen, ratings, rng


def corrected_mean(q_used, p_used, seen, ratings, rng, force=True):
    users, items = np.nonzero(seen)
    fold = rng.integers(5, size=len(users))
    experts = np.arange(len(q_used)) % 3
    log_p = np.log(p_used[users, items])
    found = target(
        ratings[seen], logit(q_used[users, items]), log_p, users, items, experts, fold, 1 / p_used[users, items]
    )
    if force:
        object.__setattr__(found, "applied", True)
    u = np.repeat(np.arange(len(q_used)), q_used.shape[1])
    answers = expit(found.logits(logit(q_used.ravel()), np.log(p_used.ravel()), u))
    return found, answers.reshape(q_used.shape)


@pytest.mark.parametrize("wrong", ["imputation", "propensity"])
def test_mean_and_risk_are_right_if_either_is(wrong):
    gaps, naive_gaps, imputed_gaps, risk_gaps, naive_risk_gaps, ips_gaps = [], [], [], [], [], []
    for seed in range(8):
        q, p, seen, ratings, rng = world(seed)
        q_used = (
            np.full_like(q, ratings[seen].mean()) + 0.1 * rng.random(q.shape) - 0.05 if wrong == "imputation" else q
        )
        p_used = np.full_like(p, seen.mean()) * rng.uniform(0.8, 1.25, p.shape) if wrong == "propensity" else p
        _, r = corrected_mean(q_used, p_used, seen, ratings, rng)
        truth = q.mean()
        gaps.append(r.mean() - truth)
        naive_gaps.append(ratings[seen].mean() - truth)
        imputed_gaps.append(q_used.mean() - truth)
        ips_gaps.append((ratings[seen] / p_used[seen]).sum() / (1 / p_used[seen]).sum() - truth)
        prediction = np.full_like(q, 0.6)
        risk = ((prediction - ratings) ** 2).mean()
        risk_gaps.append((r * (1 - prediction) ** 2 + (1 - r) * prediction**2).mean() - risk)
        naive_risk_gaps.append(((prediction - ratings) ** 2)[seen].mean() - risk)
    bias, error = abs(np.mean(gaps)), np.std(gaps) / np.sqrt(8)
    assert bias < 0.015 + 3 * error
    assert bias < 0.25 * abs(np.mean(naive_gaps))
    assert abs(np.mean(risk_gaps)) < 0.25 * abs(np.mean(naive_risk_gaps))
    if wrong == "imputation":
        assert bias < 0.25 * abs(np.mean(imputed_gaps))
    else:
        assert bias < 0.25 * abs(np.mean(ips_gaps))


def test_gate_opens_on_evidence_alone():
    opened = 0
    for seed in range(6):
        q, p, seen, ratings, rng = world(seed)
        found, answers = corrected_mean(q, p, seen, ratings, rng, force=False)
        opened += found.applied
        if not found.applied:
            assert np.array_equal(answers, expit(logit(q)))
            assert "does not act" in found.sentence()
    assert opened <= 1
    q, p, seen, ratings, rng = world(9)
    found, _ = corrected_mean(np.full_like(q, 0.5), p, seen, ratings, rng, force=False)
    assert found.applied
    assert found.gain > 2 * found.error
    assert found.coefficients[2] > 0.2  # p tells what the imputation misses


def test_residuals_by_decile_show_what_the_imputation_misses():
    q, p, seen, ratings, rng = world(1)
    flat, _ = corrected_mean(np.full_like(q, 0.4), p, seen, ratings, rng, force=False)
    true, _ = corrected_mean(q, p, seen, ratings, rng, force=False)
    assert flat.by_propensity.means[9] - flat.by_propensity.means[0] > 0.2
    assert (np.abs(true.by_propensity.means) < 4 * true.by_propensity.errors).all()
    assert true.by_expert.counts.sum() == seen.sum() == true.by_propensity.counts.sum()


def test_deviations_of_experts_are_found_or_shrunk_to_nothing():
    rng = np.random.default_rng(0)
    x = np.c_[np.ones(6000), rng.standard_normal(6000), rng.standard_normal(6000)]
    group = np.arange(6000) % 4
    offset = np.array([0.8, -0.8, 0.4, -0.4])
    y = (rng.random(6000) < expit(x @ [0.2, 1.0, 0.3] + offset[group])).astype(int)
    beta, deviations = shrunk_logistic(x, y, np.ones(6000), group, 4)
    assert np.allclose(deviations[:, 0] + beta[0], offset + 0.2, atol=0.25)
    assert np.allclose(beta[1:], [1, 0.3], atol=0.15)
    y = (rng.random(6000) < expit(x @ [0.2, 1.0, 0.3])).astype(int)
    _, deviations = shrunk_logistic(x, y, np.ones(6000), group, 4)
    assert np.abs(deviations).max() < 0.1


def test_users_are_grouped_by_what_they_are():
    rng = np.random.default_rng(0)
    centre = np.repeat(np.eye(3) * 6, 50, axis=0)
    group = group_users(centre + rng.standard_normal((150, 3)), 3, rng)
    assert len(np.unique(group)) == 3
    assert all(len(np.unique(group[k * 50 : k * 50 + 50])) == 1 for k in range(3))
    assert group_users(np.zeros((5, 2)), 5, rng).max() == 0
