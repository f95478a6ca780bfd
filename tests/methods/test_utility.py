"""Methods over selection on utility: safe without evidence, better with it, and open about their assumption."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

import unskew
from unskew.errors import ParameterError
from unskew.propensity.base import Propensity
from unskew.propensity.utility import FittedUtility
from unskew.training.plan import Role

SHORT = unskew.Training(max_epochs=2, progress=False)
LIGHT = unskew.Utility(base=unskew.Factors(n_folds=2), n_folds=2, n_repeats=1)
PLAIN = unskew.Factors(n_folds=2)


@dataclass(frozen=True, eq=False)
class Prefitted(unskew.Utility):
    """What was found before, whatever the log."""

    known: FittedUtility = None

    def fit_split(self, split, **_):
        return self.known


@pytest.fixture(scope="module")
def small_world():
    """In which liking has no part in seeing."""
    return unskew.simulate(100, 60, density=0.15, selection="popularity", n_factors=2, seed=0)


def everywhere(model):
    return model.predict_codes(*np.divmod(np.arange(model.log.n_pairs), model.log.n_items))


def calibrated(method):
    return unskew.DoublyCalibrated(method, propensity=unskew.GlobalPlatt(), imputation=unskew.GlobalPlatt())


@pytest.mark.parametrize(
    ("ours", "plain"),
    [
        (unskew.NaiveUtility(utility=LIGHT), unskew.Naive()),
        (unskew.UtilityModel(utility=LIGHT), unskew.Naive()),
        (unskew.IPS(propensity=LIGHT), unskew.IPS(propensity=PLAIN)),
        (unskew.DRJL(propensity=LIGHT), unskew.DRJL(propensity=PLAIN)),
        (calibrated(unskew.DRJL(propensity=LIGHT)), calibrated(unskew.DRJL(propensity=PLAIN))),
    ],
    ids=["naive", "joint", "ips", "dr", "dce"],
)
def test_without_evidence_a_method_behaves_as_without_utility_bit_for_bit(ours, plain, small_world):
    model = ours.fit(small_world.log, seed=5, training=SHORT)
    assert model.selection.slope == 0
    assert (everywhere(model) == everywhere(plain.fit(small_world.log, seed=5, training=SHORT))).all()


@pytest.fixture(scope="module")
def mapped(liking, liking_world):
    method = unskew.NaiveUtility(utility=Prefitted(known=liking))
    return method.fit(liking_world.log, seed=1, training=unskew.Training(max_epochs=12, progress=False))


def test_the_mapped_naive_ranks_as_naive_does_and_is_nearer_the_truth(mapped, liking_world):
    naive = unskew.Naive().fit(liking_world.log, seed=1, training=unskew.Training(max_epochs=12, progress=False))
    before, after = everywhere(naive), everywhere(mapped)
    order = np.argsort(before, kind="stable")
    assert (np.diff(after[order]) > -1e-6).all()  # but for the rounding of float32
    assert liking_world.risk(mapped.predict_codes) < liking_world.risk(naive.predict_codes) - 0.02
    assert mapped.recommend([0, 1], k=5)["item_id"].equals(naive.recommend([0, 1], k=5)["item_id"])


def test_the_joint_likelihood_starts_from_the_two_step_slope_and_comes_nearer_the_truth(liking, liking_world, mapped):
    method = unskew.UtilityModel(utility=Prefitted(known=liking))
    model = method.fit(liking_world.log, seed=1, training=unskew.Training(max_epochs=12, progress=False))
    assert model.player("slope").value == pytest.approx(liking.slope, abs=0.05)
    assert model.player("slope").value != pytest.approx(liking.slope, abs=1e-6)
    assert any("joint likelihood ended" in note for note in model.history.notes)
    assert liking_world.risk(model.predict_codes) < liking_world.risk(mapped.predict_codes)


def test_weighting_by_the_chance_given_the_rating_lowers_the_true_risk(liking, liking_world):
    training = unskew.Training(max_epochs=12, progress=False)
    ours, plain = (
        unskew.SNIPS(propensity=propensity).fit(liking_world.log, seed=1, training=training)
        for propensity in (Prefitted(known=liking), unskew.Additive())
    )
    assert liking_world.risk(ours.predict_codes) < liking_world.risk(plain.predict_codes) - 0.02


def test_the_weights_of_seen_pairs_are_clipped_before_the_rating_counts(liking, liking_world):
    method = unskew.IPS(propensity=Prefitted(known=liking))
    model = method.fit(liking_world.log, seed=1, training=SHORT)
    density = len(liking_world.log) / liking_world.n_pairs
    assert model.overlap.clip == pytest.approx(density)
    assert model.overlap.largest_weight > 1 / density
    train = unskew.holdout_split(liking_world.log, 0.1, seed=1).train
    p, given = liking.pair(train.users, train.items), liking.given_rating(train.users, train.items, train.ratings)
    weights = 1 / (np.maximum(p, density) * given / p)
    assert model.overlap.largest_weight == pytest.approx(weights.max(), rel=1e-4)
    assert model.overlap.clipped_seen == (p < density).sum()


def test_another_assumption_gives_the_model_that_would_have_been_fitted(liking_world):
    log = liking_world.log
    for method in (
        unskew.NaiveUtility(utility=unskew.Utility(base=unskew.Uniform(), n_folds=2, n_repeats=1)),
        unskew.SNIPS(propensity=unskew.Utility(base=unskew.Additive(), n_folds=2, n_repeats=1)),
    ):
        training = unskew.Training(max_epochs=4, progress=False)
        moved = method.fit(log, seed=2, training=training).at(unexplained=0.4)
        name = "utility" if isinstance(method, unskew.NaiveUtility) else "propensity"
        other = replace(method, **{name: replace(getattr(method, name), unexplained=0.4)})
        assert moved.method == other
        assert (everywhere(moved) == everywhere(other.fit(log, seed=2, training=training))).all()
        assert moved.selection.numbers.unexplained == 0.4


def test_a_saved_model_answers_with_the_same_bits_and_can_change_its_assumption(mapped, liking_world, tmp_path):
    model = unskew.DRJL(propensity=unskew.Utility(base=unskew.Additive(), n_folds=2, n_repeats=1)).fit(
        liking_world.log, seed=2, training=unskew.Training(max_epochs=4, progress=False)
    )
    assert model.selection.slope
    model.save(tmp_path / "model")
    loaded = unskew.load(tmp_path / "model")
    assert (everywhere(loaded) == everywhere(model)).all()
    rows = liking_world.log.users, liking_world.log.items, liking_world.log.ratings
    ours, theirs = (m.cast.players["propensity"].given_rating(*rows) for m in (model, loaded))
    assert (ours == theirs).all()
    assert loaded.selection.verdict == model.selection.verdict
    assert (everywhere(loaded.at(unexplained=0.0)) == everywhere(model.at(unexplained=0.0))).all()


def test_checkpoints_of_inner_fits_stay_apart_and_change_no_bit(small_world, tmp_path):
    method = unskew.NaiveUtility(utility=LIGHT)
    kept = replace(SHORT, checkpoint=str(tmp_path / "checkpoint"), checkpoint_every=3)
    model = method.fit(small_world.log, seed=5, training=kept)
    assert (everywhere(model) == everywhere(method.fit(small_world.log, seed=5, training=SHORT))).all()
    assert (everywhere(model.at(unexplained=0.5)) == everywhere(model)).all()


def test_methods_that_assume_nothing_about_unexplained_liking_say_so(small_world):
    model = unskew.Naive().fit(small_world.log, training=SHORT)
    with pytest.raises(ParameterError, match="Naive assumes nothing about unexplained liking"):
        model.at(unexplained=0.5)
    assert model.selection is None


def test_every_method_that_takes_a_propensity_takes_this_one(liking, liking_world):
    for entry in unskew.methods():
        method = entry.build()
        if isinstance(getattr(method, "propensity", None), Propensity) and "second_propensity" not in vars(method):
            plan = replace(method, propensity=Prefitted(known=liking)).plan()
            assert isinstance(plan.roles["propensity"], Role)
    model = unskew.MRDR(propensity=Prefitted(known=liking)).fit(liking_world.log, training=SHORT)
    assert np.isfinite(everywhere(model)).all()
