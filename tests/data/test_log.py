"""Claims about the log: what it accepts, what it refuses in which words, and that it cannot be changed."""

import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unskew import DataError, ParameterError, RatingLog
from unskew.data.features import Features
from unskew.data.ids import Vocabulary
from unskew.data.scale import Scale

USERS, ITEMS, RATINGS = ["u", "v", "u", "w"], [30, 30, 10, 20], [5, 1, 3, 2]
FRAME = {"user_id": USERS, "item_id": ITEMS, "rating": RATINGS}


def small(**settings):
    return RatingLog.from_arrays(USERS, ITEMS, RATINGS, **settings)


def test_the_log_says_what_it_holds_in_one_line():
    assert str(small()) == "RatingLog(4 ratings by 3 users on 3 items, density 44.44%, positive rate 50.0%)"
    assert "mean rating 2.75 of 1 to 5" in repr(small(positive=None, rating_scale=(1, 5)))


def test_nothing_in_a_log_can_be_written_and_the_givers_arrays_stay_theirs():
    codes, ratings = np.array([0, 1], dtype=np.int32), np.array([0, 1], dtype=np.float32)
    ids = Vocabulary([1, 2])
    log = RatingLog(codes, codes, ratings, ids, ids, Scale(3.0))
    for part in (log, log.take(np.array([0])), small()):
        for column in (part.users, part.items, part.ratings):
            with pytest.raises(ValueError, match="read-only"):
                column[0] = 0
    codes[0], ratings[0] = 1, 1
    assert log.users[0] == log.ratings[0] == 0
    with pytest.raises(AttributeError):
        log.users = codes


def test_a_catalogue_fixes_the_codes_and_may_list_what_nobody_rated():
    log = small(item_ids=["10", "20", "30", "40"], user_ids=["w", "v", "u"])
    assert log.n_items == 4
    assert log.items.tolist() == [2, 2, 0, 1]
    assert log.users.tolist() == [2, 1, 2, 0]
    again = small(item_ids=log.item_ids)
    assert again.item_ids is log.item_ids


GRADED = {"rating_scale": (1, 5), "positive": None}
AT, OF = np.divmod(np.arange(1000), 50)
RARE = np.where(np.arange(1000) == 7, 5, 1 + np.arange(1000) % 2)  # a single rating of 5
REFUSED = [  # users, items, ratings, settings and how that is refused
    (USERS, ITEMS, [5, None, 3, 2], {}, r"row 2 of ratings has no rating"),
    (USERS, ITEMS, [5, 1, math.inf, 2], {}, r"row 3 of ratings holds the infinite rating inf"),
    (USERS, ITEMS, [5, 1, 1e300, 2], {}, r"row 3 of ratings holds the rating 1e\+300, too large for 32-bit floats"),
    (USERS, ITEMS, [5, 1, 3, 7], {"rating_scale": (1, 5)}, r"row 4 of ratings holds the rating 7, .* scale \(1, 5\)"),
    (USERS, ITEMS, ["5", "1", "many", "2"], {}, r"row 3 of ratings holds 'many', which is not a number"),
    (USERS, ITEMS, pd.to_datetime(["2020-01-01"] * 4), {}, r"ratings is of type timestamp"),
    (USERS, ITEMS, [5, 4, 3, 3], {"positive": 3}, r"every rating is positive \(at least 3\), .* range from 3 to 5"),
    (USERS, ITEMS, [4, 4, 4, 4], GRADED, r"all ratings are equal \(4\)"),
    (USERS, ITEMS, [1, 1, 1, 1], {"positive": 1}, r"all ratings are equal .* for clicks alone give target='implicit'"),
    (USERS, ITEMS, [5, 1, 3], {}, r"must be equally long, but have 4, 4 and 3 rows"),
    (["u"] * 4, [1, 2, 3, 4], RATINGS, {}, "only 1 user: at least two users and two items"),
    ([], [], RATINGS, {}, "equally long"),
    (*(list("azbza"), [1, 1, 2, 1, 1], [1, 5, 1, 5, 1], {}), "user 'z' rated item 1 twice, in rows 2 and 4: "
     "duplicates='last' .* and duplicates='mean'"),
    (AT, OF, np.arange(1000.0), {}, "1,000 different numbers from 0 to 999, which is no scale of ratings"),
    (AT, OF, np.ones(1000), {}, r"only the rating 1: .* what people clicked or bought does not tell"),
    (USERS, ITEMS, RATINGS, {"item_ids": ["10", "30"]}, "row 4 of items holds 20, which the catalogue of 2 ids"),
    (AT, OF, RARE, {}, r"but that leaves 0.10% liked: say from where on ratings are liked"),
]  # fmt: skip


