"""The loop moves exactly the roles an update names, stops, restores, and repeats itself to the bit."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import unskew
from unskew.data.split import holdout_split
from unskew.errors import DivergedError, ParameterError, PlanError
from unskew.nets.factors import MF
from unskew.risk.errors import log_error
from unskew.risk.estimators import naive
from unskew.training.loop import train
from unskew.training.options import Training
from unskew.training.plan import Fit, Plan, Role, Stage, Update

SHORT = Training(max_epochs=3, progress=False)


@pytest.fixture(scope="module")
def split():
    return holdout_split(unskew.simulate(n_users=60, n_items=40, density=0.2, seed=0).log, 0.1)


def loss_of(role):
    return lambda v: v.observed.error(role).mean()


def two_roles(updates, **stage):
    return Plan({"a": Role(MF()), "b": Role(MF())}, (Stage("only", updates, **stage),), log_error)


def state(player):
    return torch.cat([value.flatten() for value in player.state_dict().values()])


def test_an_update_moves_exactly_the_roles_it_names_even_if_its_loss_uses_others(split):
    def both(v):
        return (v.observed.error("a") + v.observed.error("b")).mean()

    # Two stages, so that each role is trained by somebody; the state after the first shows who moved in it.
    moves_a = two_roles((Update(("a",), both), Update(("b",), lambda v: v.observed.error("b").mean() * 0)))
    start = train(moves_a, split, training=replace(SHORT, max_epochs=1), seed=5)
    longer = train(moves_a, split, training=SHORT, seed=5)
    assert not torch.equal(state(start.cast.players["a"]), state(longer.cast.players["a"]))
    torch.testing.assert_close(state(start.cast.players["b"]), state(longer.cast.players["b"]), atol=1e-7, rtol=0)


def test_a_role_at_rest_speaks_without_gradient_and_a_learning_one_with(split):
    spoken = {}

    def spy(v):
        spoken["a"], spoken["b"] = v.observed.logit("a").requires_grad, v.observed.logit("b").requires_grad
        return v.observed.error("a").mean()

    train(two_roles((Update(("a",), spy), Update(("b",), loss_of("b")))), split, training=SHORT)
    assert spoken == {"a": True, "b": False}


def test_two_trainings_with_one_seed_agree_to_the_bit_at_any_number_of_threads(split):
    plan = two_roles((Update(("a",), loss_of("a")), Update(("b",), loss_of("b"))))
    states = []
    before = torch.get_num_threads()
    for threads in (1, 2):
        torch.set_num_threads(threads)
        states.append(state(train(plan, split, training=SHORT, seed=3).cast.players["b"]))
        assert torch.get_num_threads() == threads
    torch.set_num_threads(before)
    assert torch.equal(*states)
    assert not torch.equal(states[0], state(train(plan, split, training=SHORT, seed=4).cast.players["b"]))


def test_training_leaves_the_global_random_state_alone(split):
    torch_before, numpy_before = torch.random.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    train(
        two_roles((Update(("a", "b"), lambda v: v.observed.error("a").mean() + v.observed.error("b").mean()),)), split
    )
    assert torch.equal(torch.random.get_rng_state(), torch_before)
    np.testing.assert_array_equal(np.random.get_state()[1], numpy_before)  # noqa: NPY002


def test_the_best_state_is_restored_after_patience_is_exhausted(split):
    risks = iter([0.5, 0.3, 0.4, 0.6, 0.7, 0.8])
    seen = []

    def validate(v):
        seen.append(v.cast.players["a"].users.value.clone())
        return torch.tensor(next(risks))

    plan = Plan({"a": Role(MF())}, (Stage("only", (Update(("a",), loss_of("a")),), validate=validate),), log_error)
    trained = train(plan, split, training=Training(max_epochs=50, patience=3, progress=False))
    assert len(trained.history.epochs) == 5
    assert trained.history.kept == {"only": 2}
    users = trained.cast.players["a"].users
    assert torch.equal(users.value[users.learned], seen[1][users.learned])


def test_two_equal_updates_with_batches_of_their_own_both_run(split):
    seen = []

    def loss(v):
        seen.append(v.batch)
        return v.observed.error("a").mean()

    update = Update(("a",), loss, own_batch=True)
    plan = Plan({"a": Role(MF())}, (Stage("only", (update, update)),), log_error)
    trained = train(plan, split, training=replace(SHORT, max_epochs=1))
    assert len(seen) == 2 * trained.feed.n_batches
    assert len({id(batch) for batch in seen}) == len(seen)


def test_a_loss_that_is_not_finite_is_reported_with_stage_role_and_epoch(split):
    def explode(v):
        return v.observed.error("a").mean() * float("inf")

    plan = Plan({"a": Role(MF())}, (Stage("boom", (Update(("a",), explode),)),), log_error)
    with pytest.raises(DivergedError, match=r"stage 'boom', role 'a', epoch 1"):
        train(plan, split, training=SHORT)


def test_a_validation_risk_that_is_not_finite_is_reported(split):
    stage = Stage("prediction", (Update(("a",), loss_of("a")),), validate=lambda v: torch.tensor(float("nan")))
    with pytest.raises(DivergedError, match="validation risk of stage 'prediction' is nan after epoch 1"):
        train(Plan({"a": Role(MF())}, (stage,), log_error), split, training=SHORT)


@pytest.mark.parametrize("seed", [-1, 2**63])
def test_a_seed_out_of_range_is_refused(split, seed):
    with pytest.raises(ParameterError, match=str(seed)):
        train(two_roles((Update(("a", "b"), naive),)), split, seed=seed)


@pytest.mark.parametrize(
    ("roles", "stage", "sentence"),
    [
        (
            {"a": Role(MF())},
            Stage("s", (Update(("b",), naive),)),
            r"stage 's' trains 'b', but it has only the roles \['a'\]",
        ),
        ({"a": Role(MF()), "b": Role(MF())}, Stage("s", (Update(("a",), naive),)), r"No stage trains or fits \['b'\]"),
        ({"a": Role(MF(), calibrator="c")}, Stage("s", (Update(("a",), naive),)), "'a' is calibrated by 'c'"),
        ({"a": Role(MF())}, Stage("s", fits=(Fit("a"),)), "the role 'a' is a net"),
        ({"a": Role(unskew.Uniform())}, Stage("s", (Update(("a",), naive),)), "the role 'a' fits itself"),
    ],
)
def test_a_plan_that_does_not_fit_together_is_refused(roles, stage, sentence):
    with pytest.raises(PlanError, match=sentence):
        Plan(roles, (stage,), log_error)


@pytest.mark.parametrize(
    "wrong",
    [{"max_epochs": 0}, {"patience": 0}, {"batch_size": 0}, {"holdout": 0.0}, {"holdout": 1.0}, {"holdout_by": "x"}],
)
def test_training_options_out_of_range_are_refused_with_their_name(wrong):
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        Training(**wrong)


def test_the_default_batch_grows_with_the_square_root_of_the_log():
    assert [Training().batch_size_for(n) for n in (10, 6_264, 280_000, 10_000_000)] == [64, 256, 2048, 16_384]
