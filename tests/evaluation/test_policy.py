"""The value of another policy: enumerated, simulated, and on real logs of two policies that each know the other's."""

import os
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from unskew.datasets import open_bandit, simulate_funnel
from unskew.errors import DataError, ParameterError
from unskew.evaluation.policy import estimate_value

RNG = np.random.default_rng(5)


def test_ips_and_dr_are_right_on_average_over_all_that_could_be_shown() -> None:
    """Two rows, three items: every way to fill them, weighted by its chance."""
    p, t, q = RNG.dirichlet(np.ones(3), 2), RNG.dirichlet(np.ones(3), 2), RNG.random((2, 3))
    truth, wrong = float((t * q).sum(1).mean()), RNG.random((2, 3))
    found = {"ips": 0.0, "right p": 0.0, "right q": 0.0, "both wrong": 0.0}
    other = np.clip(p * RNG.uniform(0.6, 1.6, p.shape), 0.01, 0.99)
    for shown in product(range(3), range(3)):
        rows, items = np.arange(2), np.array(shown)
        chance = p[rows, items].prod()
        r, t_shown = q[rows, items], t[rows, items]  # the expected reward: everything is linear in it
        for name, logged, model in (("right p", p, wrong), ("right q", other, q), ("both wrong", other, wrong)):
            imputed = model[rows, items], (t * model).sum(1)
            value = estimate_value(r, logged[rows, items], t_shown, imputed=imputed)
            found[name] += chance * value["dr"].value
            found["ips"] += chance * value["ips"].value * (name == "right p")
    assert [found[name] for name in ("ips", "right p", "right q")] == pytest.approx([truth] * 3)
    assert abs(found["both wrong"] - truth) > 1e-3


def test_intervals_hold_the_value_of_the_other_policy_and_respect_groups() -> None:
    held, narrow = [], []
    for seed in range(40):
        funnel = simulate_funnel(60, 15, 3_000, random_share=0, policy_strength=0.7, click_rate=0.2, seed=seed)
        users, r = (funnel.rows[name].to_numpy() for name in ("user_id", "clicked"))
        position = funnel.rows["position"].to_numpy()
        truth = np.mean([funnel.chance_clicked(users, np.full(len(users), i), position) for i in range(15)])
        pscore = funnel.rows["pscore"].to_numpy()
        value = estimate_value(r, pscore, np.full(len(r), 1 / 15), groups=users)
        held.append([value[name].covers(truth) for name in ("ips", "snips", "naive")])
        narrow.append(estimate_value(r, pscore, np.full(len(r), 1 / 15))["ips"])
        assert value["ips"].high - value["ips"].low > narrow[-1].high - narrow[-1].low
        assert not value.notes
    ips, snips, naive = np.mean(held, axis=0)
    assert min(ips, snips) >= 0.85
    assert naive < 0.6


def test_errors_are_those_of_sums_by_group() -> None:
    r, p, t = np.array([1.0, 0, 1, 1]), np.array([0.5, 0.2, 0.4, 0.8]), np.array([0.5, 0.1, 0.2, 0.6])
    value, w = estimate_value(r, p, t, groups=["a", "a", "b", "c"]), t / p
    snips = (w * r).sum() / w.sum()
    for name, centre, influence in (
        ("ips", (w * r).mean(), w * r - (w * r).mean()),
        ("snips", snips, w * (r - snips) / w.mean()),
    ):
        sums = np.array([influence[:2].sum(), *influence[2:]])
        error = np.sqrt((sums**2).sum() * 3 / 2) / 4
        assert value[name][:3] == pytest.approx((centre, centre - 1.959964 * error, centre + 1.959964 * error))


def test_several_policies_are_balanced() -> None:
    """A row counts by what all policies together would have shown, so a rare draw of one is no outlier."""
    funnel = simulate_funnel(200, 40, 4_000, random_share=0.4, policy_strength=2.0, seed=1)
    users, items, r = (funnel.rows[name].to_numpy() for name in ("user_id", "item_id", "clicked"))
    random, t = funnel.rows["is_random"].to_numpy(), np.full(len(r), 1 / 40)
    both = np.stack([funnel.chance_shown(users, items), t], axis=1)
    balanced = estimate_value(r, both, t, policy=random.astype(int), groups=users)
    alone = estimate_value(r, funnel.rows["pscore"].to_numpy(), t, groups=users)
    assert balanced.effective > 2 * alone.effective
    truth = np.mean(
        [funnel.chance_clicked(users, np.full(len(users), i), funnel.rows["position"].to_numpy()) for i in range(40)]
    )
    assert abs(balanced["ips"].value - truth) < 2 * (balanced["ips"].high - balanced["ips"].value)
    shares = np.array([1 - random.mean(), random.mean()])
    assert balanced["ips"].value == pytest.approx((t / (both @ shares) * r).mean())