@pytest.mark.parametrize(("users", "items", "ratings", "settings", "sentence"), REFUSED)
def test_unusable_columns_are_refused_in_one_sentence(users, items, ratings, settings, sentence):
    with pytest.raises(DataError, match=sentence) as caught:
        RatingLog.from_arrays(users, items, ratings, **settings)
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize("ratings", [["5", " 1 ", "3.0", "2e0"], pa.array(RATINGS, pa.decimal128(3, 1))])
def test_ratings_may_be_any_numbers_even_spelled_ones(ratings):
    assert RatingLog.from_arrays(USERS, ITEMS, ratings).ratings.tolist() == [1, 0, 1, 0]
    log = RatingLog.from_arrays([0, 1], [0, 1], [3.3, 3.2], positive=3.3)  # which 32 bits cannot hold
    assert log.ratings.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("positive", [None, math.inf, "3", True]),
        ("rating_scale", [(5, 1), 5, (1, 2, 3), (1, 2)]),
        ("duplicates", ["first"]),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(name, values):
    for value in values:
        with pytest.raises(ParameterError):
            small(**{"positive": 3, name: value})


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(1, 5), min_size=1), st.floats(-2, 0.9), st.floats(5.1, 9))
def test_graded_ratings_go_to_the_unit_interval_and_back(ratings, low, high):
    scale = Scale(None, low, high)
    unit = scale.to_unit(ratings)
    assert 0 <= unit.min() <= unit.max() <= 1
    np.testing.assert_allclose(scale.from_unit(unit), ratings, rtol=1e-5)
    log = small(positive=None, rating_scale=(1, 5))
    assert log.to_arrow()["rating"].to_pylist() == RATINGS


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 8)), min_size=2))
def test_merging_agrees_with_a_dictionary(rows):
    pairs: dict[tuple[int, int], list[int]] = {}
    for user, item, rating in rows:
        pairs.setdefault((user, item), []).append(rating)
    for how, merge in (("last", lambda ratings: ratings[-1]), ("mean", np.mean)):
        rules = {"positive": None, "rating_scale": (0, 8), "user_ids": range(4), "item_ids": range(4)}
        try:
            log = RatingLog.from_arrays(*zip(*rows, strict=True), duplicates=how, **rules)
        except DataError as error:
            assert "all ratings are equal" in str(error)  # noqa: PT017
            continue
        found = zip(log.users.tolist(), log.items.tolist(), strict=True)
        ratings = dict(zip(found, log.scale.from_unit(log.ratings).tolist(), strict=True))
        assert ratings == pytest.approx({pair: merge(given) for pair, given in pairs.items()}, abs=1e-5)
        assert log.duplicates_merged == len(rows) - len(pairs)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"users": np.array([0, 5])}, "users hold codes from 0 to 5, but there are 2 ids"),
        ({"users": np.array([0, 2**32])}, "users must be codes of 32 bits"),
        ({"ratings": np.array([0.0, np.nan])}, r"must lie in \[0, 1\]"),
        ({"ratings": np.array([0.0, 0.5])}, "must be 0 or 1"),
        ({"user_features": Features(("age",), np.zeros((3, 1)))}, "user_features has 3 rows for 2 users"),
    ],
)
def test_a_log_checks_what_it_is_made_of(change, sentence):
    ids = Vocabulary(["a", "b"])
    parts = {"users": np.array([0, 1]), "items": np.array([0, 1]), "ratings": np.array([0.0, 1.0])}
    RatingLog(**parts, user_ids=ids, item_ids=ids, scale=Scale(3.0))
    with pytest.raises(DataError, match=sentence):
        RatingLog(**parts | {"user_ids": ids, "item_ids": ids, "scale": Scale(3.0)} | change)


NAMES = ["user_id", "item_id", "rating", "rating"]


