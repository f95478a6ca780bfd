"""Ranking metrics against plain one-user definitions, averaged over every order of tied pairs."""

from __future__ import annotations

from itertools import pairwise, permutations
from time import process_time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unskew.errors import DataError, ParameterError
from unskew.metrics import METRICS, find
from unskew.metrics.ranking import TopLists, UserLists


def plain_ndcg(ratings: list[float], k: int) -> float:
    def dcg(order: list[float]) -> float:
        return sum(rating / np.log2(place + 2) for place, rating in enumerate(order[:k]))

    return dcg(ratings) / dcg(sorted(ratings, reverse=True)) if any(ratings) else np.nan


def plain_auc(ratings: list[float], _: int) -> float:
    places = [(a, b) for a, upper in enumerate(ratings) for b, lower in enumerate(ratings) if upper >= 0.5 > lower]
    return float(np.mean([a < b for a, b in places])) if places else np.nan


def of_liked(function):
    """A function of whether pairs are liked and of k; undefined without any."""

    def plain(ratings: list[float], k: int) -> float:
        liked = [rating >= 0.5 for rating in ratings]
        return float(function(liked, k)) if any(liked) else np.nan

    return plain


PLAIN = {
    "ndcg": plain_ndcg,
    "user_auc": plain_auc,
    "recall": of_liked(lambda liked, k: sum(liked[:k]) / sum(liked)),
    "precision": of_liked(lambda liked, k: sum(liked[:k]) / min(k, len(liked))),
    "hit": of_liked(lambda liked, k: any(liked[:k])),
    "mrr": of_liked(lambda liked, _: 1 / (liked.index(True) + 1)),
}
ROWS = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.sampled_from([-1.0, 0.3, 0.7])),
    min_size=1,
    max_size=9,
)


@pytest.mark.parametrize("name", PLAIN)
@settings(deadline=None, max_examples=30)
@given(rows=ROWS, k=st.integers(1, 7))
def test_metric_is_the_mean_over_all_orders_of_tied_pairs(name, rows, k):
    """Every permutation that sorts the scores is one way to break the ties; all are equally likely."""
    users, ratings, scores = (list(column) for column in zip(*rows, strict=True))
    lists = UserLists.from_rows(ratings, scores, users)
    for user, value in zip(lists.users, METRICS[name].of(lists, k), strict=True):
        own = [row for row, owner in enumerate(users) if owner == user]
        if len(own) > 7:  # too many permutations: leave the longest lists to other examples
            continue
        orders = [o for o in permutations(own) if all(scores[a] >= scores[b] for a, b in pairwise(o))]
        expected = np.mean([PLAIN[name]([ratings[row] for row in order], k) for order in orders])
        assert value == pytest.approx(float(expected), nan_ok=True)


@pytest.mark.parametrize("name", PLAIN)
def test_the_order_of_rows_does_not_matter_to_the_bit(name):
    generator = np.random.default_rng(3)
    users, ratings = generator.integers(0, 40, 600), generator.choice([0.0, 0.1, 0.3, 0.7, 0.9], 600)
    scores, shuffle = generator.choice([0.1, 0.2, 0.6], 600), generator.permutation(600)
    one, other = (UserLists.from_rows(ratings[o], scores[o], users[o]) for o in (slice(None), shuffle))
    np.testing.assert_array_equal(METRICS[name].of(one, 5), METRICS[name].of(other, 5))


@pytest.mark.parametrize("k", [0, -1, 2.5, True, "5"])
def test_k_that_is_no_positive_whole_number_is_refused(k):
    lists = UserLists.from_rows([1, 0], [0.1, 0.2], [0, 0])
    for metric in (lists.ndcg, lists.hit):
        with pytest.raises(ParameterError, match="k must be a whole number from 1 to"):
            metric(k)


@pytest.mark.parametrize(
    ("ratings", "users", "sentence"),
    [
        ([1, 3], [0, 0], r"y_true\[1\] = 3\.0 lies outside \[0, 1\]"),
        ([1, 0], [0], r"users are int64 of shape \(1,\): give 2 integer codes"),
        ([1, 0], ["a", "b"], "give 2 integer codes"),
    ],
)
def test_bad_rows_are_refused(ratings, users, sentence):
    with pytest.raises(DataError, match=sentence):
        UserLists.from_rows(ratings, [0.1, 0.2], users)


def test_a_hundred_thousand_users_need_no_loop():
    generator = np.random.default_rng(6)
    users, scores = generator.integers(0, 100_000, 500_000), generator.random(500_000)
    start = process_time()
    lists = UserLists.from_rows(generator.random(500_000) < scores, scores, users)
    mean_auc = np.nanmean(lists.auc())
    assert process_time() - start < 2  # a fifth of a second on an idle core
    assert lists.users.size > 95_000
    assert mean_auc == pytest.approx(5 / 6, abs=0.01)  # P(s > s') = 5/6 for densities 2s, 2 - 2s


def test_figures_of_what_is_shown_by_hand():
    shown = TopLists(np.array([0, 0, 1, 1, 2, 2]), np.array([4, 1, 4, 2, 0, 4]), np.array([1, 2] * 3), np.arange(5))
    assert (shown.coverage(1), shown.coverage(2), shown.same_first()) == (2 / 5, 4 / 5, 2 / 3)
    assert shown.novelty(1) == pytest.approx(-np.log2(np.array([5, 5, 1]) / 15).mean())


def test_a_metric_is_found_by_its_name_and_length():
    assert (find("ndcg@5").k, find("ndcg@5").label) == (5, "nDCG@5")
    assert find("mse") is METRICS["mse"]
    for wrong in ("ndcg", "mse@5", "ndcg@0", "ndcg@x", "loss"):
        with pytest.raises(ParameterError, match=f"there is no metric '{wrong}'; choose from mse, mae"):
            find(wrong)
