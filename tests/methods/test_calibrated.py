"""The doubly calibrated estimator: how it rewrites plans, what it refuses, and that it calibrates."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy.special import expit, logit

from unskew.calibration.experts import ExpertPlatt
from unskew.calibration.platt import Calibrator, GlobalPlatt, UserPlatt
from unskew.datasets.world import World, simulate
from unskew.errors import ParameterError, PlanError
from unskew.losses.columns import Column
from unskew.losses.weighting import naive
from unskew.methods.calibrated import DoublyCalibrated, calibrate
from unskew.methods.multitask import ESCM2DR, MultiDR
from unskew.methods.robust import BRDDR, DR, DRJL, DRMSE, MR, MRDR, TDR, TMRDR, StableDR
from unskew.methods.weighting import AT, CVIB, EIB, IPS, SNIPS, Naive
from unskew.propensity.additive import Additive
from unskew.propensity.base import FittedPropensity, Propensity
from unskew.propensity.counted import Known, Popularity, Uniform
from unskew.propensity.factors import Factors
from unskew.registry import make
from unskew.training.options import Training
from unskew.training.plan import Plan, Stage, Update

SHORT = Training(max_epochs=4, progress=False)
ADDITIVE = DRJL(propensity=Additive())
BOTH = ("propensity", "imputation")


@pytest.fixture(scope="module")
def world():
    return simulate(n_users=300, n_items=200, density=0.1, selection="taste", seed=3)


def everywhere(world):
    return tuple(codes.astype(np.int32) for codes in np.divmod(np.arange(world.n_pairs), world.n_items))


def test_the_rewritten_plan_is_the_tri_level_loop():
    """Propensity, its experts, then per batch imputation and prediction and per epoch the imputation's experts."""
    plan, base = DoublyCalibrated(ADDITIVE).plan(), ADDITIVE.plan()
    assert [stage.name for stage in plan.stages] == ["propensity", "propensity calibration", "prediction"]
    assert plan.stages[1].fits == ("propensity_calibrator",)
    assert plan.stages[2].fits == ("imputation_calibrator",)
    assert [update.trains for update in plan.stages[2].updates] == [("imputation",), ("prediction",)]
    assert list(plan.stages[2].updates) == list(base.stages[1].updates)
    for target in BOTH:
        assert plan.roles[target] == base.roles[target]._replace(calibrated_by=f"{target}_calibrator")
        assert plan.roles[f"{target}_calibrator"].part == ExpertPlatt()
    assert plan.roles["prediction"] == base.roles["prediction"]


@pytest.mark.parametrize("base", [DR(), DRJL(), MRDR(), DRMSE(), TDR(), TMRDR(), MR(), BRDDR(), StableDR()], ids=repr)
def test_every_doubly_robust_base_can_be_calibrated(base, world):
    if not isinstance(base, StableDR):
        base = replace(base, propensity=Additive())
    log = world.log.take(world.log.users < 60)
    model = DoublyCalibrated(base, n_experts=2).fit(log, training=replace(SHORT, max_epochs=2))
    assert {entry.role for entry in model.calibration.roles} == set(BOTH)
    assert "propensity: ECE" in str(model.calibration)


@pytest.mark.parametrize(
    ("settings", "calibrated"),
    [
        ({"propensity": None}, {"imputation": ExpertPlatt()}),
        ({"imputation": None}, {"propensity": ExpertPlatt()}),
        (dict.fromkeys(BOTH, GlobalPlatt()), dict.fromkeys(BOTH, GlobalPlatt())),
        (dict.fromkeys(BOTH, UserPlatt()), dict.fromkeys(BOTH, UserPlatt())),
        ({"n_experts": 3}, dict.fromkeys(BOTH, ExpertPlatt(n_experts=3))),
    ],
    ids=["imputation only", "propensity only", "global", "user", "three experts"],
)
def test_ablations_of_the_paper_choose_what_calibrates(settings, calibrated):
    roles = DoublyCalibrated(TDR(), **settings).plan().roles
    found = {name.removesuffix("_calibrator"): r.part for name, r in roles.items() if isinstance(r.part, Calibrator)}
    assert found == calibrated


