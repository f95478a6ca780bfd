"""Files of what was shown, clicked and bought: which columns, what is learned from them, and what is refused."""

import re
from itertools import product

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
import pytest

import unskew
from unskew.data.impressions import chances_shown, shares
from unskew.data.pairs import pair_keys
from unskew.data.split import usual
from unskew.datasets import simulate_funnel
from unskew.errors import DataError, ParameterError


@pytest.fixture(scope="module")
def rows():
    return simulate_funnel(60, 40, 400, click_rate=0.3, conversion_rate=0.3, seed=2).rows


@pytest.fixture(scope="module", params=["csv", "parquet", "frame"])
def source(request, rows, tmp_path_factory):
    if request.param == "frame":
        return rows
    path = tmp_path_factory.mktemp("shown") / f"shown.{request.param}"
    (pcsv.write_csv if request.param == "csv" else pq.write_table)(rows, path)
    return path


def changed(rows, **columns):
    """Return the rows with other columns, or with more."""
    for name, values in columns.items():
        new = name not in rows.column_names
        place = () if new else (rows.column_names.index(name),)
        rows = (rows.append_column if new else rows.set_column)(*place, name, pa.array(values))
    return rows


def test_clicks_and_conversions_are_guessed_and_the_context_is_kept(source, rows):
    log = unskew.read_log(source)
    assert any("answers are for target='conversion' (target= changes this)" in note for note in log.notes)
    for named in ({"seen": "clicked", "rating": "converted"}, {"target": "conversion"}):
        again = unskew.read_log(source, **named)
        assert again.target == "conversion"
        assert all((again.listed.arrays()[name] == held).all() for name, held in log.listed.arrays().items())
        assert (again.ratings == log.ratings).all()
    clicked = rows["clicked"].to_numpy() == 1
    assert len(log) == clicked.sum()
    assert log.n_pairs == len(rows)
    assert (log.ratings == rows["converted"].to_numpy()[clicked]).all()
    kept = log.listed.columns
    assert (kept["position"] == rows["position"].to_numpy()).all()
    assert (kept["is_random"] == rows["is_random"].to_numpy()).all()
    assert kept["pscore"] == pytest.approx(rows["pscore"].to_numpy(), rel=1e-6)
    assert (np.diff(kept["request"]) == np.diff(rows["request"].to_numpy())).all()
    assert (kept["time"] == rows["time"].to_numpy()).all()


def test_positives_alone_are_the_clicked_rows_or_all_rows(source, rows):
    log = unskew.read_log(source, target="implicit")
    clicked = rows.filter(pa.array(rows["clicked"].to_numpy() == 1))
    pairs = set(zip(clicked["user_id"].to_pylist(), clicked["item_id"].to_pylist(), strict=True))
    assert len(log) == len(pairs)
    assert (log.ratings == 1).all()
    assert log.duplicates_merged == len(clicked) - len(pairs)
    assert any(f"{len(rows) - len(clicked):,} rows that are not positive are left out" in note for note in log.notes)
    for alone in (clicked.select(["user_id", "item_id"]), changed(rows, sample_rate=np.full(len(rows), 0.5))):
        assert len(unskew.read_log(alone, target="implicit")) == len(log)


def test_missing_conversions_of_what_was_not_clicked_are_no_conversions(rows):
    bought, clicked = rows["converted"].to_numpy(), rows["clicked"].to_numpy() == 1
    holes = changed(rows, converted=pa.array(bought, pa.int8(), mask=~clicked))
    assert (unskew.read_log(holes).ratings == unskew.read_log(rows).ratings).all()
    both = unskew.read_log(holes, target="click-and-conversion")
    assert (both.ratings == rows["converted"].to_numpy()[~rows["is_random"].to_numpy()]).all()


def test_down_sampled_rows_stand_for_as_many_as_were_there(rows):
    clicked = rows["clicked"].to_numpy() == 1
    kept = clicked | (np.arange(len(rows)) % 4 == 0)
    rates = pa.array(np.where(clicked, 1.0, 0.25))
    log = unskew.read_log(changed(rows, sample_rate=rates).filter(pa.array(kept)))
    assert log.density == pytest.approx(clicked.mean(), rel=0.03)
    assert log.cells.tolist() == [1.0] * int(clicked.sum())


