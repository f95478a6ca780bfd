"""Lists of a posterior: those found by looking at few items are those of scoring everything."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import unskew
from unskew import topk
from unskew.losses.columns import sigmoid
from unskew.methods.bayesian import Corrected
from unskew.nets.near import LOG_CHANCE, LOG_LIKED, LOGIT, QUANTILE, Near
from unskew.posterior.answers import Ratings, Rows
from unskew.posterior.exposure import Pairs
from unskew.posterior.targeted import Targeted
from unskew.propensity.exposure import Choice, FittedExposure
from unskew.propensity.scorers import Gram, JointScorer, SpectralScorer
from unskew.selection.slope import Slope

N_USERS, N_ITEMS = 12, 300
KNOWN = N_USERS - 2  # two more were folded in, whom the exposure does not know


def drawn_log(rng):
    pairs = np.unique(rng.integers(KNOWN * N_ITEMS, size=400))
    return unskew.RatingLog.from_arrays(
        *np.divmod(pairs, N_ITEMS), pairs % 2, positive=1, user_ids=range(N_USERS), item_ids=range(N_ITEMS)
    )


def drawn_rows(rng, n, size):
    """Rows of a side; of three hundred items fifty are twice in the catalogue."""
    place = np.arange(n + 1)
    place[100:150] = place[:50] if n == N_ITEMS else place[100:150]
    vectors, scale, variance = rng.standard_normal((n + 1, 5)), rng.standard_normal(n + 1), rng.normal(-1, 1, n + 1)
    return Rows((size * vectors[place]).astype(np.float32), np.exp(0.3 * scale[place]), variance[place])


def drawn_line(rng, n_experts, b, c):
    experts, deviations = rng.integers(n_experts, size=KNOWN), rng.normal(0, 0.1 * abs(b), (n_experts, 2))
    return Targeted(rng.normal([0, b, c], 0.1 * abs(b)), deviations, experts, True, 1.0, 0.1, np.zeros((0, 3)))


def drawn_part(rng, log, size, kind, platt, targeted, slope):
    """A model of random arrays; what is fitted around its posterior acts or does not."""
    pairs, columns = Pairs.of(log, log.ratings), 5 if kind == "both" else 3
    sides = (rng.standard_normal((n, 4)).astype(np.float32) for n in (N_USERS, N_ITEMS))
    spectral, ridge = SpectralScorer(np.log(np.maximum(pairs.counts()[1], 0.5)), *sides), Gram(pairs).scorer(3.0)
    scorer = {"spectral": spectral, "ridge": ridge, "both": JointScorer(ridge, spectral)}[kind]
    exposure = FittedExposure(kind, scorer, rng.normal(0, 0.5, columns), rng.normal(-3, 1, KNOWN), N_ITEMS, -2.0)
    liked = None if kind == "spectral" else ridge
    return Corrected(
        ratings=Ratings(np.array([0.0, 1.0])), users=drawn_rows(rng, N_USERS, size),
        items=drawn_rows(rng, N_ITEMS, size), thresholds=np.array([0.3]), liked_from=1.0, sweeps=9,
        exposure=exposure, choice=Choice(rng.normal(1, 0.3, 4 if liked is None else 5), liked), unexplained=0.3,
        platt=None if platt is None else drawn_line(rng, 1, platt, 0),
        targeted=drawn_line(rng, 3, 1, 0.5) if targeted else None,
        slope=Slope(0.7, 0.1, 0.5) if slope else None,
    )  # fmt: skip


def scores_of(part, by):
    def score(users, items):
        if by == "choice":
            return part.order_scores(by, users, items, np.random.default_rng(0))
        return sigmoid(part.logits(users, items)).astype(float)

    return score


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 10**6), size=st.sampled_from([0.0, 0.05, 1.0, 4.0]), seen=st.booleans(),
    kind=st.sampled_from(["spectral", "ridge", "both"]),
    acts=st.tuples(st.sampled_from([None, 1, -0.3, 0]), st.booleans(), st.booleans()),
    by=st.sampled_from(["liking", "choice"]), k=st.sampled_from([1, 3, 10]),
    limited=st.sampled_from(["", "items", "without"]),
)  # fmt: skip
def test_lists_are_those_of_scoring_everything(seed, size, seen, kind, acts, by, k, limited):
    rng = np.random.default_rng(seed)
    log = drawn_log(rng)
    part, limits = drawn_part(rng, log, size, kind, *acts), {limited: rng.permutation(N_ITEMS)[:200]}
    asked = topk.Candidates(log, np.arange(-1, N_USERS), exclude_seen=seen, **limits if limited else {})
    found = (
        topk.top_items(scores_of(part, by), asked, k, chances=by == "choice", ranked=r) for r in (None, part.ranked(by))
    )
    whole, quick = found
    for name in ("position", "items", "rank"):
        np.testing.assert_array_equal(getattr(quick, name), getattr(whole, name))
    np.testing.assert_allclose(quick.scores, whole.scores, rtol=0, atol=1e-5 if by == "choice" else 0)


@pytest.mark.parametrize("kind", ["spectral", "both"])
@pytest.mark.parametrize("by", ["liking", "choice"])
@pytest.mark.parametrize("acts", [(None, False, False), (1, False, False), (1, True, True)])
def test_few_items_are_scored_for_a_list(kind, by, acts):
    rng = np.random.default_rng(1)
    log, asked = drawn_log(rng), []
    part = drawn_part(rng, log, 0.3, kind, *acts)

    def score(users, items):
        asked.append(len(users))
        return scores_of(part, by)(users, items)

    topk.top_items(score, topk.Candidates(log, np.arange(KNOWN)), 3, ranked=part.ranked(by))
    assert sum(asked) <= 6 * KNOWN  # twice as often where an item is twice in the catalogue


@pytest.mark.parametrize("curve", [LOGIT, QUANTILE, LOG_CHANCE, LOG_LIKED])
def test_curves_are_off_by_no_more_than_they_say(curve):
    x = np.random.default_rng(0).uniform(1.5 * curve.low, 1.5 * curve.high, (20, 5000))
    x[10:] = np.clip(x[10:], curve.low, curve.high)
    near = Near(x.astype(np.float32), np.full(20, 1e-6), np.full(20, 100.0))
    exact = curve.function(x)
    found = curve(near)
    off = np.abs(found.values - exact).max(axis=1)
    assert (off <= found.error).all()
    assert off[10:].max() < 1e-3
