"""Lines learned from random ratings, and how far each is trusted."""

import numpy as np
import pytest
from scipy.special import expit

from unskew.errors import DataError
from unskew.unbiased import trust
from unskew.unbiased.family import BINARY, Family
from unskew.unbiased.learn import FEWEST, Said, learn, shift
from unskew.unbiased.lines import SHIFT, SLOPE, Lines, fit_line

STARS = Family(np.linspace(0, 1, 5), np.log([0.1, 0.3, 0.2, 0.3, 0.1]))


def drawn(n, seed, *, slope=1.0, intercept=0.0, n_users=30, vectors=None):
    """Random ratings of pairs of which a model says eta, where slope * eta + intercept is true."""
    rng = np.random.default_rng(seed)
    eta, users = rng.normal(-0.3, 1, n), rng.integers(n_users, size=n)
    bend = 0.0 if vectors is None else vectors[users, 0]
    ratings = (rng.random(n) < expit(slope * eta + intercept + bend)).astype(float)
    return Said(BINARY, eta, ratings, users, vectors)


def risk_beyond_the_best(said, lines, *, slope=1.0, intercept=0.0):
    """Mean squared distance to the truth over what the model says."""
    eta = np.random.default_rng(99).normal(-0.3, 1, 2000)
    truth = expit(slope * eta + intercept)
    return ((expit(lines(eta, np.zeros(2000, int))) - truth) ** 2).mean()


@pytest.mark.parametrize("family", [BINARY, STARS])
@pytest.mark.parametrize("slope", [False, True])
def test_a_line_is_where_the_posterior_density_has_its_top(family, slope):
    rng = np.random.default_rng(3)
    eta, ratings = rng.normal(0, 1, 60), family.levels[rng.integers(len(family.levels), size=60)]
    a, b = fit_line(family, eta, ratings, slope=slope)

    def density(a, b):
        wide = SHIFT / np.sqrt(family.variance(eta).mean())
        prior = ((a - 1) / SLOPE) ** 2 / 2 + (b / wide) ** 2 / 2
        return family.log_likelihood(a * eta + b, ratings).sum() - prior

    steps = [(0, 1e-4), (0, -1e-4)] + ([(1e-4, 0), (-1e-4, 0)] if slope else [])
    assert all(density(a, b) > density(a + da, b + db) for da, db in steps)
    assert slope or a == 1


@pytest.mark.parametrize("rating", [0.0, 1.0])
def test_ratings_that_are_all_the_same_move_a_line_only_so_far(rating):
    a, b = fit_line(BINARY, np.zeros(50), np.full(50, rating), slope=True)
    assert 1 < abs(b) < 5
    assert a == pytest.approx(1)


def test_weights_are_akaikes_with_half_the_prior_for_each_further_rival():
    elpd = np.array([-30.0, -29.0, -28.5])
    weight = np.exp(elpd) * [1, 1 / 2, 1 / 4]
    np.testing.assert_allclose(trust.trusted(elpd), weight / weight.sum())
    np.testing.assert_array_equal(trust.trusted(np.array([0.0, -9.0])), [1, 0])


def test_the_gain_of_a_use_is_that_of_ratings_left_out(monkeypatch):
    monkeypatch.setattr(trust, "N_FOLDS", 40)  # each rating is left out by itself, so the folds do not matter
    said = drawn(40, seed=1, intercept=-0.8)
    _, uses = learn("prediction", said, seed=0)
    alone, rows = 0.0, np.arange(40)
    for row in rows:
        left_out = said.take(rows == row)
        moved = left_out.log_likelihood(shift(said.take(rows != row)))
        alone += float((moved - left_out.log_likelihood(Lines.everybody())).sum())
    assert uses[0].what == "shift"
    assert uses[0].gain == pytest.approx(alone)


def test_a_slice_of_fifty_pays_where_a_shift_is_needed_and_costs_next_to_nothing_where_none_is():
    for intercept, least, most in ((0.0, 0.0, 0.0015), (-0.7, -0.02, -0.008)):
        change = []
        for seed in range(25):
            said = drawn(50, seed, intercept=intercept)
            lines, _ = learn("prediction", said, seed)
            before = risk_beyond_the_best(said, Lines.everybody(), intercept=intercept)
            change.append(risk_beyond_the_best(said, lines, intercept=intercept) - before)
        assert least <= np.mean(change) <= most


def test_with_many_ratings_the_right_line_is_found_and_trusted():
    lines, uses = learn("prediction", drawn(2400, 5, slope=0.6, intercept=-0.7), seed=0)
    assert (lines.slopes[0], lines.intercepts[0]) == pytest.approx((0.6, -0.7), abs=0.1)
    assert [use.what for use in uses] == ["shift", "line", "experts"]
    assert uses[1].trust > 0.99
    assert "2,500 ratings are needed" in uses[2].found


def test_experts_are_trusted_where_users_differ_and_unknown_users_have_the_common_line(monkeypatch):
    monkeypatch.setattr(trust, "N_FOLDS", 2)
    vectors = np.random.default_rng(2).choice([-1.0, 1.0], size=(40, 3)).astype(np.float32)
    said = drawn(1000, 3, intercept=-0.5, n_users=40, vectors=vectors)
    lines, uses = learn("prediction", said, seed=0)
    assert uses[2].trust > 0.99
    gap = lines(np.zeros(40), np.arange(40))
    assert gap[vectors[:, 0] > 0].mean() - gap[vectors[:, 0] < 0].mean() > 1.2  # in truth 2
    common = lines(np.zeros(1), np.array([-1]))
    assert gap.min() < common < gap.max()


def test_fewer_ratings_than_are_needed_change_nothing():
    lines, uses = learn("prediction", drawn(FEWEST - 1, 0, intercept=-3), seed=0)
    assert lines.changes_nothing
    assert uses[0].gain is None


def test_mixed_lines_say_the_mixture_of_what_lines_say():
    eta, users = np.linspace(-2, 2, 7), np.array([0, 1, 2, -1, 3, 1, 2])  # -1 is unknown, 3 came later
    parts = [Lines.everybody(), Lines.everybody(0.5, -1.0)]
    parts.append(Lines(np.array([1.0, 2.0, 0.3]), np.array([0.1, 0.2, -0.4]), np.array([1, 2, 1])))
    weights = np.array([0.2, 0.3, 0.5])
    expected = sum(w * part(eta, users) for w, part in zip(weights, parts, strict=True))
    np.testing.assert_allclose(Lines.mixed(parts, weights)(eta, users), expected)
    np.testing.assert_allclose(parts[2](eta, users)[[3, 4]], eta[[3, 4]] + 0.1)


def test_lines_that_do_not_fit_together_are_refused():
    with pytest.raises(DataError, match="expert 2"):
        Lines(np.ones(2), np.zeros(2), np.array([1, 2]))