def test_outcomes_that_may_still_come_are_left_out_and_late_ones_have_not_come(rows):
    times = rows["time"].to_numpy()
    after = np.where(np.arange(len(rows)) % 2, 30.0, 900.0)
    bought = np.where(rows["converted"].to_numpy() == 1, times + after, np.nan)
    log = unskew.read_log(changed(rows, conversion_time=bought), window=600)
    kept = times <= times.max() - 600
    late = (bought - times > 600) & kept
    assert log.n_pairs == kept.sum() < len(rows)
    assert any(f"{(~kept).sum():,} rows that are too young" in note for note in log.notes)
    assert log.ratings.sum() == (rows["converted"].to_numpy() == 1)[kept].sum() - late.sum()
    assert any(f"{late.sum():,} rows converted later than the window of 600" in note for note in log.notes)
    named = changed(rows, title=[f"t{item}" for item in rows["item_id"].to_pylist()])
    titled = unskew.read_log(named, window=600, item_names="title")
    assert titled.titles.to_pylist() == [f"t{item}" for item in titled.item_ids]
    whole = unskew.read_log(changed(rows, conversion_time=bought))
    assert whole.ratings.sum() == rows["converted"].to_numpy().sum()


def test_times_that_cannot_be_are_counted_with_their_first_row(rows):
    times, bought = rows["time"].to_pylist(), [None] * len(rows)
    first, other = rows["converted"].to_pylist().index(1), rows["converted"].to_pylist().index(0)
    times[5] = times[8] = 4e9
    bought[first], bought[other] = times[first] - 1, times[other] + 1
    odd = changed(rows, time=times, conversion_time=pa.array(bought, pa.float64()))
    notes = " ".join(unskew.read_log(odd).notes)
    assert "2 rows have a time in the future in column 'time', the first is row 6" in notes
    about = "1 rows have a time in column 'conversion_time'"
    assert f"{about} before they were shown, the first is row {first + 1}" in notes
    assert f"{about} and no conversion, the first is row {other + 1}" in notes
    counted = changed(rows, time=[1000 * t for t in rows["time"].to_pylist()])  # in milliseconds
    assert "in the future" not in " ".join(unskew.read_log(counted).notes)


@pytest.mark.parametrize("left_out", ["policy", "is_random"])
@pytest.mark.parametrize("target", ["click", "click-and-conversion"])
def test_random_traffic_is_apart_and_halves_share_no_pair(rows, target, left_out):
    log = unskew.read_log(rows.drop_columns(left_out), target=target)
    random, column = rows["is_random"].to_numpy(), "clicked" if target == "click" else "converted"
    assert (log.ratings == rows[column].to_numpy()[~random]).all()
    assert (log.random.ratings == rows[column].to_numpy()[random]).all()
    assert any(f"{random.sum():,} rows are random traffic" in note for note in log.notes)
    halves = log.random_ratings, log.random_test
    assert sum(map(len, halves)) == random.sum()
    used, kept = ({*zip(half.users.tolist(), half.items.tolist(), strict=True)} for half in halves)
    assert used.isdisjoint(kept)
    assert log.cells.sum() == pytest.approx(len(set(zip(log.users.tolist(), log.items.tolist(), strict=True))))
    assert (log.listed, log.n_pairs) == (None, log.n_users * log.n_items)


def test_random_traffic_of_down_sampled_rows_is_apart(rows):
    random = rows["is_random"].to_numpy()
    log = unskew.read_log(changed(rows, sample_rate=np.where(random, 1.0, 0.5)), target="click")
    assert (len(log), len(log.random)) == ((~random).sum(), random.sum())
    assert log.cells.sum() == pytest.approx(2 * len({*zip(log.users.tolist(), log.items.tolist(), strict=True)}))
    assert log.chances is None
    assert any("left out by their sample_rate: not used" in note for note in log.notes)


