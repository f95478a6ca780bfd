"""The simulated funnel: what it draws follows the chances that it tells."""

import numpy as np
import pytest

from unskew.datasets.funnel import simulate_funnel
from unskew.errors import ParameterError


@pytest.fixture(scope="module")
def funnel():
    return simulate_funnel(400, 50, 40_000, random_share=0.2, seed=3)


def column(funnel, name):
    return funnel.rows[name].to_numpy()


@pytest.mark.parametrize("policy", ["learned", "random"])
def test_items_are_shown_as_often_as_their_chance(funnel, policy):
    own = funnel.rows["policy"].combine_chunks().dictionary_decode().to_numpy(zero_copy_only=False) == policy
    groups, items = funnel.group[column(funnel, "user_id")][own], column(funnel, "item_id")[own]
    shown = np.zeros(funnel.policy.shape)
    np.add.at(shown, (groups, items), 1)
    chance = funnel.policy if policy == "learned" else np.full(funnel.policy.shape, 1 / funnel.n_items)
    expected = shown.sum(1, keepdims=True) * chance
    enough = expected > 5
    squares = ((shown - expected)[enough] ** 2 / expected[enough]).sum()
    assert abs(squares - enough.sum()) < 4 * np.sqrt(2 * enough.sum()) + len(shown)
    pscore = column(funnel, "pscore")[own]
    np.testing.assert_allclose(pscore, chance[groups, items])
    assert abs(np.mean(1 / pscore) / funnel.n_items - 1) < 0.05


def test_clicks_and_purchases_are_as_frequent_as_their_chance(funnel):
    users, items, position = (column(funnel, name) for name in ("user_id", "item_id", "position"))
    clicked, converted = (column(funnel, name).astype(float) for name in ("clicked", "converted"))
    chances = {"clicked": (clicked, funnel.chance_clicked(users, items, position), np.ones(len(users), bool))}
    chances["converted"] = converted, funnel.chance_converted(users, items), clicked > 0
    for happened, chance, where in chances.values():
        happened, chance = happened[where], chance[where]
        tenth = np.argsort(np.argsort(chance)) * 10 // len(chance)
        for k in range(10):
            own = tenth == k
            spread = np.sqrt((chance[own] * (1 - chance[own])).sum())
            assert abs(happened[own].sum() - chance[own].sum()) < 4 * spread
    assert not converted[clicked == 0].any()


def test_rates_are_those_asked_for_and_clicks_are_no_fair_sample():
    funnel = simulate_funnel(500, 80, 60_000, click_rate=0.05, conversion_rate=0.3, link=1.5, random_share=0, seed=1)
    clicked, converted = (column(funnel, name) for name in ("clicked", "converted"))
    assert clicked.mean() == pytest.approx(0.05, abs=0.003)
    assert converted[clicked == 1].mean() == pytest.approx(0.3, abs=0.02)
    everything = funnel.chance_converted(column(funnel, "user_id"), column(funnel, "item_id")).mean()
    assert everything < 0.25
    assert not column(funnel, "is_random").any()


def test_a_request_is_of_one_user_at_one_time_by_one_policy(funnel):
    frame = funnel.rows.to_pandas().groupby("request")
    assert (frame[["user_id", "time", "is_random"]].nunique() == 1).all(axis=None)
    assert (frame["position"].apply(tuple) == tuple(range(5))).all()
    assert frame["time"].first().is_monotonic_increasing


@pytest.mark.parametrize(
    "wrong",
    [{"n_users": 0}, {"n_items": 2.5}, {"click_rate": 0}, {"conversion_rate": 1.2}, {"random_share": -0.1},
     {"decay": float("nan")}, {"link": float("inf")}, {"seed": -1}, {"click_rate": 0.9, "decay": 5.0}],
)  # fmt: skip
def test_what_cannot_be_drawn_is_refused(wrong):
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        simulate_funnel(**{"n_users": 20, "n_items": 10, "n_requests": 50, **wrong})
