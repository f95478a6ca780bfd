"""The flagship end to end: parts act on evidence, say so, and else leave the posterior to the bit."""

import numpy as np
import pytest
from scipy.special import expit, ndtr

from unskew.methods.dce_bayes import fit_part, part_from
from unskew.posterior.exposure import Pairs, directions
from unskew.posterior.factors import Problem, Ratings, Settings
from unskew.posterior.targeted import group_users, target

SETTINGS = Settings(d=3, sweeps=80, history=False, liked_from=2.0)


def world(seed, slope, n_users=220, n_items=140, level=0.12):
    rng = np.random.default_rng(seed)
    u, v = rng.normal(0, 1, (n_users, 2)), rng.normal(0, 0.7, (n_items, 2))
    f = u @ v.T + rng.normal(0, 0.4, n_users)[:, None] + rng.normal(0, 0.4, n_items)[None]
    y = f + rng.standard_normal(f.shape)
    rate = np.exp(rng.normal(0, 0.5, n_users)[:, None] + rng.normal(0, 0.5, n_items)[None] + slope * f)
    seen = rng.random(f.shape) < 1 - np.exp(-rate * level / rate.mean())
    users, items = np.nonzero(seen)
    return users, items, np.digitize(y[users, items], [-0.7, 0.3, 1.2]).astype(float), f, seen


def test_no_evidence_leaves_the_posterior_to_the_bit():
    users, items, ratings, _, seen = world(0, 0.0)
    model = fit_part(Pairs(users, items, *seen.shape, ratings), settings=SETTINGS)
    u, i = np.nonzero(~seen)
    assert not model.slope.evidence
    assert not model.targeted.applied
    assert np.array_equal(model.probability(u, i), model.posterior.probability(u, i))
    assert any("no evidence" in note for note in model.notes)
    assert any("does not act" in note for note in model.notes)
    rng = np.random.default_rng(0)
    assert np.isfinite(model.logits(u, i)).all()
    again = part_from({key: np.array(value) for key, value in model.state().items()})
    order = model.order_scores("choice", u, i, rng)
    assert np.isfinite(order).all()
    assert np.array_equal(again.order_scores("choice", u, i, rng), order)
    assert np.array_equal(again.probability(u, i), model.probability(u, i))
    assert np.array_equal(again.exposure.logits(u, i), model.exposure.logits(u, i))
    assert np.array_equal(again.targeted.by_propensity.means, model.targeted.by_propensity.means)
    assert again.targeted.by_expert.groups == model.targeted.by_expert.groups
    assert again.notes == model.notes


def test_liking_that_drives_seeing_is_found_and_the_level_falls():
    users, items, ratings, f, seen = world(1, 0.7)
    model = fit_part(Pairs(users, items, *seen.shape, ratings), settings=SETTINGS)
    u, i = np.nonzero(~seen)
    truth = ndtr(f[u, i] - 0.3)
    raw, ours = model.posterior.probability(u, i), model.probability(u, i)
    assert model.slope.evidence
    assert abs(model.slope.value - 0.7) < 0.3
    assert raw.mean() - truth.mean() > 0.01
    assert abs(ours.mean() - truth.mean()) < raw.mean() - truth.mean()
    assert model.probability(u, i, 1.0).mean() < ours.mean()


def test_folds_have_not_seen_what_they_answer():
    """Ratings of pure noise: answers to left-out ones carry no trace of them."""
    rng = np.random.default_rng(0)
    users, items = np.nonzero(rng.random((120, 80)) < 0.15)
    ratings = rng.integers(2, size=len(users)).astype(float)
    problem = Problem(Pairs(users, items, 120, 80, ratings), Ratings.of(ratings), SETTINGS)
    fold = problem.folds()
    settings = Settings(d=3, exposure=False, history=False, liked_from=1.0)
    margin = np.zeros(len(users))
    for k in range(5):
        rows = fold == k
        margin[rows] = problem.without_fold(settings, fold, k).margin(users[rows], items[rows])
    r = np.corrcoef(margin, ratings)[0, 1]
    assert r < 3 / np.sqrt(len(users))