def test_a_sum_over_shown_pairs_by_their_logged_chances_is_that_over_all_pairs():
    """Every outcome of two draws of three items for one user and three for another, by chances of their own."""
    policy, value = np.array([[0.7, 0.2, 0.1], [0.3, 0.3, 0.4]]), np.array([[1.0, 2.0, 5.0], [3.0, 0.5, 4.0]])
    users, expected = np.array([0, 0, 1, 1, 1]), 0.0
    for drawn in product(range(3), repeat=5):
        items = np.array(drawn)
        pscore, cells = policy[users, items], shares(pair_keys(users, items, 3))
        weight = (1 if cells is None else cells) / chances_shown(users, items, pscore, 3)
        expected += np.prod(pscore) * (weight * value[users, items]).sum()
    assert expected == pytest.approx(value.sum(), rel=1e-6)


def test_logged_chances_are_those_of_one_policy_and_doubted_aloud(rows):
    log = unskew.read_log(rows, target="click")
    own = log.users == log.users[0]
    same = own & (log.items == log.items[0])
    own_rows = rows.filter(pa.array(~rows["is_random"].to_numpy()))
    p = own_rows["pscore"].to_numpy()[same].mean()
    assert log.chances[0] == pytest.approx(1 - (1 - p) ** own.sum(), rel=1e-5)
    assert not any("1 / pscore" in note for note in log.notes)
    wrong = changed(rows, pscore=rows["pscore"].to_numpy() / 3)
    assert any("1 / pscore has a mean of" in note for note in unskew.read_log(wrong, target="click").notes)
    several = changed(rows, policy=np.where(np.arange(len(rows)) % 2, "a", "b"))
    found = unskew.read_log(several, target="click")
    assert found.chances is None
    assert any("pscore is of several policies" in note for note in found.notes)


def edited(rows, **third):
    """Return the rows with another value in the third."""
    for name, value in third.items():
        values = rows[name].to_pylist()
        values[2] = value
        rows = changed(rows, **{name: values})
    return rows


