"""The suite every registered method joins by being registered."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import unskew
from unskew.errors import ParameterError

SHORT = unskew.Training(max_epochs=3, progress=False)
NAMES = [entry.name for entry in unskew.methods()]


@pytest.fixture(scope="module")
def world():
    return unskew.simulate(n_users=80, n_items=50, density=0.15, seed=4)


def light(name, **settings):
    """The method with the lightest nuisances, so that the suite stays fast."""
    return lightened(unskew.make(name, **settings))


def lightened(method):
    if hasattr(method, "base"):
        return replace(method, base=lightened(method.base))
    return replace(method, propensity=unskew.Additive()) if hasattr(method, "propensity") else method


def fitted(name, world, **arguments):
    return light(name).fit(world.log, **{"training": SHORT, **arguments})


@pytest.mark.parametrize("name", NAMES)
def test_predictions_are_probabilities_for_every_pair(name, world):
    p = fitted(name, world).predict_codes(*np.divmod(np.arange(world.n_pairs), world.n_items))
    assert np.isfinite(p).all()
    assert ((p >= 0) & (p <= 1)).all()


@pytest.mark.parametrize("name", NAMES)
def test_one_seed_gives_the_same_bits_at_any_number_of_threads_and_another_seed_others(name, world):
    pairs = world.test.users, world.test.items
    before = torch.get_num_threads()
    answers = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        answers.append(fitted(name, world, seed=7).predict_codes(*pairs))
    torch.set_num_threads(before)
    np.testing.assert_array_equal(*answers)
    assert (fitted(name, world, seed=8).predict_codes(*pairs) != answers[0]).any()


@pytest.mark.parametrize("name", NAMES)
def test_fit_leaves_the_recipe_and_the_global_random_state_alone(name, world):
    method = light(name)
    before = repr(method), torch.random.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    method.fit(world.log, training=SHORT)
    assert repr(method) == before[0]
    assert torch.equal(torch.random.get_rng_state(), before[1])
    np.testing.assert_array_equal(np.random.get_state()[1], before[2])  # noqa: NPY002


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_is_its_repr_and_equal_recipes_are_equal(name):
    method = unskew.make(name)
    names = {key: getattr(unskew, key) for key in unskew.__all__}
    assert eval(repr(method), names) == method == unskew.make(name)
    assert unskew.make(name, learning_rate=0.123) != method


@pytest.mark.parametrize("name", NAMES)
def test_graded_ratings_are_answered_on_their_own_scale(name, world):
    log = unskew.RatingLog.from_arrays(
        world.log.users, world.log.items, 1 + 4 * world.preference(world.log.users, world.log.items),
        positive=None, rating_scale=(1, 5),
    )  # fmt: skip
    for error in ("log", "squared"):
        model = light(name, error=error).fit(log, training=SHORT)
        answers = model.predict([0, 1], log.item_ids.take([0, 1]))
        assert ((answers >= 1) & (answers <= 5)).all()


@pytest.mark.parametrize("name", NAMES)
def test_every_method_learns_something_about_a_strong_preference(name):
    world = unskew.simulate(n_users=150, n_items=80, density=0.25, selection="popularity", seed=5)
    model = light(name).fit(world.log, training=unskew.Training(max_epochs=25, progress=False))
    constant = world.risk(lambda users, items: np.full(len(users), world.log.positive_rate))
    assert world.risk(model.predict_codes) < constant


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "wrong", [{"learning_rate": 0.0}, {"learning_rate": float("nan")}, {"l2": -1.0}, {"error": "cubic"}]
)
def test_settings_out_of_range_are_refused_with_their_name_and_value(name, wrong):
    ((setting, value),) = wrong.items()
    with pytest.raises(ParameterError, match=f"{setting} of .* not {value!r}"):
        unskew.make(name, **wrong)


def test_unknown_names_and_settings_come_with_the_nearest_match():
    with pytest.raises(ParameterError, match="no method 'nave'; did you mean 'naive'"):
        unskew.make("nave")
    with pytest.raises(ParameterError, match="no setting 'learning_rat'; did you mean 'learning_rate'"):
        unskew.make("naive", learning_rat=0.1)
