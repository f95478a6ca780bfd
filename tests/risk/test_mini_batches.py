"""A mini-batch of a risk averages to its full-batch value: the factor |O|/|D| is in the rows' weights."""

import numpy as np
import pytest
import torch

from unskew.data.feed import Feed
from unskew.data.log import RatingLog
from unskew.data.split import holdout_split
from unskew.nets.base import Catalogue
from unskew.nets.factors import MF
from unskew.risk.errors import log_error
from unskew.risk.estimators import ips
from unskew.risk.robust import dr
from unskew.training.view import Cast, View

N_USERS, N_ITEMS = 25, 16


@pytest.fixture(scope="module")
def split():
    rng = np.random.default_rng(0)
    pairs = rng.choice(N_USERS * N_ITEMS, size=120, replace=False)
    log = RatingLog.from_arrays(
        *np.divmod(pairs, N_ITEMS),
        rng.integers(0, 2, 120),
        positive=1,
        user_ids=range(N_USERS),
        item_ids=range(N_ITEMS),
    )
    return holdout_split(log, 0.1, seed=2)


@pytest.fixture(scope="module")
def cast():
    def net(seed, base_rate):
        catalogue = Catalogue(N_USERS, N_ITEMS, base_rate, "torch")
        return MF(n_factors=4, spread=0.7).build(catalogue, torch.Generator().manual_seed(seed))

    players = {"prediction": net(1, 0.5), "imputation": net(2, 0.5), "propensity": net(3, 0.4)}
    return Cast(players, {"propensity": 0.1}, {}, log_error)


def by_hand(cast, split, robust):
    """The definition on the full matrix; the training rows stand for all seen ones."""
    users, items = (torch.from_numpy(codes) for codes in np.divmod(np.arange(N_USERS * N_ITEMS), N_ITEMS))
    with torch.no_grad():
        s, y, p = (cast.players[role](users, items).double() for role in ("prediction", "imputation", "propensity"))
    imputed = log_error(s, torch.sigmoid(y)).numpy() * robust
    train = split.train
    row = train.users.astype(np.int64) * N_ITEMS + train.items
    error = log_error(s[row], torch.from_numpy(train.ratings.astype(np.float64))).numpy()
    weight = 1 / np.maximum(torch.sigmoid(p)[row].numpy(), 0.1) * len(split.log) / len(train)
    return (imputed.sum() + (weight * (error - imputed[row])).sum()) / (N_USERS * N_ITEMS)


@pytest.mark.parametrize(("risk", "robust"), [(dr, 1), (ips, 0)])
@pytest.mark.parametrize("batch_size", [9, 27, 108])
def test_mini_batches_average_to_the_full_risk(risk, robust, batch_size, split, cast):
    feed = Feed(split, batch_size=batch_size, pairs_per_row=3.0, generator=np.random.default_rng(1))
    values = [risk(View(cast, batch)).item() for _ in range(60) for batch in feed.epoch()]
    error = np.std(values) / np.sqrt(len(values))
    assert np.mean(values) == pytest.approx(by_hand(cast, split, robust), abs=4 * error + 1e-5)
