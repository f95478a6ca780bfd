"""Rows that learn one by one, held against PyTorch's own Adam and against the stated penalty."""

import torch

from unskew.nets.dense import DenseTable
from unskew.nets.table import Table


def fresh(rows=4, columns=3, decay=None, seed=0):
    return Table(torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed)), decay)


def test_reading_all_rows_once_a_step_is_plain_adam():
    table = Table(fresh().value.double())
    reference = table.value.clone().requires_grad_()
    adam = torch.optim.Adam([reference], lr=0.1)
    target = torch.arange(12.0).double().reshape(4, 3)
    for _ in range(20):
        (table.every() - target).square().sum().backward()
        table.step(0.1, 0.0)
        adam.zero_grad()
        (reference - target).square().sum().backward()
        adam.step()
    torch.testing.assert_close(table.value, reference.detach())


def test_a_dense_table_is_adam_with_weight_decay_on_rows_that_were_not_read_too():
    table = DenseTable(fresh().value.double())
    reference = table.value.clone().requires_grad_()
    adam = torch.optim.Adam([reference], lr=0.1, weight_decay=0.3)
    for index in ([0, 2], [2, 2], [1, 0], [3, 1]):
        rows = torch.tensor(index)
        (table.rows(rows) - 1).square().sum().backward()
        table.step(0.1, 0.3)
        adam.zero_grad()
        (reference[rows] - 1).square().sum().backward()
        adam.step()
    torch.testing.assert_close(table.value, reference.detach())


def test_only_rows_that_were_read_move_and_keep_their_own_step_count():
    table = fresh()
    before = table.value.clone()
    table.rows(torch.tensor([2, 0, 2])).sum().backward()
    table.step(0.1, 0.0)
    assert [bool((table.value[row] != before[row]).any()) for row in range(4)] == [True, False, True, False]
    assert table.steps.tolist() == [1, 0, 1, 0]


def test_a_row_read_twice_is_moved_by_the_sum_of_its_gradients():
    once, twice = fresh(), fresh()
    (2 * once.rows(torch.tensor([1]))).sum().backward()
    twice.rows(torch.tensor([1, 1])).sum().backward()
    for table in (once, twice):
        table.step(0.1, 0.0)
    torch.testing.assert_close(once.value, twice.value)


def test_l2_is_the_gradient_of_the_mean_squared_length_of_the_rows_read():
    l2, decay, index = 0.3, torch.tensor([1.0, 1.0, 0.5]), torch.tensor([0, 1, 1, 3])
    implicit, explicit = fresh(decay=decay), fresh()
    implicit.rows(index).sum().backward()
    implicit.step(0.1, l2)
    rows = explicit.rows(index)
    (rows.sum() + l2 / 2 * (decay * rows.square()).sum(1).mean()).backward()
    explicit.step(0.1, 0.0)
    torch.testing.assert_close(implicit.first_moment, explicit.first_moment)
    torch.testing.assert_close(implicit.value, explicit.value)


def test_reading_without_gradient_leaves_nothing_to_step():
    table = fresh()
    before = table.value.clone()
    with torch.no_grad():
        table.rows(torch.tensor([0, 1]))
    table.step(0.1, 1.0)
    torch.testing.assert_close(table.value, before)


def test_the_unknown_row_is_the_average_row():
    table = fresh()
    with torch.no_grad():
        torch.testing.assert_close(table.rows(torch.tensor([-1]))[0], table.value.mean(0))


def test_rows_that_never_learned_are_given_the_average_of_those_that_did_and_counted():
    table = fresh()
    table.rows(torch.tensor([0, 2])).sum().backward()
    table.step(0.1, 0.0)
    assert table.settle() == 2
    for row in (1, 3):
        torch.testing.assert_close(table.value[row], table.value[[0, 2]].mean(0))
    assert fresh().settle() == 4  # nothing learned at all: the start stays
