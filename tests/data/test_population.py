"""A population of listed rows: who is shown what is a file, and what was seen of it a column."""

from itertools import product

import numpy as np
import pytest

from unskew import Additive, DataError, RatingLog, holdout_split, make
from unskew.data.feed import Batch, Block, Chunk, Feed
from unskew.data.impressions import counted
from unskew.data.population import AllPairs, Folds, ListedRows
from unskew.losses.batch import Parts, View
from unskew.losses.columns import value_of
from unskew.losses.doubly_robust import dr
from unskew.losses.weighting import ips, seen_likelihood
from unskew.nets.base import Part

# Four impressions of three pairs: the first pair was shown twice.
USERS, ITEMS = np.array([0, 0, 1, 2], np.int32), np.array([1, 1, 0, 1], np.int32)
P, Q, PREDICTION, IMPUTED = np.random.default_rng(3).uniform(0.1, 0.9, (4, 3, 3))[:, USERS, ITEMS]
KEPT = 0.4  # of rows that were not seen


class ByPair(Part):
    """The probability of a pair, in float64."""

    def __init__(self, of_rows):
        self.table = np.zeros((3, 3))
        self.table[USERS, ITEMS] = np.log(of_rows / (1 - of_rows))

    def logits(self, users, items):
        return self.table[users, items]


def enumerated(loss, *, imputed=IMPUTED, p=P, down_sampled, joined):
    """The expectation of a loss over all that may be seen, rated and kept; answers are over all four rows."""
    parts = Parts({"prediction": ByPair(PREDICTION), "imputation": ByPair(imputed), "propensity": ByPair(p)})
    found, states = 0.0, [(False, True, False), (False, False, False), (True, True, False), (True, True, True)]
    for state in product(states, repeat=4):
        seen, kept, rated = np.array(state).T
        chance_kept = np.where(seen, 1.0, KEPT if down_sampled else 1.0)
        chance = np.prod(np.where(seen, P, 1 - P)) * np.prod(np.where(kept, chance_kept, 1 - chance_kept))
        chance *= np.prod(np.where(seen, np.where(rated, Q, 1 - Q), 1.0))
        cells = (1 / chance_kept).astype(np.float32) if down_sampled else None
        rows, ratings = ListedRows(USERS, ITEMS, seen, cells).take(kept), rated[kept].astype(float)
        if joined:
            rows, ratings = counted(rows, ratings, 3)
        own = rows.seen
        given = {} if rows.cells is None else {"cells": rows.cells.astype(float)}
        observed = Block(
            rows.users[own], rows.items[own], ratings=ratings[own], **{k: v[own] for k, v in given.items()}
        )
        sampled = Block(rows.users, rows.items, seen=own.astype(float), **given)
        chunks = (Chunk(block, slice(0, len(block)), 1.0) for block in (observed, sampled))
        found += chance * float(value_of(loss(View(parts, Batch(*chunks), 4.0))))
    return found


def log_loss(q):
    return float(np.mean(-q * np.log(PREDICTION) - (1 - q) * np.log(1 - PREDICTION)))


@pytest.mark.parametrize("joined", [False, True], ids=["repeats kept", "repeats joined"])
@pytest.mark.parametrize("down_sampled", [False, True], ids=["whole", "down-sampled"])
@pytest.mark.parametrize(
    ("loss", "parts", "truth"),
    [
        (ips, {}, log_loss(Q)),
        (dr, {}, log_loss(Q)),
        (dr, {"imputed": Q, "p": np.sqrt(P)}, log_loss(Q)),
        (seen_likelihood, {"p": PREDICTION}, log_loss(P)),
    ],
    ids=["ips", "dr with true chances", "dr with a true imputation", "clicks at their rate"],
)
def test_losses_are_unbiased_over_everything_shown(loss, parts, truth, down_sampled, joined):
    """P is the chance that a row is clicked and Q that it then converts: all outcomes are enumerated."""
    assert enumerated(loss, **parts, down_sampled=down_sampled, joined=joined) == pytest.approx(truth, rel=1e-6)


@pytest.fixture(scope="module")
def shown():
    """Four thousand impressions, with requests, times and repeats; ratings of what was not clicked are nonsense."""
    rng = np.random.default_rng(0)
    users, items = rng.integers(60, size=4000), rng.integers(40, size=4000)
    clicked = rng.random(4000) < 0.25
    bought = np.where(clicked, rng.random(4000) < 0.4, -7)
    return users, items, bought, clicked


@pytest.fixture(scope="module")
def log(shown):
    users, items, bought, clicked = shown
    return RatingLog.from_arrays(users, items, bought, seen=clicked)


