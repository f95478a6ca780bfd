"""Random ratings: what is learned from them, what is reported, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

import unskew
from unskew import DataError, load
from unskew.data.scale import Scale
from unskew.selection import random_ratings
from unskew.selection.random_ratings import PRIOR, Line, fit_line, learn

SHORT = unskew.Training(max_epochs=30, progress=False)
NAIVE = unskew.Naive(net=unskew.MF(n_factors=2, init_std=0.1))
STRENGTH = 0.9  # of a rating's own influence on being seen: about the log of the odds, where seeing is rare


def drawn(n, seed, slope=1.0, shift=0.0):
    """What a model answers about n random pairs, and ratings by a line of its logits."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(0.3, 1.2, n)
    return expit(logits), (rng.random(n) < expit(slope * logits + shift)).astype(float), logits


@pytest.mark.parametrize("slope", [False, True])
def test_a_line_is_at_the_top_of_the_posterior(slope):
    _, ratings, logits = drawn(300, 0, slope=0.6, shift=-0.5)
    found = fit_line(logits, ratings, slope=slope)

    def density(log_slope, shift):
        p = expit(np.exp(log_slope) * logits + shift)
        likelihood = (ratings * np.log(p) + (1 - ratings) * np.log(1 - p)).sum()
        return likelihood - ((np.array([log_slope, shift]) / PRIOR) ** 2).sum() / 2

    at = np.log(found.slope), found.shift
    steps = [(0, 0.01), (0, -0.01), *([(0.01, 0), (-0.01, 0)] if slope else [])]
    assert all(density(*at) > density(at[0] + da, at[1] + db) for da, db in steps)
    assert slope or found.slope == 1


def test_the_gain_is_that_of_ratings_left_out(monkeypatch):
    monkeypatch.setattr(random_ratings, "N_FOLDS", 40)  # each is left out by itself, so the folds do not matter
    answers, ratings, logits = drawn(40, seed=1, shift=-0.8)
    _, (shift, _) = learn("prediction", answers, ratings, seed=0)
    gain, rows = 0.0, np.arange(40)
    for row in rows:
        line = fit_line(logits[rows != row], ratings[rows != row], slope=False)
        p, q = expit(logits[row] + line.shift), answers[row]
        gain += np.log(p / q) if ratings[row] else np.log((1 - p) / (1 - q))
    assert shift.kind == "shift"
    assert shift.gain == pytest.approx(gain, abs=1e-6)


def test_fifty_pay_where_a_shift_is_needed_and_cost_little_elsewhere():
    for true, least, most in ((0.0, 0.0, 0.003), (-0.7, -0.02, -0.008)):
        change = []
        for seed in range(25):
            answers, ratings, _ = drawn(50, seed, shift=true)
            line, _ = learn("prediction", answers, ratings, seed=0)
            everybody, _, logits = drawn(4000, 1000 + seed)
            truth = expit(logits + true)
            change.append(np.mean((line(everybody) - truth) ** 2) - np.mean((everybody - truth) ** 2))
        assert least <= np.mean(change) <= most


def test_what_gains_nothing_out_of_fold_changes_no_bit():
    answers, ratings, _ = drawn(400, 5)
    line, found = learn("prediction", answers, ratings, seed=0)
    assert max(each.gain for each in found) < 0
    assert line == Line()
    assert line(answers) is answers or (line(answers) == answers).all()
    assert learn("prediction", *drawn(9, 0)[:2], seed=0) == (Line(), ())  # fewer than ten are not asked


@pytest.fixture(scope="module")
def world():
    return unskew.simulate(
        200, 150, density=0.06, selection="rating", strength=STRENGTH, n_factors=2, test_per_user=10, seed=3
    )


@pytest.fixture(scope="module")
def naive(world):
    return NAIVE.fit(world.log, seed=1, training=SHORT)


@pytest.fixture(scope="module")
def corrected(world, naive):
    return naive.with_random_ratings(world.test)


@pytest.fixture(scope="module")
def graded(world):
    stars = Scale(positive=None, low=1, high=5)

    def in_stars(log):
        unit = np.round(4 * world.preference(log.users, log.items) + log.ratings - 0.5).clip(0, 4) / 4
        return replace(log, ratings=unit.astype(np.float32), scale=stars)

    return in_stars(world.log), in_stars(world.test)


