"""More ratings are taken in by going on: answers of a fresh fit, new users and items, and no drift."""

import json
import os
import time
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pytest

import unskew
from unskew import ParameterError, Recommender, UnskewError
from unskew.data.guess import Names
from unskew.metrics.table import roc_auc
from unskew.posterior.gibbs import Sampler
from unskew.store.atomic import locked
from unskew.update import with_more

LONG = bool(os.environ.get("UNSKEW_LONG"))
UPDATES = 50 if LONG else 2
ALL, FIRST = slice(None), 600


class Shop:
    """A world whose ratings come in over time: users and items appear as they are first rated."""

    def __init__(self, n_users, n_items, density, seed):
        self.world = unskew.simulate(n_users, n_items, density=density, seed=seed, test_per_user=10)
        order = np.random.default_rng(seed).permutation(len(self.world.log))
        self.users, self.items = (codes[order] for codes in (self.world.log.users, self.world.log.items))
        self.ratings = self.world.log.ratings[order]

    def table(self, rows, **more):
        users, items = self.named(self.users[rows], self.items[rows])
        return pa.table({"user_id": users, "item_id": items, "rating": self.ratings[rows]} | more)

    def new(self, user, items=("i1",), ratings=(1.0,)):
        columns = {"user_id": [user] * len(items), "item_id": items, "rating": ratings}
        return pa.table(columns).cast(self.table(ALL).schema)

    def named(self, users, items):
        return [f"u{code}" for code in users], [f"i{code}" for code in items]

    def fit(self, rows, seed=0, method="bayes", **settings):
        log = unskew.read_log(self.table(rows), positive=1)
        found: Recommender = unskew.make(method, **settings).fit(log, seed=seed)
        return found

    def pairs(self):
        """Every user with every item that has been rated."""
        users, items = np.meshgrid(np.unique(self.users), np.unique(self.items), indexing="ij")
        return self.named(users.ravel(), items.ravel())

    def figures(self, model):
        """True squared error and AUC on random pairs of known users and items."""
        test = self.world.test
        p = model.predict(*self.named(test.users, test.items), on_unknown="fallback")
        return float(((p - test.ratings) ** 2).mean()), float(roc_auc(test.ratings.astype(int), p))


@pytest.fixture(scope="module")
def shop():
    return Shop(80, 50, 0.25, 0)


@pytest.fixture(scope="module")
def before(shop):
    return shop.fit(slice(FIRST), sweeps=40)


def test_new_users_and_items_join_and_known_ones_keep_their_places(shop, before):
    rest = shop.table(slice(FIRST, None))
    extra = shop.new("new", ["i1", "fresh"], [1.0, 0.0]), shop.new("u3", ["fresh"])
    after = before.update(pa.concat_tables([rest, *extra]), sweeps=30)
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


def test_the_same_bits_after_a_folder_and_from_a_file(shop, before, tmp_path):
    rest = shop.table(slice(FIRST, None))
    before.save(tmp_path / "model")
    pyarrow.csv.write_csv(rest, tmp_path / "new.csv")
    one, two = before.update(rest, sweeps=25), unskew.load(tmp_path / "model").update(tmp_path / "new.csv", sweeps=25)
    answers = (each.predict(*shop.named(range(20), range(20)), on_unknown="fallback") for each in (one, two))
    np.testing.assert_array_equal(*answers)
    one.save(tmp_path / "updated")
    more, again = (each.more_sweeps(3) for each in (one, unskew.load(tmp_path / "updated")))
    np.testing.assert_array_equal(more.predict("u3", "i1"), again.predict("u3", "i1"))
    assert more.part("prediction").sweeps == one.part("prediction").sweeps + 3
    with pytest.raises(ParameterError, match="sweeps must be a whole number from 1 to 1,000,000"):
        one.more_sweeps(0)


def test_the_command_writes_the_updated_model(run, shop, before, tmp_path):
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


