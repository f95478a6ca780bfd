"""Rows stand for the right number of pairs, whatever the batch; a pair never teaches the net that answers for it."""

import numpy as np
import pytest

from unskew import MF, DataError, RatingLog, holdout_split
from unskew.data import feed as feeds
from unskew.data.feed import Feed
from unskew.data.pairs import pair_fold
from unskew.data.population import AllPairs, Folds
from unskew.losses.batch import Parts, View
from unskew.losses.columns import value_of
from unskew.losses.doubly_robust import dr
from unskew.losses.weighting import ips
from unskew.nets.base import NetContext

N_USERS, N_ITEMS = 40, 30


@pytest.fixture(scope="module")
def split():
    rng = np.random.default_rng(0)
    pairs = rng.choice(N_USERS * N_ITEMS, size=300, replace=False)
    users, items = np.divmod(pairs, N_ITEMS)
    ids = {"user_ids": range(N_USERS), "item_ids": range(N_ITEMS)}
    return holdout_split(RatingLog.from_arrays(users, items, rng.integers(0, 2, 300), positive=1, **ids), 0.2, seed=1)


def feed(split, batch_size=64, pairs_per_row=2.0, **options):
    return Feed(split, batch_size=batch_size, pairs_per_row=pairs_per_row, rng=np.random.default_rng(3), **options)


def pairs_of(chunk):
    users, items = chunk.block.users[chunk.where], chunk.block.items[chunk.where]
    return users.astype(np.int64), items.astype(np.int64)


def size_of(chunk):
    return len(pairs_of(chunk)[0])


@pytest.mark.parametrize("calibrates", [False, True])
def test_rows_of_any_batch_stand_for_all_seen_pairs_and_all_pairs(split, calibrates):
    f = feed(split, calibrates=calibrates)
    for batch in [*f.epoch(), f.holdout, f.calibration, f.train]:
        assert batch.observed.cells * size_of(batch.observed) == pytest.approx(300)
        assert batch.sampled.cells * size_of(batch.sampled) == pytest.approx(1200)
    assert f.n_pairs == 1200


def test_an_epoch_visits_every_training_row_once_in_the_order_of_users(split):
    f = feed(split)
    batches = list(f.epoch())
    assert [size_of(batch.observed) for batch in batches] == [64, 64, 64, 48]
    assert [size_of(batch.sampled) for batch in batches] == [128, 128, 128, 96]
    assert f.n_batches == 4
    visited, ratings = [], []
    for batch in batches:
        users, items = pairs_of(batch.observed)
        assert (np.diff(users) >= 0).all()
        visited.append(users * N_ITEMS + items)
        ratings.append(batch.observed.block.known("ratings")[batch.observed.where])
    order, train = np.argsort(np.concatenate(visited)), split.train
    keys = train.users.astype(np.int64) * N_ITEMS + train.items
    np.testing.assert_array_equal(np.concatenate(visited)[order], np.sort(keys))
    np.testing.assert_array_equal(np.concatenate(ratings)[order], train.ratings[np.argsort(keys)])
    other = pairs_of(next(f.epoch()).observed)
    assert len(other[0]) == 64
    assert set(other[0] * N_ITEMS + other[1]) != set(visited[0])


def test_an_epoch_in_several_draws_is_still_whole(split, monkeypatch):
    monkeypatch.setattr(feeds, "ROWS_AT_ONCE", 70)
    (batch,) = feed(split, batch_size=2**31 - 1).epoch()  # no more rows and pairs than there are
    assert (size_of(batch.observed), size_of(batch.sampled), len(batch.sampled.block)) == (240, 480, 480)
    batches = list(feed(split, batch_size=32).epoch())
    assert sorted(size_of(batch.observed) for batch in batches) == [16, *[32] * 7]
    assert len({id(batch.sampled.block) for batch in batches}) == 5  # four draws, and one for the small batch
    keys = np.concatenate([u * N_ITEMS + i for u, i in (pairs_of(batch.observed) for batch in batches)])
    assert len(np.unique(keys)) == 240


def test_sampled_pairs_are_uniform_and_know_whether_they_were_seen(split):
    f, seen = feed(split, pairs_per_row=50.0), np.zeros((N_USERS, N_ITEMS))
    seen[split.log.users, split.log.items] = 1
    counts = np.zeros(N_USERS * N_ITEMS)
    for _ in range(4):
        for batch in f.epoch():
            users, items = pairs_of(batch.sampled)
            counts += np.bincount(users * N_ITEMS + items, minlength=len(counts))
            known = batch.sampled.block.known("seen")[batch.sampled.where]
            np.testing.assert_array_equal(known, seen[users, items])
    # Users are drawn in fours, so that their counts vary four times as much as those of independent draws.
    for side in (counts.reshape(N_USERS, N_ITEMS).sum(1), counts.reshape(N_USERS, N_ITEMS).sum(0)):
        expected = side.mean()
        assert ((side - expected) ** 2 / expected).sum() < 4 * (len(side) + 4 * np.sqrt(2 * len(side)))
    assert counts.min() > 0


