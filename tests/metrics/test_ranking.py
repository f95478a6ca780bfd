"""Ranking metrics against plain one-user definitions, averaged over every order of tied pairs."""

from __future__ import annotations

from itertools import pairwise, permutations
from time import process_time

import numpy as np
import pytest
import sklearn.metrics
from hypothesis import given, settings
from hypothesis import strategies as st

from unskew.errors import DataError, ParameterError
from unskew.metrics import METRICS, find
from unskew.metrics.ranking import TopLists, UserLists, mean_over_users


def plain_ndcg(ratings: list[float], k: int) -> float:
    def dcg(order: list[float]) -> float:
        return sum(rating / np.log2(place + 2) for place, rating in enumerate(order[:k]))

    return dcg(ratings) / dcg(sorted(ratings, reverse=True)) if any(ratings) else np.nan


def plain_recall(ratings: list[float], k: int) -> float:
    positives = sum(rating >= 0.5 for rating in ratings)
    return sum(rating >= 0.5 for rating in ratings[:k]) / positives if positives else np.nan


def plain_precision(ratings: list[float], k: int) -> float:
    found = sum(rating >= 0.5 for rating in ratings[:k]) / min(k, len(ratings))
    return found if any(rating >= 0.5 for rating in ratings) else np.nan


def plain_auc(ratings: list[float], _: int) -> float:
    wins = [
        float(before < after)
        for before, upper in enumerate(ratings)
        for after, lower in enumerate(ratings)
        if upper >= 0.5 > lower
    ]
    return float(np.mean(wins)) if wins else np.nan


def plain_hit(ratings: list[float], k: int) -> float:
    return float(any(r >= 0.5 for r in ratings[:k])) if any(r >= 0.5 for r in ratings) else np.nan


def plain_reciprocal_rank(ratings: list[float], _: int) -> float:
    return next((1 / place for place, rating in enumerate(ratings, 1) if rating >= 0.5), np.nan)


def at_k(name):
    """The metric of that name as a function of rows."""

    def metric(ratings, scores, *, users, k, empty_users="skip"):
        return mean_over_users(METRICS[name].of(UserLists.from_rows(ratings, scores, users), k), empty_users)

    return metric


ndcg_at_k, recall_at_k, precision_at_k = map(at_k, ("ndcg", "recall", "precision"))


def mean_over_tie_orders(plain, ratings: list[float], scores: list[float], k: int) -> float:
    """Every permutation that sorts the scores is one way to break the ties; all are equally likely."""
    orders = [
        [ratings[row] for row in order]
        for order in permutations(range(len(scores)))
        if all(scores[a] >= scores[b] for a, b in pairwise(order))
    ]
    return float(np.mean([plain(order, k) for order in orders]))


PER_USER = {
    "ndcg": (UserLists.ndcg, plain_ndcg),
    "recall": (UserLists.recall, plain_recall),
    "precision": (UserLists.precision, plain_precision),
    "auc": (lambda lists, _: lists.auc(), plain_auc),
    "hit": (UserLists.hit, plain_hit),
    "mrr": (lambda lists, _: lists.reciprocal_rank(), plain_reciprocal_rank),
}
ROWS = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.sampled_from([-1.0, 0.3, 0.7])),
    min_size=1,
    max_size=9,
)


@pytest.mark.parametrize("name", PER_USER)
@settings(deadline=None, max_examples=30)
@given(rows=ROWS, k=st.integers(1, 7))
def test_metric_is_the_mean_over_all_orders_of_tied_pairs(name, rows, k):
    vectorised, plain = PER_USER[name]
    users, ratings, scores = (list(column) for column in zip(*rows, strict=True))
    lists = UserLists.from_rows(ratings, scores, users)
    for user, value in zip(lists.users, vectorised(lists, k), strict=True):
        own = [row for row, owner in enumerate(users) if owner == user][:7]
        if len(own) < users.count(user):  # too many permutations: leave the longest lists to other examples
            continue
        expected = mean_over_tie_orders(plain, [ratings[r] for r in own], [scores[r] for r in own], k)
        assert value == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize("name", PER_USER)