def test_files_with_the_columns_of_the_log_need_no_names(run, shop, before, tmp_path):
    columns = ["who", "what", "mark"]
    replace(before, log=replace(before.log, names=Names(*columns))).save(tmp_path / "model")
    more = shop.table(slice(FIRST, None)).rename_columns(columns)
    pyarrow.csv.write_csv(more, tmp_path / "new.csv")
    run("update", tmp_path / "model", tmp_path / "new.csv")
    run("predict", tmp_path / "model", tmp_path / "new.csv", "--out", tmp_path / "p.csv")
    listed = run(
        "recommend", tmp_path / "model", "--for", tmp_path / "new.csv", "--items", tmp_path / "new.csv", "--json"
    )
    assert json.loads(listed.stdout)["users"] == len(set(more["who"].to_pylist()))
    assert len(pyarrow.csv.read_csv(tmp_path / "p.csv")) == len(more)


def test_updates_in_a_row_are_near_fresh_fits_and_do_not_drift():
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


@pytest.fixture(scope="module")
def shown():
    """Rows of a funnel; some users come late, and rows without a click stand for two."""
    rows = unskew.datasets.simulate_funnel(60, 25, 700, click_rate=0.3, conversion_rate=0.4, seed=2).rows
    late = (pc.field("user_id") < 50) | (pc.field("request") >= 600)
    rows = rows.filter(late)
    rates = pc.if_else(pc.equal(rows["clicked"], 1), 1.0, 0.5)
    return rows.append_column("sample_rate", rates).append_column("viewed", rows["clicked"])


@pytest.mark.parametrize("columns", [[], ["sample_rate"], ["pscore"], ["policy", "is_random"]], ids=str)
@pytest.mark.parametrize("target", ["click", "conversion", "click-and-conversion"])
def test_impressions_in_two_parts_make_the_log_of_the_whole(shown, target, columns):
    """Whatever the columns: what rows stand for, chances and random traffic are those of all rows together."""
    shown, settings = shown.drop_columns(["viewed", *columns]), {"target": target}
    early = shown.filter(pc.field("request") < 600)
    whole = unskew.read_log(shown, **settings)
    parts = with_more(unskew.read_log(early, **settings), shown.slice(len(early)))
    assert parts.n_users == whole.n_users > unskew.read_log(early, **settings).n_users
    for found, expected in zip(columns_of(parts), columns_of(whole), strict=True):
        assert found.keys() == expected.keys()
        for name, held in expected.items():
            np.testing.assert_allclose(found[name], held, rtol=1e-6, err_msg=name)


def columns_of(log):
    """Return the columns of ratings, of random traffic, and of all rows or of their context; requests from 0."""
    random, more = log.random, dict(log.context or {}) if log.listed is None else log.listed.arrays()
    more |= {"request": np.unique(more["request"], return_inverse=True)[1]}
    names = "users", "items", "ratings", "cells", "chances"
    held = [{name: getattr(each, name) for name in names if each is not None} for each in (log, random)]
    return [{name: value for name, value in each.items() if value is not None} for each in (*held, more)]


@pytest.mark.parametrize("target", ["click", "conversion"])
def test_models_of_impressions_go_on_with_more_of_them(run, shown, tmp_path, target):
    shown = shown.drop_columns(["viewed", "sample_rate"])
    early = shown.filter(pc.field("request") < 600)
    unskew.fit(unskew.read_log(early, target=target), sweeps=40).save(tmp_path / "model")
    pyarrow.csv.write_csv(shown.slice(len(early)), tmp_path / "new.csv")
    run("update", tmp_path / "model", tmp_path / "new.csv", "--out", tmp_path / "updated")
    found, fresh = unskew.load(tmp_path / "updated"), unskew.fit(unskew.read_log(shown, target=target), sweeps=40)
    answers = [each.predict(shown["user_id"], shown["item_id"]) for each in (found, fresh)]
    assert np.corrcoef(*answers)[0, 1] > 0.8
    assert answers[0].mean() == pytest.approx(answers[1].mean(), abs=0.03)


