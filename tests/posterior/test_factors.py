"""A fit answers, says what it could not learn, goes on from where it stopped, and refuses in a sentence."""

import math
import os
import re
import subprocess
import sys
import tracemalloc
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from scipy.special import expit, ndtr
from scipy.stats import gmean
from threadpoolctl import threadpool_info, threadpool_limits

from unskew.data.log import RatingLog
from unskew.data.population import ListedRows
from unskew.errors import DataError, ParameterError
from unskew.metrics.table import roc_auc
from unskew.posterior import defaults, factors, new_rows
from unskew.posterior.answers import Posterior, Ratings
from unskew.posterior.chain import SHOT_BYTES, Chain, RunningProduct, additive, additive_log_variance, smallest_rank
from unskew.posterior.exposure import Columns, Pairs, directions, history
from unskew.posterior.factors import (
    BayesianFactors,
    Problem,
    choose_columns,
    fold_sweeps,
    judged,
    one_blas_thread,
    sample,
)
from unskew.posterior.flat import flat, unflat
from unskew.posterior.gibbs import Sampler
from unskew.posterior.new_rows import BURN, SWEEPS
from unskew.posterior.targeted import EXPERTS, TENTHS
from unskew.propensity.scorers import JointScorer, RidgeScorer, Scorer, SpectralScorer

PLAIN = BayesianFactors(n_factors=3, sweeps=60, exposure=False, history=False)


def world(seed=0, n_users=80, n_items=60, n=2000, cuts=(-0.8, 0.2, 1.0), d=2):
    rng = np.random.default_rng(seed)
    u, v = rng.normal(0, 0.8, (n_users, d)), rng.normal(0, 0.8, (n_items, d))
    f = u @ v.T + rng.normal(0, 0.5, n_users)[:, None] + rng.normal(0, 0.5, n_items)[None]
    pairs = rng.permutation(n_users * n_items)[:n]
    users, items = pairs // n_items, pairs % n_items
    y = f[users, items] + rng.standard_normal(n)
    return Pairs(users, items, n_users, n_items, np.digitize(y, cuts) + 1.0 if cuts else y), f


@pytest.fixture(scope="module")
def fitted():
    log, f = world()
    return sample(Problem(log, PLAIN, 1)), f


def every_pair(n_users=80, n_items=60):
    return np.repeat(np.arange(n_users), n_items), np.tile(np.arange(n_items), n_users)


def test_answers_are_near_the_truth(fitted):
    posterior, f = fitted[0].posterior, fitted[1]
    u, i = every_pair()
    truth = ndtr(f.ravel() - 0.2)
    assert np.mean((posterior.probability(u, i, 3.0) - truth) ** 2) < 0.5 * np.var(truth)
    # intervals hold what they claim: the truth lies within two posterior deviations of f nearly always
    size = posterior.thresholds[-1] - posterior.thresholds[0]
    gap = (posterior.scores(u, i) - posterior.thresholds[1]) * 1.8 / size - (f.ravel() - 0.2)
    within = np.abs(gap) < 2 * np.sqrt(posterior.variance(u, i)) * 1.8 / size
    assert 0.85 < within.mean() < 0.995


def test_levels_probability_expected_and_std_agree(fitted):
    posterior = fitted[0].posterior
    u, i = every_pair()
    levels = posterior.levels(u, i)
    p = posterior.probability(u, i, 3.0)
    assert np.allclose(levels.sum(1), 1)
    assert np.allclose(levels[:, 2:].sum(1), p)
    assert np.allclose(levels @ [1, 2, 3, 4], posterior.expected(u, i))
    posterior = replace(posterior, liked_from=3.0)
    assert np.allclose(posterior.logits(u, i), np.log(p / (1 - p)), atol=1e-4)
    rng, k = np.random.default_rng(0), np.arange(5)
    v, noise = posterior.variance(u[k], i[k]), posterior.noise_variance(u[k], i[k])
    f = posterior.scores(u[k], i[k])[:, None] + np.sqrt(v)[:, None] * rng.standard_normal((5, 200_000))
    drawn = ndtr((f - posterior.threshold(3.0)) / np.sqrt(noise)[:, None])
    assert np.allclose(drawn.std(1), posterior.std(u[k], i[k], 3.0), atol=2e-3)
    assert np.allclose(drawn.mean(1), p[k], atol=2e-3)
    t, (v, noise) = posterior.threshold(3.0), (of(u, i) for of in (posterior.variance, posterior.noise_variance))
    drawn = np.random.default_rng(1).standard_normal(len(u))
    for order, moved in (("lower", -1.64), ("thompson", drawn)):
        found = posterior.order_scores(order, u, i, np.random.default_rng(1))
        np.testing.assert_allclose(found, ndtr((posterior.scores(u, i) - t + moved * np.sqrt(v)) / np.sqrt(noise)))
    linear, rated = posterior.linear(), 1.0 + np.arange(len(u)) % 4
    products = (linear.users @ linear.items.T + linear.offsets)[u, i]
    np.testing.assert_allclose(products, posterior.scores(u, i) - t, atol=1e-5)
    likelihood = np.log(levels[np.arange(len(u)), np.arange(len(u)) % 4])
    np.testing.assert_allclose(posterior.log_likelihood(u, i, rated), likelihood, atol=1e-9)
    graded = replace(posterior, scale=(0.0, 5.0))
    np.testing.assert_allclose(5 * expit(graded.logits(u, i)), posterior.expected(u, i), rtol=1e-4)
    sure = ndtr((posterior.thresholds - f[..., None]) / np.sqrt(posterior.noise_variance(u[k], i[k]))[:, None, None])
    stars = np.diff(sure, prepend=0.0, append=1.0) @ [1, 2, 3, 4]
    np.testing.assert_allclose(graded.std(u[k], i[k]), stars.std(1), rtol=0.02)
    np.testing.assert_array_equal(graded.std(u, i), posterior.std(u, i, as_rating=True))
    np.testing.assert_array_equal(graded.std(u, i, 3.0), posterior.std(u, i, 3.0))
    ends = np.unique(np.concatenate([replace(graded, scale=s).logits(u, i) for s in ((-9.0, 0.0), (9.0, 10.0))]))
    np.testing.assert_allclose(ends, [-16.118, 16.118], atol=1e-3)  # beyond the scale is as sure as a chance can be
    for wrong in (1.0, 9.0):
        with pytest.raises(ParameterError, match="does not divide"):
            posterior.probability(u, i, wrong)
    with pytest.raises(DataError, match="a rating of 9 is none of the levels 1, 2, 3, 4"):
        posterior.log_likelihood(u[:2], i[:2], np.array([1.0, 9]))
    for n, middle in ((2, 1), (4, 2), (5, 3), (20, 10)):  # where the upper half begins
        assert Ratings.of(np.arange(n)).middle() == middle
    assert [Ratings.of(np.arange(n)).continuous for n in (20, 21)] == [False, True]
    far = np.r_[np.full(10, 1e12), np.full(10, -1e12), np.linspace(1, 5, 980)]  # pull no more than others
    assert Ratings.of(far).middle() == pytest.approx(3, abs=0.1)


