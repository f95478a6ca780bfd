"""Exposure that follows features is not taken for liking: a shop that shows everybody the own section."""

from dataclasses import replace

import numpy as np
import pytest

import unskew
from unskew.data.features import Features
from unskew.utility.estimate import Trail
from unskew.utility.exposure import Crossing


@pytest.fixture(scope="module")
def shop():
    """Nobody chooses by liking; but everybody likes the own section better, and hardly meets the other one."""
    n = 250
    world = unskew.simulate(n, n, 0.25, selection="popularity", n_factors=2, interaction=0.9, seed=4)
    rng = np.random.default_rng(5)
    kind, section = (rng.choice([-1.0, 1.0], size=n) for _ in range(2))
    users, items = (
        np.column_stack([held, 0.9 * side])
        for held, side in ((world.user_factors, kind), (world.item_factors, section))
    )
    log = replace(world, user_factors=users, item_factors=items, interaction_bound=5.0).log
    met = (kind[log.users] == section[log.items]) | (rng.random(len(log)) < 0.3)
    sides = (Features(("section", "noise"), np.column_stack([side, rng.normal(size=n)])) for side in (kind, section))
    user_features, item_features = sides
    return replace(log.take(np.flatnonzero(met)), user_features=user_features, item_features=item_features)


@pytest.fixture(scope="module")
def fitted(shop):
    net = unskew.MF(n_factors=8, spread=0.1, features="always")
    recipe = unskew.Utility(base=unskew.Uniform(), net=net, n_folds=4, n_repeats=1)
    return recipe.fit(shop, training=unskew.Training(progress=False))


def test_what_a_shop_shows_by_features_is_no_evidence_for_selection_on_utility(shop, fitted):
    low, high = fitted.interval
    assert low < 0 < high
    assert fitted.slope == 0
    assert fitted.selection.numbers.features_slope > 3 * high
    assert any("exposure may follow features" in note for note in fitted.notes)
    blind = Trail.of(fitted.cross_fitted, replace(shop, user_features=None, item_features=None), shop.n_pairs)
    assert blind.interactions(1.0).profile().slope > 2 * high


def test_a_crossing_is_the_least_squares_fit_of_features_times_features(shop, fitted):
    pairs = np.arange(shop.n_pairs)
    crossing = Crossing.of(fitted.cross_fitted, shop, pairs)
    users, items = np.divmod(pairs, shop.n_items)
    interaction = fitted.cross_fitted.mean_parts(users, items)[:, 2].reshape(shop.n_users, -1)
    user, item = (side.encoded.toarray() - side.encoded.toarray().mean(0) for side in shop.features)
    explained = user @ np.linalg.pinv(user) @ interaction @ np.linalg.pinv(item).T @ item.T
    np.testing.assert_allclose(crossing(users, items), explained.ravel(), atol=1e-4)
    assert crossing.spread == pytest.approx(explained.std(), rel=1e-3)


def test_many_features_are_read_by_their_main_directions(shop, fitted):
    rng = np.random.default_rng(0)
    wide = np.hstack([shop.user_features.values, 0.01 * rng.normal(size=(shop.n_users, 60))])
    known = replace(shop, user_features=Features(tuple(map(str, range(62))), wide))
    crossing = Crossing.of(fitted.cross_fitted, known, np.arange(shop.n_pairs))
    assert crossing.users.shape[1] <= 32
    np.testing.assert_allclose(np.cov(crossing.users.T, bias=True), np.eye(crossing.users.shape[1]), atol=1e-3)


def test_features_of_one_side_alone_cross_with_nothing(shop, fitted):
    assert Crossing.of(fitted.cross_fitted, replace(shop, item_features=None), np.arange(10)) is None
