"""Chances of places are those of the lists that are drawn: closed forms, enumeration, 20,000 lists."""

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import chi2

import unskew
from unskew import ParameterError, explore
from unskew.explore import chance_of_places, draw_list
from unskew.special import ndtr

LISTS = 20_000


@pytest.fixture(scope="module")
def model():
    world = unskew.simulate(40, 12, density=0.4, seed=3, test_per_user=5)
    return unskew.make("bayes", sweeps=30).fit(world.log)


def test_two_items_and_equal_ones_have_closed_forms():
    np.testing.assert_allclose(chance_of_places(np.zeros(50), np.ones(50), np.arange(10)), 1 / 50, atol=1e-9)
    mean, sd = np.array([0.3, 0.0]), np.array([0.5, 1.0])
    first = ndtr(0.3 / np.sqrt(1.25))
    np.testing.assert_allclose(chance_of_places(mean, sd, np.array([0, 1])), first, atol=1e-9)
    np.testing.assert_allclose(chance_of_places(mean, sd, np.array([1, 0])), 1 - first, atol=1e-9)


@pytest.mark.parametrize("n", [5, 60])
def test_the_chances_of_all_items_at_a_place_sum_to_one(n):
    rng = np.random.default_rng(n)
    mean, sd = rng.normal(size=n), rng.uniform(0.02, 1.0, n)
    for place in (0, 3):
        total = 0.0
        for item in range(n):
            others = np.delete(np.arange(n), item)
            total += chance_of_places(mean, sd, np.insert(others[:4], place, item)[: place + 1])[place]
        assert total == pytest.approx(1, abs=1e-7)


def test_narrow_scores_among_wide_ones_are_summed_finely_enough(monkeypatch):
    rng = np.random.default_rng(0)
    mean, sd = 3 * rng.normal(size=3000), np.where(rng.random(3000) < 0.9, 0.05, 1.0)
    lists = [np.argsort(-(mean + sd * rng.standard_normal(3000)))[:10] for _ in range(5)]
    found = [chance_of_places(mean, sd, shown) for shown in lists]
    monkeypatch.setattr(explore, "STEP", 0.05)
    finer = [chance_of_places(mean, sd, shown) for shown in lists]
    np.testing.assert_allclose(found, finer, rtol=0, atol=1e-8)


@pytest.mark.parametrize("fixed", [False, True])
def test_the_frequency_of_every_item_at_every_place_is_its_chance(fixed, monkeypatch):
    """Chi-square over 20,000 lists, by draws and by a fixed order with random lists among them."""
    known: dict[bytes, np.ndarray] = {}  # the chances of each of 120 lists are computed once

    def chances(mean, sd, shown):
        if (key := shown.tobytes()) not in known:
            known[key] = chance_of_places(mean, sd, shown)
        return known[key]

    monkeypatch.setattr(explore, "chance_of_places", chances)
    rng, n, k, epsilon = np.random.default_rng(0), 6, 3, 0.2
    mean, sd = np.linspace(0.5, -0.5, n), np.zeros(n) if fixed else np.linspace(0.2, 0.6, n)
    counts, expected = np.zeros((k, n)), np.zeros((k, n))
    for _ in range(LISTS):
        _, chosen, chance = draw_list(mean, sd, k, epsilon, rng)
        counts[np.arange(k), chosen] += 1
        expected[np.arange(k), chosen] = chance  # the same whatever else was shown
    np.testing.assert_allclose(expected.sum(axis=1), 1, atol=1e-7)
    statistic = ((counts - LISTS * expected) ** 2 / (LISTS * expected)).sum(axis=1)
    assert chi2.sf(statistic, n - 1).min() > 0.001


def test_lists_of_a_model_have_their_chances(model):
    lists = [model.recommend([5], 2, by="thompson", explore=0.1, seed=seed) for seed in range(1000)]
    rows = [row for table in lists for row in table.to_pylist()]
    chance = {(row["item_id"], row["rank"]): row["pscore"] for row in rows}
    for rank in (1, 2):
        held = {item: p for (item, place), p in chance.items() if place == rank}
        counts = {item: sum(row["item_id"] == item and row["rank"] == rank for row in rows) for item in held}
        statistic = sum((counts[item] - 1000 * p) ** 2 / (1000 * p) for item, p in held.items())
        assert chi2.sf(statistic, len(held)) > 0.001
    again = model.recommend([5], 2, by="thompson", explore=0.1, seed=7)
    assert again.equals(lists[7])


def test_a_fixed_order_is_certain_and_random_lists_are_uniform(model):
    plain, sure = model.recommend(k=3, by="liking"), model.recommend(k=3, by="liking", explore=0.0)
    assert sure.select(plain.column_names).equals(plain)
    assert set(sure["pscore"].to_pylist()) == {1.0}
    some = model.recommend([5], 2, by="liking", explore=1.0, items=[0, 1, 2, 3], exclude_seen=False)
    assert some["pscore"].to_pylist() == [0.25, 0.25]
    listed = pa.table({"user_id": [5, 5, 5, 6], "item_id": [0, 1, 2, 3]})
    drawn = model.recommend(candidates=listed, k=2, by="thompson", explore=0.0, exclude_seen=False)
    assert drawn["user_id"].to_pylist() == [5, 5, 6]
    assert drawn["pscore"][2].as_py() == pytest.approx(1)
    kept = model.recommend(candidates=listed, filter_items=[3], exclude_seen=False)
    assert set(kept["user_id"].to_pylist()) == {5}


def test_chances_need_no_posterior_but_draws_do(model):
    naive = unskew.Naive().fit(model.log, training=unskew.Training(max_epochs=1))
    n = 12 - int((naive.log.users == 5).sum())  # that user 5 has not rated
    for chance in naive.recommend([5], 2, explore=0.5)["pscore"].to_pylist():
        assert chance == pytest.approx(0.5 / n) or chance == pytest.approx(0.5 + 0.5 / n)
    with pytest.raises(ParameterError, match="by must be 'liking'"):
        naive.recommend([5], 2, by="thompson", explore=0.5)
    with pytest.raises(ParameterError, match="explore is 2: give a number from 0 to 1"):
        naive.recommend([5], 2, explore=2)