BAD = {
    "pscore above 1": (lambda r: edited(r, pscore=1.5), "row 3 of column 'pscore' holds 1.5: it must be above 0"),
    "no pscore": (lambda r: edited(r, pscore=None), "row 3 of column 'pscore' holds nothing"),
    "position below 0": (lambda r: edited(r, position=-1), "row 3 of column 'position' holds -1: it must be 0 or more"),
    "clicked twice": (lambda r: edited(r, clicked=2), "row 3 of column 'clicked' holds 2, where only 0 and 1"),
    "bought twice": (lambda r: edited(edited(r, clicked=1), converted=2), "'converted' holds 2, where only"),
    "an item that is missing": (lambda r: edited(r, item_id=None), "row 3 of column 'item_id' has no id"),
    "no clicks": (lambda r: changed(r, clicked=[0] * len(r)), "'clicked' is 0 in every row: where nothing is seen"),
    "no conversions": (lambda r: changed(r, converted=[0] * len(r)), "'converted' is 0 in every row that teaches"),
}
ODD = {
    "conversions without clicks": (
        lambda r: changed(r, converted=np.where(np.arange(len(r)) < 9, 1, r["converted"].to_numpy())),
        r"rows have an outcome in column 'converted' and were not seen: it is not read, the first is row \d$",
    ),
    "all clicks in one position": (
        lambda r: changed(r, clicked=[int(p == 0) for p in r["position"].to_pylist()]),
        "everything chosen stood at position 0",
    ),
    "clicks without what was not clicked": (
        lambda r: r.filter(pa.array(r["clicked"].to_numpy() == 1)),
        "every row was seen: rows that were shown and not seen are missing",
    ),
    "one policy": (lambda r: changed(r, policy=["one"] * len(r)), "the column of policies holds one policy alone"),
    "duplicate rows": (
        lambda r: pa.concat_tables([r, r.slice(0, 5)]),
        "rows repeat another of the same request, and count as rows, one of them row 20",
    ),
    "two winners of a request": (
        lambda r: changed(r, clicked=[1] * len(r)),
        "400 requests have several rows that were chosen, the first in row 1$",
    ),
    "times out of order": (
        lambda r: r.take(list(range(len(r)))[::-1]),
        "rows stand behind a later one in column 'time', the first is row",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_value_is_named_with_column_and_row(rows, case):
    made, sentence = BAD[case]
    with pytest.raises(DataError, match=sentence):
        unskew.read_log(made(rows))


@pytest.mark.parametrize("case", ODD)
def test_what_stands_out_is_counted_and_its_first_row_named(rows, case):
    made, sentence = ODD[case]
    notes = unskew.read_log(made(rows)).notes
    assert any(re.search(sentence, note) for note in notes), notes


def test_targets_and_missing_columns_are_refused_in_a_sentence(rows):
    with pytest.raises(ParameterError, match="target"):
        unskew.read_log(rows, target="clicks")
    for target, how in (("click", "mean"), ("click", "count"), ("conversion", "last"), ("conversion", "error")):
        with pytest.raises(ParameterError, match=f"duplicates is '{how}': rows that were shown are kept"):
            unskew.read_log(rows, target=target, duplicates=how)  # a mean of clicks is a rate, which is no click
    for given in ({"positive": 3}, {"positive": None, "rating_scale": (1, 5)}):
        with pytest.raises(ParameterError, match="is of ratings, and for target='click' outcomes are 0 or 1"):
            unskew.read_log(rows, target="click", **given)
    with pytest.raises(DataError, match="no column that is known to hold conversions: set rating="):
        unskew.read_log(rows.drop_columns("converted"), target="conversion")
    with pytest.raises(DataError, match="no column that is known to hold clicks: set seen="):
        unskew.read_log(rows.drop_columns("clicked"), target="conversion")
    for table, window, sentence in (
        (rows.drop_columns("time"), 60, "window=60 leaves out rows by their age"),
        (rows, "day", "window='day' leaves out rows by their age"),
        (rows, 1e9, r"window=1000000000.0 leaves out every row: they are of 1,\d\d\d seconds"),
    ):
        with pytest.raises(DataError, match=sentence):
            unskew.read_log(table, window=window)


@pytest.mark.parametrize("by", [None, "time", "request"])
@pytest.mark.parametrize("target", ["conversion", "click"])
def test_impressions_are_divided_by_time_and_requests_never_torn_apart(rows, target, by):
    log = unskew.read_log(rows, target=target)
    split = unskew.holdout_split(log, 0.2512, by=by, seed=1)
    held = np.isin(np.arange(len(log)), split.holdout_rows) if split.held_out is None else split.held_out
    request, times = log.known_of_rows("request"), log.times if log.listed is None else log.listed.times
    assert set(request[held]).isdisjoint(request[~held])
    assert held.mean() == pytest.approx(0.25, abs=0.01)
    if by != "request":
        assert times[held].min() >= times[~held].max()
    bare = unskew.read_log(rows.drop_columns("time"), target=target)
    assert usual(bare) == "request"
    assert usual(unskew.read_log(rows.drop_columns(["time", "request"]), target=target)) == "global"
    by_user = unskew.holdout_split(log, 0.2, by="user")
    assert len(by_user.train_rows) + len(by_user.holdout_rows) == len(log)


def test_a_file_of_impressions_is_divided_whole(run, rows, tmp_path):
    pcsv.write_csv(rows, tmp_path / "shown.csv")
    run("split", tmp_path / "shown.csv", "--out", tmp_path / "parts")
    train, test = (pcsv.read_csv(tmp_path / "parts" / f"{name}.csv") for name in ("train", "test"))
    assert (len(train) + len(test), train.column_names) == (len(rows), rows.column_names)
    assert max(train["time"].to_pylist()) <= min(test["time"].to_pylist())


def test_a_log_keeps_at_most_16_bytes_a_row_besides_its_columns():
    """Ids have codes of 4 bytes, an outcome 4, times 8, requests, positions and chances 4 each: 32 of columns."""
    shown = simulate_funnel(5_000, 200, 20_000, seed=1).rows
    for target in ("click", "conversion"):
        log = unskew.read_log(shown.drop_columns(["policy", "is_random"]), target=target)
        held = [*vars(log).values(), *(log.context or {}).values()]
        held += [] if log.listed is None else log.listed.arrays().values()
        kept = sum(array.nbytes for array in held if isinstance(array, np.ndarray))
        assert kept <= (32 + 16) * len(shown)
