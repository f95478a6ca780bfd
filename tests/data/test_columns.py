"""Claims about long columns: passes cover them, and checks do not hold what is mapped from a file in memory."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unskew.data import columns
from unskew.data.columns import first_row, passes, pieces
from unskew.data.duplicates import merge_duplicates, refuse_duplicates
from unskew.data.log import RatingLog
from unskew.data.scale import Scale
from unskew.data.vocabulary import Vocabulary
from unskew.errors import DataError

many = settings(max_examples=40, deadline=None)
rows = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 3), st.integers(1, 5)), min_size=1, max_size=80)


@pytest.fixture(autouse=True)
def _in_small_steps(monkeypatch):
    monkeypatch.setattr(columns, "_PIECE", 7)
    monkeypatch.setattr(columns, "_PASS", 5)
    monkeypatch.setattr(columns, "_BLOCKS", 6)  # so that users share blocks


def as_columns(table):
    users, items, ratings = np.array(table).T
    return users.astype(np.int32), items.astype(np.int32), ratings + 0.1


@many
@given(rows)
def test_passes_take_every_row_once_in_order_and_never_divide_a_user(table):
    users = as_columns(table)[0]
    found = list(passes(users, 13))
    assert sorted(np.concatenate(found)) == list(range(len(users)))
    assert all((np.diff(part) > 0).all() for part in found)
    owners = [set(users[part].tolist()) for part in found]
    assert sum(map(len, owners)) == len(set(users.tolist()))
    assert all(owners)


def test_a_pass_is_as_small_as_whole_blocks_allow_and_there_are_not_too_many(monkeypatch):
    users = np.repeat(np.arange(100, dtype=np.int32), 10)
    monkeypatch.setattr(columns, "_BLOCKS", 100)
    monkeypatch.setattr(columns, "_PASS", 30)
    assert {len(part) for part in passes(users, 100)} == {30, 10}
    monkeypatch.setattr(columns, "_MOST_PASSES", 4)
    assert [len(part) for part in passes(users, 100)] == [250, 250, 250, 250]


@many
@given(rows)
def test_the_first_repeated_row_is_named_whatever_the_passes(table):
    users, items, _ = as_columns(table)
    ids = Vocabulary(range(13)), Vocabulary(range(4))
    pairs = [row[:2] for row in table]
    again = next((row for row, pair in enumerate(pairs) if pair in pairs[:row]), None)
    if again is None:
        refuse_duplicates(users, items, *ids)
        return
    user, item = pairs[again]
    first = pairs.index(pairs[again]) + 1
    with pytest.raises(DataError, match=rf"user {user} rated item {item} twice, in rows {first} and {again + 1}:"):
        refuse_duplicates(users, items, *ids)


def test_the_first_repeated_row_may_be_found_in_the_last_pass():
    users = np.array([12, 12, 0, 0, 1, 2, 3, 4, 5], dtype=np.int32)
    assert len(list(passes(users, 13))) > 1
    with pytest.raises(DataError, match="user 12 rated item 0 twice, in rows 1 and 2:"):
        refuse_duplicates(users, np.zeros(9, np.int32), Vocabulary(range(13)), Vocabulary(range(4)))


@many
@given(rows, st.sampled_from(["last", "mean"]))
def test_merging_keeps_the_last_row_of_a_pair_with_its_own_rating_or_the_mean(table, how):
    users, items, ratings = as_columns(table)
    merged, lost = ratings.copy(), np.zeros(len(users), np.bool_)
    merge_duplicates(users, items, merged, lost, 13, 4, how)
    pairs = [row[:2] for row in table]
    for row, pair in enumerate(pairs):
        assert lost[row] == (pair in pairs[row + 1 :])
        of_pair = ratings[[place for place, other in enumerate(pairs) if other == pair]]
        if not lost[row]:
            assert merged[row] == (ratings[row] if how == "last" else np.add.reduceat(of_pair, [0])[0] / len(of_pair))


@given(st.integers(0, 40))
def test_pieces_are_all_rows_in_order(n_rows):
    assert [row for piece in pieces(n_rows) for row in range(n_rows)[piece]] == list(range(n_rows))


def test_the_first_row_that_matches_in_all_columns_is_found():
    left, right = np.arange(30) % 3, np.arange(30) % 5
    assert first_row((left, 2), (right, 4)) == 14
    with pytest.raises(LookupError):
        first_row((left, 3))


@pytest.fixture
def mapped(tmp_path, monkeypatch):
    """Three columns of a million rows in files."""
    monkeypatch.setattr(columns, "_PIECE", 1 << 14)
    monkeypatch.setattr(columns, "_PASS", 1 << 14)
    monkeypatch.setattr(columns, "_BLOCKS", 1 << 16)
    users, items = np.divmod(np.arange(1_000_000), 1000)
    for name, column in (("u", users.astype(np.int32)), ("i", items.astype(np.int32)), ("r", items % 2)):
        column.astype(np.float32 if name == "r" else np.int32).tofile(tmp_path / name)
    dtypes = {"u": np.int32, "i": np.int32, "r": np.float32}
    return [np.memmap(tmp_path / name, dtype, "r") for name, dtype in dtypes.items()]


def test_a_log_of_mapped_columns_checks_and_describes_itself_without_holding_them(mapped):
    ids = Vocabulary(range(1000))
    tracemalloc.start()
    try:
        log = RatingLog(*mapped, ids, ids, Scale(3.0))
        assert "positive rate 50.0%" in repr(log)
        part = log.take(slice(10, None))
        few = log.take(np.arange(0, 1_000_000, 1000))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1_500_000  # bytes; one column has 4,000,000
    assert (log.users is mapped[0], len(part), few.positive_rate) == (True, 999_990, 0)
    assert np.shares_memory(part.ratings, mapped[2])


def test_a_mapped_column_that_is_no_column_of_a_log_is_refused(mapped, tmp_path):
    users, items, ratings = mapped
    ids, scale = Vocabulary(range(1000)), Scale(3.0)
    with pytest.raises(DataError, match="users holds codes from 0 to 999, but there are 999 ids"):
        RatingLog(users, items, ratings, Vocabulary(range(999)), ids, scale)
    broken = np.array(ratings)
    broken[999_999] = 0.5
    broken.tofile(tmp_path / "half")
    with pytest.raises(DataError, match="the ratings of a binary log must be 0 or 1"):
        RatingLog(users, items, np.memmap(tmp_path / "half", np.float32, "r"), ids, ids, scale)
    with pytest.raises(DataError, match="rated item 0 twice, in rows 1 and 2"):
        RatingLog(users[:10], np.zeros(10, np.int32), ratings[:10], ids, ids, scale)
