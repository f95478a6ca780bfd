"""The loop moves exactly what a step names, stops, restores, fits and copies, and repeats itself to the bit."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from unskew import DRJL, DivergedError, GlobalPlatt, Naive, PlanError, RatingLog, Training, make, simulate
from unskew.data.split import holdout_split, scarcity
from unskew.losses.columns import Column, value_of
from unskew.losses.weighting import naive
from unskew.nets.base import Part
from unskew.nets.factors import MF, Tower
from unskew.training.loop import L2_PER_SCARCITY, resolved, train
from unskew.training.plan import FitSpec, Plan, Role, Stage, Update, turns

SHORT = Training(max_epochs=3, progress=False)
ONCE = replace(SHORT, max_epochs=1)
NET = MF(n_factors=4)


@pytest.fixture(scope="module")
def split():
    return holdout_split(simulate(n_users=60, n_items=40, density=0.2, seed=0).log, 0.1)


def loss_of(role):
    return lambda v: naive(v, role)


def plan_of(*steps, roles=("a", "b"), **stage):
    steps = steps or tuple((Update((role,), loss_of(role)),) for role in roles)
    return Plan({role: Role(NET) for role in roles}, (Stage("only", steps, **stage),))


def state(trained, role):
    return np.concatenate([value.ravel() for value in trained.parts[role].state().values()])


def test_an_update_moves_the_roles_it_names_even_if_its_loss_uses_others(split):
    states, slopes = {}, {}

    def spy(v):
        now = np.concatenate([x.ravel() for x in v.parts["b"].state().values()])
        np.testing.assert_array_equal(now, states.setdefault("b", now))
        slopes.update({role: isinstance(v.observed.probability(role), Column) for role in "ab"})
        return naive(v, "a") + naive(v, "b")

    stages = (Stage(role, ((Update((role,), loss),),)) for role, loss in (("a", spy), ("b", loss_of("b"))))
    trained = train(Plan({"a": Role(NET), "b": Role(NET)}, tuple(stages)), split, training=SHORT)
    assert (state(trained, "b") != states["b"]).any()
    assert slopes == {"a": True, "b": False}


def test_a_trained_role_without_slopes_is_an_error(split):
    for loss in (loss_of("b"), lambda v: value_of(naive(v, "a"))):
        plan = plan_of((Update(("a",), loss),), (Update(("b",), loss_of("b")),))
        with pytest.raises(PlanError, match=r"gives no slopes to \['a'\], which it is to train"):
            train(plan, split, training=ONCE)


def test_updates_of_one_step_read_the_same_logits_and_move_once(split):
    """Two updates of weights 1 and 2 are one update with the weighted sum of their losses."""
    two = (Update(("a",), loss_of("a")), Update(("a",), lambda v: v.sampled.mean(v.sampled.probability("a")), 2.0))

    def summed(v):
        return two[0].loss(v) + 2.0 * two[1].loss(v)

    steps = two, (Update(("a",), summed),)
    apart, together = (train(plan_of(step, roles=("a",)), split, training=SHORT) for step in steps)
    np.testing.assert_allclose(state(apart, "a"), state(together, "a"), atol=2e-4)
    in_turn = train(plan_of((two[0],), (two[1],), roles=("a",)), split, training=SHORT)
    assert np.abs(state(in_turn, "a") - state(together, "a")).max() > 0.01


def test_shared_vectors_move_once_a_step_and_every_tower_sees_it(split):
    towers = dict.fromkeys("ab", Role(Tower(), shares_with="vectors"))
    roles = {"vectors": Role(MF(n_factors=4, biases=False)), **towers}
    stage = Stage("only", tuple((Update((role,), loss_of(role)),) for role in "ab"))
    trained = train(Plan(roles, (stage,)), split, training=ONCE)
    steps = trained.parts["vectors"].tables["users"].marks[0, :-1]
    readings = np.bincount(split.train.users, minlength=60)
    assert (steps[:-1] <= 2 * trained.feed.n_batches).all()
    assert (steps[:-1] > 0).tolist() == (readings > 0).tolist()
    assert stage.moves(roles) == {"vectors", "a", "b"}
    assert stage._replace(steps=stage.steps[:1]).moves(roles) == {"vectors", "a", "b"}


def test_the_best_state_of_all_that_moves_is_restored_after_patience(split):
    risks, seen = iter([0.5, 0.3, 0.4, 0.6, 0.7, 0.8]), []

    def validate(v):
        seen.append(v.parts["a"].state())
        return next(risks)

    roles = {"a": Role(NET), "counts": Role(Counts())}
    stage = Stage("only", ((Update(("a",), loss_of("a")),),), ("counts",), validate=validate)
    trained = train(Plan(roles, (stage,)), split, training=Training(max_epochs=50, patience=3, progress=False))
    history, users = trained.history, trained.parts["a"].tables["users"]
    assert len(history.epochs) == 5
    assert history.kept == {"only": 2}
    assert history.stopped == {"only": "stopped: no better in 3 epochs"}
    learned = users.marks[0, :-1] > 0
    np.testing.assert_array_equal(users.value[learned], seen[1]["users"][learned])
    assert trained.parts["counts"].planned == [1 / 50, 2 / 50]
    assert history.notes[0] == "asked at 0.04"  # the part that was kept


def test_the_default_batch_grows_with_the_square_root_of_the_log():
    assert [Training().batch_size_for(n) for n in (10, 6_264, 280_000, 10_000_000)] == [64, 256, 2048, 16_384]
    assert Training(batch_size=7).batch_size_for(10**6) == 7
    assert Training(progress=True).lasting == Training()


class Tally(Part):
    def __init__(self, planned):
        self.planned, self.notes = planned, (f"asked at {planned[-1]}",)


@dataclass(frozen=True)
class Counts(FitSpec):
    """Remembers what share of the plan was over whenever it was fitted."""

    def fit_in(self, context):
        assert len(context.view.observed) + len(context.train.observed) == len(context.log)
        return Tally([*(context.previous.planned if context.previous else []), context.planned])

    def from_state(self, state, owner=None):
        return Tally([1.0])


def test_a_stage_without_steps_fits_once_and_one_with_steps_after_each_epoch(split):
    roles = {"a": Role(NET), "counts": Role(Counts())}
    steps = ((Update(("a",), loss_of("a")),),)
    stages = Stage("first", fits=("counts",)), Stage("second", steps, fits=("counts",))
    trained = train(Plan(roles, stages), split, training=SHORT)
    assert trained.parts["counts"].planned == [1.0, 1 / 3, 2 / 3, 1.0]
    assert trained.history.notes.count("asked at 1.0") == 1  # and not once for each epoch


def test_a_copy_gives_what_was_learned_to_another_role(split):
    first, second = (Stage(role, ((Update((role,), loss_of(role)),),)) for role in "ab")
    plan = Plan({"a": Role(NET), "b": Role(NET, rate=0.0)}, (first, second._replace(copies=(("a", "b"),))))
    trained = train(plan, split, training=ONCE)
    np.testing.assert_array_equal(state(trained, "a"), state(trained, "b"))


def test_steps_share_a_batch_unless_they_have_their_own(split):
    for own in (False, True):
        seen = []

        def loss(v, seen=seen):
            seen.append(v.observed.users.tobytes() + v.observed.items.tobytes())
            return naive(v, "a")

        plan = plan_of((Update(("a",), loss),), (Update(("a",), loss),), roles=("a",), own_batches=own)
        trained = train(plan, split, training=ONCE)
        assert len(seen) == 2 * trained.feed.n_batches
        assert len(set(seen)) == len(seen) if own else len(seen) // 2


def test_what_learned_nothing_is_counted(split):
    log = split.log
    ids = {"user_ids": range(70), "item_ids": range(40)}
    padded = RatingLog.from_arrays(log.users, log.items, log.ratings, positive=1, **ids)
    padded = holdout_split(padded, 0.1)
    trained = train(Plan({"prediction": Role(NET)}, Naive().plan().stages), padded, training=ONCE)
    missing = 70 + 40 - len(np.unique(padded.train.users)) - len(np.unique(padded.train.items))
    assert missing >= 10
    (note,) = trained.history.notes
    assert note.startswith(f"{missing} users or items had nothing to teach the prediction in stage 'prediction'")
    net = trained.parts["prediction"]
    np.testing.assert_array_equal(net.value("users")[65], net.value("users")[-1])


@pytest.mark.parametrize(
    ("loss", "risk", "sentence"),
    [
        (float("inf"), 1.0, r"stage 'only', role 'a', epoch 1; lower its learning rate"),
        (1.0, float("nan"), "validation risk of stage 'only' is nan after epoch 1"),
    ],
)
def test_what_is_not_finite_is_reported_with_its_place(split, loss, risk, sentence):
    plan = plan_of((Update(("a",), lambda v: naive(v, "a") * loss),), roles=("a",), validate=lambda v: risk)
    with np.errstate(invalid="ignore"), pytest.raises(DivergedError, match=sentence):
        train(plan, split, training=SHORT)


ONE = Stage("s", turns(a=naive))


@pytest.mark.parametrize(
    ("roles", "stage", "sentence"),
    [
        ({"a": Role(NET)}, Stage("s", turns(b=naive)), r"stage 's' uses 'b', but it has only .*\['a'\]"),
        ({"a": Role(NET, calibrated_by="c")}, ONE, "'a' is calibrated by 'c'"),
        ({"a": Role(NET, shares_with="c")}, ONE, "'a' shares vectors with 'c'"),
        ({"a": Role(NET, calibrated_by="c"), "c": Role(GlobalPlatt())}, ONE, r"No stage trains or fits \['c'\]"),
        ({"a": Role(NET)}, Stage("s", fits=("a",)), "'s' fits the role 'a', which MF does not allow"),
        ({"a": Role(NET)}, Stage("s", copies=(("a", "z"),)), "stage 's' uses 'z'"),
    ],
)
def test_a_plan_that_does_not_fit_together_is_refused(roles, stage, sentence):
    with pytest.raises(PlanError, match=sentence):
        Plan(roles, (stage,))


def grid(n_users, n_items, **ids):
    """Everybody rates everything, in turn 1 and 0."""
    users, items = np.divmod(np.arange(n_users * n_items), n_items)
    return RatingLog.from_arrays(users, items, (users + items) % 2, positive=1, **ids)


def test_scarcity_is_the_noise_of_a_user_and_of_an_item():
    assert scarcity(grid(9, 4)) == pytest.approx(1 / 2 + 1 / 3)  # users have 4 ratings, items 9
    assert scarcity(grid(9, 4, user_ids=range(50), item_ids=range(70))) == scarcity(grid(9, 4))
    uneven, even = (
        RatingLog.from_arrays(np.repeat([0, 1], counts), np.arange(8), np.arange(8) % 2, positive=1)
        for counts in ([7, 1], [4, 4])
    )
    assert scarcity(uneven) < scarcity(even)  # most ratings are of somebody who is well known


def test_a_plan_leaves_l2_and_clip_to_the_log_unless_a_method_has_numbers():
    log = grid(12, 10)
    facts, rule = holdout_split(log), L2_PER_SCARCITY * scarcity(log)
    free, fixed, apart = (
        resolved(method.plan().roles, facts) for method in (DRJL(), DRJL(l2=0.3, clip=0.2), DRJL(imputation_l2=0.5))
    )
    assert free["prediction"].l2 == free["imputation"].l2 == pytest.approx(rule)
    assert free["propensity"].clip == 1.0
    assert (fixed["prediction"].l2, fixed["imputation"].l2, fixed["propensity"].clip) == (0.3, 0.3, 0.2)
    assert (apart["prediction"].l2, apart["imputation"].l2) == (pytest.approx(rule), 0.5)
    assert resolved(make("tdr-jl").plan().roles, facts)["prediction"].l2 == pytest.approx(2 * rule)