def test_the_named_ablations_are_those_of_the_paper():
    randomly = ExpertPlatt(assignment="random")
    assert make("dce-dr/random") == DoublyCalibrated(DRJL(), randomly, randomly)
    assert make("dce-dr/global") == DoublyCalibrated(DRJL(), GlobalPlatt(), GlobalPlatt())
    assert make("dce-dr/user") == DoublyCalibrated(DRJL(), UserPlatt(), UserPlatt())
    assert make("dce-dr/imputation-only") == DoublyCalibrated(DRJL(), propensity=None)
    assert make("dce-dr/propensity-only") == DoublyCalibrated(DRJL(), imputation=None)


@pytest.mark.parametrize(
    ("base", "missing"),
    [(base, "propensity") for base in (Naive(), EIB(), CVIB())]
    + [(base, "imputation") for base in (IPS(), SNIPS(), AT())],
)
def test_a_base_without_the_role_is_refused_with_a_way_out(base, missing):
    with pytest.raises(PlanError, match=f"{type(base).__name__} has no {missing} to calibrate; pass {missing}=None"):
        DoublyCalibrated(base).plan()


@pytest.mark.parametrize("base", [MultiDR(), ESCM2DR()])
def test_a_base_that_trains_all_in_one_step_is_refused(base):
    with pytest.raises(PlanError, match=f"{type(base).__name__} trains its propensity in one step with the prediction"):
        DoublyCalibrated(base).plan()


def test_wrong_calibrators_are_refused_with_the_way_there():
    with pytest.raises(ParameterError, match="both None"):
        DoublyCalibrated(DRJL(), propensity=None, imputation=None)
    with pytest.raises(ParameterError, match=r"must be a calibrator .* not Uniform\(\); settings of the base go to"):
        make("dce-tdr", propensity=Uniform())


def test_what_is_calibrated_is_reported_and_nothing_else(world):
    method, short = IPS(propensity=Additive()), replace(SHORT, max_epochs=1)
    model = DoublyCalibrated(method, imputation=None).fit(world.log, training=short)
    assert [entry.role for entry in model.calibration.roles] == ["propensity"]
    assert method.fit(world.log, training=short).calibration is None


def test_a_propensity_that_moves_in_the_loop_is_calibrated_every_epoch():
    roles = {name: DRJL().learner() for name in ("prediction", *BOTH)}
    steps = tuple((Update((name,), naive),) for name in roles)
    plan = calibrate(Plan(roles, (Stage("all", steps),)), "propensity", GlobalPlatt())
    assert [stage.fits for stage in plan.stages] == [("propensity_calibrator",)]
    assert "propensity_calibrator" in plan.stages[0].moves(plan.roles)


def test_the_imputation_learns_raw_while_the_prediction_sees_it_calibrated(world):
    found = {}

    class Spy(DRJL):
        def imputation_loss(self, v):
            found["slopes"] = isinstance(v.observed.probability("imputation"), Column)
            return super().imputation_loss(v)

        def prediction_loss(self, v):
            if "imputation_calibrator" in v.parts.parts:
                raw = expit(v.observed.logits("imputation"))
                found["gap at rest"] = np.abs(v.observed.probability("imputation") - raw).max()
            return super().prediction_loss(v)

    DoublyCalibrated(Spy(propensity=Additive())).fit(world.log, training=SHORT)
    assert found["slopes"]
    assert found["gap at rest"] > 1e-4


def test_propensities_at_rest_are_asked_once_for_the_training_rows(world):
    asked = []

    def count(users, items):
        asked.append(len(users))
        return world.propensity(users, items)

    training = Training(max_epochs=6, patience=6, batch_size=64, progress=False)
    DoublyCalibrated(DRJL(propensity=Known(count))).fit(world.log, training=training)
    n_train = len(world.log) - round(0.1 * len(world.log))
    assert asked.count(n_train) <= 3  # for the stage, and for the report on weights
    assert 64 not in asked


