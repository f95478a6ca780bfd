"""Files of what was shown, clicked and bought: which columns, what is learned from them, and what is refused."""

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
import pytest

import unskew
from unskew.data.log import RatingLog
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
    assert (log.ratings == rows[column].to_numpy()).all()
    pairs = len(set(zip(rows["user_id"].to_pylist(), rows["item_id"].to_pylist(), strict=True)))
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
    assert (both.ratings == rows["converted"].to_numpy()).all()


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
