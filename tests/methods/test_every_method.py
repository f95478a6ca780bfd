"""The suite every registered method joins by being registered."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

import unskew
from unskew.errors import DataError, ParameterError
from unskew.testing import check_method
from unskew.testing.check import lightest
from unskew.testing.parts import exchanged

NAMES = [entry.name for entry in unskew.methods()]


@pytest.mark.parametrize("name", NAMES)
def test_every_method_keeps_the_contract(name):
    check_method(unskew.make(name))


@pytest.fixture(scope="module")
def world():
    return unskew.simulate(n_users=60, n_items=40, density=0.3, seed=5)


@pytest.mark.parametrize("name", NAMES)
def test_every_method_learns_its_log_and_something_that_holds_for_all_pairs(name, world):
    method = exchanged(unskew.make(name, learning_rate=0.03), lightest)
    model = method.fit(world.log, training=unskew.Training(max_epochs=6, progress=False))
    on_the_log = model.predict_codes(world.log.users, world.log.items)
    assert roc_auc_score(world.log.ratings, on_the_log) > 0.7
    pairs = np.divmod(np.arange(world.n_pairs), world.n_items)
    assert np.corrcoef(model.predict_codes(*pairs), world.preference(*pairs))[0, 1] > 0.05


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "wrong", [{"learning_rate": 0.0}, {"learning_rate": float("nan")}, {"l2": -1.0}, {"error": "cubic"}]
)
def test_settings_out_of_range_are_refused_with_their_name_and_value(name, wrong):
    ((setting, value),) = wrong.items()
    with pytest.raises(ParameterError, match=f"{setting} of .* not {value!r}"):
        unskew.make(name, **wrong)


@pytest.mark.parametrize("name", NAMES)
def test_equal_settings_make_equal_methods_and_others_do_not(name):
    assert unskew.make(name) == unskew.make(name)
    assert unskew.make(name, learning_rate=0.123) != unskew.make(name)


def test_unknown_names_and_settings_come_with_the_nearest_match():
    with pytest.raises(ParameterError, match="no method 'nave'; did you mean 'naive'"):
        unskew.make("nave")
    with pytest.raises(ParameterError, match="no setting 'learning_rat'; did you mean 'learning_rate'"):
        unskew.make("naive", learning_rat=0.1)


@pytest.mark.parametrize("ratings", [[], [1, 1, 1]], ids=["no rating", "one class"])
def test_a_log_that_teaches_nothing_is_refused_before_any_method_sees_it(ratings):
    with pytest.raises(DataError):
        unskew.RatingLog.from_arrays([0, 1, 1][: len(ratings)], [0, 0, 1][: len(ratings)], ratings, positive=1)
