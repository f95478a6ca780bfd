"""The right verdict in six worlds made for it: no bias, popularity, taste, the rating itself, no overlap, collapse."""

from dataclasses import replace

import numpy as np
import pytest

import unskew
from unskew.diagnosis import verdicts

TRAINING = unskew.Training(progress=False, max_epochs=25)


@pytest.fixture(autouse=True)
def _few_replicates(monkeypatch):
    monkeypatch.setattr("unskew.diagnosis.calibration.REPLICATES", 20)


def world(selection, strength=0.7):
    return unskew.simulate(
        140,
        70,
        density=0.3,
        selection=selection,
        strength=strength,
        n_factors=2,
        interaction=1.5,
        test_per_user=8,
        seed=1,
    )


def diagnosed(log, **settings):
    return unskew.diagnose(log, n_folds=2, training=TRAINING, **{"propensity": unskew.Additive(), **settings})


def by_the_log_alone(found):
    """The verdict on selection that the same figures give when nothing is known of the random ratings."""
    rates = replace(found.rates, random=None, shift=None, left=None, odds=None)
    return verdicts.needed(found.selection, rates, found.dependences, found.overlap)


def test_no_bias_needs_no_debiasing():
    here = world("uniform")
    found = diagnosed(here.log, random_ratings=here.test)
    assert found["needed"].kind == by_the_log_alone(found).kind == "none"
    assert found["works"].level == "fine"
    assert found.selection.evidence > 0.01
    assert not found.selection.blind
    assert "A naive model will do" in str(found)


def test_popularity_is_told_from_liking():
    here = world("popularity")
    found = diagnosed(here.log, random_ratings=here.test)
    assert found["needed"].kind == by_the_log_alone(found).kind == "popularity"
    assert "no sign that it is for being liked" in found["needed"].words
    assert found["works"].kind == "good"
    before, after = (
        [abs(getattr(entry, when)) for entry in found.overlap.balance[::2]] for when in ("before", "after")
    )
    assert max(after) < min(before)  # the activity of users and the popularity of items


def test_taste_is_seen_in_the_log_and_mended_by_what_the_log_knows_of_pairs():
    here = world("taste")
    found = diagnosed(here.log, random_ratings=here.test, propensity=unskew.Known(here.propensity))
    assert found["needed"].kind == "taste"
    assert "the log can mend it" in found["needed"].words
    alone = by_the_log_alone(found)
    assert alone.kind == "liking"
    assert "the more likely to be seen, the more it is liked" in alone.words
    assert found.rates.shift.low > 0.05
    assert abs(found.rates.left.value) < found.rates.shift.value / 3


def test_where_the_rating_itself_decides_it_says_that_no_log_alone_can_mend_it_and_what_would():
    here = world("rating", 1.5)
    found = diagnosed(here.log, random_ratings=here.test, propensity=unskew.Known(here.propensity))
    assert found["needed"].kind == "rating"
    assert found["needed"].level == "problem"
    for words in (found["needed"].words, by_the_log_alone(found).words):
        assert "no log alone can" in words
        assert "random ratings" in words
        assert "NaiveBayes()" in words
    assert by_the_log_alone(found).kind == "liking"
    liked, disliked = (here.propensity(*here_pairs(here), np.full(here.n_pairs, r)).mean() for r in (1, 0))
    assert found.rates.odds.low < liked / disliked < found.rates.odds.high


def here_pairs(here):
    return np.divmod(np.arange(here.n_pairs), here.n_items)


def test_pairs_that_nobody_could_see_are_out_of_reach():
    rng = np.random.default_rng(0)
    users, items = np.divmod(np.arange(110 * 60), 60)
    seen = (rng.random(len(users)) < 0.5) & (users % 2 == items % 2)
    log = unskew.RatingLog.from_arrays(
        *(column[seen] for column in (users, items, (rng.random(len(users)) < 0.4).astype(float))),
        positive=1,
        user_ids=range(110),
        item_ids=range(60),
    )
    found = diagnosed(log, propensity=unskew.Factors(n_folds=2))
    assert found["works"].kind == "no overlap"
    assert "out of reach" in found["works"].words
    assert found["wrong"].kind == "unknown"
    assert found.overlap.coverage < 0.8


def test_a_collapsed_propensity_is_called_so():
    here = world("popularity")
    constant = unskew.Known(lambda users, items: np.full(len(users), 0.365))
    model = unskew.IPS(propensity=constant).fit(here.log, training=TRAINING)
    found = model.diagnose(n_folds=2, training=TRAINING)
    assert found["works"].kind == "collapsed"
    assert "It says 0.365 of every pair" in found["works"].words
    assert found.overlap.effective_sample_size == pytest.approx(len(here.log))
    assert found["believed"].kind == "miscalibrated"
    assert "with its own propensities" in found.subject