def test_order_of_rows_changes_not_one_bit(name):
    generator = np.random.default_rng(3)
    users = generator.integers(0, 30, 600)
    ratings = generator.choice([0.0, 0.1, 0.3, 0.7, 0.9], 600)
    scores = generator.choice([0.1, 0.2, 0.6], 600)
    shuffle = generator.permutation(600)
    metric = PER_USER[name][0]
    np.testing.assert_array_equal(
        metric(UserLists.from_rows(ratings, scores, users), 5),
        metric(UserLists.from_rows(ratings[shuffle], scores[shuffle], users[shuffle]), 5),
    )


@pytest.mark.parametrize("graded", [False, True])
def test_per_user_values_equal_scikit_learn(graded):
    generator = np.random.default_rng(4)
    n_users, length = 25, 12
    ratings = generator.choice(5, (n_users, length)) / 4 if graded else generator.integers(0, 2, (n_users, length))
    scores = generator.choice(6, (n_users, length)) / 5
    users = np.repeat(np.arange(n_users), length)
    lists = UserLists.from_rows(ratings.ravel(), scores.ravel(), users)
    for user in range(n_users):
        for k in (3, 12):
            expected = sklearn.metrics.ndcg_score(ratings[[user]], scores[[user]], k=k)
            assert lists.ndcg(k)[user] == pytest.approx(expected)
        assert lists.auc()[user] == pytest.approx(sklearn.metrics.roc_auc_score(ratings[user] >= 0.5, scores[user]))


def test_perfect_ranking_has_ndcg_one_at_every_k():
    generator = np.random.default_rng(5)
    users, ratings = generator.integers(0, 20, 300), generator.random(300)
    for k in (1, 5, 1000):
        assert ndcg_at_k(ratings, ratings, users=users, k=k) == pytest.approx(1)


def test_k_beyond_the_list_is_the_whole_list():
    users, ratings, scores = [0, 0, 0, 1], [1, 0, 1, 1], [0.1, 0.9, 0.5, 0.3]
    for metric in (ndcg_at_k, recall_at_k, precision_at_k):
        assert metric(ratings, scores, users=users, k=3) == metric(ratings, scores, users=users, k=99)
    lists = UserLists.from_rows(ratings, scores, users)
    np.testing.assert_allclose(lists.precision(99), [2 / 3, 1])
    np.testing.assert_allclose(lists.recall(99), [1, 1])


@pytest.mark.parametrize("metric", [ndcg_at_k, recall_at_k, precision_at_k])
def test_rules_for_empty_users_differ_by_the_share_of_empty_users(metric):
    users = [0, 0, 1, 1, 2, 2, 3, 3]
    ratings, scores = (
        [0, 1, 0, 0, 0, 1, 0, 0],
        [0.9, 0.1] * 4,
    )  # everybody is worth 0 at k = 1; users 1, 3 are empty
    one, zero = (metric(ratings, scores, users=users, k=1, empty_users=rule) for rule in ("one", "zero"))
    assert (one, zero) == (0.5, 0.0)
    assert metric(ratings, scores, users=users, k=1, empty_users="skip") == 0.0
    assert metric(ratings, scores, users=users, k=2, empty_users="skip") == pytest.approx(
        2 * metric(ratings, scores, users=users, k=2, empty_users="zero")
    )


def test_constant_scores_earn_the_mean_of_random_rankings_and_not_file_order():
    users, ratings = np.zeros(6, int), np.array([1, 1, 0, 0, 0, 0])
    lists = UserLists.from_rows(ratings, np.full(6, 0.5), users)
    assert lists.auc()[0] == 0.5
    assert lists.recall(3)[0] == pytest.approx(3 / 6)
    assert lists.precision(3)[0] == pytest.approx(2 / 6)
    discounts = 1 / np.log2(np.arange(2, 5))
    assert lists.ndcg(3)[0] == pytest.approx(2 / 6 * discounts.sum() / discounts[:2].sum())


