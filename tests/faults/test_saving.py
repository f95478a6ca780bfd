"""A process may die at any moment while it saves: what stands in a place is the old or the new, whole."""

from __future__ import annotations

import os
import random
import signal
import time

import pytest

import unskew

BRIEF = unskew.Training(max_epochs=1, progress=False)


@pytest.fixture(scope="module")
def models():
    """Two models of one log."""
    log = unskew.simulate(20, 15, density=0.4, test_per_user=5, seed=1).log
    return [unskew.Naive(net=unskew.MF(n_factors=2)).fit(log, seed=seed, training=BRIEF) for seed in (0, 1)]


def answers(model):
    return model.predict_codes(model.log.users, model.log.items).tolist()


def weights(folder):
    return (folder / "weights.safetensors").read_bytes()


def test_a_save_that_dies_before_any_one_of_its_steps_leaves_the_old_model_or_the_new(models, tmp_path, forked, dying):
    old, new = models
    said, moments = {0: answers(old), 1: answers(new)}, []
    for step in range(100):
        place = tmp_path / str(step) / "model"
        place.parent.mkdir()
        old.save(place)
        child = forked(dying(step, place.parent, lambda place=place: new.save(place)))
        child.join(60)
        found = answers(unskew.load(place))
        assert found in said.values()
        moments.append(found == said[1])
        new.save(place)  # whatever was left does not stand in the way
        assert answers(unskew.load(place)) == said[1]
        if child.exitcode == 0:
            break
        assert child.exitcode == -signal.SIGKILL
    assert step > 10
    assert moments == sorted(moments)  # the new one, once it is there, is there for good
    assert moments[0] is False


def test_a_first_save_that_dies_leaves_no_model(models, tmp_path, forked, dying):
    place = tmp_path / "model"
    child = forked(dying(5, tmp_path, lambda: models[0].save(place)))
    child.join(60)
    assert child.exitcode == -signal.SIGKILL
    assert [path.name.startswith(".unskew-") for path in tmp_path.iterdir()] == [True]
    with pytest.raises(unskew.errors.ModelFileError, match="no such folder"):
        unskew.load(place)


def test_models_saved_over_each_other_survive_kills_at_random_moments(models, tmp_path, forked, long):
    place, said = tmp_path / "model", [answers(model) for model in models]
    models[0].save(place)
    chance = random.Random(0)

    def save_again_and_again():
        while True:
            for model in models:
                model.save(place)

    for _ in range(200 if long else 20):
        child = forked(save_again_and_again)
        time.sleep(chance.uniform(0.01, 0.06))
        child.kill()
        child.join()
        assert answers(unskew.load(place)) in said


def test_remains_of_the_dead_are_removed_by_the_next_save(models, tmp_path, forked):
    gone = forked(lambda: None)
    gone.join()
    for process in (gone.pid, os.getpid()):
        (tmp_path / f".unskew-{process}-0.new").mkdir()
        (tmp_path / f".unskew-{process}-0.new" / "weights.safetensors").touch()
    models[0].save(tmp_path / "model")
    assert sorted(path.name for path in tmp_path.iterdir()) == [f".unskew-{os.getpid()}-0.new", "model"]