def everywhere(world):
    return np.divmod(np.arange(world.n_pairs), world.n_items)


def test_fitting_with_them_is_fitting_without_and_learning_after(world, naive, corrected):
    fitted = NAIVE.fit(world.log, seed=1, training=SHORT, random_ratings=world.test)
    pairs = everywhere(world)
    np.testing.assert_array_equal(fitted.predict_codes(*pairs), corrected.predict_codes(*pairs))
    np.testing.assert_array_equal(replace(fitted, corrections={}).predict_codes(*pairs), naive.predict_codes(*pairs))
    assert naive.random_ratings is None
    assert not naive.corrections


def test_the_old_word_answers_with_a_warning(world, corrected):
    with pytest.warns(FutureWarning, match="unbiased= is called random_ratings= now"):
        fitted = NAIVE.fit(world.log, seed=1, training=SHORT, unbiased=world.test)
    assert fitted.corrections == corrected.corrections


def test_the_shift_of_a_rating_world_is_found_and_the_risk_falls(world, naive, corrected):
    shift = corrected.random_ratings.corrections[0]
    assert (shift.role, shift.kind) == ("prediction", "shift")
    assert shift.line.shift == pytest.approx(-STRENGTH, abs=0.3)
    assert world.risk(corrected.predict_codes) < world.risk(naive.predict_codes) - 0.02
    assert corrected.predict_codes(*everywhere(world)).mean() == pytest.approx(world.test.positive_rate, abs=0.01)


def test_graded_ratings_are_corrected_within_their_scale(graded, tmp_path):
    log, random = graded
    model = NAIVE.fit(log, training=SHORT, random_ratings=random)
    pairs = log.user_ids.take(log.users[:300]), log.item_ids.take(log.items[:300])
    assert model.predict(*pairs).min() >= 1
    assert model.predict(*pairs).max() <= 5
    answers = model.predict(random.user_ids.take(random.users), random.item_ids.take(random.items))
    assert answers.mean() == pytest.approx(1 + 4 * random.positive_rate, abs=0.03)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert (again.random_ratings, again.corrections) == (model.random_ratings, model.corrections)
    assert again.predict(*pairs).tobytes() == model.predict(*pairs).tobytes()


def test_unknown_users_and_items_are_counted_and_left_out(world, naive, corrected):
    test = world.test
    users, items = test.users.tolist(), test.items.tolist()
    more = unskew.RatingLog.from_arrays(
        [*users, 900, 901, 3], [*items, 0, 1, 700], [*test.ratings, 1, 1, 1], positive=1
    )
    found = naive.with_random_ratings(more)
    assert (found.random_ratings.n_unknown, found.random_ratings.n_ratings) == (3, len(test))
    assert "3 more are of users or items" in str(found.random_ratings)
    assert found.corrections == corrected.corrections
    seen = set(zip(world.log.users, world.log.items, strict=True))
    assert found.random_ratings.n_in_log == sum(pair in seen for pair in zip(users, items, strict=True))


def test_garbage_is_refused_with_a_sentence(world, naive, graded):
    nobody = unskew.RatingLog.from_arrays([900, 901], [0, 1], [0, 1], positive=1)
    with pytest.raises(DataError, match="The log holds the pairs of all"):
        naive.with_random_ratings(world.log)
    with pytest.raises(DataError, match="None of the 2 random ratings"):
        NAIVE.fit(world.log, random_ratings=nobody)
    with pytest.raises(DataError, match="graded from 1 to 5, and those of the log are binary"):
        naive.with_random_ratings(graded[1])


def test_the_imputation_is_corrected_too_and_naive_bayes_trains_by_them(world):
    model = unskew.DRJL(propensity=unskew.NaiveBayes()).fit(world.log, training=SHORT, random_ratings=world.test)
    assert {each.role for each in model.random_ratings.corrections} == {"prediction", "imputation"}
    pairs = world.test.users, world.test.items
    assert model.scores("imputation", *pairs).mean() == pytest.approx(world.test.positive_rate, abs=0.02)
