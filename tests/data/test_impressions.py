"""Files of what was shown, clicked and bought: which columns, what is learned from them, and what is refused."""

from itertools import product

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
import pytest

import unskew
from unskew.data.impressions import chances_shown, shares
from unskew.data.log import RatingLog
from unskew.data.pairs import pair_keys
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


def test_clicks_and_conversions_are_guessed_and_the_context_is_kept(source, rows):
    log = unskew.read_log(source)
    clicked = rows["clicked"].to_numpy() == 1
    assert len(log) == clicked.sum()
    assert log.n_pairs == len(rows)
    assert (log.ratings == rows["converted"].to_numpy()[clicked]).all()
    assert any("answers are for target='conversion' (target= changes this)" in note for note in log.notes)
    kept = log.listed.columns
    assert (kept["position"] == rows["position"].to_numpy()).all()
    assert (kept["is_random"] == rows["is_random"].to_numpy()).all()
    assert kept["pscore"] == pytest.approx(rows["pscore"].to_numpy(), rel=1e-6)
    assert (np.diff(kept["request"]) == np.diff(rows["request"].to_numpy())).all()
    assert (kept["time"] == rows["time"].to_numpy()).all()


@pytest.mark.parametrize("named", [{"seen": "clicked", "rating": "converted"}, {"target": "conversion"}])
def test_columns_may_be_named_or_meant_by_the_target(source, named):
    guessed, log = unskew.read_log(source), unskew.read_log(source, **named)
    assert (log.users == guessed.users).all()
    assert (log.ratings == guessed.ratings).all()
    assert (log.listed.seen == guessed.listed.seen).all()


@pytest.mark.parametrize(("target", "column"), [("click", "clicked"), ("click-and-conversion", "converted")])
def test_what_is_wanted_over_all_pairs_keeps_every_row(source, rows, target, column):
    log = unskew.read_log(source, target=target)
    assert log.listed is None
    rest = rows.filter(pa.array(~rows["is_random"].to_numpy()))
    assert (log.ratings == rest[column].to_numpy()).all()
    pairs = len(set(zip(rest["user_id"].to_pylist(), rest["item_id"].to_pylist(), strict=True)))
    assert log.cells.sum() == pytest.approx(pairs, rel=1e-5)
    assert log.n_pairs == log.n_users * log.n_items


def test_positives_alone_are_the_clicked_rows_or_all_rows(source, rows):
    log = unskew.read_log(source, target="implicit")
    clicked = rows.filter(pa.array(rows["clicked"].to_numpy() == 1))
    pairs = set(zip(clicked["user_id"].to_pylist(), clicked["item_id"].to_pylist(), strict=True))
    assert len(log) == len(pairs)
    assert (log.ratings == 1).all()
    assert log.duplicates_merged == len(clicked) - len(pairs)
    assert any(f"{len(rows) - len(clicked):,} rows that are not positive are left out" in note for note in log.notes)
    alone = unskew.read_log(clicked.select(["user_id", "item_id"]), target="implicit")
    assert len(alone) == len(log)


def test_missing_conversions_of_what_was_not_clicked_are_no_conversions(rows):
    bought = [
        None if not c else b for c, b in zip(rows["clicked"].to_pylist(), rows["converted"].to_pylist(), strict=True)
    ]
    holes = rows.set_column(rows.column_names.index("converted"), "converted", pa.array(bought, pa.int8()))
    assert (unskew.read_log(holes).ratings == unskew.read_log(rows).ratings).all()
    both = unskew.read_log(holes, target="click-and-conversion")
    assert (both.ratings == rows["converted"].to_numpy()[~rows["is_random"].to_numpy()]).all()


def test_down_sampled_rows_stand_for_as_many_as_were_there(rows):
    clicked = rows["clicked"].to_numpy() == 1
    kept = clicked | (np.arange(len(rows)) % 4 == 0)
    rates = pa.array(np.where(clicked, 1.0, 0.25))
    log = unskew.read_log(rows.append_column("sample_rate", rates).filter(pa.array(kept)))
    assert log.density == pytest.approx(clicked.mean(), rel=0.03)
    assert log.cells.tolist() == [1.0] * int(clicked.sum())


def test_rows_whose_outcome_may_still_come_are_left_out_and_counted(rows):
    times = rows["time"].to_numpy()
    log = unskew.read_log(rows, window=600)
    old = times <= times.max() - 600
    assert log.n_pairs == old.sum() < len(rows)
    assert any(f"{(~old).sum():,} rows that are too young" in note for note in log.notes)


def with_column(rows, name, values):
    return rows.append_column(name, pa.array(values))


def test_what_converted_after_the_window_has_not_converted(rows):
    times = rows["time"].to_numpy()
    bought = np.where(
        rows["converted"].to_numpy() == 1, times + np.where(np.arange(len(rows)) % 2, 30.0, 900.0), np.nan
    )
    log = unskew.read_log(with_column(rows, "conversion_time", bought), window=600)
    kept = times <= times.max() - 600
    late = (bought - times > 600) & kept
    assert log.ratings.sum() == (rows["converted"].to_numpy() == 1)[kept].sum() - late.sum()
    assert any(f"{late.sum():,} rows converted later than the window of 600" in note for note in log.notes)
    whole = unskew.read_log(with_column(rows, "conversion_time", bought))
    assert whole.ratings.sum() == rows["converted"].to_numpy().sum()


