"""An ensemble answers with the average of its members, each of which is a fit that could stand alone."""

import pickle
from dataclasses import replace
from importlib import import_module

import numpy as np
import pyarrow as pa
import pytest

import unskew
from unskew.errors import DataError, ParameterError
from unskew.recipe import from_plain, read_recipe, to_plain, write_recipe
from unskew.training.checkpoint import Checkpoint

SHORT = unskew.Training(max_epochs=2, progress=False)
NET = unskew.MF(n_factors=3)
DCE = unskew.DoublyCalibrated(
    unskew.DRJL(net=NET, propensity=unskew.Additive()), propensity=unskew.GlobalPlatt(), imputation=unskew.GlobalPlatt()
)


@pytest.fixture(scope="module")
def world():
    return unskew.simulate(n_users=60, n_items=40, density=0.2, seed=3)


@pytest.fixture(scope="module")
def log(world):
    return world.log


@pytest.fixture(scope="module")
def model(log):
    return unskew.Ensemble(DCE, n_members=3).fit(log, seed=5, training=SHORT)


def everywhere(model, role="prediction", ratings=None):
    users, items = np.divmod(np.arange(model.log.n_pairs), model.log.n_items)
    return model.said_codes(role, users, items, None if ratings is None else np.full(len(users), ratings))


@pytest.mark.parametrize("role", ["prediction", "imputation", "propensity"])
def test_every_role_says_what_the_members_say_on_average(model, role):
    each = [everywhere(member, role) for member in model.members]
    np.testing.assert_allclose(everywhere(model, role), np.mean(each, axis=0), rtol=1e-12)
    assert role == "propensity" or (each[0] != each[1]).any()  # an additive propensity knows no seed


def test_a_propensity_that_knows_ratings_is_averaged_for_each_rating(log, world):
    method = unskew.IPS(net=NET, propensity=unskew.NaiveBayes())
    model = unskew.Ensemble(method, 2).fit(log, training=SHORT, unbiased=world.test)
    for rating in (0.0, 1.0):
        each = [everywhere(member, "propensity", rating) for member in model.members]
        np.testing.assert_allclose(everywhere(model, "propensity", rating), np.mean(each, axis=0), rtol=1e-12)
    assert (everywhere(model, "propensity", 0.0) != everywhere(model, "propensity", 1.0)).any()


def test_the_first_member_is_the_single_model_bit_for_bit(model, log):
    alone = DCE.fit(log, seed=5, training=SHORT)
    of_one = unskew.Ensemble(DCE, n_members=1).fit(log, seed=5, training=SHORT)
    for role in ("prediction", "imputation", "propensity"):
        assert (everywhere(alone, role) == everywhere(model.members[0], role)).all()
        assert (everywhere(alone, role) == everywhere(of_one, role)).all()
    assert unskew.make("dce-dr", n_members=1) == unskew.make("dce-dr")


def test_another_member_can_be_fitted_alone(model, log):
    alone = DCE.fit(log, seed=5, training=replace(SHORT, member=2, part=2))
    assert (everywhere(alone) == everywhere(model.members[2])).all()


def test_members_hold_out_disjoint_parts_so_that_together_they_have_seen_every_rating(model, log):
    held_out = np.concatenate([member.split.holdout_rows for member in model.members])
    assert len(np.unique(held_out)) == len(held_out)
    assert len(model.holdout) == 0
    assert len(model.split.train_rows) == len(log)


def test_one_seed_gives_the_same_bits_and_another_seed_shares_no_member(model, log):
    again, other = (unskew.Ensemble(DCE, n_members=3).fit(log, seed=seed, training=SHORT) for seed in (5, 6))
    assert (everywhere(again) == everywhere(model)).all()
    assert not any((everywhere(one) == everywhere(two)).all() for one in model.members for two in other.members)


class Inline:
    """Stands for processes, which `tests/bench` starts: what goes there and comes back is pickled, in any order."""

    def __init__(self, count, work, given):
        assert count == 2
        self.work, self.given = (pickle.loads(pickle.dumps(part)) for part in (work, given))

    def results(self, tasks):
        for task in reversed(pickle.loads(pickle.dumps(tasks))):
            yield self.work(task, self.given)

    def close(self):
        pass


def test_members_fitted_side_by_side_have_the_same_bits(model, log, monkeypatch):
    monkeypatch.setattr(import_module("unskew.methods.ensemble"), "Processes", Inline)
    elsewhere = unskew.Ensemble(DCE, n_members=3).fit(log, seed=5, training=replace(SHORT, workers=2))
    assert (everywhere(elsewhere) == everywhere(model)).all()
    for one, other in zip(model.members, elsewhere.members, strict=True):
        assert (everywhere(one) == everywhere(other)).all()
        assert (one.overlap, one.calibration) == (other.overlap, other.calibration)
        assert one.training == replace(other.training, workers=1)
        assert one.log is other.log is log


