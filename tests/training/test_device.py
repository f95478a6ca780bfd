"""Nets compute where they are told to, as far as a machine without a GPU can tell."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import unskew
from unskew.data.feed import Feed
from unskew.errors import ParameterError
from unskew.nets.base import Catalogue, NetRecipe
from unskew.training.view import Cast, View

SHORT = unskew.Training(max_epochs=2, engine="torch", progress=False)


@pytest.fixture(scope="module")
def log():
    return unskew.simulate(n_users=40, n_items=30, density=0.2, seed=0).log


class Rough:
    """A fitted role that answers on the device it was asked on."""

    shares = np.full(4, 0.25)

    def __call__(self, users, items):
        return torch.zeros(len(users), device=users.device)


@pytest.mark.parametrize("name", ["naive", "ips", "dr-jl", "tdr", "cvib", "stable-dr", "escm2-dr", "mr", "eib"])
def test_every_tensor_of_a_loss_is_on_the_device(name, log):
    """Tensors of the device "meta" have a place but no values, and refuse to meet those of the CPU."""
    plan = unskew.make(name).plan()
    feed = Feed(unskew.holdout_split(log), batch_size=64, pairs_per_row=1.0, generator=np.random.default_rng(0))
    batch = next(feed.epoch())
    players = {}
    for role, held in plan.roles.items():
        if isinstance(held.net, NetRecipe):
            catalogue = Catalogue(log.n_users, log.n_items, engine="torch")
            trunk = players.get(held.on)
            players[role] = (
                held.net.build(catalogue, torch.Generator()) if trunk is None else held.net.on(trunk, catalogue)
            )
        else:
            players[role] = Rough()
    for player in players.values():
        if isinstance(player, torch.nn.Module):
            player.to("meta")
    cast = Cast(players, dict.fromkeys(players, 0.1), {}, plan.error, device="meta")
    nets = frozenset(role for role, player in players.items() if isinstance(player, torch.nn.Module))
    for update in (update for stage in plan.stages for update in stage.updates):
        loss = update.loss(View(cast, batch, learning=nets))  # at rest, nets look for unknown users among the values
        assert loss.device.type == "meta"
        loss.backward()
        for table in (table for role in update.trains for table in players[role].tables()):
            assert {buffer.device.type for buffer in table.buffers()} == {"meta"}
            assert {rows.grad.device.type for _, rows in table._read if rows.grad is not None} == {"meta"}
            table._read.clear()


def test_naming_the_cpu_changes_nothing(log):
    plain, named = (
        unskew.DRJL(propensity=unskew.Additive()).fit(log, training=training)
        for training in (SHORT, unskew.Training(max_epochs=2, engine="torch", progress=False, device="cpu"))
    )
    assert plain.history.epochs[-1].validation == named.history.epochs[-1].validation


def test_compiled_nets_stay_on_the_cpu():
    with pytest.raises(ParameterError, match="engine='compiled' computes on the CPU: give engine='torch'"):
        unskew.Training(device="cuda")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_not_there_is_refused_in_a_sentence():
    with pytest.raises(ParameterError, match=r"device='cuda' cannot be used here \(.*\): give device='cpu'\.$"):
        unskew.Training(device="cuda", engine="torch")
    with pytest.raises(ParameterError, match=r"device='no such' cannot be used here"):
        unskew.Training(device="no such", engine="torch")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_trains_what_the_cpu_does(log):
    method = unskew.DoublyCalibrated(unskew.DRJL(propensity=unskew.Additive()), unskew.UserPlatt(), unskew.UserPlatt())
    there = method.fit(log, training=unskew.Training(max_epochs=2, engine="torch", progress=False, device="cuda"))
    here = method.fit(log, training=SHORT)
    assert there.history.epochs[-1].validation == pytest.approx(here.history.epochs[-1].validation, abs=1e-4)
