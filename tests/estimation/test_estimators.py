"""Estimators against closed forms, enumeration of all logs of a tiny world, and repeated draws of a small one."""

import numpy as np
import pytest

import unskew
from unskew.estimation.estimators import ESTIMATORS
from unskew.metrics.accuracy import roc_auc
from unskew.testing.worlds import patterns

METRICS = ("mse", "mae", "log_loss", "auc", "ndcg@5", "precision@5", "recall@5")
RNG = np.random.default_rng(1)
N_USERS, N_ITEMS = 2, 3
N = N_USERS * N_ITEMS
P = RNG.uniform(0.3, 0.9, N)
RATINGS = np.array([1, 0, 1, 0, 1, 0.0])
SCORES = RNG.uniform(0.1, 0.9, N)
IMPUTED = RNG.uniform(0.1, 0.9, N)
USERS, ITEMS = np.divmod(np.arange(N), N_ITEMS)


def of(values):
    return lambda users, items: values[np.asarray(users) * N_ITEMS + np.asarray(items)]


def tiny_estimate(seen, estimator, metric, p=P, **settings):
    log = unskew.RatingLog.from_arrays(
        USERS[seen], ITEMS[seen], RATINGS[seen], positive=1, user_ids=range(N_USERS), item_ids=range(N_ITEMS)
    )
    table = unskew.estimate_risk(
        of(SCORES), log, propensity=of(p), imputation=of(IMPUTED), estimators=estimator, metrics=metric, **settings
    )
    return table.to_pylist()[0]


def is_log(seen):
    return 0 < RATINGS[seen].sum() < seen.sum()  # a log needs both kinds of ratings


def mean_over_logs(estimator, metric, monkeypatch):
    """The expectation over all logs there can be, and over the few that are none the exact value by hand."""
    monkeypatch.setattr("unskew.estimation.weighing.Weighing.trouble", None)
    values = [(chance, tiny_estimate(seen, estimator, metric)["value"]) for chance, seen in patterns(P) if is_log(seen)]
    chances, found = np.array(values).T
    return chances @ found / chances.sum(), chances.sum()


def list_value(k):
    order = np.argsort(-SCORES.reshape(N_USERS, N_ITEMS), 1)[:, :k]
    return np.take_along_axis(RATINGS.reshape(N_USERS, N_ITEMS), order, 1)


@pytest.mark.parametrize("estimator", ["ips", "dr"])
@pytest.mark.parametrize("metric", ["mse", "precision@2"])
def test_ips_and_dr_are_unbiased_over_every_log_of_a_tiny_world(estimator, metric, monkeypatch):
    """Logs without both kinds of ratings are refused, so theirs are taken by the formula."""
    mean, covered = mean_over_logs(estimator, metric, monkeypatch)
    a = (SCORES - RATINGS) ** 2
    imputed = IMPUTED * (1 - SCORES) ** 2 + (1 - IMPUTED) * SCORES**2
    if metric != "mse":
        rank = np.argsort(np.argsort(-SCORES.reshape(N_USERS, N_ITEMS), 1), 1).ravel()
        place = np.where(rank < 2, N_ITEMS / 2, 0.0)
        a, imputed = place * RATINGS, place * IMPUTED
    if estimator == "ips":
        imputed = 0 * imputed
    rest = sum(chance * (imputed + seen * (a - imputed) / P).mean() for chance, seen in patterns(P) if not is_log(seen))
    assert mean * covered + rest == pytest.approx(a.mean(), abs=1e-9)


def test_every_estimator_is_its_formula():
    seen = np.array([1, 1, 0, 1, 1, 1], bool)
    w, a = 1 / P[seen], (SCORES - RATINGS) ** 2
    imputed = IMPUTED * (1 - SCORES) ** 2 + (1 - IMPUTED) * SCORES**2
    h = w - 1
    epsilon = h @ (a - imputed)[seen] / (h @ h)
    targeted = imputed + epsilon * (1 / P - 1)
    by_hand = {
        "naive": a[seen].mean(),
        "ips": (w @ a[seen]) / N,
        "snips": (w @ a[seen]) / w.sum(),
        "eib": np.where(seen, a, imputed).mean(),
        "dr": imputed.mean() + w @ (a - imputed)[seen] / N,
        "tdr": targeted.mean() + w @ (a - targeted)[seen] / N,
    }
    assert by_hand.keys() == ESTIMATORS.keys()
    for name, value in by_hand.items():
        assert tiny_estimate(seen, name, "mse")["value"] == pytest.approx(value, abs=1e-12), name


