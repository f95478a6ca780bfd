"""Claims about the numbers of pairs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from unskew.data.pairs import pair_fold, pair_uniform
from unskew.errors import ParameterError

N_USERS, N_ITEMS = 300, 250
USERS, ITEMS = np.divmod(np.arange(N_USERS * N_ITEMS), N_ITEMS)
GOLDEN = [0.01403302919427507, 0.7517621212106117, 0.13163406728068783, 0.6371341247915409]
LARGE = st.integers(0, 2**31 - 1)


def grid(seed: int = 0, stream: int = 0) -> np.ndarray:
    return pair_uniform(seed, USERS, ITEMS, stream).reshape(N_USERS, N_ITEMS)


def correlation(x: np.ndarray, y: np.ndarray) -> float:
    return float(np.corrcoef(x.ravel(), y.ravel())[0, 1])


@pytest.mark.parametrize("seed", [0, 1, 2**40, 2**70, -5])
@pytest.mark.parametrize("stream", [0, 7])
def test_numbers_of_a_grid_of_pairs_are_uniform(seed: int, stream: int) -> None:
    assert stats.kstest(grid(seed, stream).ravel(), "uniform").pvalue > 1e-4


def test_every_row_and_every_column_of_the_grid_is_uniform() -> None:
    for lines in (grid()[::3], grid().T[::3]):
        pvalues = [stats.kstest(line, "uniform").pvalue for line in lines]
        assert min(pvalues) > 1e-6
        assert stats.kstest(pvalues, "uniform").pvalue > 1e-4


@pytest.mark.parametrize("shift", [(0, 1), (1, 0), (1, 1), (1, -1), (0, 2), (0, 64), (64, 0)])
def test_neighbouring_pairs_are_independent(shift: tuple[int, int]) -> None:
    numbers = grid()
    cells = np.histogram2d(numbers.ravel(), np.roll(numbers, shift, axis=(0, 1)).ravel(), bins=16)[0]
    assert stats.chisquare(cells.ravel()).pvalue > 1e-4


def test_swapping_user_and_item_gives_another_number() -> None:
    square = grid()[:N_ITEMS]
    off_diagonal = ~np.eye(N_ITEMS, dtype=bool)
    assert abs(correlation(square[off_diagonal], square.T[off_diagonal])) < 4 / N_ITEMS


@pytest.mark.parametrize("other", [(0, 1), (1, 0), (1, 1), (0, 2**32)])
def test_streams_and_seeds_are_independent_of_each_other(other: tuple[int, int]) -> None:
    cells = np.histogram2d(grid().ravel(), grid(*other).ravel(), bins=16)[0]
    assert stats.chisquare(cells.ravel()).pvalue > 1e-4


def test_one_changed_bit_of_any_argument_changes_half_of_the_bits() -> None:
    items = np.arange(4000)
    base = (pair_uniform(3, 5, items) * 2**52).astype(np.uint64)
    for bit in range(31):
        flipped = [
            pair_uniform(3 ^ (1 << bit), 5, items),
            pair_uniform(3, 5 ^ (1 << bit), items),
            pair_uniform(3, 5, items ^ (1 << bit)),
        ]
        for numbers in flipped:
            changed = np.unpackbits((base ^ (numbers * 2**52).astype(np.uint64)).view(np.uint8))
            assert changed.sum() / 4000 == pytest.approx(26, abs=0.3)


def test_a_large_grid_has_no_two_equal_numbers() -> None:
    assert len(np.unique(grid())) == N_USERS * N_ITEMS


@given(st.integers(-(2**70), 2**70), LARGE, LARGE, st.integers(0, 2**70))
@settings(max_examples=100, deadline=None)
def test_numbers_lie_strictly_between_zero_and_one(seed: int, user: int, item: int, stream: int) -> None:
    number = float(pair_uniform(seed, user, item, stream))
    assert 0 < number < 1
    assert np.isfinite(np.log(number) - np.log1p(-number))


@given(st.lists(st.tuples(LARGE, LARGE), min_size=1, max_size=30), st.randoms(use_true_random=False))
@settings(max_examples=50, deadline=None)
def test_a_pair_has_one_number_in_any_order_batch_and_integer_type(pairs: list, random) -> None:
    users, items = np.array(pairs).T
    whole = pair_uniform(9, users, items)
    order = np.array(random.sample(range(len(pairs)), len(pairs)))
    np.testing.assert_array_equal(pair_uniform(9, users[order].astype(np.int32), items[order]), whole[order])
    alone = [float(pair_uniform(9, user, item)) for user, item in pairs]
    np.testing.assert_array_equal(alone, whole)


def test_users_and_items_are_broadcast() -> None:
    by_broadcast = pair_uniform(0, np.arange(N_USERS)[:, None], np.arange(N_ITEMS))
    np.testing.assert_array_equal(by_broadcast, grid())


def test_numbers_never_change_between_versions() -> None:
    numbers = pair_uniform(0, [0, 0, 1, 2**31 - 1], [0, 1, 0, 2**31 - 1])
    np.testing.assert_array_equal(numbers, GOLDEN)


@pytest.mark.parametrize("n_folds", [1, 2, 5, 7])
def test_folds_share_all_pairs_evenly(n_folds: int) -> None:
    folds = pair_fold(0, USERS, ITEMS, n_folds)
    assert folds.dtype == np.int64
    counts = np.bincount(folds, minlength=n_folds)
    assert len(counts) == n_folds
    assert n_folds == 1 or stats.chisquare(counts).pvalue > 1e-4


def test_folds_are_independent_of_the_numbers_of_the_same_seed() -> None:
    folds = pair_fold(0, USERS, ITEMS, 4)
    for stream in range(4):
        cells = np.histogram2d(folds, grid(0, stream).ravel(), bins=(4, 16))[0]
        assert stats.chi2_contingency(cells).pvalue > 1e-4


def test_less_than_one_fold_is_refused() -> None:
    with pytest.raises(ParameterError, match="n_folds is 0"):
        pair_fold(0, [1], [1], 0)
