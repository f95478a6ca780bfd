"""Platt maps, experts and reports: recovered exactly, equal where they must be equal, better on rows not fitted."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, logit, softmax

from unskew.calibration import experts, platt
from unskew.calibration.experts import ExpertPlatt, assigned, gumbel, mixture_slopes
from unskew.calibration.platt import (
    SMALLEST_SLOPE,
    Examples,
    GlobalPlatt,
    PlattMaps,
    UserPlatt,
    examples_for,
    one_map,
    scalar_platt,
    solve_platt,
)
from unskew.calibration.report import report_of
from unskew.testing.worlds import listed_view


def examples(n=4000, n_users=40, a=1.0, b=0.0, seed=0, labels=None, weights=None, vectors=None):
    """Logits whose calibrated probability is sigmoid(a s + b); a and b may be one value a user."""
    rng = np.random.default_rng(seed)
    users = rng.integers(n_users, size=n)
    s = rng.normal(-1, 1.5, n)
    a, b = (np.broadcast_to(x, n_users)[users] for x in (a, b))
    labels = expit(a * s + b) if labels is None else labels
    weights = np.ones(n) if weights is None else weights
    vectors = rng.normal(size=(n_users + 1, 3)).astype(np.float32) if vectors is None else vectors
    return Examples(s, labels, weights, users, vectors)


def grouped(seed, n_users=200, n=6000):
    """Two groups of users, visible in their vectors, whose model is over- and under-confident; truth and groups."""
    rng = np.random.default_rng(seed)
    group = np.arange(n_users + 1) % 2
    vectors = np.column_stack([group * 2 - 1 + rng.normal(0, 0.3, n_users + 1), rng.normal(size=n_users + 1)])
    of_users = group[:-1]
    a, b = np.where(of_users, 0.4, 1.8), np.where(of_users, -1.0, 0.5)
    e = examples(n, n_users, a, b, seed, vectors=vectors.astype(np.float32))
    drawn = (rng.random(n) < e.labels).astype(float)
    return Examples(e.logits, drawn, e.weights, e.users, e.vectors), e.labels, of_users


@pytest.fixture
def rng():
    return np.random.default_rng(1)


def answers(fitted, e):
    return fitted.calibrated(e.logits, e.users)


def fit_of(spec, e, seed=0, **options):
    return spec.fit(e, rng=np.random.default_rng(seed), **options)


@pytest.mark.parametrize("seed", range(12))
def test_newton_recovers_maps_of_logits_that_are_far_too_sure(seed):
    """Where all are near 0 or 1 a whole step leads away."""
    e = examples(n=400, seed=seed)
    s = np.clip(10 * e.logits + 10, -30, 30)
    assert scalar_platt(replace(e, logits=s, labels=expit(0.05 * s + 0.2))) == pytest.approx((0.05, 0.2), abs=1e-6)


@pytest.mark.parametrize("ridge", [0.0, 30.0])
def test_newton_agrees_with_a_general_optimiser(ridge, rng):
    e = examples(a=0.7, b=0.3, weights=rng.exponential(size=4000))
    labels = (rng.random(4000) < e.labels).astype(float)
    e = examples(labels=labels, weights=e.weights)
    w, centre = e.weights / e.weights.mean(), (0.5, 0.1)

    def loss(x):
        z = x[0] * e.logits + x[1]
        return (w * (np.logaddexp(0, z) - labels * z)).sum() + ridge / 2 * ((x - np.array(centre)) ** 2).sum()

    found = minimize(loss, [1.0, 0.0], tol=1e-12).x
    ours = solve_platt(e, ridge=ridge, centre=centre)
    np.testing.assert_allclose(np.concatenate(ours), found, atol=1e-5)
    np.testing.assert_array_equal(scalar_platt(few := e.take(np.arange(30))), np.ravel(solve_platt(few, ridge=0.0)))


def test_the_steps_are_newtons(monkeypatch):
    """As many as it takes if each squares how far off the last one was: with another curvature they were more."""
    e, taken = examples(a=0.7, b=0.3, weights=np.linspace(0.1, 2, 4000)), []
    monkeypatch.setattr(platt, "sigmoid", lambda z: taken.append(0) or expit(z))
    counts = []
    for solve in (lambda: solve_platt(e, ridge=3.0, centre=(0.5, 0.1)), lambda: e.shift(e.logits, 0.5)):
        taken.clear()
        solve()
        counts.append(len(taken))
    assert counts == [5, 5]


def test_a_mean_that_no_shift_reaches_is_met_as_nearly_as_by_60():
    for label in (0.0, 1.0):
        e = replace(examples(n=5), labels=np.full(5, label))
        assert e.shift(np.full(5, 30 - 60 * label), label) == pytest.approx(120 * label - 60)


def test_slopes_stay_positive_against_the_data():
    a, b = scalar_platt(examples(a=-1.0))
    assert a == pytest.approx(SMALLEST_SLOPE)
    assert np.isfinite(b)


ALL = [GlobalPlatt(), GlobalPlatt(slope=False), UserPlatt()]
ALL += [ExpertPlatt(assignment=assignment) for assignment in ("hard", "random")]


@pytest.mark.parametrize("spec", ALL, ids=repr)
def test_the_calibrated_mean_is_that_of_the_labels(spec, rng):
    e = examples(labels=rng.random(4000), weights=rng.exponential(size=4000))
    fitted, line = spec.fit(e, rng=rng), np.linspace(-5, 5, 41, dtype=np.float32)
    assert (e.shares * answers(fitted, e)).sum() == pytest.approx(e.target_mean, abs=1e-6)
    for user in (-1, 0, 39):
        assert (np.diff(fitted.calibrated(line, np.full(41, user))) >= 0).all()  # the order stays


@pytest.mark.parametrize("spec", ALL[2:-1], ids=repr)
def test_new_users_are_calibrated_as_unknown_ones(spec, rng):
    fitted = spec.fit(examples(labels=rng.random(4000)), rng=rng)
    longer, s = fitted.extended(np.array([3, 0])), np.linspace(-3, 3, 9, dtype=np.float32)
    for user in (40, 41, -1):
        np.testing.assert_array_equal(longer.calibrated(s, np.full(9, user)), fitted.calibrated(s, np.full(9, -1)))


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-6), (np.float64, 1e-14)])
def test_a_mixture_of_maps_is_its_formula(dtype, tolerance, rng):
    tables = [rng.normal(size=(rows, 3)).astype(np.float32) for rows in (6, 6, 1)]
    s, users = rng.normal(0, 20, 500).astype(dtype), rng.integers(-1, 5, 500)
    w, a, b = (table[users % len(table)] for table in tables)
    expected = (w * expit(a * np.clip(s.astype(float), -30, 30)[:, None] + b)).sum(1)
    found = PlattMaps(*tables, 0).calibrated(s, users)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, expected, atol=tolerance)


def test_groups_are_solved_as_if_each_were_alone():
    e = examples(a=np.linspace(0.3, 2, 40), b=np.linspace(-1, 1, 40))
    a, b = solve_platt(e, e.users, 40)
    for user in (0, 17, 39):
        alone = solve_platt(e.take(np.flatnonzero(e.users == user)))
        np.testing.assert_allclose([a[user], b[user]], np.concatenate(alone), atol=1e-6)


def test_the_ridge_draws_users_to_the_global_map(rng):
    e = examples(n=400, a=np.linspace(0.3, 2, 40))
    a, _ = scalar_platt(e)
    heavy, light = (UserPlatt(ridge=r, step_back=False).fit(e, rng=rng).state()["slopes"] for r in (1e9, 1e-6))
    np.testing.assert_allclose(heavy, a, atol=1e-4)
    assert np.abs(light - a).max() > 0.3


def test_maps_of_few_examples_keep_the_mean_of_pairs_left_out(rng):
    """Labels of these play no part, nor users whom the maps know nothing of; without any, examples take their place."""
    e, left_out, others = (labelled(examples(n=n, n_users=600, seed=n), rng, b=-4) for n in (1800, 40_000, 40_001))
    e, spec = e.take(np.flatnonzero(e.users < 500)), UserPlatt(ridge=0.1, step_back=False)
    common = GlobalPlatt(step_back=False).fit(e, rng=rng)
    own, blind = (spec.fit(e, given, rng=rng) for given in (left_out, replace(left_out, labels=1 - left_out.labels)))
    for name, table in own.state().items():
        np.testing.assert_array_equal(table, blind.state()[name])
    means = [(x.shares * x.calibrated(maps)).sum() for x in (left_out, others) for maps in (own, common)]
    assert means[0] == pytest.approx(means[1], abs=1e-6)
    assert means[2] == pytest.approx(means[3], rel=0.04)
    by_examples = others.calibrated(spec.fit(e, rng=rng)).mean()
    assert by_examples < 0.92 * means[3]
    nobody = left_out.take(np.flatnonzero(left_out.users >= 500))
    assert others.calibrated(spec.fit(e, nobody, rng=rng)).mean() == by_examples


def test_a_user_without_examples_has_the_global_map(rng):
    e = examples(labels=rng.random(4000)).take(np.arange(20))
    missing = np.setdiff1d(np.arange(-1, 40), e.users)
    s = np.linspace(-3, 3, len(missing), dtype=np.float32)
    ours, common = (
        spec.fit(e, rng=rng).calibrated(s, missing)
        for spec in (UserPlatt(step_back=False), GlobalPlatt(step_back=False))
    )
    np.testing.assert_array_equal(ours, common)


def test_examples_stand_for_all_pairs():
    """Seen pairs at the true base rate for the propensity, ratings weighted by 1/p for the imputation."""
    seen, p, q = np.arange(10) % 3 == 0, np.linspace(0.02, 0.6, 10), np.linspace(0.2, 0.9, 10)
    ratings, roles = np.linspace(0, 1, 10), {"propensity": p, "imputation": q}
    view = listed_view(seen, ratings, roles, clips={"propensity": 0.05}, cells=(2.5, 4.0))
    view.parts["propensity"].user_vectors = lambda users: users[:, None]
    e = examples_for("propensity", view, 3)
    assert e.vectors.tolist() == [[0], [1], [2], [-1]]  # the last is that of unknown users
    assert e.weights.tolist() == [2.5] * 4 + [4.0] * 6
    assert e.target_mean == pytest.approx(10 / 34)
    np.testing.assert_allclose(e.logits, logit(np.append(p[seen], p[~seen])))
    e = examples_for("imputation", view, 3)
    np.testing.assert_allclose(e.weights, 1 / np.maximum(p[seen], 0.05))
    np.testing.assert_array_equal(e.labels, ratings[seen])
    np.testing.assert_allclose(e.logits, logit(q[seen]))


def labelled(e, rng, a=1.0, b=0.0):
    return replace(e, labels=(rng.random(len(e)) < expit(a * e.logits + b)).astype(float))


def test_the_loss_of_maps_is_the_weighted_mean_of_the_log_loss(rng):
    e = labelled(examples(weights=rng.exponential(size=4000)), rng, a=0.5)
    p = answers(fitted := fit_of(GlobalPlatt(), e), e)
    by_hand = -np.average(e.labels * np.log(p) + (1 - e.labels) * np.log(1 - p), weights=e.weights)
    assert e.loss(fitted) == pytest.approx(by_hand, rel=1e-6)
    sure = replace(e, logits=np.where(e.labels > 0, 99.0, -99.0))  # as sure as a map can be
    assert sure.loss(one_map()) == pytest.approx(1e-7)
    assert replace(sure, labels=1 - sure.labels).loss(one_map()) == pytest.approx(-np.log(1e-7), rel=1e-3)


def test_a_calibrator_that_makes_things_worse_steps_back(rng):
    """Users who are alike, with few ratings each: a map for each user memorises them."""
    spec = UserPlatt(ridge=0.01)
    for move, word in ((0.0, "no calibration"), (2.0, "a shift of the logit")):
        e, held_out = labelled(examples(n=300, n_users=100), rng, b=move), examples(b=move, seed=1)
        first = spec.fit(e, held_out, rng=rng)
        assert first.n_parameters == (move > 0)
        assert first.state()["slopes"].shape == (1, 1)
        expected = expit(e.logits + (first.state()["intercepts"][0, 0] if move else 0.0))
        np.testing.assert_allclose(answers(first, e), expected, atol=1e-6)
        assert f"{word} takes its place" in first.notes[0]
        assert not replace(spec, step_back=False).fit(e, held_out, rng=rng).notes
        assert not GlobalPlatt().fit(labelled(held_out, rng, a=0.4), labelled(held_out, rng, a=0.4), rng=rng).notes
        assert spec.fit(e.take(rng.permutation(300)), held_out, rng=rng).notes == first.notes


def test_what_is_as_good_as_the_simple_map_stays(rng):
    e = labelled(examples(b=1.0), rng, b=1.0)
    fitted = GlobalPlatt(slope=False).fit(e, e, rng=rng)
    assert (fitted.notes, fitted.stepped_back) == ((), False)


def test_what_was_stepped_back_from_is_tried_again(rng):
    """At its fits 2, 4, 8 and so on, though by then it would help."""
    alike, differing = (labelled(examples(n=4000, seed=2), rng, a=a) for a in (1.0, 0.2))
    spec, few = GlobalPlatt(), alike.take(np.arange(8))
    fitted, tried = spec.fit(few, alike, rng=rng, planned=0.1), []
    assert fitted.stepped_back
    for number in range(2, 9):
        examples_now = few if number == 2 else differing
        fitted = spec.fit(examples_now, alike if number == 2 else differing, rng=rng, planned=0.2, previous=fitted)
        tried.append(not fitted.stepped_back)
    assert tried == [False, False, True, True, True, True, True]


def test_examples_of_some_users_are_all_of_theirs(rng):
    e = examples(n=4000, n_users=40)
    assert e.of_some_users(4000, rng) is e
    assert len(np.unique(e.of_some_users(1, rng).users)) == 2  # at least
    some = e.of_some_users(1000, rng)
    assert 800 < len(some) <= 1000
    for user in np.unique(some.users):
        np.testing.assert_array_equal(some.logits[some.users == user], e.logits[e.users == user])


# Experts


def noisy_loss(maps, gate, s, y, w, users, inputs, noise, tau):
    """The cross-entropy of the mixture under given Gumbel noise, in NumPy."""
    scores = (inputs @ gate.T + noise.T) / tau
    beta = np.exp(scores - scores.max(1, keepdims=True))
    beta /= beta.sum(1, keepdims=True)
    p = expit(np.exp(maps[:, 0]) * s[:, None] + maps[:, 1])
    m = np.clip((beta[users] * p).sum(1), experts.INSIDE, 1 - experts.INSIDE)
    return -(w * (y * np.log(m) + (1 - y) * np.log(1 - m))).sum()


@pytest.mark.parametrize("tau", [1.0, 0.2])
def test_the_slopes_are_central_differences(tau, rng):
    n, n_users, k = 120, 9, 3
    s, y, w, users = rng.normal(size=n), rng.random(n), rng.random(n), np.sort(rng.integers(n_users, size=n))
    inputs, noise = rng.normal(size=(n_users, 4)), rng.gumbel(size=(k, n_users))
    maps, gate = rng.normal(size=(k, 2)), rng.normal(size=(k, 4))
    s[:20] *= 1000  # what is held within bounds moves nothing
    beta = assigned(inputs, gate, noise, tau)
    found = mixture_slopes(s, y, w, users, inputs, beta, maps, tau)
    for table, slopes in zip((maps, gate), found, strict=True):
        for place in np.ndindex(table.shape):
            ends = []
            for step in (1e-5, -1e-5):
                moved = table.copy()
                moved[place] += step
                both = (moved, gate) if table is maps else (maps, moved)
                ends.append(noisy_loss(*both, s, y, w, users, inputs, noise, tau))
            assert slopes[place] == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=1e-7)


def test_experts_are_chosen_by_standardised_vectors(rng):
    vectors = (5 + [2, 0.5, 0.2] * rng.normal(size=(200, 3))).astype(np.float32)
    found = experts.Mixture.start(2, (1.0, 0.0), vectors, rng).inputs(vectors)
    np.testing.assert_allclose(found.mean(axis=0), [0, 0, 0, 1], atol=1e-5)
    np.testing.assert_allclose(found.std(axis=0), [1, 1, 1, 0], atol=1e-5)


def test_cold_draws_choose_as_often_as_the_assignment(rng):
    """With tau -> 0 the chosen expert is argmax(log alpha + g), whose frequencies are alpha."""
    alpha = np.array([0.5, 0.3, 0.15, 0.05], np.float32)
    noise = gumbel(rng, (4, 40_000))
    beta = assigned(np.ones((40_000, 1), np.float32), np.log(alpha)[:, None], noise, np.float32(1e-3))
    np.testing.assert_allclose(np.bincount(beta.argmax(0)) / 40_000, alpha, atol=0.01)
    np.testing.assert_allclose(beta.sum(0), 1, atol=1e-5)


def test_the_assignment_at_rest_is_the_softmax_of_its_gate(rng):
    vectors = rng.normal(size=(20, 3)).astype(np.float32)
    mixture = experts.Mixture.start(4, (1.0, 0.0), vectors, rng)
    mixture.gate.value[:] = rng.normal(size=mixture.gate.value.shape)
    expected = softmax(mixture.inputs(vectors) @ mixture.gate.value.T, axis=1)
    np.testing.assert_allclose(mixture.assignment(vectors), expected, rtol=1e-5)


def test_experts_start_near_the_common_map_and_shrinkage_counts_in_examples(rng, monkeypatch):
    """Slopes are per example: `shrinkage` of them stand against as many as the weights leave."""
    e = replace(grouped(0)[0].in_order(), weights=rng.exponential(size=6000))
    many = experts.Mixture.start(4000, (0.5, 0.2), e.vectors, rng)
    assert many.maps.value.mean(0) == pytest.approx([np.log(0.5), 0.2], abs=0.01)
    assert [many.maps.value.std(0).mean(), many.gate.value.std()] == pytest.approx([0.1, 0.01], rel=0.05)
    mixture, found, moved = experts.Mixture.start(3, (0.5, 0.2), e.vectors, rng), [], []
    monkeypatch.setattr(experts, "mixture_slopes", lambda *own: found.extend(mixture_slopes(*own)) or found)
    monkeypatch.setattr(experts.Table, "move", lambda table, slopes, rate: moved.append(slopes))
    mixture.descend(e, (0.5, 0.2), 1, ExpertPlatt(n_experts=3, shrinkage=7.0), rng)
    share = 7 * (e.weights**2).sum() / e.weights.sum() ** 2
    for slopes, own, away in zip(
        moved, found, (mixture.maps.value - [np.log(0.5), 0.2], mixture.gate.value), strict=True
    ):
        np.testing.assert_allclose(slopes, own + share * away, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("assignment", ["hard", "random"])
def test_one_expert_is_the_global_map(assignment, rng):
    """In a single fit and in one after an epoch, and whether or not it steps back."""
    for labels in (rng.random(4000), None):
        e = examples(a=0.5, b=0.3, labels=labels)
        one, everybody = ExpertPlatt(n_experts=1, assignment=assignment), GlobalPlatt()
        for planned in (1.0, 0.2):
            found = (answers(fit_of(spec, e, planned=planned), e) for spec in (one, everybody))
            np.testing.assert_allclose(*found, atol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_experts_find_groups_that_err_in_different_ways(seed):
    e, truth, group = grouped(seed)
    specs = ExpertPlatt(n_experts=2), GlobalPlatt(), UserPlatt()
    by_experts, common, by_user = (np.abs(answers(fit_of(spec, e, seed), e) - truth).mean() for spec in specs)
    assert by_experts < 0.6 * common
    assert by_experts < 0.8 * by_user
    slopes = fit_of(specs[0], e, seed).state()["slopes"][:-1, 0]
    agreement = ((slopes > slopes.mean()) == (group == 0)).mean()
    assert agreement > 0.95


@pytest.mark.parametrize("n", [350, 6000])
@pytest.mark.parametrize("seed", range(3))
def test_order_and_rounding_do_not_choose_the_experts(n, seed):
    """Refits as after epochs, on few examples and on many, with five experts for two groups of users."""
    e, _, _ = grouped(seed, n=n)
    order, spec = np.random.default_rng(9).permutation(n), ExpertPlatt(step_back=False)
    scaled = (replace(e, vectors=e.vectors * np.float32(by)) for by in (1 + 1e-6, 64))
    found = []
    for changed in (e, e.take(order), *scaled):
        fitted = None
        for planned in (0.1, 0.2, 0.3):
            fitted = spec.fit(changed, rng=np.random.default_rng(seed), planned=planned, previous=fitted)
        found += [answers(fitted, e), answers(spec.fit(changed, rng=np.random.default_rng(seed)), e)]
    for number in range(2, 8):
        assert np.abs(found[number] - found[number % 2]).mean() < (1e-9 if number < 4 else 0.005)


def test_each_fit_ends_cold_and_hard(monkeypatch, rng):
    e, _, _ = grouped(0)
    taus, rates, move = [], [], experts.Table.move
    monkeypatch.setattr(experts, "mixture_slopes", lambda *given: taus.append(given[-1]) or mixture_slopes(*given))
    monkeypatch.setattr(experts.Table, "move", lambda *given: rates.append(given[-1]) or move(*given))
    fitted = ExpertPlatt(steps=40, step_back=False).fit(e, rng=rng)
    later = ExpertPlatt(steps_per_epoch=20, step_back=False).fit(e, rng=rng, planned=0.1, previous=fitted)
    assert [len(taus), taus[39], taus[59]] == [60, pytest.approx(1e-3), pytest.approx(1e-3)]
    assert taus[0] > 0.5 < taus[40]
    assert rates == pytest.approx([0.3 * tau**2 for tau in taus for _ in ("maps", "gate")])
    assert later.state()["weights"].shape == (1, 1)


def test_a_collapsed_assignment_is_counted_and_noted(rng):
    e, _, _ = grouped(0)
    blind = Examples(e.logits, e.labels, e.weights, e.users, np.zeros_like(e.vectors))
    fitted = ExpertPlatt(n_experts=3, step_back=False).fit(blind, rng=rng)
    assert "collapsed" in fitted.notes[0]
    assert not fit_of(ExpertPlatt(n_experts=1, steps=1), e).notes
    one = np.ones((1, 1))
    usages = ((0.99, 0.01), (0.991, 0.009), (1.0,))
    shared = [bool(PlattMaps(one, one, one, 0, usage=usage).notes) for usage in usages]
    assert shared == [False, True, False]  # more than 99% with one expert of several
    seeing = ExpertPlatt(n_experts=2).fit(e, rng=rng)
    assert not seeing.notes
    assert 0.5 < seeing.entropy <= 1  # of the largest
    assert seeing.usage.sum() == pytest.approx(1)


def test_random_experts_stay_with_their_users(rng):
    e = examples(n=3000, n_users=200, labels=rng.integers(0, 2, 3000).astype(float))
    spec = ExpertPlatt(n_experts=4, assignment="random", step_back=False)
    first = spec.fit(e, rng=np.random.default_rng(1))
    later = spec.fit(e, rng=np.random.default_rng(1), planned=0.5, previous=first)
    before, after = (fitted.state()["intercepts"][:-1, 0] for fitted in (first, later))
    np.testing.assert_array_equal(before, after)
    assert len(before) == 200
    shares = np.unique(before, return_counts=True)[1] / 200
    assert len(shares) == 4
    assert (abs(shares - 0.25) < 0.12).all()


def test_defaults_stand_as_figures_were_found_by_them():
    settings = {"n_experts": 5, "steps": 100, "steps_per_epoch": 30, "learning_rate": 0.3, "shrinkage": 20, "ridge": 1}
    assert ExpertPlatt() == ExpertPlatt(**settings, assignment="hard", step_back=True)
    assert UserPlatt() == UserPlatt(ridge=1)
    assert (experts.MOST_EXAMPLES, experts.MOST_SOLVED, experts.MOST, platt.LARGEST_LOGIT) == (2**14, 2**17, 10**6, 30)


def test_parameters_are_counted():
    e, _, _ = grouped(0)
    least = {"steps": 1, "steps_per_epoch": 1, "shrinkage": 0, "ridge": 0}  # the smallest of each setting
    specs = ExpertPlatt(n_experts=5, **least), GlobalPlatt(), UserPlatt(ridge=0, step_back=False)
    assert [fit_of(spec, e).n_parameters for spec in specs] == [5 * (2 + 3), 2, 2 * 200]


# Reports


@pytest.mark.parametrize("calibrator", [GlobalPlatt(), ExpertPlatt(n_experts=2)], ids=repr)
def test_overconfident_parts_get_better_on_other_rows(calibrator):
    rng, n = np.random.default_rng(0), 12_000
    p, q = (rng.normal(mean, 1, (2, n)) for mean in (-1.5, 0.5))  # logits of seen, and of liked
    seen, liked = (rng.random((2, n)) < expit(z) for z in (p, q))
    roles = ({"propensity": expit(2 * p[half] + 1), "imputation": expit(3 * q[half])} for half in (0, 1))
    fitted_on, other = (listed_view(seen[half], liked[half], given) for half, given in enumerate(roles))
    other.parts.calibrators = {role: f"{role}_calibrator" for role in ("propensity", "imputation")}
    for role, name in other.parts.calibrators.items():
        examples = examples_for(role, fitted_on, n)
        other.parts.parts[name] = calibrator.fit(examples, rng=np.random.default_rng(1))
    report = report_of(other)
    for role in other.parts.calibrators:
        assert report[role].role == role
        assert report[role].after.expected_error < 0.5 * report[role].before.expected_error
        assert report[role].after.mean == pytest.approx(report[role].target_mean, abs=0.03)
        assert f"{role}: ECE" in str(report)
    assert ("experts have" in str(report)) == isinstance(calibrator, ExpertPlatt)
