"""An interrupted run goes on from its checkpoint and ends with the bits of an undisturbed one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import unskew
from unskew.errors import ModelFileError, ParameterError
from unskew.files.arrays import arrays_of
from unskew.nets.factors import MF
from unskew.training.checkpoint import Checkpoint
from unskew.training.loop import Loop

SHORT = unskew.Training(max_epochs=4, patience=3, batch_size=64, progress=False)
SMALL = MF(n_factors=3)
ADDITIVE = unskew.Additive()
METHODS = {
    "one net": unskew.Naive(net=SMALL),
    "a propensity with a run of its own": unskew.IPS(net=SMALL),
    "calibrators that go on from epoch to epoch": unskew.DoublyCalibrated(unskew.TDR(net=SMALL, propensity=ADDITIVE)),
    "dense steps, noise at use and a stop by the training loss": unskew.DoublyCalibrated(
        unskew.DRJLPublished(net=unskew.Dense(net=SMALL), propensity=ADDITIVE),
        propensity=unskew.PublishedExperts(steps=3),
        imputation=unskew.PublishedExperts(objective="likelihood"),
    ),
    "turns and copies": unskew.MRDRDL(net=SMALL, propensity=ADDITIVE),
    "batches of their own": unskew.AT(net=SMALL, propensity=ADDITIVE, pairs_per_row=1.0),
    "two propensities and a combination": unskew.MR(net=SMALL),
    "towers on one trunk": unskew.ESCM2DR(net=unskew.Trunk(n_factors=3)),
    "a propensity that is a function": unskew.DRJL(
        net=SMALL, propensity=unskew.Known(lambda users, items: 0.1 + 0.01 * (np.asarray(items) % 7))
    ),
}


@pytest.fixture(scope="module")
def log():
    return unskew.simulate(n_users=50, n_items=30, density=0.25, seed=3).log


@pytest.fixture
def interrupt(monkeypatch):
    """Let every run die just after so many more states are written, or right before the next step."""
    left = {}

    def after(saves):
        left["saves"] = saves

    def save(self, content, arrays, write=Checkpoint.save):
        write(self, content, arrays)
        left["saves"] -= 1
        if left["saves"] == 0:
            raise KeyboardInterrupt

    monkeypatch.setattr(Checkpoint, "save", save)
    return after


def learned(model):
    roles = model.method.plan().roles
    states = {role: arrays_of(player, roles[role].net) or {} for role, player in model.cast.players.items()}
    arrays = {(role, name): array for role, own in states.items() for name, array in own.items()}
    risks = [(epoch.stage, epoch.epoch, epoch.validation, dict(epoch.losses)) for epoch in model.history.epochs]
    return arrays, risks, model.history.kept, model.history.notes


def assert_same(one, other):
    first, second = learned(one), learned(other)
    assert first[0].keys() == second[0].keys()
    for name, array in first[0].items():
        np.testing.assert_array_equal(array, second[0][name], err_msg=str(name))
    assert first[1:] == second[1:]


@pytest.mark.parametrize("name", METHODS)
def test_a_run_that_dies_again_and_again_ends_with_the_same_bits(name, log, tmp_path, interrupt):
    method = METHODS[name]
    undisturbed = method.fit(log, seed=1, training=SHORT)
    training = replace(SHORT, checkpoint=tmp_path / "states", checkpoint_every=3)
    deaths = 0
    while True:
        interrupt(2)
        try:
            model = method.fit(log, seed=1, training=training)
            break
        except KeyboardInterrupt:
            deaths += 1
    assert deaths >= 4
    assert_same(model, undisturbed)


def test_a_run_that_dies_between_two_checkpoints_loses_only_what_came_after_the_last(log, tmp_path, monkeypatch):
    method = unskew.DoublyCalibrated(unskew.DRJL(net=SMALL, propensity=ADDITIVE))
    undisturbed = method.fit(log, training=SHORT)
    batches, training = [], replace(SHORT, checkpoint=tmp_path / "states", checkpoint_every=5)

    def taken(self, *arguments, take=Loop._taken):
        for values in take(self, *arguments):
            batches.extend(values)
            if len(batches) == 17:
                raise KeyboardInterrupt
            yield values

    with monkeypatch.context() as patched:
        patched.setattr(Loop, "_taken", taken)
        with pytest.raises(KeyboardInterrupt):
            method.fit(log, training=training)
        batches.clear()
        model = method.fit(log, training=training)
    assert_same(model, undisturbed)
    planned = 6 * len(undisturbed.history.of("prediction"))
    assert len(batches) == planned - 11  # taken five and one at a time: the second checkpoint was at the eleventh


def test_finished_inner_fits_are_not_repeated(log, tmp_path, interrupt, monkeypatch):
    method = unskew.IPS(net=SMALL)
    undisturbed = method.fit(log, training=SHORT)
    training = replace(SHORT, checkpoint=tmp_path / "states", checkpoint_every=1000)
    interrupt(2)  # the propensity's own run is over, and the run around it has kept the result
    with pytest.raises(KeyboardInterrupt):
        method.fit(log, training=training)
    monkeypatch.setattr(unskew.Factors, "fit_split", None)
    interrupt(-1)
    assert_same(method.fit(log, training=training), undisturbed)


def test_a_finished_run_answers_from_its_checkpoint_at_once(log, tmp_path, monkeypatch):
    training = replace(SHORT, checkpoint=tmp_path / "states")
    first = unskew.Naive(net=SMALL).fit(log, training=training)
    monkeypatch.setattr(Loop, "_step", None)
    assert_same(unskew.Naive(net=SMALL).fit(log, training=training), first)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"seed": 2}, "another seed: 1, not 2"),
        ({"training": {"max_epochs": 5}}, "another max_epochs: 4, not 5"),
        ({"method": unskew.Naive(net=SMALL, l2=0.2)}, "another method"),
        ({"log": 0.2}, "another log"),
        ({"version": "0.0.0"}, "another version"),
    ],
)
def test_a_checkpoint_of_something_else_is_refused(log, tmp_path, change, sentence, monkeypatch):
    training = replace(SHORT, checkpoint=tmp_path / "states")
    unskew.Naive(net=SMALL).fit(log, seed=1, training=training)
    if "version" in change:
        monkeypatch.setattr("unskew.training.identity.__version__", change["version"])
    if "log" in change:
        log = unskew.simulate(n_users=50, n_items=30, density=change["log"], seed=3).log
    method = change.get("method", unskew.Naive(net=SMALL))
    training = replace(training, **change.get("training", {}))
    with pytest.raises(ParameterError, match=f"is of a run with {sentence}"):
        method.fit(log, seed=change.get("seed", 1), training=training)


@pytest.mark.parametrize("damage", ["truncated", "altered", "foreign"])
def test_a_damaged_checkpoint_is_noticed(log, tmp_path, damage):
    training = replace(SHORT, checkpoint=tmp_path / "states")
    unskew.Naive(net=SMALL).fit(log, training=training)
    path = next((tmp_path / "states").iterdir())
    data = bytearray(path.read_bytes())
    if damage == "truncated":
        data = data[: len(data) // 2]
    elif damage == "altered":
        data[-5] ^= 1
    else:
        data = bytearray(b"something else")
    path.write_bytes(data)
    with pytest.raises(ModelFileError, match=r"state-\d-\d.safetensors is truncated, altered or none"):
        unskew.Naive(net=SMALL).fit(log, training=training)


def test_a_folder_that_holds_other_things_is_refused(log, tmp_path):
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(ParameterError, match=r"holds 'thesis.tex', which is no part of a checkpoint"):
        unskew.Naive(net=SMALL).fit(log, training=replace(SHORT, checkpoint=tmp_path))


def test_steps_between_checkpoints_must_not_be_negative():
    with pytest.raises(ParameterError, match="checkpoint_every must be at least 0, not -1"):
        unskew.Training(checkpoint_every=-1)