def test_a_chain_goes_on_from_its_state(monkeypatch):
    u, i = every_pair()
    problem = Problem(world(n=400)[0], PLAIN)
    whole, first, second = (problem.chain(5) for _ in range(3))
    whole.run(21)
    shots = whole.shots["rows"]
    whole.run(15)
    assert whole.shots["rows"] is shots  # of the first 8 kept sweeps, then of every eighth
    with monkeypatch.context() as small:
        small.setattr("unskew.posterior.chain.SHOT_BYTES", 3.9 * 61 * (3 + 1) * 4)
        (few := problem.chain(5)).run(36)
    np.testing.assert_array_equal(few.shots["rows"], shots[[1, 2, 7]])  # in fewer bytes the last three of these
    first.run(17)
    second.restore(first.state())
    first.posterior()  # asking changes nothing
    assert len(first.shots["rows"]) == min(first.kept, defaults.SHOTS)  # each of a kept sweep, once
    for chain in (first, second):
        chain.run(19)
        assert whole.sampler.item_side.rows.tobytes() == chain.sampler.item_side.rows.tobytes()
        assert np.abs(whole.posterior().probability(u, i) - chain.posterior().probability(u, i)).max() < 1e-3


@pytest.mark.parametrize("short", [False, True])
def test_answers_are_means_over_kept_sweeps(short, monkeypatch):
    """Drawn users times conditional means of items, each sweep at one location and size of f; of folds both means."""
    ranked = []  # of which no column is left out
    monkeypatch.setattr("unskew.posterior.chain.smallest_rank", lambda *own: ranked.extend(own) or own[1].shape[1])
    problem = Problem(world(n=400)[0], replace(PLAIN, n_factors=2))
    chain, s = problem.chain(6, short=short), problem.chain(6, short=short).sampler
    a, b, found, (users, items), n = s.user_side, s.item_side, [], chain.pairs, 0 if short else 10_000
    each = [np.r_[np.repeat(np.arange(size), 4), np.full(100, size - 1)].tolist() for size in (81, 61)]
    assert (chain.n_checked, len(users)) == (n, len(items)) == (n, n + len(each[0]) + len(each[1]))
    assert users[n : n + len(each[0])].tolist() == each[0]  # four pairs of every row, more of the average ones
    assert items[-len(each[1]) :].tolist() == each[1]
    chain.run(22)
    for sweep in range(1, 23):
        s.sweep()
        if sweep > 6 and sweep % 2 == 0:
            sizes, t = (gmean(a.scale), gmean(b.scale)), s.thresholds[1:-1]
            size, place = math.prod(sizes), t[1]
            bias = (a.mean[:, 2:] - place + b.mean[:, 2]) / size
            f = (a.mean if short else a.rows)[:, :2] @ b.mean[:, :2].T / size + bias
            drawn = (a.rows[:, :2] @ b.rows[:, :2].T + a.rows[:, 2:] - place + b.rows[:, 2]) / size
            scales = np.log(a.scale / sizes[0]), np.log(b.scale / sizes[1])
            found.append((f, drawn[users, items], (t - place) / size, *scales))
    posterior, (f, drawn, *means) = chain.posterior(), zip(*found, strict=True)
    thresholds, *scales = (np.mean(each, axis=0) for each in means)
    np.testing.assert_allclose(posterior.scores(*every_pair(81, 61)), np.mean(f, axis=0).ravel(), atol=1e-4)
    rows = chain.chosen
    assert ranked[0].tolist() == (rows.ratings >= 3.0).tolist()
    np.testing.assert_allclose(ranked[1].sum(1), posterior.scores(rows.users, rows.items), atol=1e-4)
    log_variance = additive_log_variance(users, items, np.var(drawn, axis=0, ddof=1), 81, 61)
    for side, scale, variance in zip((posterior.users, posterior.items), scales, log_variance, strict=True):
        np.testing.assert_allclose(side.scale, np.exp(scale), rtol=1e-9)
        np.testing.assert_allclose(side.log_variance, variance, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(posterior.thresholds, thresholds)
    assert posterior.sweeps == 22
    assert (len(chain.checks), len(chain.shots)) == (0, 0) if short else (8, 8)
    if not short:  # what tells how steady answers are, and what new users are answered by
        sd = a.scale[users[:n]] * b.scale[items[:n]] / size
        np.testing.assert_allclose(chain.checks[-1], ndtr(f[-1][users[:n], items[:n]] / sd), atol=1e-4)
        last = {name: held[-1] for name, held in chain.shots.items()}
        known = last["location"], last["size"], last["user_size"]
        assert known == pytest.approx((place, size, sizes[0]))
        for name, own in (("rows", b.rows), ("scale", b.scale), ("precision", a.prior.precision)):
            np.testing.assert_allclose(last[name], own, rtol=1e-6)


def test_a_new_row_is_the_nearest_to_the_mean_answer_of_kept_sweeps(fitted, monkeypatch):
    """Over all items, by least squares; its variance is that of the 20 users of nearest activity."""
    posterior, rng = fitted[0].posterior, np.random.default_rng(0)
    shot, n_shots, d = posterior.shots, len(posterior.shots["size"]), 3
    mean, scale, given = rng.standard_normal((n_shots, d + 1)), rng.standard_normal(n_shots), []
    monkeypatch.setattr(new_rows, "fold_row", lambda *each: given.extend(each) or (mean, scale))
    vector, own_scale, log_variance = posterior.new_rows.of(np.arange(5), np.array([1.0, 4, 2, 3, 1]))
    f = [
        (rows[:, :d] @ own[:d] + own[d] + rows[:, d] - place) / size
        for rows, own, place, size in zip(shot["rows"], mean, shot["location"], shot["size"], strict=True)
    ]
    nearest = np.linalg.lstsq(posterior.items.vectors.astype(float), np.mean(f, axis=0), rcond=None)[0]
    np.testing.assert_allclose(vector[0], nearest, rtol=1e-3, atol=1e-4)
    assert own_scale == pytest.approx(gmean(np.exp(scale) / shot["user_size"]))
    near = np.argsort(np.abs(np.log1p(shot["counts"]) - np.log(6)))[:20]
    assert log_variance == pytest.approx(posterior.users.log_variance[near].mean())
    np.testing.assert_allclose(given[3], 1 / shot["scale"])
    assert given[1].tolist() == [0, 3, 1, 2, 0]
    assert given[11].mean() == pytest.approx(defaults.SCALE_SHAPE + 2.5, rel=0.1)


def test_bits_do_not_depend_on_the_threads_of_blas():
    rng, found = np.random.default_rng(0), []
    pairs = rng.permutation(1500 * 1200)[:15_000]
    log = Pairs(pairs // 1200, pairs % 1200, 1500, 1200, pairs % 3)
    for threads in (1, 2):
        with threadpool_limits(threads, "blas"):
            found.append(sample(Problem(log, BayesianFactors(sweeps=8, exposure=True, history=True))).posterior)
    assert found[0].users.vectors.tobytes() == found[1].users.vectors.tobytes()
    assert {pool["num_threads"] for pool in one_blas_thread(threadpool_info)() if pool["user_api"] == "blas"} == {1}


def test_in_a_new_process_every_blas_that_a_fit_loads_has_one_thread():
    code = (
        "from threadpoolctl import threadpool_info\n"
        "from unskew.posterior.factors import one_blas_thread\n"
        "from unskew.posterior.gibbs import RowPrior\n"
        "import numpy as np\n"
        "def threads():\n"
        "    prior, i = RowPrior(np.eye(2), np.zeros((1, 2)), np.ones(1)), np.eye(2)\n"
        "    prior.draw(np.random.default_rng(0), 9, i[:1], i, i[:1, :1], np.zeros(1, int), 1.0, (1.0, 1.0), 3.0)\n"
        "    return [pool['num_threads'] for pool in threadpool_info() if pool['user_api'] == 'blas']\n"
        "print(*one_blas_thread(threads)())"
    )
    env = os.environ | {"OPENBLAS_NUM_THREADS": "2"}
    run = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert set(run.stdout.split()) == {"1"}


def test_interrupt_keeps_what_there_is(monkeypatch):
    sweep = Sampler.sweep

    def stop(sampler):
        if sampler.sweeps == 19:  # when two are kept
            raise KeyboardInterrupt
        sweep(sampler)

    monkeypatch.setattr(Sampler, "sweep", stop)
    found = sample(Problem(world(n=400)[0], PLAIN)).posterior
    assert found.sweeps == 19
    assert any("Interrupted after 19 sweeps: answers rest on the 2 kept" in note for note in found.notes)


@pytest.mark.parametrize("most", [48, None, 60])  # cut by columns, by rows of one side or both at the end, in between
def test_compression_loses_nothing_that_counts(most, monkeypatch):
    rng = np.random.default_rng(0)
    product, total = RunningProduct(50, 40, keep=40, most=most), np.zeros((50, 40))
    for _ in range(20):
        u, v = rng.standard_normal((50, 3)), rng.standard_normal((40, 3))
        product.add(u, v)
        assert sum(own.shape[1] for own, _ in product.blocks) < (most or 100)
        total += u @ v.T
    u, v = product.factors(5)
    best = np.linalg.svd(total)
    assert np.allclose(u @ v.T, (best[0][:, :5] * best[1][:5]) @ best[2][:5], atol=1e-3)
    u, v = product.factors(40)
    assert np.abs(u @ v.T - total).max() < 1e-3
    liked = (total.ravel() + 2 * rng.standard_normal(2000) > 0).astype(int)
    a, b = every_pair(50, 40)
    rank = smallest_rank(liked, u[a] * v[b])
    full, enough, less = (roc_auc(liked, (u[:, :k] @ v[:, :k].T).ravel()) for k in (40, rank, rank - 1))
    assert full - enough < defaults.RANK_LOSS <= full - less
    monkeypatch.setattr(defaults, "RANK_LOSS", full - less)
    assert smallest_rank(liked, u[a] * v[b]) == rank  # to lose just as much is too much
    assert smallest_rank(liked, np.pad((u[a] * v[b])[:, :2], ((0, 0), (0, 3)))) == 2
    twice = RunningProduct(50, 40)
    for _ in range(2):  # whose columns repeat each other
        twice.add(u[:, :3], v[:, :3])
    (x, y), expected = twice.factors(40), 2 * u[:, :3] @ v[:, :3].T
    np.testing.assert_allclose(x @ y.T, expected, atol=1e-3)
    assert x.shape[1] == y.shape[1] == 3


def test_additive_log_variance_is_recovered():
    rng = np.random.default_rng(0)
    a, b = rng.normal(-2, 0.5, 60), rng.normal(0, 0.5, 50)
    u, i = rng.integers(60, size=5000), rng.integers(50, size=5000)
    variance = np.exp(a[u] + b[i]) * rng.gamma(20, 1 / 20, 5000)
    x, y = additive_log_variance(u, i, variance, 61, 50)
    assert np.mean(variance / np.exp(x[u] + y[i])) == pytest.approx(1)  # the level is that of the variances
    assert np.abs((x[:60, None] + y) - (a[:, None] + b)).max() < 0.3
    assert x[60] == pytest.approx(-2, abs=0.3)  # of whom there is no pair
    a, b = additive(np.zeros(2, int), np.arange(2), np.array([1.0, 3]), np.array([0.1, 0.3]), 2, 3, rounds=1)
    np.testing.assert_allclose([*a, *b], [2.5, 0, -1.5, 0.5, 0])  # rows without pairs add nothing
    once, log = np.arange(6), rng.standard_normal(6)  # of one pair each: two more stand at the mean
    _, y = additive_log_variance(once, once, np.exp(log), 6, 6)
    np.testing.assert_allclose(y, (log - log.mean()) / 4, atol=1e-6)


def test_many_columns_of_many_rows_are_scaled_in_place() -> None:
    given = np.random.default_rng(0).standard_normal((40_000, 128))
    tracemalloc.start()
    found = Columns.of(40_001, ("history", given, True))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.2 * found.values.nbytes
    np.testing.assert_allclose(found.values[:-1, 1:].std(axis=0), 1.0)


def test_rows_that_stand_for_several_count_as_often() -> None:
    log = RatingLog.from_arrays([0, 1, 2, 3], [0, 1, 0, 1], [1, 0, 0, 1], positive=1)
    shown = ListedRows(log.users, log.items, np.ones(4, bool))
    some = RatingLog.proved(**log.__dict__ | {"listed": shown, "cells": np.array([0.2, 1.0, 2.4, 2.6])})
    pairs = Problem.of(some, PLAIN, 0).log
    assert pairs.users.tolist() == [0, 1, 2, 2, 3, 3, 3]
    assert pairs.ratings.tolist() == [1, 0, 0, 0, 1, 1, 1]


def test_columns_of_the_prior_are_standardised_and_unknown_rows_stand_at_their_means():
    given = np.random.default_rng(0).gamma(2, 1e3, (40, 3))
    values = Columns.of(41, ("x", np.c_[given, np.zeros(40)], False)).values[:, 1:]
    np.testing.assert_allclose(values[:40, :3], (given - given.mean(0)) / given.std(0), atol=1e-9)
    assert not values[40].any()
    assert not values[:, 3].any()  # a column of nothing stays one


def test_steadiness_is_the_distance_of_two_halves():
    chain = Problem(world(n=300)[0], PLAIN).chain(1)
    assert chain.unsteadiness() == np.inf
    chain.checks = [np.array([0.2, 0.4]), np.array([0.2, 0.4]), np.array([0.4, 0.4]), np.array([0.2, 0.4])]
    assert np.isclose(chain.unsteadiness(), (0.1**2 / 2) / 4)


def test_records_are_flat_and_back_by_their_fields():
    one = SpectralScorer(np.ones(3), np.zeros((2, 1), np.float32), np.zeros((3, 1), np.float32))
    assert isinstance(unflat(Scorer, flat(one)), SpectralScorer)
    two = RidgeScorer(True, *(np.arange(3),) * 2, np.eye(2), np.ones(3), np.ones(3), 0.8, 5.0)
    assert isinstance(again := unflat(Scorer, flat(two)), RidgeScorer)
    assert (again.by_users, again.share) == (True, 0.8)
    both = unflat(Scorer, flat(JointScorer(two, one)))
    assert (both.ridge.penalty, both.spectral.left.dtype) == (5.0, np.float32)


def test_a_gain_is_clear_by_two_errors_and_more_while_folds_are_left():
    gain = np.tile([0.0, 2.0], 50)  # mean 1, error .1
    for left, errors in ((0, 2), (1, 2.5), (4, 4)):
        assert judged(gain, left) == pytest.approx((1, 0.1, errors / 10))


def test_directions_agree_with_a_dense_svd_and_noise_has_none():
    rng = np.random.default_rng(0)
    match = rng.integers(3, size=200)[:, None] == rng.integers(3, size=150)[None]
    log = Pairs(*np.nonzero(rng.random((200, 150)) < np.where(match, 0.3, 0.05)), 200, 150)
    found = directions(log)
    s = log.seen().toarray()
    e = s.sum(1)[:, None] * s.sum(0)[None] / s.sum()
    dense = np.linalg.svd((s - e) / np.sqrt(e))
    assert np.allclose(found.strengths, dense[1][:2], rtol=1e-4)
    assert np.allclose(found.users.T @ found.users / 200, np.eye(2), atol=1e-8)
    assert (found.users.max(axis=0) > -found.users.min(axis=0)).all()  # so are signs fixed
    approximation = (found.users / np.sqrt(200) * found.strengths) @ (found.items / np.sqrt(150)).T
    assert np.allclose(approximation, (dense[0][:, :2] * dense[1][:2]) @ dense[2][:2], atol=1e-2)
    assert len(directions(Pairs(*np.nonzero(rng.random((200, 150)) < 0.1), 200, 150)).strengths) == 0
    few = Pairs(np.r_[0, np.arange(12)] % 4, np.r_[0, np.arange(12)] % 5, 4, 5)
    found, s = directions(few, least=16), few.seen().toarray()
    assert (found.users.shape, s.max(), s.sum()) == ((4, 3), 1, 12)  # what is rated twice is seen once
    e = s.sum(1)[:, None] * s.sum(0)[None] / s.sum()
    assert np.allclose(found.strengths, np.linalg.svd((s - e) / np.sqrt(e))[1][:3], rtol=1e-4)
    everything = Pairs(*np.divmod(np.arange(60), 6), 10, 6)  # seen: counts alone explain it
    assert directions(Pairs(np.arange(9) % 5, np.arange(9) % 2, 5, 2), least=1).users.shape == (5, 1)
    for more in ({"n_users": 20_000}, {"n_items": 20_000}):  # of whom nothing is seen: no edge moves
        assert len(directions(log._replace(**more)).strengths) == 2
    assert len(directions(everything).strengths) == 0
    one, some = np.arange(2000), rng.integers(150, size=2000)  # rows of one rating are noise like any other
    for noise in (Pairs(one, some, 2000, 150), Pairs(some, one, 150, 2000)):
        assert len(directions(noise).strengths) == 0
    alone = directions(Pairs(np.zeros(4, int), np.arange(4), 1, 4), least=4)
    assert [each.shape for each in alone] == [(1, 0), (4, 0), (0,)]
    assert not directions(everything, least=4).users.any()


def test_who_saw_what_enters_only_where_it_tells_something():
    rng = np.random.default_rng(0)
    match = np.where(rng.integers(2, size=150)[:, None] == rng.integers(2, size=120)[None], 1.0, -1.0)
    users, items = np.nonzero(rng.random((150, 120)) < np.where(match > 0, 0.25, 0.08))
    noise = rng.standard_normal(len(users))
    for y, enters in ((match[users, items] + noise, True), (noise, False)):
        log = Pairs(users, items, 150, 120, np.digitize(y, [-1, 1]))
        found = sample(Problem(log, BayesianFactors(n_factors=4, sweeps=30, history=False)))
        assert found.problem.settings.exposure == enters
        assert any(("enters" if enters else "stays out") in note for note in found.posterior.notes)
        fold, gains = found.fold, []  # of ratings by models that have not seen them
        for k in range(5):
            own = log.rows(fold == k)
            with_it, without = (
                replace(found.problem, settings=replace(found.problem.settings, exposure=e)).without_fold(fold, k)
                for e in (True, False)
            )
            gains += [with_it.log_likelihood(*own[:2], own.ratings) - without.log_likelihood(*own[:2], own.ratings)]
        asked = [f"gain {np.concatenate(gains[: k + 1]).mean():.4f} +-" in found.posterior.notes[0] for k in range(5)]
        assert any(asked)
        assert enters or asked[4]


def test_folds_share_every_user_evenly_and_columns_are_of_the_fold(monkeypatch):
    log, _ = world()
    problem = Problem(log, replace(PLAIN, exposure=True))
    fold = problem.folds()
    table = np.zeros((80, 5))
    np.add.at(table, (log.users, fold), 1)
    assert (table.max(1) - table.min(1) <= 1).all()
    once = Pairs(np.arange(1000), np.zeros(1000, int), 1000, 1)  # of which a user has one: by chance
    assert np.abs(np.bincount(once.folds(5, np.random.default_rng(0))) - 200).max() < 50
    chain = problem.chain(1, fold != 0)
    counts = np.log1p(np.bincount(log.users[fold != 0], minlength=81))
    assert np.corrcoef(chain.sampler.user_side.columns.values[:, 1], counts)[0, 1] > 1 - 1e-9
    ran, run, seed = [], Chain.run, (problem := replace(problem, seed=7)).chain(1).sampler.seed
    monkeypatch.setattr(Chain, "run", lambda own, n, bar: ran.append((own, n)) or run(own, n, bar))
    problem.without_fold(fold, 2)  # by a chance of its own; of 50 sweeps a quarter is thrown away
    assert [(own.sampler.seed - seed, own.burn, own.short, n) for own, n in ran] == [(3, 12, True, 50)]


def test_folded_in_users_agree_with_fitted_ones(fitted):
    log, _ = world()
    without = sample(Problem(log.rows(log.users != 7), PLAIN, 1)).posterior
    own, everything = log.rows(log.users == 7), np.arange(60)
    folded = without.folded(np.array([0, 0, len(own.items)]), own.items, own.ratings)
    assert folded.sizes() == (82, 60)
    ours = folded.probability(np.full(60, 81), everything, 3.0)
    assert without.users.log_variance.min() < folded.users.log_variance[81] < without.users.log_variance.max()
    average = without.probability(np.full(60, -1), everything, 3.0)
    assert np.array_equal(folded.probability(np.full(60, 80), everything, 3.0), average)
    assert np.array_equal(folded.probability(np.full(60, -1), everything, 3.0), average)
    whole = fitted[0].posterior.probability(np.full(60, 7), everything, 3.0)
    cold = without.probability(np.full(60, 7), everything, 3.0)
    assert np.mean((ours - whole) ** 2) < min(0.3 * np.mean((cold - whole) ** 2), 0.01)


def test_a_part_goes_on_over_its_log_and_begins_averages_anew_over_a_longer_one():
    pairs, _ = world(n=400)
    log = RatingLog.from_arrays(pairs.users, pairs.items, pairs.ratings, positive=3)
    first = sample(Problem.of(log, PLAIN, 1)).posterior
    first = replace(first, notes=[*first.notes, "fitted around it"])  # which stays
    for burn, kept in ((None, 28), (6, 3)):
        more = first.continued(log, 12, burn)
        assert [more.notes[-1], *(note for note in more.notes if "sweeps" in note)] == [
            "fitted around it", f"72 sweeps were run, {kept} kept.",
        ]  # fmt: skip
        assert (more.sweeps, int(more.chain["sweeps"]), int(more.chain["product.count"])) == (72, 72, kept)


def test_new_rows_are_answered_by_features():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((100, 2))
    users, items = np.repeat(np.arange(80), 25), rng.integers(50, size=2000)
    log = Pairs(users, items, 100, 50, np.digitize(1.5 * x[users, 0] + rng.standard_normal(2000), [0]))
    posterior = sample(Problem(log, PLAIN, user_features=x)).posterior
    assert "20 of 100 users have nothing in the log: they are answered as new ones." in posterior.notes
    assert posterior.shots["known"].tolist() == [1, 0, 0]  # of a new user, features as all have them on average
    f = posterior.scores(np.r_[np.arange(80, 100), -1], np.zeros(21, int))
    assert np.corrcoef(f[:-1], x[80:, 0])[0, 1] > 0.95
    assert abs(f[-1] - f[:-1].mean()) < f.std()  # the average new user
    more = posterior.extended(np.zeros(2))
    assert more.sizes() == (102, 50)
    assert np.ptp(more.scores(np.array([100, -1, 101]), np.array([50, -1, 50]))) == 0


@pytest.mark.parametrize("shape", [lambda y: 100 + 20 * y, np.exp, lambda y: np.maximum(y, 0)], ids=["", "exp", "0"])
def test_a_continuum_is_learned_alike_in_any_shape(shape):
    log, f = world(cuts=())
    log, liked_from = log._replace(ratings=shape(log.ratings)), float(shape(np.sort(log.ratings))[1400])
    posterior = sample(Problem(log, PLAIN, liked_from=liked_from)).posterior
    u, i = every_pair()
    truth = ndtr(f.ravel() - np.sort(world(cuts=())[0].ratings)[1400])
    p, expected = posterior.probability(u, i), posterior.expected(u, i)
    assert np.mean((p - truth) ** 2) < 0.3 * truth.var()
    assert abs(p.mean() - truth.mean()) < 0.02
    draws = shape(f[..., None] + np.random.default_rng(0).standard_normal(400)).mean(-1).ravel()  # what is expected
    assert abs(expected.mean() - draws.mean()) < 0.15 * draws.std()
    assert np.corrcoef(expected, draws)[0, 1] > 0.7
    levels = posterior.levels(u, i)
    np.testing.assert_allclose(levels[:, posterior.ratings.starts >= liked_from].sum(1), p, atol=1e-12)
    folded = posterior.folded(np.array([0, 5]), np.arange(5), shape(np.arange(5.0)))
    assert np.isfinite(folded.scores(np.full(60, 80), np.arange(60))).all()


def test_a_continuum_is_cut_by_ranks():
    ratings = np.random.default_rng(0).permutation(np.r_[np.zeros(300), 1 + np.arange(700) ** 3])
    found = Ratings.of(ratings, liked_from=1 + 500.0**3)
    levels = found.encode(ratings)
    assert found.starts[0] == 0
    assert found.starts[1] == 1
    assert 1 + 500.0**3 in found.starts
    assert found.encode(np.array([-5.0, 1e300])).tolist() == [0, len(found.values) - 1]
    assert np.bincount(levels)[0] == 300  # what is alike is one level
    assert np.bincount(levels)[1:].min() >= 1
    assert np.bincount(levels)[1:].max() <= 21  # of fifty, a twentieth of the log each
    np.testing.assert_allclose(found.values, [ratings[levels == k].mean() for k in range(len(found.values))])
    assert Ratings.of(np.r_[np.zeros(5000), 1:30.0]).starts.tolist() == [0, 1]  # never one level alone
    assert [len(Ratings.of(np.arange(n)).values) for n in (30, 200, 2000)] == [5, 10, 50]
    thresholds = np.linspace(-1, 1, len(found.values) - 1)
    assert found.threshold(1 + 500.0**3, thresholds) == thresholds[np.searchsorted(found.starts, 1 + 500.0**3) - 1]
    assert found.threshold(found.starts[3:5].mean(), thresholds) == pytest.approx(thresholds[2:4].mean())
    for wrong in (0.5, 1e12):
        with pytest.raises(ParameterError, match="leaves too few ratings on one side; choose a number from 1 to"):
            found.threshold(wrong, thresholds)


def fit_small(users, items, ratings, n_users, n_items, **features) -> Posterior:
    log = Pairs(users, items, n_users, n_items, ratings)
    posterior = sample(Problem(log, BayesianFactors(n_factors=3, sweeps=20), **features)).posterior
    u, i = every_pair(n_users, n_items)
    for answer in (posterior.probability(u, i), posterior.std(u, i), posterior.logits(u, i)):
        assert np.isfinite(answer).all()
    return posterior


def test_ratings_that_teach_nothing_are_refused():
    with pytest.raises(DataError, match="all 10 ratings are 3"):
        fit_small(np.zeros(10, int), np.arange(10), np.full(10, 3.0), 1, 50)


def test_contexts_move_scores_up_where_more_is_liked():
    log, f = world(n=3000, cuts=(0.0,))
    context = np.arange(3000) % 3
    y = f[log.users, log.items] + 1.5 * (context == 2) + np.random.default_rng(1).standard_normal(3000)
    log = log._replace(ratings=(y > 0).astype(float), context=context)
    chain, s = (problem := Problem(log, PLAIN)).chain(6), problem.chain(6).sampler
    chain.run(8)
    for _ in range(8):  # of which the last is kept
        s.sweep()
    t, size = s.thresholds[1::3], gmean(s.user_side.scale) * gmean(s.item_side.scale)
    np.testing.assert_allclose(chain.sums["context"], (np.bincount(context) @ t / 3000 - t) / size)
    (note,) = (each for each in sample(Problem(log, replace(PLAIN, sweeps=60))).posterior.notes if "contexts" in each)
    low, high = (float(x) for x in re.findall(r"[-+]\d+\.\d\d", note))
    assert 0.5 < high - low < 2
    assert high > -1.5 * low  # one context up, two of them down by half as much


def test_tiny_and_odd_logs_give_finite_answers():
    rng, thirty = np.random.default_rng(0), np.arange(30)
    fit_small(0 * thirty, thirty, thirty % 3, 1, 30)
    fit_small(thirty, 0 * thirty, thirty % 2, 30, 1)
    ten = fit_small(np.arange(10) % 4, np.arange(10) % 5, np.arange(10) % 3, 4, 5)
    assert any("10 rows teach little" in note for note in ten.notes)
    log = world(n=100, cuts=(0.0,))[0]._replace(context=np.zeros(100, int))  # all in one place
    hundred = sample(Problem(log, replace(PLAIN, sweeps=8))).posterior
    assert not any("teach little" in note or "contexts" in note for note in hundred.notes)
    fit_small(rng.integers(9, size=60), rng.integers(9, size=60), rng.choice([1, 2, 1e300], 60), 9, 9)
    users, items = np.r_[np.zeros(100_000, int), 1, 1, 2, 2], np.r_[np.arange(100_000), 0, 1, 1, 2]
    busy = Pairs(users, items, 3, 100_000, np.arange(100_004) % 3)
    posterior = sample(Problem(busy, replace(PLAIN, sweeps=8))).posterior
    assert np.isfinite(posterior.probability(np.array([0, 1, 2]), np.array([5, 6, 7]))).all()


def test_a_fit_runs_until_its_answers_stand_still(monkeypatch):
    ran, run = [], Chain.run
    monkeypatch.setattr(Chain, "run", lambda chain, sweeps, bar=None: ran.append(sweeps) or run(chain, sweeps))
    for least, most, unsteady, expected in (
        (60, 85, 1e-4, [60]), (40, 55, 1.1e-4, [40, 10, 5]), (60, 85, 1.1e-4, [60, 12, 12, 1]),
    ):  # fmt: skip
        for name, given in (("least_sweeps", least), ("most_sweeps", most)):
            monkeypatch.setattr(defaults, name, lambda n, given=given: given)
        monkeypatch.setattr(Chain, "unsteadiness", lambda chain, unsteady=unsteady: unsteady)
        found = sample(Problem(world(n=300)[0], replace(PLAIN, sweeps=None))).posterior
        assert ran == expected
        assert any("would tell it better" in note for note in found.notes) == (unsteady > 1e-4)
        ran.clear()
    told = "85 sweeps were run, 35 kept: they tell a chance up to an error of 0.010; sweeps=170 would tell it better."
    assert told in found.notes


def test_columns_are_asked_of_logs_that_can_tell(monkeypatch):
    """Of 100 ratings, 3 users and 3 items; the history block of 20,000 and where who-saw-what has entered."""
    asked, fits, left, gain = set(), [], [], 0.0

    class Answer(NamedTuple):
        settings: BayesianFactors

        def log_likelihood(self, users, items, ratings):
            asked.update(name for name in ("exposure", "history") if getattr(self.settings, name))
            return np.full(len(users), gain * self.settings.exposure)

    monkeypatch.setattr(Problem, "without_fold", lambda problem, *_: fits.append(0) or Answer(problem.settings))
    monkeypatch.setattr(factors, "judged", lambda gain, folds: left.append(folds) or judged(gain, folds))
    sizes = {(12, 10, 99): 0, (12, 10, 100): 1, (2, 60, 100): 0, (3, 60, 100): 1, (60, 2, 100): 0}
    for (n_users, n_items, n), expected in (sizes | {(200, 150, 19_999): 1, (200, 150, 20_000): 2}).items():
        problem = Problem(world(n_users=n_users, n_items=n_items, n=n)[0], BayesianFactors())
        for gain in (0.0, 1.0):
            asked.clear()
            fits.clear()
            left.clear()
            chosen = choose_columns(problem, problem.folds())[0].settings
            assert len(asked) == (expected if gain else min(expected, 1))
            assert (chosen.exposure, chosen.history) == (bool(expected and gain), False)
            assert len(fits) == ((0, 2, 11) if gain else (0, 10, 10))[expected]  # fold by fold, until it is clear
            lasting = [4, 3, 2, 1, 0]  # folds that are left
            assert left == ([[], [4], [4, *lasting]] if gain else [[], lasting, lasting])[expected]


def test_defaults_stand_as_they_were_frozen():
    d = defaults
    assert (d.FACTORS, d.PRIOR_SCALE, d.COLUMN_PRIOR, d.SCALE_SHAPE, d.THRESHOLD_SD) == (16, 1, (0.1, 0.001), 5, 5)
    assert (d.MOST_LEVELS, d.LEVELS, d.FEWEST_LEVELS, d.RATINGS_A_LEVEL) == (20, 50, 5, 20)
    assert (d.EDGE, d.MOST_DIRECTIONS) == (1.05, 16)
    assert (d.STOP_BELOW, d.THIN, d.FOLDS, d.STANDARD_ERRORS, d.UNEXPLAINED) == (1e-4, 2, 5, 2, 0)
    assert (d.HISTORY_COLUMNS, d.RANK_LOSS, d.MOST_RANK, d.SHOTS, d.LOWER, SWEEPS, BURN) == (
        128,
        5e-4,
        96,
        8,
        1.64,
        20,
        5,
    )
    sweeps = {7_000: (250, 500, 50), 19_999: (250, 500, 50), 20_000: (250, 500, 83), 200_000: (150, 300, 50)}
    for n, expected in (sweeps | {1_000_000: (40, 80, 20)}).items():
        assert (d.least_sweeps(n), d.most_sweeps(n), fold_sweeps(n)) == expected
    assert [d.burn_in(n) for n in (100, 160, 300)] == [25, 40, 40]
    for name, least, most in (("n_factors", 1, 256), ("sweeps", 8, 10**6)):
        assert all(BayesianFactors(**{name: end}) for end in (least, most))
        for wrong in (least - 1, most + 1):
            with pytest.raises(ParameterError, match=name):
                BayesianFactors(**{name: wrong})
    assert (SHOT_BYTES, EXPERTS, TENTHS, d.LARGE, d.FEWEST_USERS) == (64e6, 5, 10, 2e6, 4000)


def test_odd_features_are_counted():
    users, items, _, _, ratings, _ = world(n=300)[0]
    rng = np.random.default_rng(0)
    x = rng.standard_normal((80, 1))
    odd = np.c_[x, x, np.ones(80), 1e300 * x, rng.standard_normal((80, 200))]
    notes = fit_small(users, items, ratings, 80, 60, user_features=odd).notes
    assert any("1 of 204 columns of features are constant" in note for note in notes)


def test_histories_of_many_and_of_few_have_one_size():
    users = np.repeat([0, 1], [400, 4])
    items = np.r_[np.arange(400), np.arange(4)]
    of_users, of_items = history(Pairs(users, items, 2, 400), 0)
    np.testing.assert_allclose(np.square(of_users).mean(axis=1), 1, atol=0.4)
    np.testing.assert_allclose(np.square(of_items).mean(), 1, atol=0.1)
