"""Claims about the numbers of pairs."""

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
OTHER = [0.3902175736228396, 0.10233147606751702, 0.4823486917810237]
LARGE = st.integers(0, 2**31 - 1)


def grid(seed=0, stream=0):
    return pair_uniform(seed, USERS, ITEMS, stream).reshape(N_USERS, N_ITEMS)


@pytest.mark.parametrize("seed", [0, 2**40, -5])
def test_numbers_are_uniform_over_the_grid_its_rows_and_columns(seed):
    assert stats.kstest(grid(seed, 7).ravel(), "uniform").pvalue > 1e-4
    for lines in (grid(seed)[::3], grid(seed).T[::3]):
        assert stats.kstest([stats.kstest(line, "uniform").pvalue for line in lines], "uniform").pvalue > 1e-4


def assert_independent(numbers, others):
    cells = np.histogram2d(numbers.ravel(), others.ravel(), bins=16)[0]
    assert stats.chisquare(cells.ravel()).pvalue > 1e-4


def test_neighbours_streams_seeds_and_swapped_pairs_are_independent():
    for shift in [(0, 1), (1, 0), (1, 1), (1, -1), (0, 2), (0, 64), (64, 0)]:
        assert_independent(grid(), np.roll(grid(), shift, axis=(0, 1)))
    for seed, stream in [(0, 1), (1, 0), (1, 1), (0, 2**32)]:
        assert_independent(grid(), grid(seed, stream))
    square = grid()[:N_ITEMS][~np.eye(N_ITEMS, dtype=bool)], grid()[:N_ITEMS].T[~np.eye(N_ITEMS, dtype=bool)]
    assert abs(np.corrcoef(*square)[0, 1]) < 4 / N_ITEMS


@given(st.integers(-(2**70), 2**70), LARGE, LARGE, st.integers(0, 2**70))
@settings(max_examples=100, deadline=None)
def test_numbers_lie_strictly_between_zero_and_one(seed, user, item, stream):
    number = float(pair_uniform(seed, user, item, stream))
    assert 0 < number < 1
    assert np.isfinite(np.log(number) - np.log1p(-number))


@given(st.lists(st.tuples(LARGE, LARGE), min_size=1, max_size=30), st.randoms(use_true_random=False))
@settings(max_examples=50, deadline=None)
def test_a_pair_has_one_number_in_any_order_batch_and_integer_type(pairs, random):
    users, items = np.array(pairs).T
    whole = pair_uniform(9, users, items)
    order = np.array(random.sample(range(len(pairs)), len(pairs)))
    np.testing.assert_array_equal(pair_uniform(9, users[order].astype(np.int32), items[order]), whole[order])
    alone = [float(pair_uniform(9, user, item)) for user, item in pairs]
    np.testing.assert_array_equal(alone, whole)


def test_numbers_differ_and_never_change_between_versions():
    np.testing.assert_array_equal(pair_uniform(0, [0, 0, 1, 2**31 - 1], [0, 1, 0, 2**31 - 1]), GOLDEN)
    others = [pair_uniform(seed, 5, 3, stream) for seed, stream in ((0, 1), (2**40, 0), (-5, 7))]
    np.testing.assert_array_equal(others, OTHER)
    whole = pair_uniform(0, np.arange(N_USERS)[:, None], np.arange(N_ITEMS))
    np.testing.assert_array_equal(whole, grid())
    assert len(np.unique(whole)) == N_USERS * N_ITEMS


def test_folds_share_pairs_evenly_whatever_their_numbers():
    folds = pair_fold(0, USERS, ITEMS, 4)
    assert stats.chisquare(np.bincount(folds, minlength=4)).pvalue > 1e-4
    for stream in range(4):
        cells = np.histogram2d(folds, grid(0, stream).ravel(), bins=(4, 16))[0]
        assert stats.chi2_contingency(cells).pvalue > 1e-4
    with pytest.raises(ParameterError, match="n_folds is 0"):
        pair_fold(0, [1], [1], 0)
