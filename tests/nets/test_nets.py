"""Nets against their formulas, what they learn against differences, and Adam against a plain one."""

import numpy as np
import pytest

from unskew.errors import ParameterError
from unskew.nets.base import Net, NetContext, Table
from unskew.nets.factors import MF, NCF, Tower

N_USERS, N_ITEMS = 5, 7
CONTEXT = NetContext(N_USERS, N_ITEMS, 0.2, (np.zeros(0, np.int32), np.zeros(0, np.int32)))
USERS, ITEMS = np.array([0, 1, 4, 4], np.int32), np.array([6, 2, 2, 0], np.int32)
EVERYBODY, EVERYTHING = (x.astype(np.int32) for x in np.divmod(np.arange(N_USERS * N_ITEMS), N_ITEMS))
SPECS = [
    MF(n_factors=4),
    MF(n_factors=4, biases=False, init_std=1.0),
    NCF(n_factors=4, init_std=0.5),
    NCF(n_factors=4, hidden=False),
    Tower(),
]


def build(spec, seed=0):
    """The net, its biases off zero so that all of it counts."""
    rng = np.random.default_rng(seed)
    owner = MF(n_factors=4, biases=False).build(CONTEXT, rng) if isinstance(spec, Tower) else None
    net = spec.build(CONTEXT, rng, owner)
    for table in net.tables.values():
        table.value += rng.normal(0, 0.1, table.value.shape).astype(np.float32)
    return net


def tables_of(net):
    owner = getattr(net, "owner", None)
    return dict(net.tables) | ({f"shared {name}": table for name, table in owner.tables.items()} if owner else {})


def formula(spec, net, u, i):
    """The logit in float64."""
    t = {name: table.value.astype(np.float64) for name, table in tables_of(net).items()}
    if isinstance(spec, NCF):
        x = np.append(t["users"][u], t["items"][i])
        last = np.maximum(t["inner"] @ x, 0) if spec.hidden else x
        return t["outer"][0] @ last + t["offset"][0, 0]
    if isinstance(spec, Tower):
        together = t["shared users"][u] * t["shared items"][i] @ t["mix"][0]
        return together + t["user_bias"][u, 0] + t["item_bias"][i, 0] + t["offset"][0, 0]
    if isinstance(spec, MF) and spec.biases:
        v, w = t["users"][u], t["items"][i]
        return v[:-1] @ w[:-1] + v[-1] + w[-1] + t["offset"][0, 0]
    return t["users"][u] @ t["items"][i]


@pytest.mark.parametrize("spec", SPECS, ids=repr)
def test_logits_are_those_of_the_formula_also_for_unknown_ones(spec):
    net = build(spec)
    users, items = np.append(EVERYBODY, [-1, 2, -1]), np.append(EVERYTHING, [3, -1, -1])
    by_hand = [formula(spec, net, u, i) for u, i in zip(users, items, strict=True)]
    found = net.logits(users.astype(np.int32), items.astype(np.int32))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, by_hand, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("spec", SPECS, ids=repr)
def test_learned_gradients_are_differences_of_logits(spec):
    """Each formula is linear in a single parameter but for the hinge of NCF, so that its differences are exact."""
    net, wanted = build(spec), np.random.default_rng(1).standard_normal(4).astype(np.float32)
    again = np.append(USERS, USERS[:1]), np.append(ITEMS, ITEMS[:1]), np.append(wanted, np.float32(0.5))
    net.learn(*again)

    def weighted():
        return sum(s * formula(spec, net, u, i) for u, i, s in zip(*again, strict=True))

    for table in tables_of(net).values():
        touched = table.marks[3, : table.marks[3, -1]]
        gradient = np.zeros_like(table.value)
        gradient[touched] = table.gradients[: len(touched)]
        for place in np.ndindex(table.value.shape):
            start, found = table.value[place], []
            for step in (1e-3, -1e-3):
                table.value[place] = start + step
                found.append((weighted(), float(table.value[place])))
            table.value[place] = start
            slope = (found[0][0] - found[1][0]) / (found[0][1] - found[1][1])
            assert gradient[place] == pytest.approx(slope, rel=2e-5, abs=2e-5)


def plain_adam(value, gradients, rate):
    """Kingma & Ba 2015 in float64."""
    value, m, s = value.astype(np.float64), 0.0, 0.0
    for t, g in enumerate(gradients, 1):
        m, s = 0.9 * m + 0.1 * g, 0.999 * s + 0.001 * g * g
        value = value - rate * (m / (1 - 0.9**t)) / (np.sqrt(s / (1 - 0.999**t)) + 1e-8)
    return value


def fresh(rows=4, decay=1.0):
    return Table(np.random.default_rng(0).normal(size=(rows, 3)), np.full(3, decay))


def teach(table, rows, gradient):
    table.learn(np.asarray(rows), np.broadcast_to(gradient, (len(rows), 3)))


