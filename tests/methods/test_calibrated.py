"""The doubly calibrated estimator: how it rewrites plans, what it refuses, and that it calibrates."""

from dataclasses import replace

import numpy as np
import pytest

import unskew
from unskew.errors import ParameterError, PlanError
from unskew.methods.calibrated import calibrate
from unskew.testing.distorted import Distorted
from unskew.training.plan import Fit, Plan, Stage, Update

SHORT = unskew.Training(max_epochs=4, progress=False)
ADDITIVE = unskew.DRJL(propensity=unskew.Additive())


@pytest.fixture(scope="module")
def world():
    return unskew.simulate(n_users=300, n_items=200, density=0.1, selection="taste", seed=3)


@pytest.fixture(scope="module")
def small_world():
    return unskew.simulate(n_users=50, n_items=40, density=0.15, selection="taste", seed=3)


def test_the_rewritten_plan_is_the_tri_level_loop():
    """Propensity, its experts, then per batch imputation and prediction and per epoch the imputation's experts."""
    plan = unskew.DoublyCalibrated(ADDITIVE).plan()
    assert [stage.name for stage in plan.stages] == ["propensity", "propensity calibration", "prediction"]
    assert plan.stages[1].fits == (Fit("propensity_calibrator"),)
    assert [update.trains for update in plan.stages[2].updates] == [("imputation",), ("prediction",)]
    assert plan.stages[2].fits == (Fit("imputation_calibrator", per="epoch"),)
    assert plan.roles["propensity"].calibrator == "propensity_calibrator"
    assert plan.roles["imputation"].calibrator == "imputation_calibrator"
    assert plan.stages[2].updates == ADDITIVE.plan().stages[1].updates


def test_a_propensity_that_learns_with_the_prediction_cannot_be_calibrated():
    with pytest.raises(PlanError, match="MultiDR trains its propensity in one step with the prediction"):
        unskew.DoublyCalibrated(unskew.MultiDR()).plan()


def test_the_imputation_learns_raw_while_the_prediction_hears_it_calibrated(world):
    heard = {}

    class Spy(unskew.DRJL):
        def imputation_loss(self, v):
            heard["while learning"] = v.observed.probability("imputation").requires_grad
            return super().imputation_loss(v)

        def prediction_loss(self, v):
            if "imputation_calibrator" in v.cast.players:
                raw = v.observed.logit("imputation").sigmoid()
                heard["gap at rest"] = (v.observed.probability("imputation") - raw).abs().max().item()
            return super().prediction_loss(v)

    unskew.DoublyCalibrated(Spy(propensity=unskew.Additive())).fit(world.log, training=SHORT)
    assert heard["while learning"]
    assert heard["gap at rest"] > 1e-4


def test_frozen_propensities_are_computed_once_for_the_training_rows(world):
    asked = []

    def count(users, items):
        asked.append(len(users))
        return world.propensity(users, items)

    method = unskew.DoublyCalibrated(unskew.DRJL(propensity=unskew.Known(count)))
    method.fit(world.log, training=unskew.Training(max_epochs=6, patience=6, batch_size=64, progress=False))
    n_train = len(world.log) - round(0.1 * len(world.log))
    assert asked.count(n_train) <= 2  # once for the stage, once for the overlap report
    assert 64 not in asked


def test_bases_without_the_role_or_without_rest_are_refused_with_a_way_out():
    with pytest.raises(PlanError, match="Naive has no propensity to calibrate; pass propensity=None"):
        unskew.DoublyCalibrated(unskew.Naive()).plan()
    with pytest.raises(PlanError, match="IPS has no imputation to calibrate; pass imputation=None"):
        unskew.DoublyCalibrated(unskew.IPS()).plan()

    class Joint(unskew.DRJL):
        def plan(self):
            plan = super().plan()
            update = Update(("imputation", "prediction"), self.prediction_loss)
            return replace(plan, stages=(plan.stages[0], Stage("prediction", (update,))))

    with pytest.raises(PlanError, match="in one step with the prediction"):
        unskew.DoublyCalibrated(Joint()).plan()
    with pytest.raises(ParameterError, match="both None"):
        unskew.DoublyCalibrated(unskew.DRJL(), propensity=None, imputation=None)


def test_a_propensity_handed_to_the_wrapper_instead_of_its_base_is_refused_with_the_way_there():
    with pytest.raises(
        ParameterError, match=r"must be a calibrator .* not Uniform\(\); settings of the base go to the base"
    ):
        unskew.make("dce-tdr", propensity=unskew.Uniform())


