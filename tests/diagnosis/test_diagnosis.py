"""What a diagnosis holds: its figures against the truth of a world, its text, its data, and bad input."""

import json

import numpy as np
import pytest

import unskew
from unskew.diagnosis.calibration import rows_of
from unskew.diagnosis.groups import Groups
from unskew.diagnosis.subject import subject_of
from unskew.diagnosis.verdicts import BELIEVED, NEEDED, OVERTURNED, WORKS, WRONG
from unskew.estimation.calibrated import seen_and_unseen

TRAINING = unskew.Training(progress=False, max_epochs=10)


@pytest.fixture(scope="module")
def here():
    return unskew.simulate(120, 60, density=0.3, selection="taste", n_factors=2, test_per_user=10, seed=3)


@pytest.fixture(scope="module")
def found(here):
    known = unskew.Known(here.propensity)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("unskew.diagnosis.calibration.REPLICATES", 40)
        return unskew.diagnose(here.log, propensity=known, random_ratings=here.test, n_folds=2, training=TRAINING)


@pytest.fixture(scope="module")
def model(here):
    return unskew.DoublyCalibrated(
        unskew.DRJL(propensity=unskew.Additive()), unskew.GlobalPlatt(), unskew.GlobalPlatt()
    ).fit(here.log, training=TRAINING)


def test_verdicts_come_first_and_figures_after(found):
    text = str(found)
    places = [text.index(question) for question in (NEEDED, WORKS, BELIEVED, WRONG, OVERTURNED)]
    assert places == sorted(places)
    assert places[-1] < text.index("Figures")
    for part in (
        "likelihood ratio",
        "effective sample size",
        "largest weights",
        "debiased",
        "Theorem 2",
        "hidden causes",
    ):
        assert part in text[text.index("Figures") :]
    assert max(map(len, text.splitlines())) < 180


def test_as_data_it_is_plain_json(found):
    data = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert [verdict["question"] for verdict in data["verdicts"]] == [NEEDED, WORKS, BELIEVED, WRONG, OVERTURNED]
    assert data["rates"]["log"].keys() == {"value", "low", "high"}
    assert data["overlap"]["n_ratings"] == found.overlap.n_ratings


def test_with_true_propensities_the_figures_are_those_of_the_world(found, here):
    log, overlap = here.log, found.overlap
    users, items = np.divmod(np.arange(here.n_pairs), here.n_items)
    p = here.propensity(users, items)
    assert overlap.mean == pytest.approx(p.mean(), rel=0.01)
    assert overlap.over_pairs[0] == pytest.approx(p.min())
    assert overlap.over_pairs[4] == pytest.approx(np.median(p), rel=0.02)
    w = 1 / here.propensity(log.users, log.items)
    assert overlap.effective_sample_size == pytest.approx(w.sum() ** 2 / (w**2).sum())
    assert overlap.largest_weights[0] == pytest.approx(w.max())
    assert overlap.coverage == pytest.approx(w.sum() / here.n_pairs)
    assert abs(overlap.coverage - 1) < 4 * overlap.coverage_error
    assert sum(group.n_ratings for group in overlap.groups[:3]) == len(log)
    assert found.errors.doubly_robust.low - 0.01 < found.errors.doubly_robust.value < found.errors.doubly_robust.high
    assert found.rates.weighted.covers(here.rating(users, items).mean())
    propensity = found.calibration[0]
    assert propensity.used == "before"
    assert not propensity.visible


def test_random_ratings_calibrate_the_imputation_as_well(found, here):
    rows = [(entry.role, entry.rows) for entry in found.calibration]
    assert rows == [
        ("propensity", "all pairs"),
        ("imputation", "ratings it was not trained on, weighted"),
        ("imputation", "random ratings"),
    ]
    assert found.calibration[2].before.n_rows == len(here.test)
    assert found.calibration[2].before.base_rate.value == pytest.approx(here.test.ratings.mean())


def test_bounds_hold_and_ranges_widen_with_the_strength_of_hidden_causes(found):
    for bound in (found.errors.theorem_2, found.errors.corollary_3, found.errors.theorem_4):
        assert bound.holds
    lows, highs = zip(*((low, high) for _, low, high in found.sensitivity.ranges), strict=True)
    assert list(lows) == sorted(lows, reverse=True)
    assert list(highs) == sorted(highs)
    assert lows[0] < found.errors.doubly_robust.value < highs[0]


def test_a_model_is_diagnosed_by_its_own_nuisances_on_what_it_held_out(model, here, monkeypatch):
    monkeypatch.setattr("unskew.diagnosis.calibration.REPLICATES", 20)
    found = model.diagnose(n_folds=2, training=TRAINING)
    propensity, imputation = found.calibration
    assert propensity.used == imputation.used == "after"
    assert imputation.before.n_rows == found.errors.n_ratings == len(model.holdout)
    assert found.errors.calibrated == ("propensity", "imputation")
    assert found.errors.mend_first is None
    log = here.log
    said = model.propensity(log.user_ids.take(log.users), log.item_ids.take(log.items))
    np.testing.assert_allclose(found.overlap.over_seen[0], said.min(), rtol=1e-5)
    assert found.overlap.clip == pytest.approx(len(log) / log.n_pairs)
    assert found.sensitivity.rival == "a naive model with the same settings"
    assert len(found.plot().axes) == 2


def test_an_imputation_is_judged_by_weights_without_the_clip_it_was_calibrated_under(model):
    subject = subject_of(model, n_folds=2, training=TRAINING)
    _, (_, _, rated) = rows_of(subject)
    np.testing.assert_allclose(rated.weight, 1 / subject.seen_used[subject.judged])
    assert (rated.weight > 1 / subject.clip).any()