@pytest.mark.parametrize("calibrator", [GlobalPlatt(), GlobalPlatt(slope=False), UserPlatt(), ExpertPlatt()], ids=repr)
def test_after_calibration_the_mean_propensity_is_the_base_rate(world, calibrator):
    """Within 2% of |O|/|D|, from a propensity that was far off; few held-out ratings would err by more themselves."""
    training = Training(max_epochs=1, holdout=0.5, progress=False)
    base = DRJL(propensity=Popularity(relative=True))
    model = DoublyCalibrated(base, propensity=calibrator, imputation=None).fit(world.log, training=training)
    base_rate = len(world.log) / world.n_pairs
    assert model.parts.answer("propensity", *everywhere(world)).mean() == pytest.approx(base_rate, rel=0.02)
    (report,) = model.calibration.roles
    assert report.before.mean > 3 * base_rate
    assert report.after.expected_error < report.before.expected_error / 5


# A propensity that errs in a known way: right in order, wrong in level and confidence, group by group.
GROUPS = np.array([(1.7, 0.6), (0.5, -1.6), (1.0, 0.0)])


class FittedDistorted(FittedPropensity):
    """sigmoid(a_g logit(p) + b_g) for the users of group g; the vectors show the group, under noise."""

    def __init__(self, world):
        self.world = world
        shown = np.eye(3)[np.arange(world.n_users) % 3]
        noise = np.random.default_rng([world.seed, 53]).normal(0, 0.3, shown.shape)
        self.vectors = np.vstack([shown + noise, shown.mean(0)]).astype(np.float32)

    def logits(self, users, items):
        a, b = GROUPS[users % 3].T
        return (a * logit(np.clip(self.world.propensity(users, items), 1e-9, 1 - 1e-9)) + b).astype(np.float32)

    def user_vectors(self, users):
        return self.vectors[users]


@dataclass(frozen=True)
class Distorted(Propensity):
    world: World

    def fit_in(self, given):
        return FittedDistorted(self.world)

    def from_state(self, state, owner=None):
        return FittedDistorted(self.world)


def test_what_answers_out_of_fold_is_calibrated_on_all_training_ratings(world):
    """Every pair is answered by a net that has not learned from it; else only half the hold-out is left."""
    counted = []

    @dataclass(frozen=True, kw_only=True)
    class Counting(GlobalPlatt):
        def solve(self, examples, rng, once):
            counted.append(int(examples.labels.sum()))
            return super().solve(examples, rng, once)

    for n_folds in (3, 1):
        method = DoublyCalibrated(IPS(propensity=Factors(n_folds=n_folds)), Counting(), imputation=None)
        method.fit(world.log, training=replace(SHORT, max_epochs=12))
    held_out = round(0.1 * len(world.log))
    assert counted == [len(world.log) - held_out, held_out - held_out // 2]


@pytest.mark.parametrize("seed", range(2))
def test_experts_do_not_take_a_cross_fitted_propensity_from_the_truth(seed):
    """On half the hold-out alone they raise the mean of (p - p_hat)^2 by a quarter: who was held out is chance."""
    world = simulate(n_users=300, n_items=200, density=0.08, selection="taste", seed=seed)
    users, items = everywhere(world)
    method = DoublyCalibrated(IPS(propensity=Factors()), ExpertPlatt(step_back=False), imputation=None)
    model = method.fit(world.log, training=Training(max_epochs=20, progress=False), seed=seed)
    raw = expit(model.part("propensity").logits(users, items))
    answers, truth = model.parts.answer("propensity", users, items), world.propensity(users, items)
    assert ((answers - truth) ** 2).mean() < ((raw - truth) ** 2).mean()


@pytest.mark.parametrize("seed", range(3))
def test_experts_correct_errors_that_differ_between_users(seed):
    """Lower true error mean |p - p_hat| than one map for all and than one map a user."""
    world = simulate(n_users=450, n_items=200, density=0.1, selection="taste", seed=seed)
    users, items = everywhere(world)
    gaps = []
    for calibrator in (ExpertPlatt(), GlobalPlatt(), UserPlatt()):
        method = DoublyCalibrated(IPS(propensity=Distorted(world)), propensity=calibrator, imputation=None)
        model = method.fit(world.log, training=Training(max_epochs=1, progress=False), seed=seed)
        gaps.append(np.abs(model.parts.answer("propensity", users, items) - world.propensity(users, items)).mean())
    assert gaps[0] < gaps[1]
    assert gaps[0] < gaps[2]
