"""Models of other libraries, asked in their own language; stand-ins behave as the libraries do."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression

import unskew
from unskew import adapters

RNG = np.random.default_rng(0)
P, Q = RNG.normal(size=(6, 3)), RNG.normal(size=(5, 3))
NAMES = [f"u{n}" for n in range(6)]


def features(users, items):
    return np.column_stack([np.asarray(users), np.asarray(items)]).astype(float)


def test_a_classifier_gives_probabilities_and_a_regressor_its_predictions():
    x, y = RNG.normal(size=(40, 2)), RNG.integers(0, 2, 40)
    forest, line = RandomForestClassifier(5, random_state=0).fit(x, y), LinearRegression().fit(x, y)
    users, items = np.array([0, 1, 2]), np.array([3, 4, 0])
    np.testing.assert_allclose(
        adapters.from_sklearn(forest, features)(users, items), forest.predict_proba(features(users, items))[:, 1]
    )
    np.testing.assert_allclose(
        adapters.from_sklearn(line, features)(users, items), line.predict(features(users, items))
    )
    three = SimpleNamespace(predict_proba=None, classes_=[0, 1, 2])
    with pytest.raises(unskew.ParameterError, match="has 3 classes"):
        adapters.from_sklearn(three, features)


def test_factors_of_implicit_are_multiplied_by_name():
    score = adapters.from_implicit(SimpleNamespace(user_factors=P, item_factors=Q), NAMES, range(5))
    np.testing.assert_allclose(score(["u3", "u0"], [4, 1]), [P[3] @ Q[4], P[0] @ Q[1]])
    with pytest.raises(unskew.DataError, match="does not know the user 'zoe'"):
        score(["zoe"], [1])
    with pytest.raises(unskew.ParameterError, match="has 6 users and user_ids names 2"):
        adapters.from_implicit(SimpleNamespace(user_factors=P, item_factors=Q), ["a", "b"], range(5))


def test_factors_on_a_gpu_are_fetched():
    gpu = SimpleNamespace(user_factors=SimpleNamespace(to_numpy=lambda: P), item_factors=Q)
    np.testing.assert_allclose(adapters.from_implicit(gpu, NAMES, range(5))(["u1"], [2]), [P[1] @ Q[2]])


def test_surprise_is_asked_pair_by_pair_and_may_not_say_impossible():
    def predict(user, item):
        return SimpleNamespace(est=user + 10 * item, details={"was_impossible": user == 9})

    score = adapters.from_surprise(SimpleNamespace(predict=predict))
    np.testing.assert_allclose(score(np.array([1, 2]), np.array([3, 4])), [31, 42])
    with pytest.raises(unskew.DataError, match="cannot predict for user 9 and item 1"):
        score([9], [1])


@pytest.mark.parametrize("old", [False, True])
def test_cornac_is_asked_user_by_user_through_its_own_ids(old):
    maps = {"uid_map": {name: n for n, name in enumerate(NAMES)}, "iid_map": {n: n for n in range(5)}}
    asked = []

    def score_user(user):
        asked.append(user)
        return P[user] @ Q.T

    model = SimpleNamespace(score=score_user, **({"train_set": SimpleNamespace(**maps)} if old else maps))
    score = adapters.from_cornac(model)
    np.testing.assert_allclose(score(["u3", "u0", "u3"], [4, 1, 0]), [P[3] @ Q[4], P[0] @ Q[1], P[3] @ Q[0]])
    assert sorted(asked) == [0, 3]
    with pytest.raises(unskew.DataError, match="does not know the item 77"):
        score(["u1"], [77])


def test_an_adapter_is_judged_like_any_function():
    world = unskew.simulate(60, 40, density=0.3, seed=1)
    factors = SimpleNamespace(user_factors=RNG.normal(size=(60, 2)), item_factors=RNG.normal(size=(40, 2)))
    score = adapters.from_implicit(factors, range(60), range(40))
    table = unskew.estimate_risk(
        score, world.log, propensity=unskew.Additive(), estimators=("naive", "snips"), metrics=("auc", "ndcg@5")
    )
    assert len(table) == 4