@pytest.mark.parametrize(
    ("frame", "user", "sentence"),
    [
        (pa.table({"userId": USERS} | FRAME).drop_columns("user_id"), "user_id", r"'user_id', only .* mean 'userId'\?"),
        (pd.DataFrame([[1, 2, 3, 4]], columns=NAMES), None, r"columns of the same name .*'rating'"),
        (pa.table({"user": USERS, "item": ITEMS, "when": ITEMS}), None, "a file of clicks or purchases alone does not"),
    ],
)
def test_columns_that_are_missing_or_twice_there_are_named(frame, user, sentence):
    with pytest.raises(DataError, match=sentence):
        RatingLog.from_frame(frame, user)


def test_a_column_that_nobody_asks_for_may_hold_anything():
    frame = pd.DataFrame(FRAME).assign(odd=[object(), {}, "x", 1])
    assert len(RatingLog.from_frame(frame)) == 4


PEOPLE = {"user_id": ["v", "x", "u"], "age": [30, 99, None], "kind": ["new", "old", None], "paid": [True, False, True]}


@pytest.mark.parametrize("frame", [pd.DataFrame(PEOPLE), pl.DataFrame(PEOPLE), pa.table(PEOPLE)], ids=type)
def test_features_follow_the_ids_and_who_has_no_rating_joins_the_log(frame):
    log = small(user_features=frame)
    features, nan = log.user_features, math.nan
    assert list(log.user_ids) == ["u", "v", "w", "x"]
    assert features.names == ("age", "kind=new", "kind=old", "paid")
    expected = [[nan, nan, nan, 1], [30, 1, 0, 1], [nan, nan, nan, nan], [99, 0, 1, 0]]
    np.testing.assert_array_equal(features.values, np.array(expected, np.float32))
    assert not features.values.flags.writeable
    assert "1 users have features and no rating, and are answered from their features" in log.notes
    assert "1 of 4 users have no features" in log.notes
    known = small(user_features=frame, user_ids=["u", "v", "w"])
    assert known.n_users == 3
    assert "1 users that the log does not know have features, which are not used" in known.notes


@pytest.mark.parametrize(
    ("frame", "sentence"),
    [
        ({"user_id": ["u", "u"], "age": [1, 2]}, "holds the id 'u' more than once"),
        ({"who": ["u", "v"], "age": [1, 2]}, "no column of users, only 'who', 'age': call it 'user_id'"),
        ({"user_id": ["u", "v"]}, "no column that describes anything besides 'user_id'"),
        ({"user_id": ["u", "v"], "age": [1.0, 1e300]}, "feature 'age' holds a value too large"),
        ({"user_id": ["u", "v"], "tags": [[1], [2]]}, "feature 'tags' holds int64: give numbers, text or lists"),
    ],
)
def test_unusable_features_are_refused_in_one_sentence(frame, sentence):
    with pytest.raises(DataError, match=sentence):
        small(user_features=pa.table(frame))


def test_columns_are_guessed_by_name_and_content_and_keep_their_names():
    frame = pa.table({"movie": ["Toy Story", "Heat wave", "Toy Story"], "movieId": [7, 8, 7], "userId": [1, 1, 2]})
    dates = ["2020-01-02", "2020-01-03", "2020-01-04"]
    frame = frame.append_column("stars", [[5, 1, 3]]).append_column("date", [dates])
    log = RatingLog.from_frame(frame, item_names="movie")
    assert log.names[:4] == ("userId", "movieId", "stars", "date")
    assert log.titles.to_pylist() == ["Toy Story", "Heat wave"]
    assert log.times[1] - log.times[0] == 24 * 60 * 60
    assert log.to_arrow().column_names == ["userId", "movieId", "stars", "date"]
    assert log.take(np.array([2])).times.tolist() == log.times[2:].tolist()
    guesses = "items are in 'movieId', ratings are in 'stars', times are in 'date' (user=, item=, rating=, time= change"
    assert guesses in log.notes[0]


@pytest.mark.parametrize(
    "names",
    [
        {30: "thirty", 10: "ten"},
        pa.table({"id": ["30", "10", "99"], "title": ["thirty", "ten", "other"]}),
        pd.DataFrame({"movieId": [30, 10], "year": [1, 2], "name": ["thirty", "ten"]}),
    ],
)
def test_titles_go_with_ids(names):
    log = small(item_names=names)
    assert log.titles.to_pylist() == ["thirty", "ten", None]
    assert "1 of 3 items have no name" in log.notes
    with pytest.raises(DataError, match="none of the 3 items is named by item_names="):
        small(item_names={"thirty": "30"})