def test_a_base_without_imputation_can_have_its_propensity_calibrated(world):
    model = unskew.DoublyCalibrated(unskew.IPS(propensity=unskew.Additive()), imputation=None).fit(
        world.log, training=SHORT
    )
    assert [entry.role for entry in model.calibration.roles] == ["propensity"]


def test_a_propensity_that_moves_in_the_loop_is_recalibrated_every_epoch():
    def nothing(v):
        return v.observed.error().mean()

    roles = {name: unskew.DRJL().learner() for name in ("prediction", "imputation", "propensity")}
    updates = tuple(Update((name,), nothing) for name in roles)
    plan = calibrate(Plan(roles, (Stage("all", updates),), None), "propensity", unskew.GlobalPlatt())
    assert plan.stages[0].fits == (Fit("propensity_calibrator", per="epoch"),)
    assert not plan.roles["propensity_calibrator"].net.once


@pytest.mark.parametrize("base", [unskew.DRJL, unskew.MRDR, unskew.TDR])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"n_experts": 2},
        {"propensity": None},
        {"imputation": None},
        {"propensity": unskew.GlobalPlatt(), "imputation": unskew.GlobalPlatt()},
        {"propensity": unskew.UserPlatt(), "imputation": unskew.UserPlatt()},
    ],
    ids=str,
)
def test_every_base_and_every_ablation_trains(small_world, base, settings):
    method = unskew.DoublyCalibrated(base(propensity=unskew.Additive()), **settings)
    model = method.fit(small_world.log, training=unskew.Training(max_epochs=2, progress=False))
    expected = {"propensity", "imputation"} - {name for name, value in settings.items() if value is None}
    assert {entry.role for entry in model.calibration.roles} == expected
    if "n_experts" in settings:
        assert len(model.calibration["propensity"].usage) == 2


def test_after_calibration_the_mean_propensity_is_the_base_rate(world):
    """Within 2% of |O|/|D|, from a propensity that was far off (acceptance test 8)."""
    base_rate = len(world.log) / world.n_pairs
    users, items = np.divmod(np.arange(world.n_pairs), world.n_items)
    for calibrator in (unskew.GlobalPlatt(), unskew.GlobalPlatt(slope=False), unskew.UserPlatt(), unskew.ExpertPlatt()):
        # A large hold-out: with few held-out ratings their own sampling error exceeds 2%.
        training = unskew.Training(max_epochs=1, holdout=0.5, progress=False)
        method = unskew.DoublyCalibrated(
            unskew.DRJL(propensity=unskew.Popularity(relative=True)), propensity=calibrator, imputation=None
        )
        model = method.fit(world.log, training=training)
        assert model.propensity(users, items).mean() == pytest.approx(base_rate, rel=0.02)
        report = model.calibration["propensity"]
        assert report.before.mean > 3 * base_rate
        assert report.after.expected_error < report.before.expected_error / 5


def test_experts_mend_a_propensity_that_errs_differently_about_different_users():
    """Lower true error mean |p - p_hat| than one map for all and than one map a user."""
    gaps = []
    for seed in range(3):
        world = unskew.simulate(n_users=450, n_items=200, density=0.1, selection="taste", seed=seed)
        gap = {}
        for name, calibrator in [
            ("experts", unskew.ExpertPlatt()),
            ("global", unskew.GlobalPlatt()),
            ("user", unskew.UserPlatt()),
        ]:
            method = unskew.DoublyCalibrated(
                unskew.IPS(propensity=Distorted(world)), propensity=calibrator, imputation=None
            )
            model = method.fit(world.log, training=unskew.Training(max_epochs=1, progress=False), seed=seed)
            gap[name] = world.propensity_error(model.propensity)
        gaps.append(gap)
    for gap in gaps:
        assert gap["experts"] < gap["global"]
        assert gap["experts"] < gap["user"]


def test_the_report_prints_and_plots_before_and_after(small_world):
    model = unskew.DoublyCalibrated(ADDITIVE).fit(small_world.log, training=SHORT)
    text = str(model.calibration)
    assert "propensity: ECE" in text
    assert "experts have" in text
    assert len(model.calibration.plot().axes) == 2
    assert model.imputation([0, 1], [2, 3]).shape == (2,)
    assert ADDITIVE.fit(small_world.log, training=SHORT).calibration is None


def test_settings_that_are_the_bases_own_reach_it_through_the_wrapper():
    method = unskew.make("dce-dr", clip=0.07, n_experts=3, learning_rate=0.02)
    assert (method.base.clip, method.base.learning_rate, method.n_experts) == (0.07, 0.02, 3)
