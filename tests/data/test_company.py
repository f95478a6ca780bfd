"""Users who come together: an order of all, rows sorted by it, and pairs that are uniform over an epoch."""

import numpy as np
import pytest

import unskew
from unskew.data import feed
from unskew.data.company import BLOCK, Company
from unskew.data.feed import Feed
from unskew.data.split import holdout_split


@pytest.mark.parametrize("n_users", [1, 63, 64, 65, 1000])
def test_everybody_has_one_place(n_users):
    company = Company(n_users, np.random.default_rng(0))
    users = company.users_at(np.arange(n_users))
    np.testing.assert_array_equal(np.sort(users), np.arange(n_users))
    np.testing.assert_array_equal(company.places_of(users), np.arange(n_users))


def test_those_who_come_together_are_blocks_drawn_at_random():
    users = Company(6400, np.random.default_rng(0)).users_at(np.arange(6400)).reshape(-1, BLOCK)
    assert (np.diff(users, axis=1) == 1).all()
    assert abs(np.corrcoef(users[:, 0], np.arange(100))[0, 1]) < 0.3


def test_users_drawn_past_the_end_are_those_of_the_beginning():
    company = Company(1000, np.random.default_rng(0))
    places = company.places_of(company.some(0.9, 1.1, 5000, np.random.default_rng(1)))
    assert ((places >= 900) | (places < 100)).all()
    assert (places >= 900).mean() == pytest.approx(0.5, abs=0.03)


@pytest.fixture(scope="module")
def log():
    return unskew.simulate(n_users=2000, n_items=40, density=0.1, selection="taste", seed=0).log


@pytest.fixture
def several(log, monkeypatch):
    """A feed whose epochs have several stretches, as those of large logs have."""
    monkeypatch.setattr(feed, "ROWS_AT_ONCE", 1000)
    return Feed(holdout_split(log, 0.1, seed=0), batch_size=100, pairs_per_row=2.0, generator=np.random.default_rng(0))


def test_an_epoch_of_company_has_every_row_once_and_every_user_alike(log, several):
    stretches = list(several.stretches())
    assert len(stretches) > 5
    rows = np.concatenate([np.stack([s.whole.observed.users, s.whole.observed.items]) for s in stretches], axis=1)
    expected = holdout_split(log, 0.1, seed=0).train_rows
    cells = log.users[expected].astype(np.int64) * 40 + log.items[expected]
    np.testing.assert_array_equal(np.sort(rows[0] * 40 + rows[1]), np.sort(cells))
    drawn = np.concatenate([s.whole.sampled.users for s in stretches])
    by_block = np.bincount(drawn // 200, minlength=10) / len(drawn)
    np.testing.assert_allclose(by_block, 0.1, atol=0.02)


def test_pairs_of_a_stretch_are_of_the_users_whose_rows_it_has(several):
    for stretch in several.stretches():
        seen, drawn = (set((rows.users // BLOCK).tolist()) for rows in (stretch.whole.observed, stretch.whole.sampled))
        assert len(seen) < 12  # of 32 blocks
        assert len(drawn - seen) <= 4  # users are as many as their share, ratings are not


def test_a_log_that_may_not_fit_into_memory_is_taken_as_it_lies(log, monkeypatch):
    monkeypatch.setattr(feed, "ROWS_AT_ONCE", 1000)
    monkeypatch.setattr(feed, "MOST_SORTED", 1000)
    split = holdout_split(log, 0.1, seed=0)
    plain = Feed(split, batch_size=100, pairs_per_row=2.0, generator=np.random.default_rng(0))
    for stretch in plain.stretches():
        assert len(set((stretch.whole.observed.users // BLOCK).tolist())) > 25
