"""Rows stand for the right number of cells, whatever the batch."""

import numpy as np
import pytest
import torch

from unskew.data import feed as feeds
from unskew.data.feed import Feed
from unskew.data.hashing import pair_fold
from unskew.data.log import RatingLog
from unskew.data.rows import Logged, Rows
from unskew.data.seen import SeenPairs
from unskew.data.split import holdout_split
from unskew.propensity.factors import FoldNets


@pytest.fixture(scope="module")
def split():
    rng = np.random.default_rng(0)
    pairs = rng.choice(40 * 30, size=300, replace=False)
    log = RatingLog.from_arrays(
        *np.divmod(pairs, 30), rng.integers(0, 2, 300), positive=1, user_ids=range(40), item_ids=range(30)
    )
    return holdout_split(log, 0.2, seed=1)


def feed(split, batch_size=64, pairs_per_row=2.0, members=None):
    return Feed(
        split, batch_size=batch_size, pairs_per_row=pairs_per_row, generator=np.random.default_rng(3), members=members
    )


def test_rows_of_any_batch_stand_for_all_seen_pairs_and_all_pairs(split):
    f = feed(split)
    for batch in [*f.epoch(), f.holdout, f.train]:
        assert batch.observed.weight * len(batch.observed.users) == pytest.approx(300)
        assert batch.sampled.weight * len(batch.sampled.users) == pytest.approx(1200)
        assert batch.n_pairs == 1200


def test_an_epoch_visits_every_training_row_once_and_keeps_the_last_partial_batch(split):
    batches = list(feed(split, batch_size=64).epoch())
    assert [len(batch.observed.users) for batch in batches] == [64, 64, 64, 48]
    visited = torch.cat([batch.observed.users * 30 + batch.observed.items for batch in batches]).numpy()
    expected = split.train.users.astype(np.int64) * 30 + split.train.items
    np.testing.assert_array_equal(np.sort(visited), np.sort(expected))


def test_mini_batch_totals_average_to_the_full_total(split):
    f = feed(split, batch_size=7)
    value = torch.arange(40.0).unsqueeze(1) + torch.arange(30.0)
    full = value.sum().item()
    totals = [
        batch.sampled.weight * value[batch.sampled.users, batch.sampled.items].sum().item()
        for _ in range(100)
        for batch in f.epoch()
    ]
    assert np.mean(totals) == pytest.approx(full, abs=4 * np.std(totals) / np.sqrt(len(totals)))


def test_sampled_pairs_are_uniform_and_know_whether_they_were_seen(split):
    f = feed(split, pairs_per_row=50.0)
    (block,) = {id(b.sampled.block): b.sampled.block for b in f.epoch()}.values()
    sampled = Rows(block, slice(None), 1.0)
    counts = np.bincount((sampled.users * 30 + sampled.items).numpy(), minlength=1200)
    expected = len(sampled.users) / 1200
    assert ((counts - expected) ** 2 / expected).sum() < 1200 + 4 * np.sqrt(2 * 1200)
    seen = np.zeros((40, 30))
    seen[split.log.users, split.log.items] = 1
    np.testing.assert_array_equal(sampled.seen.numpy(), seen[sampled.users, sampled.items])


def test_the_net_of_a_fold_meets_every_pair_but_those_of_its_fold(split):
    f = feed(split, members=FoldNets(split, 4, seed=9))
    met = []
    for batch in [*f.epoch(), f.holdout]:
        for rows in (batch.observed, batch.sampled):
            (member, users), (other, items) = np.divmod(rows.users.numpy(), 40), np.divmod(rows.items.numpy(), 30)
            np.testing.assert_array_equal(member, other)
            assert (pair_fold(9, users, items, 4) != member).all()
        assert batch.observed.weight * len(batch.observed.users) == pytest.approx(3 * 300)
        assert batch.n_pairs == 3 * 1200
    for batch in f.epoch():
        met.append((batch.observed.users * 30 * 4 + batch.observed.items).numpy())
    met = np.concatenate(met)
    assert len(met) == len(np.unique(met)) == 3 * 240


def test_sampled_pairs_of_folds_are_uniform_over_what_their_nets_may_meet(split):
    f = feed(split, pairs_per_row=100.0, members=FoldNets(split, 3, seed=9))
    (block,) = {id(b.sampled.block): b.sampled.block for b in f.epoch()}.values()
    users, items = block.pairs(slice(None))
    counts = np.bincount((users * 90 + items).numpy(), minlength=120 * 90).reshape(120, 90)
    allowed = np.zeros((120, 90), bool)
    for member in range(3):
        u, i = np.divmod(np.arange(1200), 30)
        allowed[u + 40 * member, i + 30 * member] = pair_fold(9, u, i, 3) != member
    expected = len(block) / allowed.sum()
    assert (counts[~allowed] == 0).all()
    assert ((counts[allowed] - expected) ** 2 / expected).sum() < 2400 + 4 * np.sqrt(2 * 2400)


def test_a_log_longer_than_a_stretch_is_visited_whole_and_never_read_far_apart(split, monkeypatch):
    monkeypatch.setattr(feeds, "ROWS_AT_ONCE", 70)
    monkeypatch.setattr(feeds, "MOST_SORTED", 0)  # as if it might not fit into memory
    read, look_up = [], Logged.pairs
    monkeypatch.setattr(Logged, "pairs", lambda block, index: read.append(index) or look_up(block, index))
    batches = list(feed(split, batch_size=32).epoch())
    assert sorted(len(batch.observed.users) for batch in batches) == [16, *[32] * 7]
    np.testing.assert_array_equal(np.sort(np.concatenate(read)), np.arange(240))
    assert all(np.ptp(index) < 64 for index in read)
    column = feed(split).train.observed.column("x", lambda part: part.users.double())
    np.testing.assert_array_equal(column, split.train.users)


def test_columns_are_computed_once_for_a_block_and_forgotten_on_request(split):
    f = feed(split)
    calls = []

    def make(block):
        calls.append(len(block.users))
        return block.users.double()

    for batch in f.epoch():
        torch.testing.assert_close(batch.observed.column("x", make), batch.observed.users.double())
    assert calls == [240]
    f.forget_columns()
    next(f.epoch()).observed.column("x", make)
    assert calls == [240, 240]


def test_seen_pairs_agree_with_a_set():
    log = RatingLog.from_arrays([0, 2, 1], [1, 0, 1], [1, 0, 1], positive=1, user_ids=range(3), item_ids=range(2))
    users, items = np.divmod(np.arange(6), 2)
    np.testing.assert_array_equal(SeenPairs(log)(users, items), [False, True, False, True, True, False])
    np.testing.assert_array_equal(SeenPairs(log).of_user(2), [0])


def test_the_sample_beside_the_hold_out_gives_every_user_and_item_a_like_share(split):
    users, items = feed(split).holdout.sampled.block.pairs(slice(None))
    for codes, size in ((users, 40), (items, 30)):
        counts = np.bincount(codes, minlength=size)
        assert np.ptp(counts) <= 5  # independent draws would give about sixty
    counts = np.bincount(users * 30 + items, minlength=1200)
    assert counts.min() > 0