def test_the_standard_error_of_ips_is_horvitz_thompsons_and_its_square_is_unbiased(monkeypatch):
    monkeypatch.setattr("unskew.estimation.weighing.Weighing.trouble", None)
    a = (SCORES - RATINGS) ** 2
    kept, rest = 0.0, 0.0
    for chance, seen in patterns(P):
        square = ((1 / P) * (1 / P - 1) * a**2)[seen].sum() / N**2
        if is_log(seen):
            found = tiny_estimate(seen, "ips", "mse")["standard_error"] ** 2
            assert found == pytest.approx(square)
            kept += chance * found
        else:
            rest += chance * square
    assert kept + rest == pytest.approx(((1 - P) / P * a**2).sum() / N**2)


def test_dr_with_the_truth_imputed_is_the_truth_whatever_the_propensities():
    seen = np.array([1, 1, 0, 1, 1, 0], bool)
    log = unskew.RatingLog.from_arrays(
        USERS[seen], ITEMS[seen], RATINGS[seen], positive=1, user_ids=range(N_USERS), item_ids=range(N_ITEMS)
    )
    found = unskew.estimate_risk(
        of(SCORES), log, propensity=of(np.full(N, 0.6)), imputation=of(RATINGS), estimators="dr", metrics=METRICS[:4]
    ).to_pylist()
    assert found[0]["value"] == pytest.approx(((SCORES - RATINGS) ** 2).mean())
    assert found[3]["value"] == pytest.approx(unskew.evaluate(of(SCORES), full_log())["auc"])
    assert all(row["standard_error"] == pytest.approx(0, abs=1e-12) for row in found)


def full_log():
    return unskew.RatingLog.from_arrays(USERS, ITEMS, RATINGS, positive=1)


@pytest.mark.parametrize("estimator", ["naive", "ips", "snips", "dr", "tdr", "eib"])
def test_with_every_pair_seen_every_estimator_is_the_metric_and_chance_has_no_part(estimator):
    table = unskew.estimate_risk(
        of(SCORES),
        full_log(),
        propensity=of(np.ones(N)),
        imputation=of(IMPUTED),
        estimators=estimator,
        metrics=("mse", "log_loss", "auc", "precision@2", "recall@2"),
    ).to_pylist()
    test = unskew.evaluate(of(SCORES), full_log(), k=2)
    expected = [test["mse"], test["log_loss"], test["auc"], list_value(2).mean(), list_value(2).sum() / RATINGS.sum()]
    assert [row["value"] for row in table] == pytest.approx(expected)
    if estimator != "naive":
        assert [row["standard_error"] for row in table[:3]] == pytest.approx([0, 0, 0], abs=1e-12)


def test_auc_by_weights_is_the_weighted_mann_whitney_statistic(known):
    log = known.world.log
    (row,) = unskew.estimate_risk(
        known.score, log, propensity=known.propensity, estimators="snips", metrics="auc"
    ).to_pylist()
    w = 1 / known.propensity(log.users, log.items)
    assert row["value"] == pytest.approx(roc_auc(log.ratings, known.score(log.users, log.items), sample_weight=w))


DRAWS = 40


@pytest.fixture(scope="module")
def repeated(known):
    """Values, coverage and standard errors over draws of one world, with true propensities."""
    found = {}
    for draw in range(1, DRAWS + 1):
        table = unskew.estimate_risk(
            known.score,
            known.world.draw(draw),
            propensity=known.propensity,
            imputation=known.imputation,
            estimators=("naive", "ips", "snips", "dr", "tdr"),
            metrics=METRICS,
        )
        for row in table.to_pylist():
            covered = row["low"] <= known.truth[row["metric"]] <= row["high"]
            found.setdefault((row["estimator"], row["metric"]), []).append(
                (row["value"], covered, row["standard_error"])
            )
    return {key: np.array(rows) for key, rows in found.items()}


@pytest.mark.parametrize("estimator", ["ips", "snips", "dr"])
@pytest.mark.parametrize("metric", METRICS)
def test_with_true_propensities_estimates_are_centred_at_the_truth_and_intervals_are_honest(
    estimator, metric, repeated, known
):
    values, covered, errors = repeated[estimator, metric].T
    centre = values.mean() - known.truth[metric]
    assert abs(centre) < 4 * values.std() / np.sqrt(DRAWS)
    assert covered.mean() >= 0.82  # of 95%: fewer than 33 of 40 has chance 0.1%
    assert errors.mean() == pytest.approx(values.std(ddof=1), rel=0.35)


def test_the_naive_estimate_is_far_off_and_sure_of_itself(repeated):
    assert repeated["naive", "mse"][:, 1].mean() < 0.4
    assert repeated["naive", "recall@5"][:, 1].mean() < 0.6
