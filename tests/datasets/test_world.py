"""Claims about simulated worlds and funnels: what is drawn follows the chances that they tell."""

import numpy as np
import pytest
from scipy import stats

from unskew.datasets import world as world_module
from unskew.datasets.funnel import simulate_funnel
from unskew.datasets.world import SELECTIONS, World, simulate
from unskew.errors import DataError, ParameterError

N_DRAWS = 120
TILTED = ("taste", "rating", "liking")


def tiny(selection, **settings):
    defaults = {"n_users": 30, "n_items": 20, "density": 0.2, "strength": 0.6, "test_per_user": 5}
    return simulate(selection=selection, **{**defaults, **settings})


@pytest.fixture
def fewer_pairs_at_once(monkeypatch):
    """A quarter of the usual chunks and samples, so that worlds of a few hundred thousand pairs count as large."""
    monkeypatch.setattr(world_module, "PAIRS_AT_ONCE", 2**16)
    monkeypatch.setattr(world_module, "SOLVER_PAIRS", 2**17)


def all_pairs(world):
    return np.divmod(np.arange(world.n_pairs), world.n_items)


def seen_counts(world, n_draws=N_DRAWS):
    """How often each pair is seen in `n_draws` draws."""
    logs = [world.draw(seed) for seed in range(n_draws)]
    places = np.concatenate([log.users.astype(np.int64) * world.n_items + log.items for log in logs])
    return np.bincount(places, minlength=world.n_pairs)


def assert_binomial(counts, n, p):
    """Each count fits its own probability, and all together do: a sum of squared z-scores."""
    tails = np.minimum(stats.binom.cdf(counts, n, p), stats.binom.sf(counts - 1, n, p))
    assert tails.min() > 1e-4 / len(p)
    assert abs((counts - n * p).sum()) < 4 * np.sqrt((n * p * (1 - p)).sum())
    variance = n * p * (1 - p)
    uncertain = variance > 0.01
    squares = np.square(counts - n * p)[uncertain] / variance[uncertain]
    spread = np.sqrt(np.sum(2 + (1 - 6 * p * (1 - p))[uncertain] / variance[uncertain]))
    assert abs(squares.sum() - uncertain.sum()) < 4.5 * spread


@pytest.mark.parametrize("selection", SELECTIONS)
def test_propensities_are_the_chances_of_their_rates(selection):
    world = tiny(selection)
    pairs = all_pairs(world)
    chances, q = -np.expm1(-np.exp(world.log_rate(*pairs))), world.preference(*pairs)
    liked, disliked = (world.propensity(*pairs, np.full(world.n_pairs, r)) for r in (1, 0))
    np.testing.assert_allclose(q * liked + (1 - q) * disliked, world.propensity(*pairs), rtol=1e-12)
    np.testing.assert_allclose(np.where(world.rating(*pairs) == 1, liked, disliked), chances, rtol=1e-6)
    if selection in ("rating", "liking"):
        assert (liked > disliked).all()
    else:
        np.testing.assert_array_equal(liked, disliked)


@pytest.mark.parametrize(
    ("selection", "strength"), [("popularity", 0.3), *((kind, sign * 0.3) for kind in TILTED for sign in (1, -1))]
)
def test_thinned_events_see_pairs_as_often_as_their_own_rate_says(selection, strength, monkeypatch):
    world = tiny(selection, density=0.05, strength=strength, interaction=0.4, positive_rate=0.5)
    pairs = all_pairs(world)
    monkeypatch.delattr(World, "pairs")  # so that pairs cannot be visited in turn
    assert_binomial(seen_counts(world), N_DRAWS, -np.expm1(-np.exp(world.log_rate(*pairs))))


@pytest.mark.parametrize("selection", ["popularity", "liking"])
def test_pairs_visited_in_turn_are_seen_by_their_rates(selection):
    world = tiny(selection, density=0.6)
    assert_binomial(seen_counts(world), N_DRAWS, -np.expm1(-np.exp(world.log_rate(*all_pairs(world)))))


@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize(("shape", "density"), [((60, 50), 0.4), ((3000, 2000), 0.002)])
@pytest.mark.usefixtures("fewer_pairs_at_once")
def test_the_log_is_as_large_as_expected(selection, shape, density):
    expected = density * shape[0] * shape[1]
    size = len(simulate(*shape, density, selection, strength=0.3).log)
    assert size == pytest.approx(expected, rel=0.01 + 4 / np.sqrt(expected))


