"""The joint likelihood: what it says of a handful of pairs by hand, and that its gradient is its derivative."""

import numpy as np
import pytest
import torch
from scipy.special import expit

from unskew.data.rows import Batch, Pairs, Rows
from unskew.nets.scalar import ScalarNet
from unskew.nets.table import Table
from unskew.risk.errors import log_error
from unskew.testing.enumeration import Listed
from unskew.training.view import Cast, View
from unskew.utility.law import seen_log_odds
from unskew.utility.likelihood import seen_error, seen_rating_error, utility_likelihood

Z, ACTIVITY, SLOPE, K = np.array([-1.0, 0.5, 2.0, 0.1]), np.array([-2.0, -1.0, -1.5, -3.0]), 0.3, 0.7
SEEN, RATINGS = np.array([0, 2]), np.array([0.0, 1.0])


def view(z=Z, activity=ACTIVITY, slope=SLOPE, learning=()):
    users, items = torch.arange(4), torch.zeros(4, dtype=torch.long)
    observed = Pairs(users[SEEN], items[SEEN], torch.from_numpy(RATINGS))
    everything = Pairs(users, items)
    everything.seen = lambda index: torch.tensor([1.0, 0.0, 1.0, 0.0])[index]
    batch = Batch(Rows(observed, slice(0, 2), 1.0), Rows(everything, slice(0, 4), 1.0), 4)
    number = ScalarNet(Table(torch.full((1, 1), slope, dtype=torch.float64)), "slope")
    players = {"prediction": Listed(z), "activity": Listed(activity), "slope": number}
    return View(Cast(players, {}, {}, log_error), batch, frozenset(learning))


def test_the_loss_is_the_negative_log_likelihood_per_seen_pair():
    liked, disliked = seen_log_odds(Z[SEEN], K * SLOPE)
    ratings = -(RATINGS * liked + (1 - RATINGS) * disliked).mean()
    rate = np.exp(ACTIVITY + SLOPE * Z)
    chosen = -(np.log1p(-np.exp(-rate[[0, 2]])).sum() - rate[[1, 3]].sum()) / 2
    assert seen_rating_error(view(), K).item() == pytest.approx(ratings)
    assert seen_error(view()).item() == pytest.approx(chosen)
    assert utility_likelihood(view(), K).item() == pytest.approx(ratings + chosen)


def test_without_a_slope_the_ratings_part_is_the_naive_risk():
    v = view(slope=0.0)
    assert seen_rating_error(v, K).item() == pytest.approx(
        log_error(v.observed.logit(), v.observed.ratings).mean().item()
    )
    assert np.exp(-seen_rating_error(view(z=np.zeros(4), slope=0.0), K).item()) == pytest.approx(expit(0.0))


@pytest.mark.parametrize("role", ["prediction", "activity", "slope"])
def test_the_gradient_is_the_derivative_of_the_loss(role):
    v = view(learning=[role])
    utility_likelihood(v, K).backward()
    player = v.cast.players[role]
    gradient = torch.zeros_like(player.table.value)
    for index, rows in player.table._read:
        gradient.index_add_(0, index, rows.grad)
    for n in range(len(gradient)):
        change = np.zeros(len(gradient))
        change[n] = 1e-5
        start = {"prediction": Z, "activity": ACTIVITY, "slope": np.array([SLOPE])}[role]
        name = {"prediction": "z"}.get(role, role)
        high, low = (
            utility_likelihood(view(**{name: float(at[0]) if role == "slope" else at}), K).item()
            for at in (start + change, start - change)
        )
        assert gradient[n, 0].item() == pytest.approx((high - low) / 2e-5, abs=1e-6)