def test_times_that_cannot_be_are_counted_with_their_first_row(rows):
    times, bought = rows["time"].to_pylist(), [None] * len(rows)
    first, other = rows["converted"].to_pylist().index(1), rows["converted"].to_pylist().index(0)
    times[5] = times[8] = 4e9
    bought[first], bought[other] = times[first] - 1, times[other] + 1
    odd = with_column(changed(rows, time=times), "conversion_time", pa.array(bought, pa.float64()))
    notes = " ".join(unskew.read_log(odd).notes)
    assert "2 rows have a time in the future in column 'time', the first is row 6" in notes
    assert (
        f"1 rows have a time in column 'conversion_time' before they were shown, the first is row {first + 1}" in notes
    )
    assert f"1 rows have a time in column 'conversion_time' and no conversion, the first is row {other + 1}" in notes
    counted = changed(rows, time=[1000 * t for t in rows["time"].to_pylist()])  # in milliseconds
    assert "in the future" not in " ".join(unskew.read_log(counted).notes)


@pytest.mark.parametrize("left_out", ["policy", "is_random"])
@pytest.mark.parametrize("target", ["click", "click-and-conversion"])
def test_random_traffic_is_apart_and_halves_share_no_pair(source, rows, target, left_out):
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


def test_traffic_that_is_all_random_is_trained_on(rows):
    log = unskew.read_log(changed(rows, is_random=[True] * len(rows)), target="click")
    assert (len(log), log.random) == (len(rows), None)
    assert any("every row is random traffic" in note for note in log.notes)


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


def changed(rows, **columns):
    for name, values in columns.items():
        at = rows.column_names.index(name)
        rows = rows.set_column(at, name, pa.array(values))
    return rows


def edited(rows, name, row, value):
    values = rows[name].to_pylist()
    values[row] = value
    return changed(rows, **{name: values})


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("pscore", 0.0, "row 3 of column 'pscore' holds 0: it must be above 0 and at most 1"),
        ("pscore", 1.5, "row 3 of column 'pscore' holds 1.5: it must be above 0 and at most 1"),
        ("pscore", None, "row 3 of column 'pscore' holds nothing"),
        ("position", -1, "row 3 of column 'position' holds -1: it must be 0 or more"),
        ("clicked", 2, "row 3 of column 'clicked' holds 2, where only 0 and 1"),
        ("is_random", None, "row 3 of column 'is_random' holds nothing"),
    ],
)
def test_a_bad_value_is_named_with_column_and_row(rows, name, value, sentence):
    with pytest.raises(DataError, match=sentence):
        unskew.read_log(edited(rows, name, 2, value))


def test_no_click_and_no_conversion_are_refused(rows):
    with pytest.raises(DataError, match="'clicked' is 0 in every row: where nothing is seen"):
        unskew.read_log(changed(rows, clicked=[0] * len(rows)))
    with pytest.raises(DataError, match="every rating is negative"):
        unskew.read_log(changed(rows, converted=[0] * len(rows)))


def test_what_stands_out_is_counted(rows):
    click = rows["clicked"].to_pylist().index(0)
    notes = " ".join(unskew.read_log(edited(rows, "converted", click, 1)).notes)
    assert "1 rows have an outcome and were not seen" in notes
    first = changed(rows, clicked=[int(p == 0) for p in rows["position"].to_pylist()], policy=["one"] * len(rows))
    notes = " ".join(unskew.read_log(first).notes)
    assert "everything chosen stood at position 0" in notes
    assert "holds one policy alone" in notes
    notes = " ".join(unskew.read_log(pa.concat_tables([rows, rows.slice(0, 5)])).notes)
    assert "rows repeat another of the same request" in notes
    assert "requests have several rows that were chosen" in notes


def test_targets_and_missing_columns_are_refused_in_a_sentence(rows):
    with pytest.raises(ParameterError, match="target"):
        unskew.read_log(rows, target="clicks")
    with pytest.raises(DataError, match="no column that is known to hold conversions: set rating="):
        unskew.read_log(rows.drop_columns("converted"), target="conversion")
    with pytest.raises(DataError, match="no column that is known to hold clicks: set seen="):
        unskew.read_log(rows.drop_columns("clicked"), target="conversion")
    with pytest.raises(DataError, match="window=60 leaves out rows by their age"):
        unskew.read_log(rows.drop_columns("time"), window=60)


def test_a_file_with_ratings_is_read_for_ratings():
    frame = pa.table({"user_id": [1, 1, 2], "item_id": [1, 2, 2], "rating": [1, 5, 4], "clicked": [1, 1, 0]})
    assert RatingLog.from_frame(frame).listed is None
    assert len(RatingLog.from_frame(frame)) == 3


def test_requests_are_held_out_whole(rows):
    from unskew.data.split import holdout_split

    log = unskew.read_log(rows)
    split = holdout_split(log, 0.25, by="request", seed=1)
    request = log.listed.columns["request"]
    assert set(request[split.held_out]).isdisjoint(request[~split.held_out])
    assert split.held_out.mean() == pytest.approx(0.25, abs=0.01)
    later = holdout_split(log, 0.25, by="time").held_out
    assert log.listed.times[later].min() >= log.listed.times[~later].max()