def test_ratings_of_unseen_rows_are_not_read(shown, log):
    users, items, bought, clicked = shown
    assert len(log) == clicked.sum()
    assert log.n_pairs == 4000
    assert log.density == clicked.mean()
    assert (log.ratings == bought[clicked]).all()
    missing = RatingLog.from_arrays(users, items, np.where(clicked, bought, np.nan), seen=clicked.astype(int))
    assert (missing.ratings == log.ratings).all()
    assert (missing.users == log.users).all()


def test_equal_rows_become_one_that_stands_for_them(shown, log):
    joined = RatingLog.from_arrays(*shown[:3], seen=shown[3], duplicates="count")
    assert joined.n_pairs == 4000
    assert len(joined.listed) < 4000
    assert joined.cells.sum() == len(log)
    assert joined.density == log.density
    assert (joined.cells * joined.ratings).sum() == log.ratings.sum()


def test_a_pair_rated_often_stands_for_one_pair_in_all():
    log = RatingLog.from_arrays([0, 0, 0, 1], [0, 0, 1, 1], [0, 1, 1, 0], duplicates="keep")
    assert log.cells.tolist() == [0.5, 0.5, 1, 1]
    assert log.density == 3 / 4


@pytest.mark.parametrize("by", ["global", "user", "last"])
def test_divisions_are_of_rows_seen_or_not(log, by):
    split = holdout_split(log, 0.2, by=by, seed=3)
    assert split.held_out.sum() == pytest.approx(800, abs=40)
    assert len(split.holdout_rows) == (split.held_out & log.listed.seen).sum()
    for part in (split.train, split.holdout):
        assert len(part) == part.listed.seen.sum()
        assert (part.users == part.listed.users[part.listed.seen]).all()
    assert len(split.train.listed) + len(split.holdout.listed) == 4000
    part = log.take(np.arange(len(log)) % 2 == 0)  # a part of the seen rows keeps the rate
    assert part.density == pytest.approx(log.density, rel=1e-3)
    assert part.listed.seen.sum() == len(part)


@pytest.mark.parametrize("how", ["keep", "count"])
@pytest.mark.parametrize("calibrates", [False, True])
def test_rows_of_any_batch_stand_for_all_rows(shown, how, calibrates):
    log = RatingLog.from_arrays(*shown[:3], seen=shown[3], duplicates=how)
    split = holdout_split(log, 0.2, seed=1)
    feed = Feed(split, batch_size=64, pairs_per_row=2, rng=np.random.default_rng(0), calibrates=calibrates)
    totals = [(batch.observed, batch.sampled) for batch in feed.epoch()]
    views = [View(Parts({}), Batch(*chunks), feed.n_pairs) for chunks in totals]
    n = len(views)
    assert sum(view.observed.total() for view in views) / n == pytest.approx(shown[3].sum(), rel=0.1)
    assert sum(view.sampled.total() for view in views) / n == pytest.approx(4000, rel=0.02)
    unseen = sum(view.sampled.total(1 - view.sampled.seen) for view in views) / n
    assert unseen == pytest.approx(4000 - shown[3].sum(), rel=0.05)
    held = {tuple(pair) for pair in zip(*pairs_of(feed.holdout.sampled), strict=True)}
    if calibrates and how == "count":
        own = {tuple(pair) for pair in zip(*pairs_of(feed.calibration.sampled), strict=True)}
        assert len(held & own) < 0.5 * len(held)


def pairs_of(chunk):
    return chunk.block.users[chunk.where].tolist(), chunk.block.items[chunk.where].tolist()


def test_rows_that_are_held_out_are_not_drawn(log):
    split = holdout_split(log, 0.5, seed=1)
    train, held = split.log.listed.divided(split.held_out)
    drawn, kept = train.draw(40, 500, np.random.default_rng(0)), held.draw_evenly(len(held), np.random.default_rng(0))
    rows = log.listed.take(~split.held_out)
    found, own = (
        {*zip(each.users.tolist(), each.items.tolist(), each.seen.tolist(), strict=True)} for each in (drawn, rows)
    )
    assert found == own
    assert len(kept.users) == len(held)


def test_folds_keep_repeats_together(log):
    folds = Folds(3, 5, AllPairs(60, 40))
    rows = log.listed
    net = folds.placed(rows.users, rows.items, -1)[0]
    pairs = [rows.users.tolist(), rows.items.tolist()]
    placed = {*zip(*pairs, net.tolist(), strict=True)}
    assert len(placed) == len({*zip(*pairs, strict=True)}) < len(log.listed)


def test_what_counts_over_all_pairs_says_so(log):
    with pytest.raises(DataError, match="Additive counts over all users and items, and this log lists"):
        make("ips", propensity=Additive()).fit(log)