def test_lists_know_their_users_lengths_and_positives():
    lists = UserLists.from_rows([1, 0.5, 0.49, 0], [1, 2, 3, 4], [7, 3, 7, 3])
    assert lists.users.tolist() == [3, 7]
    assert lists.lengths.tolist() == [2, 2]
    assert lists.positives.tolist() == [1, 1]


def test_user_auc_averages_only_users_with_both_classes():
    users, ratings, scores = [0, 0, 1, 1, 2, 2], [1, 0, 1, 1, 0, 1], [0.9, 0.1, 0.5, 0.6, 0.7, 0.2]
    lists = UserLists.from_rows(ratings, scores, users)
    np.testing.assert_array_equal(lists.auc(), [1, np.nan, 0])
    assert at_k("user_auc")(ratings, scores, users=users, k=1) == 0.5


def test_a_mean_over_nobody_is_refused():
    with pytest.raises(DataError, match="undefined for all 2 users"):
        mean_over_users(np.array([np.nan, np.nan]))
    assert mean_over_users(np.array([np.nan, np.nan]), "one") == 1.0


@pytest.mark.parametrize("k", [0, -1, 2.5, True, "5"])
def test_k_that_is_no_positive_whole_number_is_refused(k):
    with pytest.raises(ParameterError, match="k must be a whole number of at least 1"):
        ndcg_at_k([1, 0], [0.1, 0.2], users=[0, 0], k=k)


def test_unknown_rule_for_empty_users_is_refused():
    with pytest.raises(ParameterError, match="empty_users must be one of 'skip', 'one', 'zero', got 'drop'"):
        recall_at_k([1, 0], [0.1, 0.2], users=[0, 0], k=1, empty_users="drop")


@pytest.mark.parametrize(
    ("ratings", "users", "sentence"),
    [
        ([1, 3], [0, 0], r"y_true\[1\] = 3\.0 lies outside \[0, 1\]"),
        ([1, 0], [0], r"users has shape \(1,\) but y_true has 2 rows"),
        ([1, 0], ["a", "b"], "users must be integer codes"),
    ],
)
def test_bad_rows_are_refused(ratings, users, sentence):
    with pytest.raises(DataError, match=sentence):
        UserLists.from_rows(ratings, [0.1, 0.2], users)


def test_a_hundred_thousand_users_need_no_loop():
    generator = np.random.default_rng(6)
    users = generator.integers(0, 100_000, 500_000)
    scores = generator.random(500_000)
    ratings = generator.random(500_000) < scores
    start = process_time()
    lists = UserLists.from_rows(ratings, scores, users)
    mean_auc = mean_over_users(lists.auc())
    assert process_time() - start < 2  # a fifth of a second on an idle core
    assert lists.users.size > 95_000
    assert mean_auc == pytest.approx(5 / 6, abs=0.01)  # P(s > s') = 5/6 for densities 2s, 2 - 2s


def test_figures_of_what_is_shown_by_hand():
    shown = TopLists(np.array([0, 0, 1, 1, 2, 2]), np.array([4, 1, 4, 2, 0, 4]), np.array([1, 2] * 3), np.arange(5))
    assert shown.coverage(1) == 2 / 5
    assert shown.coverage(2) == 4 / 5
    assert shown.same_first() == 2 / 3
    shares = np.array([5, 5, 1]) / 15
    assert shown.novelty(1) == pytest.approx(-np.log2(shares).mean())


def test_a_metric_is_found_by_its_name_and_length():
    assert find("ndcg@5").k == 5
    assert find("mse") is METRICS["mse"]
    for wrong in ("ndcg", "mse@5", "ndcg@0", "ndcg@x", "loss"):
        with pytest.raises(ParameterError, match=f"there is no metric '{wrong}'; choose from mse, mae"):
            find(wrong)
