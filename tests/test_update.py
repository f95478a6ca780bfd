"""More ratings are taken in by going on: answers of a fresh fit, new users and items, and no drift."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

import unskew
from unskew.errors import ParameterError, UnskewError
from unskew.metrics.table import roc_auc
from unskew.model import Recommender
from unskew.posterior.gibbs import Sampler
from unskew.store.atomic import locked
from unskew.update import with_more

LONG = bool(os.environ.get("UNSKEW_LONG"))
UPDATES = 50 if LONG else 2
ALL, FIRST = slice(None), 600


class Shop:
    """A world whose ratings come in over time: users and items appear as they are first rated."""

    def __init__(self, n_users: int, n_items: int, density: float, seed: int) -> None:
        self.world = unskew.simulate(n_users, n_items, density=density, seed=seed, test_per_user=10)
        order = np.random.default_rng(seed).permutation(len(self.world.log))
        self.users, self.items = (codes[order] for codes in (self.world.log.users, self.world.log.items))
        self.ratings = self.world.log.ratings[order]

    def table(self, rows: slice, **more: Any) -> pa.Table:
        users, items = self.named(self.users[rows], self.items[rows])
        return pa.table({"user_id": users, "item_id": items, "rating": self.ratings[rows]} | more)

    def named(self, users: Any, items: Any) -> tuple[list[str], list[str]]:
        return [f"u{code}" for code in users], [f"i{code}" for code in items]

    def fit(self, rows: slice, seed: int = 0, method: str = "bayes", **settings: Any) -> Recommender:
        log = unskew.read_log(self.table(rows), positive=1)
        found: Recommender = unskew.make(method, **settings).fit(log, seed=seed)
        return found

    def pairs(self) -> tuple[list[str], list[str]]:
        """Every user with every item that has been rated."""
        users, items = np.meshgrid(np.unique(self.users), np.unique(self.items), indexing="ij")
        return self.named(users.ravel(), items.ravel())

    def figures(self, model: Recommender) -> tuple[float, float]:
        """True squared error and AUC on random pairs of known users and items."""
        test = self.world.test
        p = model.predict(*self.named(test.users, test.items), on_unknown="fallback")
        return float(((p - test.ratings) ** 2).mean()), float(roc_auc(test.ratings.astype(int), p))


@pytest.fixture(scope="module")
def shop() -> Shop:
    return Shop(80, 50, 0.25, 0)


@pytest.fixture(scope="module")
def before(shop: Shop) -> Recommender:
    return shop.fit(slice(FIRST), sweeps=40)


def test_new_users_and_items_join_and_known_ones_keep_their_places(shop: Shop, before: Recommender) -> None:
    rest = shop.table(slice(FIRST, None))
    extra = pa.table({"user_id": ["new", "new", "u3"], "item_id": ["i1", "fresh", "fresh"], "rating": [1.0, 0.0, 1.0]})
    after = before.update(pa.concat_tables([rest, extra.cast(rest.schema)]), sweeps=30)
    assert len(after.log) == len(shop.users) + 3
    assert after.log.user_ids.arrow[: before.log.n_users].equals(before.log.user_ids.arrow)
    assert after.log.user_ids[after.log.n_users - 1] == "new"
    (note,) = (each for each in after.history.notes if " taken in" in each)
    assert note.startswith(f"Since the fit {len(shop.users) - FIRST + 3:,} ratings were taken in, with ")
    assert note.endswith("stand as fitted: fit anew.")  # the log has grown by more than half
    assert 0 < after.predict("new", "fresh")[0] < 1
    assert len(after.recommend("new", k=3)) == 3
    assert "i1" not in after.recommend("new", k=40)["item_id"].to_pylist()
    assert np.isfinite(after.predict(["u3"] * 2, ["i1", "fresh"], return_std=True)).all()


def test_the_same_bits_after_a_folder_and_from_a_file(shop: Shop, before: Recommender, tmp_path: Path) -> None:
    rest = shop.table(slice(FIRST, None))
    before.save(tmp_path / "model")
    pyarrow.csv.write_csv(rest, tmp_path / "new.csv")
    one, two = before.update(rest, sweeps=25), unskew.load(tmp_path / "model").update(tmp_path / "new.csv", sweeps=25)
    answers = (each.predict(*shop.named(range(20), range(20)), on_unknown="fallback") for each in (one, two))
    np.testing.assert_array_equal(*answers)
    one.save(tmp_path / "updated")
    again = unskew.load(tmp_path / "updated").more_sweeps(3)
    np.testing.assert_array_equal(one.more_sweeps(3).predict("u3", "i1"), again.predict("u3", "i1"))


def test_the_command_writes_the_updated_model(
    run: Callable[..., Any], shop: Shop, before: Recommender, tmp_path: Path
) -> None:
    before.save(tmp_path / "model")
    more = shop.table(slice(FIRST, None)).rename_columns(["who", "what", "stars"])
    more = more.append_column("item_id", more["who"])  # called as the items of the model's log
    pyarrow.csv.write_csv(more, tmp_path / "new.csv")
    words = ["update", tmp_path / "model", tmp_path / "new.csv", "--user", "who", "--item", "what", "--rating", "stars"]
    facts = json.loads(run(*words, "--json").stdout)
    assert (facts["taken_in"], facts["ratings"]) == (len(shop.users) - FIRST, len(shop.users))
    assert len(unskew.load(tmp_path / "model").log) == len(shop.users)
    assert "in the log already" in run(*words, code=2).output
    with locked(tmp_path / "model"):
        assert "is writing to" in run(*words, code=2).output


def test_updates_in_a_row_are_near_fresh_fits_and_do_not_drift() -> None:
    """Answers after many small updates lie about as far from those of fresh fits as these do from each other.

    Those of the posterior alone: whether its answers are mapped stands as it was fitted.
    """
    shop = Shop(200, 100, 0.25, 2) if LONG else Shop(80, 50, 0.25, 2)
    n, settings = len(shop.users), {"exposure": False, "history": False, "sweeps": None if LONG else 300}
    ends = np.linspace(n // 2, n, UPDATES + 1).astype(int)
    first = model = shop.fit(slice(n // 2), **settings)
    for start, end in pairwise(ends):
        model = model.update(shop.table(slice(start, end)))
    fresh = [shop.fit(ALL, seed=seed, **settings) for seed in range(3 if LONG else 2)]
    for one in (first, model, *fresh):
        one.parts.parts["prediction"] = replace(one.part("prediction"), platt=None)
    answers = [one.predict(*shop.pairs()) for one in (model, *fresh)]
    apart = np.array([[np.sqrt(np.mean((a - b) ** 2)) for b in answers] for a in answers])
    found, noise = apart[0, 1:].mean(), apart[1:, 1:].sum() / (len(fresh) * (len(fresh) - 1))
    figures = [shop.figures(one) for one in (first, model, *fresh)]
    print(f"{UPDATES} updates: {found:.4f} from fresh fits, these {noise:.4f} from each other; MSE, AUC {figures}")
    assert found < 1.7 * noise
    (old, _), (new, auc), (whole, auc_whole) = *figures[:2], np.mean(figures[2:], axis=0)
    assert new < old
    assert abs(new - whole) < 0.006
    assert abs(auc - auc_whole) < 0.015
    assert sum(" taken in" in note for note in model.history.notes) == 1


def test_who_saw_what_is_counted_anew_and_new_users_choose_too(shop: Shop, tmp_path: Path) -> None:
    n = len(shop.users)
    rest = pa.concat_tables([shop.table(slice(n // 2, None)), pa.table(
        {"user_id": ["new"] * 4, "item_id": ["i1", "i2", "i3", "fresh"], "rating": [1.0, 0.0, 1.0, 1.0]}
    ).cast(shop.table(ALL).schema)])  # fmt: skip
    first = shop.fit(slice(n // 2), method="dce-bayes", sweeps=30)
    part = first.part("prediction")
    part = replace(part, targeted=replace(part.targeted, applied=True))  # so that every step answers
    first.parts.parts["prediction"] = part
    updated = first.update(rest, sweeps=25)
    found = updated.part("prediction")
    assert updated.part("propensity") is found.exposure
    users = np.repeat(np.arange(updated.log.n_users), updated.log.n_items)
    items = np.tile(np.arange(updated.log.n_items), updated.log.n_users)
    p = updated.scores("propensity", users, items).reshape(updated.log.n_users, -1)
    np.testing.assert_allclose(p.sum(1), np.bincount(updated.log.users), rtol=1e-3)  # those of a longer log
    fresh = shop.fit(ALL, method="dce-bayes", sweeps=30)
    ids = [each.arrow.to_pylist() for each in (first.log.user_ids, first.log.item_ids)]
    known = [user for user in ids[0] for _ in ids[1]], ids[1] * len(ids[0])
    errors = [np.abs(np.log(one.propensity(*known) / fresh.propensity(*known))).mean() for one in (first, updated)]
    assert errors[1] < 0.8 * errors[0]
    assert found.targeted.experts[-1] == len(found.targeted.deviations) - 1
    updated.save(tmp_path / "model")
    loaded = unskew.load(tmp_path / "model")
    for by in ("choice", "liking"):
        assert loaded.recommend("new", k=9, by=by).equals(updated.recommend("new", k=9, by=by))


def test_an_update_of_a_twentieth_takes_a_fifth_of_a_fit(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """By ratings that are swept over and, in the long run, by processor time too."""
    if LONG:
        shop = Shop(150, 80, 0.3, 3)
    cut, swept, own = len(shop.users) - len(shop.users) // 20, [0], Sampler.sweep

    def counted(sampler: Sampler) -> None:
        swept[-1] += len(sampler.users)
        own(sampler)

    monkeypatch.setattr(Sampler, "sweep", counted)
    model = shop.fit(slice(cut), method="dce-bayes", sweeps=40)
    model.update(shop.table(slice(len(shop.users) - 5, None)), sweeps=21)  # kernels are compiled
    swept[0] = 0
    began = time.process_time()
    shop.fit(ALL, method="dce-bayes")
    middle = time.process_time()
    swept.append(0)
    model.update(shop.table(slice(cut, None)))
    took = (time.process_time() - middle) / (middle - began)
    print(f"an update took {took:.2f} of a fit, {swept[1] / swept[0]:.2f} of its sweeps over ratings")
    assert swept[1] < 0.2 * swept[0]
    assert took < 0.2 or not LONG


def test_new_users_take_less_than_a_millisecond_each(shop: Shop, before: Recommender) -> None:
    rng, part = np.random.default_rng(0), before.part("prediction")
    items = [rng.permutation(40)[:20] for _ in range(200)]
    part.new_rows.of(items[0], np.ones(20))
    began = time.process_time()
    for each in items:
        part.new_rows.of(each, rng.integers(0, 2, 20).astype(float))
    took = (time.process_time() - began) / len(items)
    print(f"a new user took {1000 * took:.2f} ms")
    assert took < (0.001 if LONG else 0.01)


def test_what_cannot_be_taken_in_is_refused_in_a_sentence(shop: Shop, before: Recommender) -> None:
    rows = slice(FIRST, FIRST + 50)
    rest, one_known = shop.table(rows), shop.table(slice(FIRST - 1, FIRST + 50))
    known = f"User 'u{shop.users[FIRST - 1]}' has rated item 'i{shop.items[FIRST - 1]}' in the log already \\(1 of 51 "
    timed = replace(before, log=replace(before.log, times=np.arange(float(FIRST)) + 1e9))
    for model, more, words in (
        (before, rest.set_column(2, "rating", pa.array([0.5] * 50)), r"0\.5 is none of the levels 0, 1"),
        (before, unskew.read_log(rest, positive=None, rating_scale=(0, 1)), "new ratings are on the scale"),
        (before, rest.drop_columns("rating"), "no column that is known to hold ratings"),
        (before, one_known, known),
        (unskew.Naive().fit(before.log, training=unskew.Training(max_epochs=1)), rest, "is not sampled in sweeps"),
        (
            before.fold_in(pa.table({"user_id": ["ann"], "item_id": ["i1"], "rating": [1.0]})),
            rest,
            "Users were folded into this model",
        ),
        (timed, shop.table(rows, timestamp=np.arange(50.0) + 1e9), "50 of 50 new ratings are older than the log's"),
        (timed, rest, "have no times"),
    ):
        with pytest.raises(UnskewError, match=words):
            model.update(more)
    with pytest.raises(ParameterError, match="sweeps must be a whole number from 21"):
        before.update(rest, sweeps=3)
    after = timed.update(shop.table(rows, timestamp=np.arange(50.0) + 2e9), sweeps=25)
    assert after.log.times is not None
    assert after.log.times.max() == 2e9 + 49
    pairs = {"user_id": [1, 1, 2, 2, 3, 3], "item_id": [1, 2, 3, 4, 5, 6]}
    shown = pa.table(pairs | {"click": [1, 1, 1, 1, 1, 0], "rating": [1, 0, 1, 0, 1, 0]})
    with pytest.raises(ParameterError, match="lists what was shown"):
        with_more(unskew.read_log(shown, seen="click", rating="rating", positive=1), shown)