def test_a_small_batch_draws_from_all_users_too(split):
    """Pairs are in the order of users, so that the first of a longer draw would be those of the first users alone."""
    f = feed(split, batch_size=230, pairs_per_row=4.0)
    users = np.concatenate([pairs_of(list(f.epoch())[-1].sampled)[0] for _ in range(60)])
    assert len(users) == 60 * 40
    assert users.mean() == pytest.approx((N_USERS - 1) / 2, abs=4 * N_USERS / np.sqrt(12 * len(users) / 4))


def test_the_sample_of_the_hold_out_gives_everybody_a_like_share(split):
    f = feed(split)
    users, items = pairs_of(f.holdout.sampled)
    for codes, size in ((users, N_USERS), (items, N_ITEMS)):
        assert np.ptp(np.bincount(codes, minlength=size)) <= 5  # independent draws would give about sixty
    assert np.bincount(users * N_ITEMS + items, minlength=1200).min() > 0
    np.testing.assert_array_equal(pairs_of(f.train.sampled)[0], users)


def test_a_plan_that_calibrates_divides_the_hold_out(split):
    f = feed(split, calibrates=True)
    first, second = ({*zip(*map(tuple, pairs_of(b.observed)), strict=True)} for b in (f.holdout, f.calibration))
    log = split.holdout
    assert first | second == {*zip(log.users.tolist(), log.items.tolist(), strict=True)}
    assert not first & second
    assert abs(len(first) - len(second)) <= 1
    plain = feed(split)
    assert plain.holdout is plain.calibration
    with pytest.raises(DataError, match="at least 2 held-out ratings, not 1"):
        feed(holdout_split(split.log, 1 / 300), calibrates=True)


def test_a_pair_never_teaches_the_net_that_answers_for_it(split):
    folds = Folds(4, 9, AllPairs(N_USERS, N_ITEMS))
    f = feed(split, folds=folds)
    assert f.n_pairs == 3 * 1200
    for batch in [*f.epoch(), f.holdout, f.train]:
        for chunk in batch:
            (net, users), (other, items) = (np.divmod(c, n) for c, n in zip(pairs_of(chunk), (40, 30), strict=True))
            np.testing.assert_array_equal(net, other)
            assert (pair_fold(folds.seed, users, items, folds.n) != net).all()
            answering = folds.placed(users, items, -1)[0] // N_USERS
            np.testing.assert_array_equal(answering, pair_fold(folds.seed, users, items, folds.n))
        assert batch.observed.cells * size_of(batch.observed) == pytest.approx(3 * 300)
        assert batch.sampled.cells * size_of(batch.sampled) == pytest.approx(3 * 1200)
    met = np.concatenate([u * 120 + i for u, i in (pairs_of(batch.observed) for batch in f.epoch())])
    assert len(met) == len(np.unique(met)) == 3 * 240


def test_what_roles_answered_is_forgotten_on_request(split):
    f, asked = feed(split), []

    def ask(role, users, items):
        asked.append(len(users))
        return users.astype(np.float64)

    for batch in f.epoch():
        block, where = batch.observed.block, batch.observed.where
        np.testing.assert_array_equal(block.answers("x", ask)[where], block.users[where])
    assert asked == [240]
    f.forget()
    next(f.epoch()).observed.block.answers("x", ask)
    assert asked == [240, 240]


@pytest.mark.parametrize(("risk", "robust"), [(dr, 1), (ips, 0)])
@pytest.mark.parametrize("batch_size", [9, 96, 240])
def test_mini_batches_average_to_the_full_risk(risk, robust, batch_size, split):
    """The factor |O|/|D| is in the rows' cells, and training rows stand for all seen ones."""
    context = NetContext(N_USERS, N_ITEMS, 0.4, (split.train.users, split.train.items))
    net = MF(n_factors=4, init_std=0.7)
    roles = {r: net.build(context, np.random.default_rng(n)) for n, r in enumerate(("prediction", "imputation"))}
    parts = Parts(roles | {"propensity": net.build(context, np.random.default_rng(5))}, clips={"propensity": 0.1})
    users, items = (codes.astype(np.int32) for codes in np.divmod(np.arange(1200), N_ITEMS))
    s, y, p = (part.logits(users, items).astype(np.float64) for part in parts.parts.values())
    imputed = (np.logaddexp(0, s) - s / (1 + np.exp(-y))) * robust
    row = split.train.users.astype(np.int64) * N_ITEMS + split.train.items
    weight = 1 / np.maximum(1 / (1 + np.exp(-p[row])), 0.1) * 300 / 240
    error = np.logaddexp(0, s[row]) - split.train.ratings * s[row]
    full = (imputed.sum() + (weight * (error - imputed[row])).sum()) / 1200
    f = feed(split, batch_size=batch_size, pairs_per_row=3.0)
    values = [value_of(risk(View(parts, batch, f.n_pairs))) for _ in range(60) for batch in f.epoch()]
    assert np.mean(values) == pytest.approx(full, abs=4 * np.std(values) / np.sqrt(len(values)) + 1e-5)