def test_experts_do_not_confirm_themselves():
    """Groups by who-saw-what find nothing in noise; groups by each user's own mean rating would."""
    rng = np.random.default_rng(1)
    users, items = np.nonzero(rng.random((200, 100)) < 0.12)
    liked = rng.integers(2, size=len(users))
    fold = rng.integers(5, size=len(users))
    noise = np.zeros(len(users))
    log_p = np.log(rng.uniform(0.05, 0.3, len(users)))
    known = directions(Pairs(users, items, 200, 100), most=4, least=4).users
    fair = target(liked, noise, log_p, users, items, group_users(known, 5, rng), fold, np.exp(-log_p))
    assert not fair.applied
    mean = np.bincount(users, liked, 200) / np.maximum(np.bincount(users, minlength=200), 1)
    leaky = target(liked, noise, log_p, users, items, group_users(mean[:, None], 5, rng), fold, np.exp(-log_p))
    assert leaky.gain > fair.gain + 2 * fair.error


@pytest.mark.parametrize("seed", [0, 1])
def test_what_the_imputation_misses_is_corrected(seed):
    """An imputation without the direction that drives seeing and liking: the gate opens and answers improve."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((200, 1)) * rng.standard_normal((1, 150))
    q, p = expit(1.2 * x - 0.3), expit(1.2 * x - 2.5)
    seen = rng.random(q.shape) < p
    users, items = np.nonzero(seen)
    liked = (rng.random(len(users)) < q[seen]).astype(int)
    flat = np.full(len(users), np.log(liked.mean() / (1 - liked.mean())))
    fold = rng.integers(5, size=len(users))
    found = target(liked, flat, np.log(p[seen]), users, items, np.zeros(200, int), fold, 1 / p[seen])
    assert found.applied
    every = np.repeat(np.arange(200), 150)
    r = expit(found.logits(np.full(30_000, flat[0]), np.log(p.ravel()), every))
    assert np.mean((r - q.ravel()) ** 2) < 0.3 * np.mean((liked.mean() - q.ravel()) ** 2)


def robust_world(seed, wrong):
    """Seeing follows liking; the imputation is a constant, or p uniform, on purpose. Biases of the mean liking."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((200, 2)) @ rng.standard_normal((2, 150))
    truth, p = expit(x - 0.5), expit(0.8 * x - 2.5)
    seen = rng.random(x.shape) < p
    users, items = np.nonzero(seen)
    liked = (rng.random(len(users)) < truth[seen]).astype(int)
    every = np.repeat(np.arange(200), 150)
    logit_q = np.full(x.shape, np.log(liked.mean() / (1 - liked.mean()))) if wrong == "imputation" else x - 0.5
    believed = np.full(x.shape, seen.mean()) if wrong == "propensity" else p
    given = liked, logit_q[seen], np.log(believed[seen]), users, items, np.zeros(200, int)
    found = target(*given, rng.integers(5, size=len(users)), 1 / believed[seen])
    ours = expit(found.logits(logit_q.ravel(), np.log(believed.ravel()), every)).mean()
    weighted = np.average(liked, weights=1 / believed[seen])
    imputed = expit(logit_q).mean()
    return np.array([liked.mean(), weighted, imputed, ours]) - truth.mean()


@pytest.mark.parametrize("wrong", ["imputation", "propensity"])
def test_one_of_two_being_right_is_enough(wrong):
    """Mean liking over all pairs, ten worlds: naive is off, each simple estimator where its one part is, ours never."""
    naive, weighted, imputed, ours = np.abs([robust_world(seed, wrong) for seed in range(10)]).mean(axis=0)
    assert naive > 0.1
    assert (imputed if wrong == "imputation" else weighted) > 0.1
    assert ours < 0.02
    assert ours < 0.2 * naive