def test_clipping_says_how_much_it_may_have_cost() -> None:
    r, p, t = np.array([1.0, 0, 1, 1]), np.array([0.5, 0.5, 0.01, 0.5]), np.full(4, 0.5)
    assert estimate_value([1.0, 1.0], [1.0, 0.5], [1.0, 0.0])["ips"].value == 0.5  # what is sure, and what never is
    assert estimate_value([1.0, 1.0], [[1.0, 0.0], [0.0, 1.0]], [0.5, 0.5], policy=[0, 1])["ips"].value == 1
    for errors, off in ((2.9, False), (3.1, True)):  # by which the mean weight is off 1
        w = 1 + errors * 0.2 / np.sqrt(99) + np.tile([0.2, -0.2], 50)
        notes = estimate_value(np.arange(100) % 2, 0.3 / w, np.full(100, 0.3)).notes
        assert any("where true chances give 1" in note for note in notes) == off
    for n, notes in ((50, ()), (20, ("weights leave 20.0 rows' worth: intervals are too short to be believed.",))):
        assert estimate_value(np.arange(n) % 2, np.full(n, 0.3), np.full(n, 0.3)).notes == notes
    value = estimate_value(r, p, t, clip=2.0)
    assert value["clipped"].value == pytest.approx((1 + 0 + 2 + 1) / 4)
    assert value.bias is not None
    assert value["clipped"].value + value.bias.value == pytest.approx(value["ips"].value)
    assert any("clipping at 2" in note for note in value.notes)
    assert any("row 3 has" in note for note in value.notes)
    assert estimate_value(r, p, t, clip=0.5)["clipped"].value == pytest.approx(3 * 0.5 / 4)
    assert estimate_value(r / 4, p, t, clip=2.0).bias.value == pytest.approx(value.bias.value / 4)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"pscore": [0.5, 0.0]}, "logged chance of row 2 is 0"),
        ({"pscore": [1.5, 0.5]}, "logged chance of row 1 is 1.5"),
        ({"pscore": [0.5]}, "shape"),
        ({"target": [0.5, -0.1]}, "target chance of row 2"),
        ({"target": [0.0, 0.0]}, "shows nothing"),
        ({"target": [0.5]}, "2 rewards and 1 target"),
        ({"reward": [np.nan, 1]}, "reward"),
        ({"groups": [1]}, "groups"),
        ({"imputed": ([0.5], [0.5, 0.5])}, "imputed"),
        ({"policy": [0, 2], "pscore": [[0.5, 0.5], [0.5, 0.5]]}, "policy must hold"),
        ({"clip": 0}, "clip must be"),
    ],
)
def test_bad_rows_get_a_sentence(change: dict[str, object], sentence: str) -> None:
    given = {"reward": [1.0, 0.0], "pscore": [0.5, 0.5], "target": [0.5, 0.5], **change}
    with pytest.raises((DataError, ParameterError), match=sentence):
        estimate_value(**given)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def bandit() -> Path:
    folder = Path(os.environ.get("UNSKEW_DATA", "")) / "open-bandit"
    if not folder.is_dir():
        pytest.skip("needs Open Bandit's files: set UNSKEW_DATA to a folder that holds open-bandit/")
    return folder


def impressions(folder: Path, campaign: str, policy: str) -> tuple[np.ndarray, ...]:
    rows = open_bandit(folder, campaign, policy)
    click, chance, items, position = (
        rows[name].to_numpy() for name in ("click", "propensity_score", "item_id", "position")
    )
    return click, chance, items.astype(int), position.astype(int)


@pytest.mark.parametrize("campaign", ["all", "men", "women"])
def test_each_policy_of_open_bandit_is_told_from_the_others_log(bandit: Path, campaign: str) -> None:
    """Click rates rest on 38 to 69 clicks: intervals of the estimate and of the other log's own rate must meet."""
    logs = {policy: impressions(bandit, campaign, policy) for policy in ("random", "bts")}
    own = {policy: estimate_value(r, p, p)["naive"] for policy, (r, p, _, _) in logs.items()}
    r, p, items, _ = logs["bts"]
    n_items = len(np.unique(logs["random"][2]))
    from_bts = estimate_value(r, p, np.full(len(r), 1 / n_items))
    by_formula = float(np.mean(r / n_items / p))
    assert from_bts["ips"].value == pytest.approx(by_formula)
    assert from_bts["snips"].value == pytest.approx(by_formula / np.mean(1 / n_items / p))
    assert from_bts["snips"].low < own["random"].high
    assert from_bts["snips"].high > own["random"].low
    r, p, items, position = logs["random"]
    shown = np.zeros((n_items, int(position.max()) + 1))
    np.add.at(shown, (logs["bts"][2], logs["bts"][3]), 1)
    shares = (shown / shown.sum(0).clip(1))[items, position]
    q = (np.bincount(items, r, n_items) + 1) / (np.bincount(items, minlength=n_items) + 200)  # clicks by item
    q_t = ((shown / shown.sum(0).clip(1)) * q[:, None]).sum(0)[position]
    from_random, w = estimate_value(r, p, shares, imputed=(q[items], q_t)), shares / p
    by_formula = {"ips": np.mean(w * r), "snips": np.sum(w * r) / np.sum(w), "dr": np.mean(q_t + w * (r - q[items]))}
    for estimator, value in by_formula.items():
        assert from_random[estimator].value == pytest.approx(value)
        assert from_random[estimator].low < own["bts"].high
        assert from_random[estimator].high > own["bts"].low


def test_a_row_of_open_bandit_with_an_absurd_chance_is_noticed(bandit: Path) -> None:
    r, p, items, _ = impressions(bandit, "women", "bts")
    value = estimate_value(r, p, np.full(len(r), 1 / len(np.unique(items))))
    assert value.effective < 10
    assert any("of all weight" in note for note in value.notes)
    assert any("2.1 rows' worth" in note for note in value.notes)
    r, p, items, _ = impressions(bandit, "all", "bts")
    clipped = estimate_value(r, np.maximum(p, 0.05), np.full(len(r), 1 / len(np.unique(items))))
    assert any("where true chances give 1" in note for note in clipped.notes)
