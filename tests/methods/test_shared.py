"""SharedDR: the prediction learns from who has seen what, and from nothing else of it than shared vectors."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

import unskew
from unskew.errors import ParameterError

N_USERS, N_ITEMS = 80, 40
USERS, ITEMS = (codes.ravel() for codes in np.indices((N_USERS, N_ITEMS)))
SAME_CAMP = USERS % 2 == ITEMS % 2
MUTE = USERS >= N_USERS // 2  # those whose ratings tell nothing


@pytest.fixture(scope="module")
def log():
    """Two camps that see and like what is theirs; half of the users rate by tossing coins."""
    rng = np.random.default_rng(0)
    seen = rng.random(len(USERS)) < np.where(SAME_CAMP, 0.5, 0.1)
    likes = np.where(MUTE, rng.random(len(USERS)) < 0.5, SAME_CAMP)
    return unskew.RatingLog.from_arrays(USERS[seen], ITEMS[seen], likes[seen].astype(int), positive=1)


def order_of_the_mute(log, method):
    training = unskew.Training(max_epochs=15, patience=15, batch_size=64, progress=False)
    model = method.fit(log, training=training)
    said = model.predict(USERS[MUTE], ITEMS[MUTE])
    return roc_auc_score(SAME_CAMP[MUTE], said)


def test_what_people_looked_at_tells_what_those_like_whose_ratings_do_not(log):
    settings = {"propensity": unskew.Uniform(), "learning_rate": 0.02, "l2": 0.02}
    net = unskew.Trunk(n_factors=4)
    without = order_of_the_mute(log, unskew.SharedDR(net=net, exposure_weight=0, **settings))
    told = order_of_the_mute(log, unskew.SharedDR(net=net, **settings))
    assert without < 0.6 < 0.7 < told


def test_a_net_that_no_tower_can_stand_on_is_refused_before_training(log):
    with pytest.raises(ParameterError, match="stands on a Trunk"):
        unskew.SharedDR(net=unskew.MF(), propensity=unskew.Uniform()).fit(log)


def test_a_negative_weight_is_refused_with_its_value():
    with pytest.raises(ParameterError, match=r"exposure_weight of SharedDR .* not -1"):
        unskew.SharedDR(exposure_weight=-1)
