"""Turns in one compiled call: which are taken so, and that they are the same steps."""

import gc
import subprocess
import sys
import weakref

import numpy as np
import pytest
import torch

import unskew
from unskew.calibration.published import PublishedExperts
from unskew.data import feed as feeds
from unskew.data.rows import Shuffled
from unskew.express.turns import in_one_call
from unskew.training import loop

LOG = unskew.simulate(n_users=60, n_items=40, density=0.2, selection="taste", seed=1).log
TRAINING = unskew.Training(max_epochs=2, batch_size=32, progress=False)
ADDITIVE = unskew.Additive()
METHODS = {
    "naive": unskew.Naive(),
    "without biases": unskew.Naive(net=unskew.MF(biases=False)),
    "ips": unskew.IPS(propensity=ADDITIVE),
    "snips": unskew.SNIPS(propensity=ADDITIVE),
    "dr-jl": unskew.DRJL(propensity=ADDITIVE),
    "mrdr": unskew.MRDR(propensity=ADDITIVE, pairs_per_row=0.7),
    "tdr": unskew.TDR(propensity=ADDITIVE),
    "a personal propensity": unskew.IPS(propensity=unskew.Factors(n_folds=3)),
    "calibrated": unskew.DoublyCalibrated(
        unskew.DRJL(propensity=ADDITIVE), propensity=None, imputation=unskew.UserPlatt()
    ),
}


@pytest.fixture
def taken(monkeypatch):
    """The roles that learned in turns taken whole, and those that learned step by step."""
    roles = {True: set(), False: set()}

    def watch(turn, *rest):
        take = in_one_call(turn, *rest)
        roles[take is not None] |= {role for update in turn for role in update.trains}
        return take

    monkeypatch.setattr(loop, "in_one_call", watch)
    return roles


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_a_turn_in_one_call_is_its_steps_one_by_one(method, taken, monkeypatch):
    whole = method.fit(LOG, training=TRAINING)
    assert taken[True]
    assert not taken[False]
    monkeypatch.setattr(loop, "in_one_call", lambda *_: None)
    single = method.fit(LOG, training=TRAINING)
    for ours, theirs in zip(whole.history.epochs, single.history.epochs, strict=True):
        assert ours.losses == pytest.approx(theirs.losses, rel=1e-3, abs=1e-4)
    users, items = np.divmod(np.arange(2400), 40)
    said = (model.predict_codes(users, items) for model in (whole, single))
    np.testing.assert_allclose(*said, atol=2e-3)


@pytest.mark.parametrize(
    "method",
    [
        unskew.TDR(propensity=ADDITIVE, differentiate=True),
        unskew.DRJL(propensity=ADDITIVE, error="squared"),
    ],
    ids=["a risk without closed form", "graded errors"],
)
def test_what_no_compiled_turn_knows_is_taken_step_by_step(method, taken):
    method.fit(LOG, training=TRAINING)
    assert not taken[True]


def test_experts_that_draw_noise_are_asked_step_by_step_once_they_are_there(taken):
    base = unskew.DRJL(propensity=ADDITIVE)
    unskew.DoublyCalibrated(base, propensity=None, imputation=PublishedExperts()).fit(LOG, training=TRAINING)
    assert taken[True] == taken[False] == {"imputation", "prediction"}


def test_how_many_batches_a_call_takes_changes_no_bit(monkeypatch):
    def trained(at_once):
        monkeypatch.setattr(loop, "BATCHES_AT_ONCE", at_once)
        model = METHODS["tdr"].fit(LOG, training=TRAINING)
        return model.cast.players["prediction"].users.value, model.history.epochs[-1].losses

    for at_once in (1, 7):
        (table, losses), (others, theirs) = trained(at_once), trained(32)
        assert torch.equal(table, others)
        assert losses == theirs


FIRST_CALL = """
import numpy as np
from unskew.express import kernels
from unskew.nets.compiled import CompiledFactorNet

def state(n, width):
    return *(np.zeros((n, width), np.float32) for _ in range(3)), np.zeros(n), np.zeros(width, np.float32)

net = state(4, 3), state(5, 3), state(1, 1), 1, np.float32(0.1), np.float32(0.01)
rows, ones = np.arange(4), np.ones(4, np.float32)
_, on_many_threads = kernels.FOR[CompiledFactorNet]
values = on_many_threads.weighted(np.array([0, 2, 4]), rows, rows, ones, ones, 20.0, 20.0, net, 13.8)
assert np.allclose(values[0], np.log(2)), values
"""


def test_the_first_kernel_of_a_process_may_come_out_of_the_cache_and_use_threads():
    """Numba starts its threads when it compiles for them, not when it loads what was compiled inside something else."""
    for _ in range(2):  # the first may compile
        done = subprocess.run([sys.executable, "-c", FIRST_CALL], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")


def test_a_stretch_is_let_go_of_when_the_next_one_is_drawn(monkeypatch):
    """Nothing may hold it in a circle: Python would find that only after many stretches, and a log may have many."""
    monkeypatch.setattr(feeds, "ROWS_AT_ONCE", 64)
    alive, most = weakref.WeakSet(), []

    def shuffled(*arguments):
        block = Shuffled(*arguments)
        alive.add(block)
        most.append(len(alive))
        return block

    monkeypatch.setattr(feeds, "Shuffled", shuffled)
    gc.collect()
    gc.disable()
    try:
        METHODS["dr-jl"].fit(LOG, training=TRAINING)
    finally:
        gc.enable()
    assert len(most) > 10
    assert max(most) <= 2