def test_rows_that_are_no_more_of_the_same_are_refused(shown):
    early, late = shown.filter(pc.field("request") < 600), shown.filter(pc.field("request") >= 600)
    clicks = unskew.read_log(early, target="click")
    own = unskew.read_log(early, seen="viewed", rating="converted", context=["policy"])
    for log, rows, words in (
        (clicks, late.drop_columns(["position"]), "The new rows have no position, which those of the log have"),
        (clicks, early, "new rows are older than the log's last"),
        (clicks, unskew.read_log(late, target="conversion"), "for something else .* read them with target='click'"),
        (own, late, "lists what was shown, and which column tells .* with seen="),
        (own, unskew.read_log(late, seen="viewed", rating="converted"), "Levels of 'policy' are not kept by name"),
        (clicks, late.drop_columns(["clicked"]), r"no column .* hold clicks: set rating= .*, in unskew\.read_log"),
        (
            unskew.simulate(9, 9, 0.5, test_per_user=3).log,
            clicks,
            "These rows tell what was shown and clicked, and the model learned",
        ),
        (unskew.read_log(early, target="implicit"), late, "A model of positive rows alone is not continued"),
    ):
        with pytest.raises(UnskewError, match=words):
            with_more(log, rows)


def test_who_saw_what_is_counted_anew_and_new_users_choose_too(shop, tmp_path):
    n = len(shop.users)
    more = shop.new("new", ["i1", "i2", "i3", "fresh"], [1.0, 0.0, 1.0, 1.0])
    rest = pa.concat_tables([shop.table(slice(n // 2, None)), more])
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


def test_an_update_of_a_twentieth_takes_a_fifth_of_a_fit(shop, monkeypatch):
    """By ratings that are swept over and, in the long run, by processor time too."""
    if LONG:
        shop = Shop(150, 80, 0.3, 3)
    cut, swept, own = len(shop.users) - len(shop.users) // 20, [0], Sampler.sweep

    def counted(sampler):
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


def test_new_users_take_less_than_a_millisecond_each(shop, before):
    rng, part = np.random.default_rng(0), before.part("prediction")
    items = [rng.permutation(40)[:20] for _ in range(200)]
    part.new_rows.of(items[0], np.ones(20))
    began = time.process_time()
    for each in items:
        part.new_rows.of(each, rng.integers(0, 2, 20).astype(float))
    took = (time.process_time() - began) / len(items)
    print(f"a new user took {1000 * took:.2f} ms")
    assert took < (0.001 if LONG else 0.01)


def test_what_cannot_be_taken_in_is_refused_in_a_sentence(shop, before):
    rows = slice(FIRST, FIRST + 50)
    rest, one_known = shop.table(rows), shop.table(slice(FIRST - 1, FIRST + 50))
    known = f"User 'u{shop.users[FIRST - 1]}' has rated item 'i{shop.items[FIRST - 1]}' in the log already \\(1 of 51 "
    timed = replace(before, log=replace(before.log, times=np.arange(float(FIRST)) + 1e9))
    for model, more, words in (
        (before, rest.set_column(2, "rating", pa.array([0.5] * 50)), r"0\.5 is none of the levels 0, 1"),
        (before, unskew.read_log(rest, positive=None, rating_scale=(0, 1)), "new ratings are on the scale"),
        (before, one_known, known),
        (
            before,
            pa.table({"user_id": ["u1"], "item_id": ["i1"], "clicked": [1], "converted": [0]}),
            "tell what was shown",
        ),
        (unskew.Naive().fit(before.log, training=unskew.Training(max_epochs=1)), rest, "is not sampled in sweeps"),
        (before.fold_in(shop.new("ann")), rest, "Users were folded into this model"),
        (timed, shop.table(rows, timestamp=np.arange(50.0) + 1e9), "50 of 50 new ratings are older than the log's"),
    ):
        with pytest.raises(UnskewError, match=words):
            model.update(more)
    with pytest.raises(ParameterError, match="sweeps must be a whole number from 21"):
        before.update(rest, sweeps=3)
    after = timed.update(shop.table(rows, timestamp=np.arange(50.0) + 2e9), sweeps=25)
    assert after.log.times is not None
    assert after.log.times.max() == 2e9 + 49