def test_preference_is_the_probability_of_a_rating():
    world = simulate(300, 250)
    pairs = all_pairs(world)
    ratings, q = world.rating(*pairs), world.preference(*pairs)
    for group in np.array_split(np.argsort(q), 20):
        spread = np.sqrt((q * (1 - q))[group].sum())
        assert abs((ratings - q)[group].sum()) < 4.5 * spread


@pytest.mark.usefixtures("fewer_pairs_at_once")
def test_the_mean_preference_is_the_positive_rate_asked_for():
    for rate in (0.02, 0.35, 0.9):
        world = tiny("taste", positive_rate=rate, density=0.3)
        assert world.preference(*all_pairs(world)).mean() == pytest.approx(rate, abs=1e-9)
    large = simulate(3000, 2000, positive_rate=0.35)
    assert large.test.positive_rate == pytest.approx(0.35, abs=0.01)


@pytest.mark.parametrize("selection", ["popularity", "liking"])
def test_logs_hold_true_ratings_of_all_and_are_by_seed(selection):
    one, same, other = (tiny(selection, density=0.05, seed=seed) for seed in (3, 3, 4))
    for log, again in ((one.log, same.log), (one.test, same.test), (one.draw(7), same.draw(7))):
        assert list(log.user_ids) == list(range(30))
        assert list(log.item_ids) == list(range(20))
        assert log.binary
        np.testing.assert_array_equal(log.ratings, one.rating(log.users, log.items))
        assert len(np.unique(pair_places(log))) == len(log)
        for column in ("users", "items", "ratings"):
            np.testing.assert_array_equal(getattr(log, column), getattr(again, column))
    assert one.intercept != other.intercept
    for log in (other.log, one.draw(1)):
        assert len(np.setdiff1d(pair_places(one.log), pair_places(log)))


def pair_places(log):
    return log.users.astype(np.int64) * log.n_items + log.items


def test_risk_is_the_expected_error_over_all_pairs_and_ratings():
    world = simulate(200, 150)
    q = world.preference(*all_pairs(world))
    guess = 0.3 + 0.5 * q
    expected = np.mean(q * (1 - guess) ** 2 + (1 - q) * guess**2)

    def predict(users, items):
        return 0.3 + 0.5 * world.preference(users, items)

    assert world.risk(predict) == pytest.approx(expected, rel=1e-12)
    assert world.risk(predict, max_pairs=10_000) == pytest.approx(expected, rel=0.03)
    assert world.risk(world.preference) < expected


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"selection": "tast"}, "selection must be 'uniform', .* not 'tast'"),
        ({"density": 0.0}, "density is 0.0: give a number from 0 to 1"),
        ({"density": 1e-7}, "not even 2 ratings"),
        ({"test_per_user": 501}, "test_per_user must be a whole number from 1 to 500"),
        ({"strength": float("inf")}, "strength is inf"),
        ({"interaction": -0.1}, "interaction is -0.1"),
    ],
)
def test_a_bad_setting_is_refused_in_one_sentence(settings, message):
    with pytest.raises(ParameterError, match=message) as refusal:
        simulate(**settings)
    assert str(refusal.value)[-1] in ".?"
    assert "\n" not in str(refusal.value)


def test_unusable_answers_and_ratings_are_refused():
    world = tiny("taste")
    with pytest.raises(ParameterError, match="ratings drawn are not of both classes"):
        _ = simulate(5, 4, density=0.3, positive_rate=1e-6, interaction=0.0, test_per_user=1).log
    with pytest.raises(DataError, match=r"600 numbers from 1.5 to 1.5 for 600 pairs: return one probability"):
        world.risk(lambda users, items: np.full(len(users), 1.5))
    with pytest.raises(DataError, match=r"rating of 0\.5"):
        world.propensity(np.array([0]), np.array([0]), np.array([0.5]))
    with pytest.raises(ParameterError, match="max_pairs must be"):
        world.risk(world.preference, max_pairs=0)
    with pytest.raises(ParameterError, match="seed must be"):
        world.draw(-1)


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