def test_what_cannot_go_to_another_process_is_refused_in_a_sentence(log):
    method = unskew.Ensemble(unskew.IPS(propensity=unskew.Known(lambda users, items: np.full(len(users), 0.5))), 2)
    with pytest.raises(ParameterError, match=r"cannot go to another process .*fit with workers=1"):
        method.fit(log, training=replace(SHORT, workers=2))


def test_every_registered_method_can_have_members_and_go_to_another_process():
    for entry in unskew.methods():
        method = unskew.make(entry.name, n_members=3)
        assert method == unskew.Ensemble(entry.build(), 3)
        assert pickle.loads(pickle.dumps(method)) == method
        assert from_plain(to_plain(method)) == method


def test_a_saved_ensemble_is_one_folder_and_answers_with_the_same_bits(model, tmp_path):
    model.save(tmp_path / "model")
    loaded = unskew.load(tmp_path / "model")
    assert loaded.method == model.method
    for role in ("prediction", "imputation", "propensity"):
        assert (everywhere(loaded, role) == everywhere(model, role)).all()
    for one, other in zip(model.members, loaded.members, strict=True):
        assert (everywhere(one) == everywhere(other)).all()
        assert (one.overlap, one.calibration, one.training.lasting) == (
            other.overlap,
            other.calibration,
            other.training,
        )
        assert (one.split.holdout_rows == other.split.holdout_rows).all()
    assert loaded.history.notes == model.history.notes
    again = read_recipe(tmp_path / "model" / "recipe.toml")
    assert again[0] == model.method


def test_graded_ratings_are_averaged_on_their_own_scale(log):
    ratings = np.random.default_rng(0).integers(1, 6, len(log))
    ids = log.user_ids.take(log.users), log.item_ids.take(log.items)
    graded = unskew.RatingLog.from_arrays(*ids, ratings, positive=None, rating_scale=(1, 5))
    model = unskew.Ensemble(unskew.Naive(net=NET), 2).fit(graded, training=SHORT)
    each = [member.predict(*ids) for member in model.members]
    np.testing.assert_allclose(model.predict(*ids), np.mean(each, axis=0), rtol=1e-12)
    assert unskew.evaluate(model, graded)["mse"] > 0
    assert model.recommend(k=2).num_rows == 2 * graded.n_users


def test_an_interrupted_ensemble_goes_on_with_the_member_it_was_at(log, model, tmp_path, monkeypatch):
    training = replace(SHORT, checkpoint=str(tmp_path / "states"), checkpoint_every=2)
    written = []

    def save(self, content, arrays, write=Checkpoint.save):
        write(self, content, arrays)
        written.append(self.folder.name)
        if written.count("member.1") == 3:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "save", save)
        with pytest.raises(KeyboardInterrupt):
            unskew.Ensemble(DCE, n_members=3).fit(log, seed=5, training=training)
        assert set(written) == {"member.0", "member.1"}
        begun, written[:] = list(written), ["member.1"] * 4
        resumed = unskew.Ensemble(DCE, n_members=3).fit(log, seed=5, training=training)
    assert "member.0" not in written
    assert 0 < written.count("member.1") - 4 < written.count("member.2")
    assert begun.count("member.1") == 3
    assert (everywhere(resumed) == everywhere(model)).all()


def test_an_ensemble_that_shares_a_hold_out_can_be_judged_by_the_log_and_another_cannot(model, log):
    with pytest.raises(DataError, match="fit with same_holdout=True"):
        model.diagnose(n_folds=2, training=SHORT)
    with pytest.raises(DataError, match="ensembles with same_holdout=True"):
        unskew.estimate_risk(model)
    sharing = unskew.Ensemble(DCE, n_members=2, same_holdout=True).fit(log, seed=5, training=SHORT)
    assert (sharing.split.holdout_rows == sharing.members[0].split.holdout_rows).all()
    assert (everywhere(sharing.members[1]) != everywhere(model.members[1])).any()
    found = sharing.diagnose(n_folds=2, training=SHORT)
    assert {entry.used for entry in found.calibration} >= {"after"}  # the experts of every member are in it


def test_new_users_are_folded_into_every_member(model, log):
    frame = {"user_id": [1000, 1000], "item_id": log.item_ids.take([0, 1]).to_pylist(), "rating": [1.0, 0.0]}
    folded = model.fold_in(pa.table(frame))
    each = [member.predict([1000] * 3, [2, 3, 4]) for member in folded.members]
    np.testing.assert_allclose(folded.predict([1000] * 3, [2, 3, 4]), np.mean(each, axis=0), rtol=1e-12)


def test_a_recipe_file_holds_an_ensemble(tmp_path):
    method = unskew.Ensemble(DCE, n_members=4, same_holdout=True)
    write_recipe(tmp_path / "recipe.toml", method)
    assert read_recipe(tmp_path / "recipe.toml")[0] == method


def test_ensembles_of_ensembles_and_of_nobody_are_refused():
    with pytest.raises(ParameterError, match="give it more members"):
        unskew.Ensemble(unskew.Ensemble(DCE))
    with pytest.raises(ParameterError, match="n_members"):
        unskew.make("naive", n_members=0)
