"""Claims about the loss of orders within users: closed forms, enumeration, and what it does not see."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unskew.metrics.pairwise import NEIGHBOURS, pairwise_log_loss


def enumerated(ratings, logits, users, weights):
    loss = total = 0.0
    for a, b in combinations(range(len(ratings)), 2):
        if users[a] == users[b] and ratings[a] != ratings[b]:
            high, low = (a, b) if ratings[a] > ratings[b] else (b, a)
            weight = weights[a] * weights[b] * (ratings[high] - ratings[low])
            loss += weight * np.log1p(np.exp(logits[low] - logits[high]))
            total += weight
    return loss / total if total else float("nan")


@given(st.integers(2, 40), st.integers(0, 2**32), st.booleans())
def test_it_is_the_mean_over_all_pairs_of_one_user_with_different_ratings(n, seed, graded):
    rng = np.random.default_rng(seed)
    users, logits, weights = rng.integers(0, 5, n), rng.normal(size=n), rng.uniform(0.5, 4, n)
    ratings = rng.integers(0, 5, n) / 4 if graded else rng.integers(0, 2, n).astype(float)
    found = pairwise_log_loss(ratings, logits, users, sample_weight=weights)
    np.testing.assert_allclose(found, enumerated(ratings, logits, users, weights), rtol=1e-12)


def test_what_is_said_of_a_user_as_a_whole_does_not_matter_and_an_indifferent_net_has_log_two():
    rng = np.random.default_rng(0)
    users, ratings, logits = rng.integers(0, 9, 80), rng.integers(0, 2, 80), rng.normal(size=80)
    moved = logits + rng.normal(size=9)[users]
    assert pairwise_log_loss(ratings, logits, users) == pytest.approx(pairwise_log_loss(ratings, moved, users))
    assert pairwise_log_loss(ratings, np.zeros(80), users) == pytest.approx(np.log(2))


def test_long_lists_are_compared_with_a_few_each_and_without_differences_there_is_nothing_to_say():
    rng = np.random.default_rng(1)
    ratings, logits = rng.integers(0, 2, 4000), rng.normal(size=4000)
    few = pairwise_log_loss(ratings, logits, np.zeros(4000, int))
    assert few == pytest.approx(pairwise_log_loss(ratings[::-1], logits[::-1], np.zeros(4000, int)))
    near = [k for k in range(4000 - NEIGHBOURS) if ratings[k] != ratings[k + NEIGHBOURS]]
    assert near  # the farthest that are compared
    assert np.isnan(pairwise_log_loss([1, 1, 0], [0.1, 0.2, 0.3], [0, 0, 1]))
    assert np.isnan(pairwise_log_loss([], [], []))
