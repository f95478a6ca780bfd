"""Features in a net: the formula, both engines, what is shared by whom, and what is not known."""

import copy
from types import SimpleNamespace

import numba
import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from unskew.errors import ParameterError
from unskew.nets import kernels
from unskew.nets.base import Catalogue
from unskew.nets.compiled import CompiledFactorNet
from unskew.nets.compiled_features import CompiledFeatureNet
from unskew.nets.factors import MF, FactorNet
from unskew.nets.towers import Tower, Trunk

N_USERS, N_ITEMS = 30, 20
ENGINES = ("compiled", "torch")


def known(n, width, seed, empty=()):
    """Sparse rows of which some are empty."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n, width)) * (rng.random((n, width)) < 0.4)
    values[list(empty)] = 0
    return SimpleNamespace(encoded=csr_array(values.astype(np.float32)))


USERS, ITEMS = known(N_USERS, 5, 1, empty=(3, 4)), known(N_ITEMS, 4, 2)


def build(engine="torch", recipe=None, users=USERS, items=ITEMS, copies=1):
    recipe = recipe or MF(n_factors=6, feature_l2=0.3)
    catalogue = Catalogue(N_USERS, N_ITEMS, 0.3, engine, copies=copies, features=(users, items))
    return recipe.build(catalogue, torch.Generator().manual_seed(0))


def steps(net, count, size=64, n_users=N_USERS, n_items=N_ITEMS):
    rng = np.random.default_rng(5)
    for _ in range(count):
        users, items = (torch.from_numpy(rng.integers(n, size=size)) for n in (n_users, n_items))
        labels = torch.from_numpy((rng.random(size) < 0.4).astype(np.float32))
        logits = torch.cat([net(users[:40], items[:40]), net(users[40:], items[40:])])  # two readings, one step
        loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, labels)
        loss.backward()
        net.step(0.05, 0.1)
    return loss.item()


def all_pairs(net):
    users, items = np.divmod(np.arange(N_USERS * N_ITEMS), N_ITEMS)
    with torch.no_grad():
        return net(torch.from_numpy(users), torch.from_numpy(items))


@pytest.mark.parametrize("engine", ENGINES)
def test_the_logit_is_that_of_the_formula(engine):
    net = build(engine)
    steps(net, 20)
    v, w = net.users.value.double().numpy(), net.items.value.double().numpy()
    a, b = net.users.shared.value.double().numpy(), net.items.shared.value.double().numpy()
    x, y = USERS.encoded.toarray().astype(float), ITEMS.encoded.toarray().astype(float)
    assert np.abs(a).min() > 0  # every feature has been read
    user, item = v[:, :-1] + x @ a[:, :-1], w[:, :-1] + y @ b[:, :-1]
    linear = (v[:, -1] + x @ a[:, -1])[:, None] + w[:, -1] + y @ b[:, -1]
    expected = user @ item.T + linear + float(net.offset.value)
    np.testing.assert_allclose(all_pairs(net).numpy().reshape(N_USERS, N_ITEMS), expected, rtol=1e-4, atol=1e-5)


def test_both_engines_agree_on_loss_and_parameters_after_a_hundred_steps():
    compiled, plain = build("compiled"), build("torch")
    assert isinstance(compiled, CompiledFeatureNet)
    assert steps(compiled, 100) == pytest.approx(steps(plain, 100), rel=1e-4)
    assert compiled.state_dict().keys() == plain.state_dict().keys()
    for name, value in plain.state_dict().items():
        torch.testing.assert_close(compiled.state_dict()[name], value, atol=2e-4, rtol=2e-3)


def test_one_step_has_the_same_moments_so_gradients_and_l2_are_the_same():
    compiled, plain = build("compiled"), build("torch")
    for net in (compiled, plain):
        for table in (net.users.shared, net.items.shared):
            table.value += 0.1
        steps(net, 1)
    for ours, theirs in zip(compiled.tables(), plain.tables(), strict=True):
        torch.testing.assert_close(ours.first_moment, theirs.first_moment, atol=1e-7, rtol=1e-4)
        torch.testing.assert_close(ours.steps, theirs.steps)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_gradient_of_shared_rows_is_that_of_finite_differences(engine):
    def loss(net):
        return torch.nn.functional.softplus(net(users, items)).mean()

    users, items = torch.tensor([0, 5, 0, 9]), torch.tensor([1, 1, 7, 3])
    net, other = build(engine), build("torch")
    loss(net).backward()
    net.step(0.0, 0.0)
    found = 10 * net.users.shared.first_moment.double()  # the first moment after one step is a tenth of the gradient
    with torch.no_grad():
        for row, column in ((0, 0), (2, 3), (4, 6)):
            values = []
            for sign in (1, -1):
                other.users.shared.value[row, column] += sign * 1e-2
                values.append(loss(other).double())
                other.users.shared.value[row, column] -= sign * 1e-2
            slope = (values[0] - values[1]) / 2e-2
            torch.testing.assert_close(found[row, column], slope, atol=2e-5, rtol=1e-3)


@pytest.mark.parametrize("engine", ENGINES)
def test_features_of_which_nothing_is_known_leave_the_net_without_them_to_the_bit(engine):
    nothing = (known(n, 3, 0, empty=range(n)) for n in (N_USERS, N_ITEMS))
    net, plain = build(engine, None, *nothing), build(engine, MF(n_factors=6, features="never"))
    steps(net, 30)
    steps(plain, 30)
    assert torch.equal(all_pairs(net), all_pairs(plain))
    assert not net.users.shared.value.any()


def test_bits_do_not_depend_on_the_number_of_threads(monkeypatch):
    before, states = numba.get_num_threads(), []
    for threads, parallel_from in ((1, 0), (min(2, numba.config.NUMBA_NUM_THREADS), 0), (1, 1 << 60)):
        monkeypatch.setattr(kernels, "PARALLEL_FROM", parallel_from)
        numba.set_num_threads(threads)
        net = build("compiled")
        steps(net, 5)
        states.append([table.value.clone() for table in net.tables()])
    numba.set_num_threads(before)
    for state in states[1:]:
        assert all(map(torch.equal, states[0], state))


def test_a_compiled_net_notices_whatever_changes_its_tables():
    net = build("compiled")
    steps(net, 3)
    before, snapshot = all_pairs(net), net.snapshot()
    steps(net, 3)
    assert not torch.equal(all_pairs(net), before)
    net.restore(snapshot)
    assert torch.equal(all_pairs(net), before)
    net.users.shared.value[0] += 1
    assert not torch.equal(all_pairs(net), before)
    net.restore(snapshot)
    net.rest()
    assert torch.equal(all_pairs(net), before)


def test_a_copy_learns_without_its_original():
    net = build("compiled")
    steps(net, 3)
    before, other = all_pairs(net), copy.deepcopy(net)
    steps(other, 3)
    assert torch.equal(all_pairs(net), before)
    assert not torch.equal(all_pairs(other), before)


@pytest.mark.parametrize("engine", ENGINES)
def test_somebody_unknown_is_answered_for_as_the_average_one(engine):
    net = build(engine)
    steps(net, 10)
    user, item = net.users.whole.mean(0), net.items.whole[7]
    expected = user[:-1] @ item[:-1] + user[-1] + item[-1] + net.offset.value[0, 0]
    with torch.no_grad():
        torch.testing.assert_close(net(torch.tensor([-1]), torch.tensor([7]))[0], expected)


@pytest.mark.parametrize("engine", ENGINES)
def test_copies_of_the_ids_share_no_rows_of_features(engine):
    net = build(engine, copies=3)
    users = torch.arange(N_USERS, 2 * N_USERS)  # those of the second copy
    net(users, torch.arange(N_ITEMS, 2 * N_ITEMS).repeat(2)[:N_USERS]).sum().backward()
    net.step(0.05, 0.0)
    first, second, third = net.users.shared.value.chunk(3)
    assert second.abs().sum() > 0
    assert not first.any()
    assert not third.any()


@pytest.mark.parametrize("engine", ENGINES)
def test_ids_without_readings_are_told_apart_by_features_and_unread_features_contribute_nothing(engine):
    alone = known(N_USERS, 5, 1, empty=(3, 4))
    alone.encoded = csr_array(np.column_stack([alone.encoded.toarray(), np.eye(N_USERS)[29]]).astype(np.float32))
    net = build(engine, users=alone)
    net(torch.arange(10), torch.arange(10)).sum().backward()
    net.step(0.05, 0.0)
    assert net.settle() == N_USERS - 10 + N_ITEMS - 10
    assert not net.users.shared.value[-1].any()  # only user 29 has it, who was not read
    assert torch.equal(net.users.value[15], net.users.value[16])
    assert not torch.equal(net.users.whole[15], net.users.whole[16])


def test_a_net_reads_features_unless_it_has_none_or_must_not():
    assert type(build("torch")) is FactorNet
    assert hasattr(build("torch").users, "shared")
    for recipe in (MF(features="never"), MF(biases=False)):
        assert type(build("compiled", recipe)) is CompiledFactorNet
    assert type(build("compiled", MF(), users=None, items=None)) is CompiledFactorNet
    one_side = build("compiled", users=None)
    steps(one_side, 5)
    assert len(one_side.users.shared.value) == 0
    assert one_side.items.shared.value.any()


@pytest.mark.parametrize(
    ("recipe", "sides", "sentence"),
    [
        (MF(features="always"), (None, None), "the log has none; pass user_features= or item_features="),
        (Trunk(features="always"), (None, None), "the log has none"),
        (MF(features="always", biases=False), (USERS, ITEMS), "needs biases=True"),
    ],
)
def test_features_that_cannot_be_read_are_refused_in_one_sentence(recipe, sides, sentence):
    with pytest.raises(ParameterError, match=sentence):
        build("torch", recipe, *sides)
    with pytest.raises(ParameterError, match="features must be 'auto', 'always' or 'never', not True"):
        MF(features=True)


def test_towers_have_linear_terms_of_their_own_and_factor_terms_in_common():
    catalogue = Catalogue(N_USERS, N_ITEMS, 0.3, features=(USERS, ITEMS))
    trunk = Trunk(n_factors=3).build(catalogue, torch.Generator().manual_seed(0))
    towers = [Tower().on(trunk, catalogue) for _ in range(2)]
    users, items = torch.arange(N_USERS), torch.arange(N_USERS) % N_ITEMS
    towers[0](users, items).sum().backward()
    for net in (trunk, *towers):
        net.step(0.05, 0.1)
    assert trunk.users.shared.value.any()
    assert towers[0].user_bias.shared.value.any()
    assert not towers[1].user_bias.shared.value.any()
    with torch.no_grad():
        form = towers[0].linear()
        said = (form.users[users] * form.items[items]).sum(1) + form.offsets[items]
        torch.testing.assert_close(said, towers[0](users, items))


@pytest.mark.parametrize("engine", ENGINES)
def test_new_users_are_the_average_one_until_they_are_described(engine):
    net = build(engine)
    steps(net, 10)
    joined = net.joined_by(np.array([2, 3]))
    new, items = torch.tensor([N_USERS, N_USERS + 1]), torch.tensor([4, 4])
    with torch.no_grad():
        torch.testing.assert_close(joined(new, items), net(torch.tensor([-1, -1]), items))
        joined.users.describe_last(csr_array(USERS.encoded[[0, 3]]))  # of user 3 nothing is known
        joined.rest()
        expected = net.users.value.mean(0) + net.users.told[0]
        torch.testing.assert_close(joined.users.whole[-2], expected)
        torch.testing.assert_close(joined.users.whole[-1], net.users.whole.mean(0))
        joined.know_users(torch.ones(2, 7))
        torch.testing.assert_close(joined.users.whole[-2:], torch.ones(2, 7))
        torch.testing.assert_close(all_pairs(joined), all_pairs(net))
