"""Models and random ratings: what is learned, what is reported, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest

import unskew
from unskew.data.scale import Scale
from unskew.errors import DataError, ParameterError
from unskew.files.model import load

SHORT = unskew.Training(max_epochs=30, progress=False)
NAIVE = unskew.Naive(net=unskew.MF(n_factors=2, spread=0.1))
STRENGTH = 0.9  # of a rating's own influence on being seen: about the log of the odds, where seeing is rare


@pytest.fixture(scope="module")
def world():
    return unskew.simulate(
        200, 150, density=0.06, selection="rating", strength=STRENGTH, n_factors=2, test_per_user=10, seed=3
    )


@pytest.fixture(scope="module")
def naive(world):
    return NAIVE.fit(world.log, seed=1, training=SHORT)


@pytest.fixture(scope="module")
def informed(world, naive):
    return naive.with_slice(world.test)


@pytest.fixture(scope="module")
def graded(world):
    stars = Scale(positive=None, low=1, high=5)

    def in_stars(log):
        unit = np.round(4 * world.preference(log.users, log.items) + log.ratings - 0.5).clip(0, 4) / 4
        return replace(log, ratings=unit.astype(np.float32), scale=stars)

    return in_stars(world.log), in_stars(world.test)


def everywhere(world):
    return np.divmod(np.arange(world.n_pairs), world.n_items)


def test_fitting_with_a_slice_is_fitting_without_and_then_learning_from_it(world, naive, informed):
    fitted = NAIVE.fit(world.log, seed=1, training=SHORT, unbiased=world.test)
    pairs = everywhere(world)
    np.testing.assert_array_equal(fitted.predict_codes(*pairs), informed.predict_codes(*pairs))
    np.testing.assert_array_equal(fitted.uncorrected("prediction", *pairs), naive.predict_codes(*pairs))
    assert naive.slice is None
    assert not naive.corrections


def test_the_shift_of_an_odds_world_is_found_and_the_risk_falls(world, naive, informed):
    shift = next(use for use in informed.slice.uses if use.what == "shift")
    assert float(shift.found) == pytest.approx(-STRENGTH, abs=0.3)
    assert world.risk(informed.predict_codes) < world.risk(naive.predict_codes) - 0.02
    mean = informed.predict_codes(*everywhere(world)).mean()
    assert mean == pytest.approx(world.test.positive_rate, abs=0.01)


def test_graded_ratings_are_tilted_and_corrected_within_their_scale(graded):
    log, random = graded
    model = NAIVE.fit(log, training=SHORT, unbiased=random)
    pairs = log.user_ids.take(log.users[:300]), log.item_ids.take(log.items[:300])
    assert model.predict(*pairs).min() >= 1
    sample = model.predict(random.user_ids.take(random.users), random.item_ids.take(random.items))
    assert sample.mean() == pytest.approx(1 + 4 * random.positive_rate, abs=0.03)


def test_users_and_items_that_the_log_does_not_know_are_counted_and_left_out(world, naive, informed):
    test = world.test
    users, items = test.users.tolist(), test.items.tolist()
    strangers = unskew.RatingLog.from_arrays(
        [*users, 900, 901, 3], [*items, 0, 1, 700], [*test.ratings, 1, 1, 1], positive=1
    )
    found = naive.with_slice(strangers)
    assert (found.slice.n_unknown, found.slice.n_ratings) == (3, len(test))
    assert "3 more are of users or items" in str(found.slice)
    np.testing.assert_array_equal(found.predict_codes(*everywhere(world)), informed.predict_codes(*everywhere(world)))
    assert found.slice.n_in_log == sum(pair in set(zip(world.log.users, world.log.items)) for pair in zip(users, items))  # noqa: B905


def test_garbage_is_refused_with_a_sentence(world, naive, graded):
    nobody = unskew.RatingLog.from_arrays([900, 901], [0, 1], [0, 1], positive=1)
    with pytest.raises(DataError, match="None of the 2 random ratings"):
        NAIVE.fit(world.log, unbiased=nobody)
    with pytest.raises(DataError, match="graded from 1 to 5, and those of the log are binary"):
        naive.with_slice(graded[1])


@pytest.mark.parametrize("rows", [slice(0, 1), slice(0, 12), "liked"])
def test_a_tiny_or_one_sided_slice_keeps_predictions_sane(world, naive, rows):
    test = world.test
    chosen = np.flatnonzero(test.ratings == 1)[:30] if rows == "liked" else np.arange(len(test))[rows]
    said = naive.with_slice(test.take(chosen)).predict_codes(*everywhere(world))
    assert ((said > 0) & (said < 1)).all()
    assert rows != "liked" or said.mean() > naive.predict_codes(*everywhere(world)).mean()


def test_imputation_selection_and_propensity_report_what_they_used_the_slice_for(world):
    bayes = unskew.NaiveBayes(base=unskew.Additive())
    model = unskew.DRJL(propensity=bayes).fit(world.log, training=SHORT, unbiased=world.test)
    assert [use.name for use in model.slice.uses][:2] == ["propensity: tilted P(r)", "prediction: shift"]
    assert {use.role for use in model.slice.uses} == {"propensity", "prediction", "imputation"}
    pairs = world.test.users, world.test.items
    assert model.said_codes("imputation", *pairs).mean() == pytest.approx(world.test.positive_rate, abs=0.02)


def test_what_was_learned_and_assumed_survives_being_saved(graded, tmp_path):
    log, random = graded
    model = NAIVE.fit(log, training=SHORT, unbiased=random)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    pairs = np.divmod(np.arange(log.n_pairs), log.n_items)
    assert again.slice == model.slice
    assert again.corrections == model.corrections
    np.testing.assert_array_equal(again.predict_codes(*pairs), model.predict_codes(*pairs))


def test_naive_bayes_over_a_base_weighs_a_rating_by_how_rare_it_is_among_random_pairs(world):
    fitted = unskew.NaiveBayes(base=unskew.Additive()).fit(world.log, unbiased=world.test, training=SHORT)
    users, items = world.log.users, world.log.items
    ones, zeros = (fitted.given_rating(users, items, np.full(len(users), r)) for r in (1.0, 0.0))
    rare = ones < 1
    np.testing.assert_allclose((ones / zeros)[rare], fitted.ratio[1] / fitted.ratio[0], rtol=1e-9)
    assert np.log(fitted.ratio[1] / fitted.ratio[0]) == pytest.approx(STRENGTH, abs=0.25)
    with pytest.raises(ParameterError, match="must not depend on the rating"):
        unskew.NaiveBayes(base=unskew.NaiveBayes()).fit(world.log, unbiased=world.test)


def test_naive_bayes_counts_graded_ratings_that_many_random_ones_speak_of(graded):
    log, random = graded
    fitted = unskew.NaiveBayes().fit(log, unbiased=random, training=SHORT)
    p = np.array([(random.ratings == level).mean() for level in fitted.ratings])
    in_log = np.array([(log.ratings == level).mean() for level in fitted.ratings])
    np.testing.assert_allclose(fitted.ratio, in_log / p, rtol=0.25)
