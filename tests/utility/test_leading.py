"""Directions in which ratings go together, and nets that start from them where a random start leads nowhere."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import unskew
from unskew.data.split import Split
from unskew.nets.base import Catalogue
from unskew.training.history import History
from unskew.training.plan import Role
from unskew.utility.crossfit import LED, Folds, cross_fit
from unskew.utility.leading import Directions, Led, can_be_led

TRAINING = unskew.Training(max_epochs=4, progress=False)


@pytest.fixture(scope="module")
def world():
    """Of few ratings a user, and interactions that only all of them together tell."""
    return unskew.simulate(3000, 400, density=0.03, selection="utility", strength=0.2, n_factors=1, interaction=1.5)


@pytest.fixture(scope="module")
def split(world):
    rows = np.arange(len(world.log))
    return Split(world.log, rows[rows % 5 > 0], rows[rows % 5 == 0])


def test_leading_directions_are_those_of_the_true_interactions(world, split):
    log, left_out = (world.log.take(rows) for rows in (split.train_rows, split.holdout_rows))
    found = Directions.of(log, 2)
    truth = world.interaction(left_out.users, left_out.items)
    assert np.corrcoef(found(left_out), truth)[0, 1] > 0.5
    assert found.users.shape == (3000, 2)
    assert np.diff(np.linalg.norm(found.users, axis=0)) < 0


def test_directions_are_as_large_as_ratings_left_out_bear_out(world, split):
    log, left_out = (world.log.take(rows) for rows in (split.train_rows, split.holdout_rows))
    found = Directions.of(log, 2)
    upside_down = Directions(-found.users, found.items)
    assert not upside_down.calibrated(left_out).users.any()
    large = Directions(100 * found.users, found.items)
    np.testing.assert_allclose(large.calibrated(left_out)(left_out), found.calibrated(left_out)(left_out), rtol=1e-3)
    alike = replace(left_out, ratings=np.ones_like(left_out.ratings))
    assert not found.calibrated(alike).users.any()


def test_a_log_of_two_items_has_no_directions():
    log = unskew.simulate(30, 2, density=0.9, n_factors=1, test_per_user=1).log
    assert Directions.of(log, 16) is None


def test_a_led_net_starts_with_directions_and_without_other_factors(world, split):
    led = Led(net=unskew.MF(n_factors=5), split=split)
    net = led.build(Catalogue(world.n_users, world.n_items), torch.Generator().manual_seed(0))
    assert (net.users.value != 0).any(0).tolist() == [True] * 5 + [False]
    found = Directions.of(world.log.take(split.train_rows), 5)
    some = world.log.take(np.arange(50))
    with torch.no_grad():
        said = net(*(torch.from_numpy(codes.astype(np.int64)) for codes in (some.users, some.items)))
    assert np.corrcoef(said.numpy(), found(some))[0, 1] > 0.999


@pytest.mark.parametrize("recipe", [unskew.MF(n_factors=0), unskew.MF(biases=False), unskew.NCF()])
def test_nets_without_factors_beside_biases_start_as_always(recipe, world, split):
    catalogue = Catalogue(world.n_users, world.n_items)
    usual, led = (
        net.build(catalogue, torch.Generator().manual_seed(0)) for net in (recipe, Led(net=recipe, split=split))
    )
    assert not can_be_led(usual)
    for one, other in zip(usual.tables(), led.tables(), strict=True):
        assert torch.equal(one.value, other.value)


def test_nets_that_learned_nothing_begin_again_from_directions_and_say_so(world):
    role = Role(unskew.MF(n_factors=4, spread=0.1), learning_rate=0.01, l2=2.0)
    fitted, history = cross_fit(role, world.log, 2, 1, seed=0, training=replace(TRAINING, max_epochs=1))
    assert history.notes == [LED]
    assert [stage.split(" prediction")[0] for stage in history.kept] == [
        "utility fold 1/2", "utility fold 2/2", "utility fold 1/2 led", "utility fold 2/2 led",
    ]  # fmt: skip
    log = world.log
    said = fitted.parts(log.users, log.items)[:, 2]
    assert np.corrcoef(said, world.interaction(log.users, log.items))[0, 1] > 0.5


def test_nets_that_learned_interactions_are_as_they_were(liking, liking_world):
    assert not any("directions" in note for note in liking.notes)
    assert all("led" not in stage for stage in liking.history.kept)


def test_where_nothing_is_to_be_found_the_usual_nets_stay():
    log = unskew.simulate(200, 100, density=0.1, n_factors=1, interaction=0.0, seed=3).log
    role, usual = Role(unskew.MF(n_factors=2, spread=0.1), learning_rate=0.03, l2=0.3), History()
    nets = Folds(log, 2, 1, 0, TRAINING).train(role, range(2), usual)
    fitted, history = cross_fit(role, log, 2, 1, seed=0, training=TRAINING)
    assert not history.notes
    for net, same in zip(nets, fitted.nets, strict=True):
        assert torch.equal(net.users.value, same.users.value)
