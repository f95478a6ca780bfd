"""Random splits of exact sizes, disjoint and uniform, and the numbers of pairs that folds are made of."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from unskew import DataError, ParameterError, RatingLog, holdout_split
from unskew.data.pairs import pair_fold, pair_uniform


def log_with(counts):
    """User u rates items 0 .. counts[u] - 1, rows shuffled, ratings in turn liked and not."""
    users = np.repeat(np.arange(len(counts)), counts)
    items = np.concatenate([np.arange(count) for count in counts])
    order = np.random.default_rng(7).permutation(len(users))
    ratings = np.where(np.arange(len(users)) % 2, 5, 1)
    return RatingLog.from_arrays(
        users[order], items[order], ratings, user_ids=np.arange(len(counts)), item_ids=np.arange(max(*counts, 2))
    )


def is_partition(split):
    rows = np.concatenate([split.train_rows, split.holdout_rows])
    return bool((np.sort(rows) == np.arange(len(split.log))).all())


@given(
    counts=st.lists(st.integers(0, 12), min_size=2, max_size=8).filter(lambda counts: sum(counts) >= 2),
    fraction=st.floats(0.01, 0.99),
    seed=st.integers(0, 2**40),
)
@settings(deadline=None, max_examples=60)
def test_every_row_is_in_exactly_one_part_and_sizes_are_as_documented(counts, fraction, seed):
    log = log_with(counts)
    n = np.array(counts)
    quotas = np.clip(np.minimum([round(fraction * count) for count in counts], n - 1), 0, None)
    for by, expected in (("global", round(fraction * len(log))), ("user", int(quotas.sum()))):
        if not 0 < expected < len(log):
            with pytest.raises(DataError, match="empty"):
                holdout_split(log, fraction, by=by, seed=seed)
            continue
        split = holdout_split(log, fraction, by=by, seed=seed)
        assert is_partition(split)
        assert len(split.holdout_rows) == expected
        assert (np.diff(split.train_rows) > 0).all()
        assert (np.diff(split.holdout_rows) > 0).all()
        if by == "user":
            held = np.bincount(log.users[split.holdout_rows], minlength=log.n_users)
            assert held.tolist() == quotas.tolist()


@given(
    counts=st.lists(st.integers(1, 12), min_size=2, max_size=6).filter(lambda n: max(n) > 1),
    fraction=st.floats(0.01, 0.9),
)
@settings(deadline=None, max_examples=40)
def test_the_last_rows_of_every_user_are_held_out_whatever_the_seed(counts, fraction):
    log = log_with(counts)
    split = holdout_split(log, fraction, by="last", seed=1)
    held = np.zeros(len(log), bool)
    for user, count in enumerate(counts):
        last = min(int(np.ceil(fraction * count)), count - 1)
        held[np.flatnonzero(log.users == user)[count - last :]] = True
    assert split.holdout_rows.tolist() == np.flatnonzero(held).tolist()
    assert is_partition(split)


@pytest.mark.parametrize("by", ["global", "user"])
def test_every_row_is_held_out_equally_often(by):
    log = log_with([10, 10, 10])
    times = sum(
        np.bincount(holdout_split(log, 0.2, by=by, seed=seed).holdout_rows, minlength=30) for seed in range(1000)
    )
    assert abs(times - 200).max() < 5 * np.sqrt(1000 * 0.2 * 0.8)
    one, same = (holdout_split(log, 0.2, by=by, seed=3).holdout_rows for _ in range(2))
    assert (one == same).all()


def test_settings_that_cannot_be_meant_are_refused():
    for fraction in (0, 1, 1.5, np.nan, "0.1"):
        with pytest.raises(ParameterError, match="fraction must lie between 0 and 1"):
            holdout_split(log_with([5, 5]), fraction)
    with pytest.raises(ParameterError, match="by must be 'global', 'user', 'last', 'time' or 'request', not"):
        holdout_split(log_with([5, 5]), by="item")


def test_empty_parts_are_refused_with_a_remedy():
    with pytest.raises(DataError, match="leaves the hold-out empty: give a larger fraction"):
        holdout_split(log_with([2, 2]), 0.1)
    with pytest.raises(DataError, match="leaves the training part empty: give a smaller fraction"):
        holdout_split(log_with([2, 2]), 0.9)
    with pytest.raises(DataError, match="leaves the hold-out empty"):
        holdout_split(log_with([1, 1, 1]), 0.5, by="user")


def test_by_time_the_latest_ratings_are_held_out_whatever_their_order():
    frame = pa.table(
        {"user": [1, 1, 2, 2, 3], "item": [1, 2, 1, 2, 1], "rating": [1, 5, 1, 5, 5], "time": [5, 9, 7, 1, 9]}
    )
    split = holdout_split(RatingLog.from_frame(frame), 0.4, by="time")
    assert split.holdout_rows.tolist() == [1, 4]
    assert split.train.times.tolist() == [5, 7, 1]
    with pytest.raises(DataError, match="no times, or not of every rating: name their column by time="):
        holdout_split(RatingLog.from_frame(frame.drop_columns("time")), 0.4, by="time")


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
