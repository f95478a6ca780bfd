"""The compiled net held against the plain PyTorch net: logits, gradients, and parameters after a hundred steps."""

from concurrent.futures import ThreadPoolExecutor

import numba
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from unskew.nets import kernels
from unskew.nets.base import Catalogue
from unskew.nets.factors import MF

RECIPES = [MF(n_factors=6, spread=0.5), MF(n_factors=6, biases=False, spread=1.0), MF(n_factors=0)]


def build(recipe, engine, n_users=30, n_items=20):
    return recipe.build(Catalogue(n_users, n_items, 0.3, engine), torch.Generator().manual_seed(0))


def steps(net, count, size=64, n_users=30, n_items=20):
    rng = np.random.default_rng(5)
    for _ in range(count):
        users, items = (
            torch.from_numpy(rng.integers(n_users, size=size)),
            torch.from_numpy(rng.integers(n_items, size=size)),
        )
        labels = torch.from_numpy((rng.random(size) < 0.4).astype(np.float32))
        logits = torch.cat([net(users[:40], items[:40]), net(users[40:], items[40:])])  # two readings, one step
        loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, labels)
        loss.backward()
        net.step(0.05, 0.1)
    return loss.item()


@pytest.mark.parametrize("recipe", RECIPES, ids=repr)
def test_both_engines_agree_on_loss_and_parameters_after_a_hundred_steps(recipe):
    compiled, plain = build(recipe, "compiled"), build(recipe, "torch")
    assert steps(compiled, 100) == pytest.approx(steps(plain, 100), rel=1e-4)
    for name, value in plain.state_dict().items():
        torch.testing.assert_close(compiled.state_dict()[name], value, atol=2e-4, rtol=2e-3)


@pytest.mark.parametrize("recipe", RECIPES, ids=repr)
def test_one_step_has_the_same_moments_so_the_gradients_are_the_same(recipe):
    compiled, plain = build(recipe, "compiled"), build(recipe, "torch")
    steps(compiled, 1)
    steps(plain, 1)
    for ours, theirs in zip(compiled.tables(), plain.tables(), strict=True):
        torch.testing.assert_close(ours.first_moment, theirs.first_moment, atol=1e-7, rtol=1e-4)
        torch.testing.assert_close(ours.steps, theirs.steps)


@pytest.mark.parametrize("recipe", RECIPES, ids=repr)
def test_both_engines_answer_alike_also_for_somebody_unknown(recipe):
    compiled, plain = build(recipe, "compiled"), build(recipe, "torch")
    users, items = torch.tensor([0, 29, -1, 3]), torch.tensor([19, 0, 3, -1])
    with torch.no_grad():
        torch.testing.assert_close(compiled(users, items), plain(users, items))


def test_bits_do_not_depend_on_the_number_of_threads(monkeypatch):
    monkeypatch.setattr(kernels, "PARALLEL_FROM", 0)
    before, states = numba.get_num_threads(), []
    for threads in (1, min(2, numba.config.NUMBA_NUM_THREADS)):
        numba.set_num_threads(threads)
        net = build(MF(n_factors=8), "compiled")
        steps(net, 5)
        states.append(net.users.value.clone())
    monkeypatch.setattr(kernels, "PARALLEL_FROM", 1 << 60)
    net = build(MF(n_factors=8), "compiled")
    steps(net, 5)
    numba.set_num_threads(before)
    assert torch.equal(states[0], states[1])
    assert torch.equal(states[0], net.users.value)


def test_many_callers_at_once_get_the_same_answers(monkeypatch):
    monkeypatch.setattr(kernels, "PARALLEL_FROM", 0)
    net = build(MF(n_factors=8), "compiled")
    users, items = (torch.from_numpy(np.random.default_rng(1).integers(20, size=20_000)) for _ in range(2))

    def ask(_):
        with torch.no_grad():
            return net(users, items)

    expected = ask(0)
    with ThreadPoolExecutor(4) as pool:
        assert all(torch.equal(expected, answer) for answer in pool.map(ask, range(40)))


@settings(max_examples=60, deadline=None)
@given(arrays(np.int64, st.integers(0, 50), elements=st.integers(0, 2**40)))
def test_grouping_is_a_stable_sort(index):
    order, touched, starts = kernels.group_by_row(index)
    np.testing.assert_array_equal(order, np.argsort(index, kind="stable"))
    rows, counts = np.unique(index, return_counts=True)
    np.testing.assert_array_equal(touched, rows)
    np.testing.assert_array_equal(np.diff(starts), counts)