@pytest.mark.parametrize("share", [1.0, 0.4])
def test_a_row_ends_where_plain_adam_of_its_own_steps_ends(share):
    """Whether rows are read in every step or in some, each counts its own."""
    table, start, rng = fresh(), fresh().value, np.random.default_rng(2)
    taken = {row: [] for row in range(4)}
    for _ in range(40):
        rows = np.flatnonzero(rng.random(4) < share)
        gradients = rng.normal(size=(len(rows), 3)).astype(np.float32)
        table.learn(rows, gradients)
        table.step(0.05, 0.0)
        for row, gradient in zip(rows, gradients, strict=True):
            taken[row].append(gradient)
    for row, gradients in taken.items():
        np.testing.assert_allclose(table.value[row], plain_adam(start[row], gradients, 0.05), rtol=2e-4, atol=2e-5)
    assert table.marks[0, :-1].tolist() == [len(gradients) for gradients in taken.values()]


@pytest.mark.parametrize("rows", [4, 400])
def test_only_rows_that_were_read_move_by_the_sum_of_their_gradients(rows):
    """In either order of walking: few of many rows, or most of few."""
    table, once = fresh(rows), fresh(rows)
    teach(table, [2, 0, 2], 1.0)
    teach(once, [2], 2.0)
    teach(once, [0], 1.0)
    for each in (table, once):
        each.step(0.1, 0.0)
    assert np.flatnonzero((table.value != fresh(rows).value).any(1)).tolist() == [0, 2]
    np.testing.assert_array_equal(table.value, once.value)
    assert not table.gradients.any()
    before = table.value.copy()
    table.step(0.1, 1.0)  # nothing was read since
    np.testing.assert_array_equal(table.value, before)


def test_rows_share_the_l2_by_their_readings():
    """The gradient of l2/2 times the mean of decay |row|^2 over the readings of a step."""
    table, rows = fresh(decay=0.5), np.array([0, 1, 1, 3])
    teach(table, rows, 0.7)
    table.step(0.1, 0.3)
    share = np.bincount(rows, minlength=4) / 4
    gradient = 0.7 * np.bincount(rows, minlength=4)[:, None] + 0.3 * 0.5 * share[:, None] * fresh().value
    np.testing.assert_allclose(table.moments[0], 0.1 * gradient, rtol=1e-5, atol=1e-7)


def test_what_never_learned_answers_as_the_average_of_what_did():
    table = fresh(5)
    teach(table, [0, 2], 1.0)
    table.step(0.1, 0.0)
    average = table.value[[0, 2]].mean(0)
    assert table.rest() == 2  # of four; the last row is nobody's
    for row in (1, 3, 4):
        np.testing.assert_allclose(table.value[row], average, rtol=1e-6)
    assert fresh(5).rest() == 4


def test_what_was_taken_over_counts_as_learned():
    one, other = build(MF(n_factors=4)), build(MF(n_factors=4), seed=1)
    one.learn(USERS, ITEMS, np.ones(4, np.float32))
    one.step(0.1, 0.0)
    other.take_over(one)
    np.testing.assert_array_equal(other.logits(USERS, ITEMS), one.logits(USERS, ITEMS))
    before = other.value("users")[USERS].copy()
    other.rest()
    np.testing.assert_array_equal(other.value("users")[USERS], before)
    np.testing.assert_allclose(other.value("users")[2], other.value("users")[[0, 1, 4]].mean(0), rtol=1e-5)


def test_a_tower_leaves_the_shared_vectors_to_their_owner():
    net = build(Tower())
    before = net.owner.value("users").copy()
    net.learn(USERS, ITEMS, np.ones(4, np.float32))
    net.step(0.1, 0.0)
    np.testing.assert_array_equal(net.owner.value("users"), before)
    assert "users" not in net.state()
    net.owner.step(0.1, 0.0)
    assert (net.owner.value("users")[USERS] != before[USERS]).all()


@pytest.mark.parametrize("spec", [spec for spec in SPECS if not isinstance(spec, NCF)], ids=repr)
def test_new_users_answer_as_unknown_until_their_rows_are_known(spec):
    net, counts, items = build(spec), np.array([1, 2, 3]), np.arange(N_ITEMS, dtype=np.int32)
    larger = net.extended(counts, net.owner.extended(counts) if isinstance(spec, Tower) else None)
    nobody, new = np.full(N_ITEMS, -1, np.int32), np.full(N_ITEMS, N_USERS + 1, np.int32)
    for users in (new, nobody):
        np.testing.assert_array_equal(larger.logits(users, items), net.logits(nobody, items))
    rows = np.random.default_rng(3).normal(size=(3, net.linear().users.shape[1])).astype(np.float32)
    larger.know_users(rows)
    form = larger.linear()
    by_hand = rows[1] @ form.items[:N_ITEMS].T + form.offsets[:N_ITEMS]
    np.testing.assert_allclose(larger.logits(new, items), by_hand, rtol=1e-4, atol=1e-5)


def test_what_cannot_be_is_refused_with_what_to_do():
    for owner in (None, build(MF(n_factors=4))):
        with pytest.raises(ParameterError, match=r"Towers need the vectors of an MF\(biases=False\)"):
            Tower().build(CONTEXT, np.random.default_rng(0), owner)
    with pytest.raises(ParameterError, match=r"New users cannot be added to a \w+: fit again with their ratings\."):
        Net.know_users(build(MF(n_factors=2)), np.zeros((1, 2)))  # as a net from outside inherits it
