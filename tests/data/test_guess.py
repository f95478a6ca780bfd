"""Claims about what is found by looking: columns, delimiter, header, and what is liked."""

import numpy as np
import pytest

from unskew.data.guess import find_columns, guessed_scale, layout_of
from unskew.errors import DataError

ROLES = dict.fromkeys(("user", "item", "rating"))


def found(header, **given):
    return find_columns({name: [] for name in header.split(",")}, {**ROLES, **given}, "log.csv")


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("user_id,item_id,rating", ("user_id", "item_id", "rating")),
        ("userId,movieId,rating,timestamp", ("userId", "movieId", "rating")),
        ("reviewerID,asin,overall,unixReviewTime", ("reviewerID", "asin", "overall")),
        ("User-ID,ISBN,Book-Rating", ("User-ID", "ISBN", "Book-Rating")),
        ("label,uid,iid", ("uid", "iid", "label")),
        ("user,item,clicked", ("user", "item", "clicked")),
        ("user_id,user,item_id,item,rating,score", ("user_id", "item_id", "rating")),
    ],
)
def test_common_headers_are_understood(header, expected):
    names, guessed = found(header)
    assert tuple(names.values()) == expected
    assert bool(guessed) == (expected != ("user_id", "item_id", "rating"))


def test_only_columns_that_can_be_named_come_with_the_setting_that_names_them():
    roles = dict.fromkeys((*ROLES, "request", "pscore"))
    names = dict.fromkeys(("customer", "item_id", "stars", "queryid", "propensity_score"), ())
    assert find_columns(names, roles, "log.csv")[1] == [
        "users are in 'customer', ratings are in 'stars' (user=, rating= change this)",
        "requests are in 'queryid', pscores are in 'propensity_score'",
    ]


@pytest.mark.parametrize(
    ("header", "sentence"),
    [
        ("user_id,asin,parent_asin,rating", "several columns that may hold items, 'asin', 'parent_asin': set item= to"),
        ("user_id,item_id,stars,score", "may hold ratings, 'stars', 'score': set rating= to one of them"),
        ("user,item,clicked,watch_ratio", "'clicked', 'watch_ratio': set rating= .*, or target= if rows are"),
        ("who,item_id,rating", "known to hold users, only 'who', 'item_id', 'rating': set user= to the right one"),
        ("user_id,item_id,views", "known to hold ratings, only .* clicks or purchases alone .* give target='implicit'"),
    ],
)
def test_what_has_no_single_answer_is_asked_for(header, sentence):
    with pytest.raises(DataError, match=sentence):
        found(header)


@pytest.mark.parametrize(
    ("lines", "usual", "delimiter"),
    [
        (["user_id;item_id;rating", "1;2;3"], ",", ";"),
        (["user_id|item_id|rating", "1|2|3"], "\t", "|"),
        (["1 2 3", "4 5 6"], ",", " "),
        (["1::2::3", "4::5::6"], ",", "::"),
        (["1;2;3,5", "1;2;4,0"], ",", ";"),
        (["1,Toy Story,5", "2,La Strada,4,x"], ",", ","),
        (["one"], ",", ","),
    ],
)
def test_another_delimiter_is_taken_where_the_usual_one_splits_nothing(lines, usual, delimiter):
    layout = layout_of(lines, usual)
    assert layout.delimiter == delimiter
    assert (delimiter != usual) == any("columns are separated by" in note for note in layout.notes)


def test_columns_without_names_go_by_place():
    def placed(*row, **given):
        samples = {str(at + 1): [value] for at, value in enumerate(row)}
        return find_columns(samples, {**ROLES, "time": None, **given}, "f", ("time",))[0]

    assert placed("a", "b", "5") == {"user": "1", "item": "2", "rating": "3"}
    assert placed("a", "b", "5", "964982703")["time"] == "4"
    assert placed("1", "7", "2", "3", user="2", item="1", rating="4") == {"user": "2", "item": "1", "rating": "4"}
    with pytest.raises(DataError, match=r"no header and 4 columns, .* 1, 7, 2, 3: name them .* user='1', item='2'"):
        placed("1", "7", "2", "3")


@pytest.mark.parametrize(
    ("ratings", "positive", "limits"),
    [
        ([0, 1, 1], 1, (0, 1)),
        ([1, 2, 3, 4, 5], 3, (1, 5)),
        ([0.5, 2.5, 5], 3, (0.5, 5)),
        ([0, 40, 100], 50, (0, 100)),
        ([2, 4], 4, (-np.inf, np.inf)),
        ([0.1, 0.4, 0.7], 0.4, (-np.inf, np.inf)),
        ([1, 5, 3, np.nan], 3, (1, 5)),
        ([1, 2, 3, 4, 5, 6] * 50, 4, (-np.inf, np.inf)),
    ],
)
def test_liked_is_the_middle_of_the_scale_or_above(ratings, positive, limits):
    scale, words = guessed_scale(np.array(ratings, float), "log.csv")
    assert (scale.positive, (scale.low, scale.high)) == (positive, limits)
    assert "positive= sets another threshold" in words


@pytest.mark.parametrize(
    ("ratings", "clause"),
    [
        ([1, 2, 3, 4, 5] * 100 + [99], "the rating 99 in 1 row stands out, as all others lie from 1 to 5"),
        ([1, 2, 3, 4, 5] * 9 + [99] * 9, "the rating 99 in 9 rows stands out"),
        ([0.5, 3, 4.5, 5] * 200 + [-1], "the rating -1 in 1 row stands out, as all others lie from 0.5 to 5"),
        ([-1, 5, 7, 10] * 9, "the rating -1 in 9 rows stands out"),
    ],
)
def test_a_rating_that_stands_out_is_asked_about(ratings, clause):
    with pytest.raises(DataError, match=f"{clause}.*: remove such rows, say from where on .* positive="):
        guessed_scale(np.array(ratings, float), "log.csv")
