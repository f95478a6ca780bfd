"""Graded ratings are thresholds on the same utility: the slope is found, and what each level owes to selection."""

import numpy as np
import pytest
from scipy.special import expit

import unskew
from unskew.data.selection import _chance_given  # noqa: PLC2701

CUTS = np.array([-1.5, 0.0, 1.0])
TRAINING = unskew.Training(progress=False)


def levels(world, users, items):
    """1 to 4 stars: how many thresholds the utility has passed."""
    utility = world.logit(users, items) + world.unexplained_liking(users, items)
    return 1 + np.searchsorted(CUTS, utility)


@pytest.fixture(scope="module")
def graded(liking_world):
    users, items = liking_world.log.users, liking_world.log.items
    everybody, everything = range(liking_world.n_users), range(liking_world.n_items)
    return unskew.RatingLog.from_arrays(
        users,
        items,
        levels(liking_world, users, items),
        positive=None,
        rating_scale=(1, 4),
        user_ids=everybody,
        item_ids=everything,
    )


@pytest.fixture(scope="module")
def found(graded):
    utility = unskew.Utility(base=unskew.Additive(), n_folds=4, n_repeats=1)
    return utility.fit(graded, training=TRAINING)


@pytest.fixture(scope="module")
def pairs(liking_world):
    return np.divmod(np.arange(liking_world.n_pairs), liking_world.n_items)


def test_the_slope_is_found_and_the_mean_rating_of_all_pairs(found, liking_world, pairs, graded):
    low, high = found.interval
    assert low < liking_world.strength < high
    truth = (levels(liking_world, *pairs) - 1).mean() / 3
    assert graded.positive_rate - truth > 0.12
    assert found.selection.numbers.positive_rate == pytest.approx(truth, abs=0.02)


def test_every_level_is_seen_as_much_more_or_less_often_as_it_should(found, liking_world, pairs):
    """Where seeing is rare, averaged over pairs: P(seen | level) / P(seen) by its own integral and by ours."""
    p = found.pair(*pairs)
    rare = np.flatnonzero((p > 0) & (p < 0.03))
    users, items = (part[rare] for part in pairs)
    for level in range(1, 5):
        ratio = found.given_rating(users, items, np.full(len(rare), (level - 1) / 3)) / p[rare]
        truth = _share(liking_world, users, items, level) / liking_world.propensity(users, items)
        assert np.exp(np.log(ratio).mean()) == pytest.approx(np.exp(np.log(truth).mean()), rel=0.2)


def _share(world, users, items, level):
    """P(seen | level), from P(seen and v > cut) for the two cuts around it."""
    z = world.logit(users, items)
    cuts = np.concatenate([[-np.inf], CUTS, [np.inf]])
    explained = world.log_scale + world.log_activity[users] + world.log_exposure[items] + world.tilt.explained * z
    above = [
        expit(z - cut) * _chance_given(1, world.tilt, explained, z - np.clip(cut, -50, 50))
        for cut in cuts[level - 1 : level + 1]
    ]
    return (above[0] - above[1]) / (expit(z - cuts[level - 1]) - expit(z - cuts[level]))


def test_the_mapped_naive_is_nearer_the_true_mean_rating(found, graded, liking_world, pairs):
    naive = unskew.Naive().fit(graded, seed=1, training=TRAINING)
    mapped = found.population(np.log(naive.predict_codes(*pairs)) - np.log1p(-naive.predict_codes(*pairs)))
    truth = (levels(liking_world, *pairs) - 1).mean() / 3
    assert abs(expit(mapped).mean() - truth) < 0.3 * abs(naive.predict_codes(*pairs).mean() - truth)
    order = np.argsort(naive.predict_codes(*pairs))
    assert (np.diff(mapped[order]) > -1e-6).all()
