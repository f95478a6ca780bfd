"""Rows stand for the right number of cells, whatever the batch."""

import numpy as np
import pytest
import torch

from unskew.data.feed import Feed
from unskew.data.log import RatingLog
from unskew.data.seen import SeenPairs
from unskew.data.split import holdout_split
from unskew.propensity.factors import Outside


@pytest.fixture(scope="module")
def split():
    rng = np.random.default_rng(0)
    pairs = rng.choice(40 * 30, size=300, replace=False)
    log = RatingLog.from_arrays(
        *np.divmod(pairs, 30), rng.integers(0, 2, 300), positive=1, user_ids=range(40), item_ids=range(30)
    )
    return holdout_split(log, 0.2, seed=1)


def feed(split, batch_size=64, pairs_per_row=2.0, region=None):
    return Feed(
        split, batch_size=batch_size, pairs_per_row=pairs_per_row, generator=np.random.default_rng(3), region=region
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
    (sampled,) = {id(b.sampled.block): b.sampled.block for b in f.epoch()}.values()
    counts = np.bincount((sampled.users * 30 + sampled.items).numpy(), minlength=1200)
    expected = len(sampled.users) / 1200
    assert ((counts - expected) ** 2 / expected).sum() < 1200 + 4 * np.sqrt(2 * 1200)
    seen = np.zeros((40, 30))
    seen[split.log.users, split.log.items] = 1
    np.testing.assert_array_equal(sampled.seen.numpy(), seen[sampled.users, sampled.items])


def test_outside_a_fold_no_pair_of_the_fold_is_met_and_the_rest_is_counted(split):
    region = Outside(fold=1, n_folds=4, seed=9)
    f = feed(split, region=region)
    for batch in [*f.epoch(), f.holdout]:
        for rows in (batch.observed, batch.sampled):
            assert region(rows.users.numpy(), rows.items.numpy()).all()
        assert batch.n_pairs == pytest.approx(900)


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