def test_a_model_is_judged_without_its_clip_and_against_a_naive_model_that_learned_as_much(here, monkeypatch):
    monkeypatch.setattr("unskew.diagnosis.calibration.REPLICATES", 10)
    settings = {"net": unskew.MF(n_factors=4), "l2": 0.2}
    model = unskew.IPS(propensity=unskew.Known(here.propensity), clip=0.5, **settings).fit(here.log, training=TRAINING)
    naive = unskew.Naive(**settings).fit(here.log, training=TRAINING)
    found, held = model.diagnose(n_folds=2, training=TRAINING), model.holdout
    w = 1 / here.propensity(held.users, held.items)
    error, rival = ((one.predict_codes(held.users, held.items) - held.ratings) ** 2 for one in (model, naive))
    assert found.overlap.clip == 0.5 > 1 / w.max()
    assert found.errors.weighted.value == pytest.approx(np.average(error, weights=w), rel=1e-5)
    assert found.sensitivity.rival == "a naive model with the same settings"
    given = model.diagnose(n_folds=2, training=TRAINING, rival=naive).sensitivity
    assert found.sensitivity.difference == given.difference
    assert np.sign(given.difference.value) == np.sign(np.average(error - rival, weights=w))


def test_figures_of_a_very_long_log_come_from_a_sample_that_stands_for_it(found, here, monkeypatch):
    monkeypatch.setattr("unskew.diagnosis.calibration.REPLICATES", 10)
    monkeypatch.setattr("unskew.estimation.calibrated.MOST_SEEN", 900)
    rows = seen_and_unseen(here.log, seed=3)
    assert rows.n_seen == 900 < len(here.log)
    assert rows.weight.sum() == pytest.approx(here.n_pairs)
    sampled = unskew.diagnose(
        here.log, propensity=unskew.Known(here.propensity), random_ratings=here.test, n_folds=2, training=TRAINING
    )
    assert "figures rest on 900 of the ratings, drawn at random" in str(sampled)
    assert "drawn at random" not in found.log
    assert sampled.overlap.mean == pytest.approx(found.overlap.mean, rel=0.05)
    assert sampled.overlap.coverage == found.overlap.coverage  # of all ratings
    for name in ("log", "weighted", "doubly_robust"):
        mine, whole = getattr(sampled.rates, name), getattr(found.rates, name)
        assert mine.low < whole.value < mine.high
    for mine, whole in zip(sampled.dependences, found.dependences, strict=True):
        assert mine.slope.low < whole.slope.value < mine.slope.high
        assert len(mine.by_fifth) == 5


def test_the_same_seed_gives_the_same_diagnosis(here, monkeypatch):
    monkeypatch.setattr("unskew.diagnosis.calibration.REPLICATES", 10)
    short = unskew.Training(progress=False, max_epochs=2)
    one, other = (
        unskew.diagnose(here.log, propensity=unskew.Additive(), n_folds=2, training=short, seed=4) for _ in range(2)
    )
    assert one == other


def test_a_rival_of_ones_own_is_compared_with(here, monkeypatch):
    monkeypatch.setattr("unskew.diagnosis.calibration.REPLICATES", 10)
    short = unskew.Training(progress=False, max_epochs=2)
    found = unskew.diagnose(
        here.log, propensity=unskew.Known(here.propensity), rival=here.preference, n_folds=2, training=short
    )
    assert found.sensitivity.rival == "the rival"
    assert found.sensitivity.better == "rival"  # the world's own preferences
    assert found.sensitivity.overturning_factor > 1


def test_what_cannot_be_diagnosed_is_refused_with_one_sentence(here):
    with pytest.raises(unskew.ParameterError, match="takes a log or a fitted model, not a list"):
        unskew.diagnose([1, 2])
    other = unskew.simulate(50, 40, density=0.3, seed=0)
    with pytest.raises(unskew.DataError, match="other users or items than the log"):
        unskew.diagnose(here.log, random_ratings=other.test)
    column = unskew.Known(np.full(len(here.log), 0.3))
    short = unskew.Training(progress=False, max_epochs=1)
    with pytest.raises(unskew.DataError, match="known of seen pairs only"):
        unskew.diagnose(here.log, propensity=column, n_folds=2, training=short)


def test_groups_are_thirds_by_count_and_leave_nobody_out(here):
    log = here.log
    groups = Groups(log)
    masks = dict(groups.masks(log.users, log.items))
    users = [masks[name] for name in ("least active users", "users in between", "most active users")]
    assert np.all(sum(mask.astype(int) for mask in users) == 1)
    counts = np.bincount(log.users[~groups.apart(log.users, log.items)], minlength=log.n_users)
    assert counts[log.users[users[0]]].max() <= counts[log.users[users[2]]].min()


def test_true_propensities_are_calibrated_in_every_group_although_groups_are_made_of_who_was_seen(monkeypatch):
    """Grouped by the very pairs they are judged on, they would look too large where few were seen."""
    monkeypatch.setattr("unskew.diagnosis.calibration.REPLICATES", 40)
    here = unskew.simulate(60, 200, density=0.03, selection="popularity", seed=5)
    users, items = np.divmod(np.arange(here.n_pairs), here.n_items)
    p, seen = here.propensity(users, items), np.isin(users * 200 + items, here.log.users * 200 + here.log.items)
    groups, gaps = Groups(here.log), []
    apart = groups.apart(users, items)
    for rows in (apart, ~apart):
        least = dict(groups.masks(users, items))["least popular items"] & rows
        gaps.append((p[least].mean() - seen[least].mean()) / np.sqrt(p[least].mean() / least.sum()))
    assert abs(gaps[0]) < 3 < gaps[1]
