"""The judge: its sums and errors by hand, its decision by rule, its evidence in a world whose truth is known."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import unskew
from unskew.data.log import Features
from unskew.errors import DataError
from unskew.evaluation import estimators, fits, judge, kept, scores
from unskew.evaluation import gain as gains
from unskew.evaluation.estimators import ESTIMATORS, estimate, interval_of, liked_of_shown
from unskew.evaluation.gain import Estimate, Gain
from unskew.evaluation.judge import Corner, Evidence, Rows
from unskew.metrics import find
from unskew.metrics.intervals import interval_in, two_way_error
from unskew.posterior.exposure import Pairs
from unskew.posterior.factors import Problem
from unskew.selection.slope import Slope

ROWS = st.lists(
    st.tuples(
        st.integers(0, 2), st.sampled_from([0.1, 0.4, 0.4, 0.8]), st.floats(0.05, 0.95), st.booleans(), st.booleans()
    ),
    min_size=4,
    max_size=12,
)


def evidence_of(users, q, held, y, weight=2.0) -> Evidence:
    """Rows by hand: unseen ones count once, held ones weigh `weight`, each has an item of its own."""
    n = len(users)
    ids = range(max(3, int(np.max(users)) + 1))
    log = unskew.RatingLog.from_arrays([0, 1, 2], [0, 1, 2], [1, 0, 1], positive=1, user_ids=ids)
    corner = Corner(np.asarray(q), np.where(held, 0.0, 1.0), np.where(held, weight, 0.0))
    corners = dict.fromkeys(("order", "activity", "alike", "low, activity", "low, alike", "low, tempered"), corner)
    fold, nothing = np.zeros(n, np.int64), Slope(0.0, np.inf, 0.0)
    rows = np.asarray(users, np.int64), np.arange(n), np.asarray(held, bool), np.asarray(y, float)
    return Evidence(log, fold[:0], fold, *rows, corners, True, nothing, judge.Interval(0.5))


def some_evidence(n_users=60, each=8, seed=0) -> Evidence:
    rng, n = np.random.default_rng(seed), n_users * each
    q = rng.uniform(0.1, 0.9, n)
    liked = rng.random(n) < q**0.4  # more often than is imputed
    return evidence_of(np.repeat(np.arange(n_users), each), q, rng.random(n) < 0.5, liked)


@settings(deadline=None, max_examples=60)
@given(rows=ROWS)
def test_order_is_the_sum_over_pairs_of_a_user_one_step_from_the_imputation(rows):
    users, marks, q, held, liked = (np.array(column) for column in zip(*rows, strict=True))
    evidence = evidence_of(users, q, held, liked)
    base, weight = (~held).astype(float), 2.0 * held
    x = base.sum() / max(weight.sum(), 1e-300) * weight * (liked - q)
    by_user, by_item = np.zeros((2, len(users))), np.zeros((2, len(users)))
    for a, b in np.argwhere((users[:, None] == users) & ~np.eye(len(users), dtype=bool)):
        counted = np.array([float(marks[a] > marks[b]) + 0.5 * float(marks[a] == marks[b]), 1.0])
        first = base[a] * q[a] * base[b] * (1 - q[b]) * counted  # a is liked, b is not
        by_user[:, a] += first
        by_item[:, [a, b]] += first[:, None]
        for side in (by_user, by_item):  # a residual is that of its own row
            side[:, a] += x[a] * base[b] * (1 - q[b]) * counted
            side[:, b] -= x[b] * base[a] * q[a] * counted
    found = gains.order_of(evidence, marks.astype(float), evidence.corners["alike"])
    np.testing.assert_allclose(found.by_user, by_user, atol=1e-9)
    np.testing.assert_allclose(found.by_item, by_item, atol=1e-9)
    assert (found.right, found.all) == pytest.approx(tuple(by_user.sum(1)), abs=1e-9)
    assert found._replace(right=0.1, all=0.4).value == 0.25


def without(evidence: Evidence, user: int) -> Evidence:
    rows = evidence.users != user
    corners = {name: Corner(*(column[rows] for column in corner)) for name, corner in evidence.corners.items()}
    columns = {name: getattr(evidence, name)[rows] for name in ("fold", "users", "items", "held", "y")}
    return replace(evidence, corners=corners, **columns)


ESTIMATES = {f"mse by {by}": (lambda e, a, b, by=by: estimate(e, find("mse"), by, a)) for by in ESTIMATORS} | {
    "auc by snips": lambda e, a, b: estimate(e, find("auc"), "snips", a),
    "order": lambda e, a, b: gains.gain(replace(e, drawn=True), a, b).order,
    "squared": lambda e, a, b: gains.squared_gain(e, a, b, "alike"),
    "liked of shown": lambda e, a, b: liked_of_shown(e, a, 3, e.corners["alike"]),
}


@pytest.mark.parametrize("name", ESTIMATES)
def test_errors_are_those_of_leaving_each_user_out(name):
    """Errors by influence against the jackknife (Efron & Stein, 1981), where no two rows share an item."""
    evidence = some_evidence()
    rng = np.random.default_rng(1)
    a, b = (np.clip(evidence.corners["alike"].q + rng.normal(0, 0.3, len(evidence.y)), 0, 1) for _ in range(2))
    found, n = ESTIMATES[name](evidence, a, b), 60
    left = [
        ESTIMATES[name](without(evidence, user), a[evidence.users != user], b[evidence.users != user]).value
        for user in range(n)
    ]
    assert np.mean(left) == pytest.approx(found.value, abs=0.2 * found.error)
    assert found.error == pytest.approx(np.sqrt((n - 1) / n * ((left - np.mean(left)) ** 2).sum()), rel=0.08)


def test_the_squared_gain_is_doubly_robust_and_self_normalised():
    evidence, rng = some_evidence(3, 20), np.random.default_rng(1)
    a, b = rng.random(60), rng.random(60)
    q, held = evidence.corners["alike"].q, evidence.held
    gain = (evidence.y - a) ** 2 - (evidence.y - b) ** 2
    imputed = q * ((1 - a) ** 2 - (1 - b) ** 2) + (1 - q) * (a**2 - b**2)
    expected = imputed[~held].mean() + (gain - imputed)[held].mean()
    assert gains.squared_gain(evidence, a, b, "alike").value == pytest.approx(expected)
    truth = replace(evidence, y=q)  # ratings that are what the imputation says: weights have no part
    assert gains.squared_gain(truth, a, b, "alike").value == pytest.approx(imputed[~held].mean())
    spread = imputed[~held].var() + (4 * (a - b)[~held] ** 2 * 0.25).mean()  # of a random rating's gain
    found = gains.gain(evidence, a, b)
    assert found.needed == pytest.approx((found.threshold + 0.84) ** 2 * spread / expected**2, rel=1e-3)
    assert found.shown == pytest.approx((found.threshold + 0.84) * found.order.error)


def test_the_first_of_a_users_list_are_shown():
    evidence = evidence_of([0] * 4 + [1] * 3, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7], [0, 0, 1, 0, 0, 1, 0], [1] * 7)
    marks = np.array([4.0, 3, 2, 1, 1, 2, 3])
    found = liked_of_shown(evidence, marks, 3, evidence.corners["alike"])
    assert found.value == pytest.approx(np.mean([0.1, 0.2, 0.5, 0.7]) + np.mean([0.7, 0.4]))
    for y in (0.0, 1.0):  # it reaches beyond 0, or 1
        assert interval_of(replace(evidence, y=np.full(7, y)), find("precision@3"), "dr", marks) is None


def test_with_one_mean_only_what_models_tell_apart_counts():
    evidence, rng = some_evidence(3, 20), np.random.default_rng(1)
    a, b = rng.random(60), rng.random(60)
    q, held = evidence.corners["alike"].q, evidence.held
    level = [each - each[~held].mean() for each in (q, a, b)]
    direct = (level[0] - level[1]) ** 2 - (level[0] - level[2]) ** 2
    residual = -2 * (level[1] - level[2]) * (evidence.y - q)
    found = gains.squared_gain(evidence, a, b, "alike", aligned=True)
    assert found.value == pytest.approx(direct[~held].mean() + residual[held].mean())
    moved = gains.squared_gain(evidence, a + 0.3, b - 0.1, "alike", aligned=True)
    assert (moved.value, moved.error) == pytest.approx((found.value, found.error))
    for seed in range(5):
        shifted = some_evidence(seed=seed)
        a = np.random.default_rng(seed).random(len(shifted.y))
        found = gains.gain(shifted, a, a - 0.2)
        assert found.aligned[0].value == pytest.approx(0, abs=1e-12)
        assert found.strengths()["aligned"] == 0, "what rounding leaves of nothing decides"


def test_stars_order_pairs_that_liking_does_not():
    liked, stars = np.array([1.0, 1, 0]), np.array([1.0, 0.5, 0])
    evidence = replace(evidence_of([0] * 3, liked, [0] * 3, liked), stars=(stars, stars))
    shares = {(3, 2, 1): (1, 1), (2, 3, 1): (1, 0.75), (1, 2, 3): (0, 0), (3, 1, 2): (0.5, 0.75)}
    for marks, expected in shares.items():  # a better above a worse pair, by how much they differ
        assert [each.value for each in gains.orders_of(evidence, np.array(marks, float))] == pytest.approx(expected)


def test_stars_are_imputed_on_the_unit_scale_by_fits_without_them(world):
    log = world.log
    stars = np.where(log.ratings > 0, 4, 2) + (log.items + log.users) % 2  # from 2 to 5
    ids = {"user_ids": range(log.n_users), "item_ids": range(log.n_items)}
    found = judge.gather(unskew.RatingLog.from_arrays(log.users, log.items, stars, positive=4, **ids))
    y, q = found.stars
    place = dict(zip(zip(log.users, log.items, strict=True), stars, strict=True))
    rows = zip(found.users[found.held], found.items[found.held], strict=True)
    np.testing.assert_allclose(y[found.held], [(place[row] - 2) / 3 for row in rows])
    expected = 2 / 3 * found.corners["alike"].q + 1 / 6  # as odd and even stars are alike
    assert np.abs(q - expected).mean() < 0.05
    assert judge.gather(log).stars is None


def gain_of(order: float, *squared: float, stars: float | None = None, aligned: tuple[float, ...] = ()) -> Gain:
    """Return what is gained in standard errors."""
    errors, with_one_mean = (tuple(Estimate(each, 1.0) for each in values) for values in (squared, aligned))
    by_stars = None if stars is None else Estimate(stars, 1.0)
    return Gain(Estimate(order, 1.0), errors, 1.0, stars=by_stars, aligned=with_one_mean)


@pytest.mark.parametrize(
    ("order", "squared", "stars", "aligned", "decision"),
    [
        (2.5, (0, 0, 0), None, (), "use"),
        (2.3, (3, 3, 3), None, (), "use"),
        (2.3, (3, 3, 2.3), None, (), "test"),
        (2.5, (-3, -3, 0), None, (), "use"),
        (2.5, (-3, -3, -3), None, (), "test"),
        (-2.5, (0, 0, 0), None, (), "stop"),
        (0, (-3, -3, -3), None, (), "stop"),
        (-2.5, (3, 3, 3), None, (), "test"),
        (0, (3, -3, 3), None, (), "test"),
        (9, (0, 0, 0), 2.5, (0, 0, 0), "use"),  # where there are stars their order decides, not that of liking
        (9, (0, 0, 0), 2.3, (0, 0, 0), "test"),
        (9, (0, 0, 0), -2.5, (2.5, 2.5, 2.5), "test"),
        (0, (0, 0, 0), None, (2.5, 2.5, 2.5), "use"),
        (0, (0, 0, 0), None, (2.5, 2.5, 2.3), "test"),
        (0, (0, 0, 0), None, (-2.5, -2.5, -2.5), "stop"),
        (0, (2.3, 0, 0), None, (-2.5, -2.5, -2.5), "stop"),
        (0, (2.5, -9, -9), None, (-2.5, -2.5, -2.5), "test"),  # the level may outweigh all else
        (2.5, (0, 0, -9), None, (2.5, 2.5, 2.5), "use"),
        (gains.Z, (0, 0, 0), None, (), "test"),
        (-gains.Z, (0, 0, 0), None, (), "test"),
        (0, (0, 0, -gains.Z), None, (2.5, 2.5, 2.5), "use"),
        (0, (0, 0, 1.5), None, (-2.5, -2.5, -2.5), "stop"),
    ],
)
def test_order_or_an_error_at_all_corners_decides(order, squared, stars, aligned, decision):
    found = gain_of(order, *squared, stars=stars, aligned=aligned)
    assert found.decision == decision
    assert bool(found.looks()) == any(min(sign) > gains.Z for sign in ((stars or order,), squared, aligned) if sign)


def test_looks_that_tell_the_same_need_fewer_errors_than_unlike_ones():
    """The largest of k looks exceeds 2.32 or 2.47 errors in 4% of logs if they tell different things, one look 2.05."""
    looks = [Estimate(0.0, 1.0, each) for each in np.eye(3)]
    assert gains.threshold_of(looks[:1]) == pytest.approx(2.054, abs=0.02)
    assert gains.threshold_of(looks[:1] * 3) == pytest.approx(2.054, abs=0.02)
    assert gains.threshold_of(looks[:2]) == pytest.approx(2.322, abs=0.02)
    assert gains.threshold_of(looks) == pytest.approx(gains.Z, abs=0.02)
    between = Estimate(0.0, 1.0, np.sqrt([0.5, 0.5, 0]))  # has a correlation of .71 with either
    assert 2.36 < gains.threshold_of([*looks[:2], between]) < 2.45
    unknown = Estimate(0.0, np.inf)  # is no look
    assert gains.threshold_of([*looks[:2], unknown]) == gains.threshold_of(looks[:2])
    assert gains.threshold_of([unknown]) == gains.Z


def test_decisions_by_chance_alone_are_four_in_a_hundred():
    """Two models that err at random alike, judged by ratings that an imputation draws: no look lies beyond chance."""
    rng, decided = np.random.default_rng(3), 0
    evidence = some_evidence(60, 12)
    q = evidence.corners["alike"].q
    for _ in range(200):
        a, b = (np.clip(q + rng.normal(0, 0.2, len(q)), 0, 1) for _ in range(2))
        drawn = rng.random(len(q)) < q
        decided += bool(
            (found := gains.gain(replace(evidence, y=drawn.astype(float)), a, b)).looks() or found.looks(-1)
        )
    assert decided <= 19  # of 200: 8 are expected, and more than 19 by one chance in 5,000


@pytest.mark.parametrize(
    ("log", "random", "decision"),
    [
        ((3, 0, 0, 0), (-3, 0), "stop"),
        ((3, 0, 0, 0), (0.5, 0.5), "use"),
        ((3, 0, 0, 0), (-0.7, 0), "use"),
        ((3, 0, 0, 0), (-1.0, 0), "use"),
        ((3, 0, 0, 0), (-1.5, 0), "test"),
        ((-3, 0, 0, 0), (1.5, 0), "test"),
        ((-3, 0, 0, 0), (0.7, 0), "stop"),
        ((0, 0, 0, 0), (3, 0), "use"),
        (None, (0, 0), "test"),
    ],
)
def test_random_ratings_overrule_the_log(log, random, decision):
    by_log = None if log is None else gain_of(*log)
    assert gains.together(by_log, gain_of(*random)) == decision


def test_rows_are_left_out_ratings_once_and_all_unseen_pairs_a_fold(world, evidence):
    log = world.log
    assert evidence.n_held == len(log)
    assert (~evidence.held).sum() == 5 * (log.n_pairs - len(log))
    keys = evidence.users[evidence.held] * log.n_items + evidence.items[evidence.held]
    assert len(np.unique(keys)) == len(log)
    fold = dict(zip(log.users.astype(int) * log.n_items + log.items, evidence.fold_of_ratings, strict=True))
    assert [fold[key] for key in keys] == evidence.fold[evidence.held].tolist()
    counts = np.bincount(log.users, minlength=log.n_users)
    in_first = np.bincount(log.users, evidence.fold_of_ratings == 0, log.n_users)
    assert np.abs(in_first - counts / 5).max() < 1
    corner = evidence.corners["alike"]
    assert 0.7 < corner.weight.sum() / corner.base.sum() < 1.4  # ratings stand for about all unseen pairs
    assert 0.03 * len(log) < evidence.effective < len(log)


def test_chances_weights_and_levels_are_their_formulas(world):
    """Two users, ten ratings by one and one by the other, who leaves it out in the first fold."""
    users, fold = np.r_[np.zeros(10, int), 1], np.r_[np.arange(10) % 5, 0]
    items, y = np.r_[np.arange(10), 0], np.r_[np.tile([1.0, 0.0], 5), 1.0]
    log = unskew.RatingLog.from_arrays(users, items, y, positive=1, item_ids=range(14))
    unseen = {0: [10, 11, 12, 13], 1: list(range(1, 14))}
    listed = [
        (k, u, i, place)
        for k in range(5)
        for u in (0, 1)
        for i, place in [(items[n], n) for n in range(11) if users[n] == u and fold[n] == k]
        + [(i, -1) for i in unseen[u]]
    ]
    rows = Rows(*map(np.array, zip(*listed, strict=True)), np.ones(len(listed)))
    rng = np.random.default_rng(0)
    raw, low, odds = rng.uniform(-0.1, 1.1, len(listed)), rng.uniform(0, 1, len(listed)), rng.normal(0, 3, len(listed))
    found = judge._read(
        log, fold, rows, {"raw": raw, "low": low, "odds": odds + 1000, "slope": np.array([1, 2, 3])}, None
    )
    raw, low = np.clip(raw, 1e-4, 1 - 1e-4), np.clip(low, 1e-4, 1 - 1e-4)
    for n, (k, u, _, place) in enumerate(listed):
        own = (rows.fold == k) & (rows.users == u)
        others = sum((users == u) & (fold != k))
        expected = max(others, 0.5) / 4  # that he leaves out, by the other four folds
        p = np.clip(np.exp(odds[n]) / np.exp(odds[own]).sum() * expected, 0.1 * expected / own.sum(), 0.9)
        weight = (1 - p) / p if place >= 0 else 0.0
        activity, ratio = expected / own.sum(), low[n] / raw[n] if y[place] else (1 - low[n]) / (1 - raw[n])
        at = {name: (corner.base[n], corner.weight[n]) for name, corner in found.corners.items()}
        assert at["alike"] == pytest.approx((float(place < 0), weight))
        assert at["low, alike"] == pytest.approx((float(place < 0), weight * ratio))
        root = np.sqrt(weight)  # where a sign is asked for
        assert at["activity"] == pytest.approx((activity * (place < 0), activity * root))
        in_pairs = activity ** (1 / 4)  # a pair of his rows counts by the root of his activity
        assert at["order"] == pytest.approx((in_pairs * (place < 0), in_pairs * root))
        assert at["low, activity"] == pytest.approx((activity * (place < 0), activity * root * ratio))
        assert at["low, tempered"] == pytest.approx((float(place < 0), root * ratio))
    levels = [q[~found.held].mean() for q in (raw, low)]
    left = np.where(found.held, found.y - raw, 0.0)
    left = found.held * (left - left[found.held].mean()) / found.held.sum()
    error = two_way_error(found.users, found.items, left)
    low, high = (interval_in((0, 1), level, error) for level in sorted(levels))
    assert found.level[:3] == pytest.approx((levels[0], low.low, high.high))
    assert found.slope == Slope(1.0, 2.0, 3.0)


def test_nobody_answers_for_a_fold_that_he_has_seen(world, evidence, monkeypatch):
    """The judge's own fits, models that are judged, and simple models; the same log is fitted once."""
    log, fold = world.log, evidence.fold_of_ratings
    expected = [[*zip(log.users[fold != k], log.items[fold != k], strict=True)] for k in range(5)]
    seen, fit, simple, fitted = [], unskew.Naive.fit, fits.baselines, {}
    streams = {name: set() for name in ("imputation_of", "exposure_of")}

    def pairs():
        logs = [[*zip(each.users, each.items, strict=True)] for each in seen]
        seen.clear()
        return logs

    def counted(name):
        def fit(part, seed):
            seen.extend([part] * (name == "imputation_of"))
            streams[name].add(seed)
            return fitted[name](part, seed)

        return fit

    monkeypatch.setattr(kept, "_KNOWN", {})
    for name in streams:
        fitted[name] = getattr(judge, name)
        monkeypatch.setattr(judge, name, counted(name))
    again = judge.gather(log.take(np.arange(len(log))))
    assert pairs() == expected
    assert [len(each) for each in streams.values()] == [5, 5]  # chance is another in every fold
    np.testing.assert_array_equal(again.corners["alike"].q, evidence.corners["alike"].q)
    model = unskew.Naive().fit(log, training=unskew.Training(max_epochs=1, progress=False))
    monkeypatch.setattr(unskew.Naive, "fit", lambda self, part, **more: seen.append(part) or fit(self, part, **more))
    first = scores.judged(model, evidence, "it")
    assert pairs() == expected
    np.testing.assert_array_equal(scores.judged(model, evidence, "it"), first)
    monkeypatch.setattr(estimators, "baselines", lambda part, seed: seen.append(part) or simple(part, seed))
    monkeypatch.setattr(unskew.Naive, "fit", fit)
    estimators.simple_scores(evidence, 0)
    assert pairs() == expected
    monkeypatch.setattr(judge, "imputation_of", None)
    judge.gather(log)  # what was fitted before serves
    with pytest.raises(TypeError):  # but not a log of which more is known
        judge.gather(replace(log, user_features=Features(("age",), np.arange(150.0)[:, None])))
    assert kept.fingerprint(world.draw(1)) != kept.fingerprint(log)


def test_a_loaded_model_keeps_what_was_fitted_in_its_folder(world, tmp_path, monkeypatch, capsys):
    unskew.make("snips").fit(world.log, training=unskew.Training(max_epochs=2, progress=False)).save(tmp_path / "m")
    asked = {"metrics": ("mse",), "estimators": ("dr",)}

    def found():
        monkeypatch.setattr(kept, "_KNOWN", {})
        return unskew.estimate_risk(unskew.load(tmp_path / "m"), **asked)["mse", "dr"]

    first = found()
    with monkeypatch.context() as nothing:
        nothing.setattr(judge, "imputation_of", None)
        nothing.setattr(unskew.SNIPS, "fit", None)
        assert found() == first  # to the bit
    for number in range(kept.MOST):
        kept.kept((number,), dict)
    assert len(kept._KNOWN) == kept.MOST  # the oldest are forgotten here
    file = tmp_path / "m" / "judge.bin"
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    assert found() == first
    assert "judge.bin is damaged" in capsys.readouterr().err
    unskew.load(tmp_path / "m").save(tmp_path / "m")  # what the judge has kept there is no foreign file


def test_a_hundred_ratings_of_two_users_can_judge_and_of_two_items_hardly():
    pairs, liked = np.arange(0, 120, 6)[:, None] + np.arange(5), np.arange(100) % 3 == 0
    for n_users, n_items in ((2, 60), (60, 2)):
        ids = {"user_ids": range(n_users), "item_ids": range(n_items)}
        log = unskew.RatingLog.from_arrays(*np.divmod(pairs.ravel(), n_items), liked, positive=1, **ids)
        if n_users == 2:
            assert judge.gather(log).effective > 30
        else:
            with pytest.raises(DataError, match=r"are worth [12]\d equal ones"):
                judge.gather(log)


def test_any_seed_is_one(world):
    few, seed = world.log.take(np.arange(400)), 2**63 - 1
    model = unskew.make("naive").fit(few, seed=seed, training=unskew.Training(max_epochs=1, progress=False))
    assert unskew.compare(model, model, seed=2**31).decision == "test"
    with pytest.raises(unskew.ParameterError, match="seed must be a whole number"):
        judge.gather(world.log, seed=-1)


def test_a_sampler_is_fitted_once_a_fold_and_corrected_by_what_other_folds_answer(world, monkeypatch):
    log = world.log.take(np.arange(600))
    model = unskew.fit(log, "dce-bayes", factors=unskew.BayesianFactors(sweeps=10))
    fold = Pairs.of(log).folds(5, np.random.default_rng(0))
    fit, correct, asked, given = Problem.without_fold, fits.corrected, [], []
    monkeypatch.setattr(
        Problem, "without_fold", lambda self, *at: asked.append((self.settings, fit(self, *at))) or asked[-1][1]
    )
    monkeypatch.setattr(fits, "corrected", lambda fitted, **more: given.append(fitted) or correct(fitted, **more))
    found = fits.by_fold(model, fold, "it")
    assert len(asked) == len(given) == len(found) == 5
    part = model.part("prediction")
    chosen = bool(part.chain["settings.exposure"])
    assert {(settings.exposure, settings.history) for settings, _ in asked} == {(chosen, False)}
    vectors = [posterior.users.vectors for _, posterior in asked]
    for k, fitted in enumerate(given):
        rows, others = fold != k, [j for j in range(5) if j != k]
        np.testing.assert_array_equal(fitted.posterior.users.vectors, vectors[k])
        np.testing.assert_array_equal(fitted.problem.log.items, log.items[rows])
        np.testing.assert_array_equal(np.array(others)[fitted.fold], fold[rows])
        for j, other in enumerate(others):
            np.testing.assert_array_equal(fitted.without(j).users.vectors, vectors[other])
        answers = found[k](log.users, log.items)
        expected = correct(fitted, like=part).answer(log.users, log.items)
        np.testing.assert_allclose(answers, expected, atol=1e-6)
    acting = replace(part, targeted=replace(part.targeted, applied=True), slope=Slope(1.0, 0.1, 1.0))
    shut = replace(part, targeted=replace(part.targeted, applied=False), slope=Slope(1.0, 2.0, 1.0))
    more, less = (correct(given[0], like=each) for each in (acting, shut))
    assert None not in (more.targeted, more.slope)
    assert (less.targeted, less.slope) == (None, None)  # what the whole fit has not used is not asked for


def test_the_band_of_squared_error_reaches_from_one_reading_to_the_other():
    evidence, rng = some_evidence(3, 20), np.random.default_rng(2)
    low = evidence.corners["alike"]._replace(q=evidence.corners["alike"].q * 0.5)
    evidence = replace(evidence, corners=evidence.corners | {"low, alike": low})
    a, b = rng.random(60), rng.random(60)
    ends = [gains.squared_gain(evidence, a, b, name).interval() for name in ("alike", "low, alike")]
    band = gains.gain(evidence, a, b).band
    assert band[:3] == (ends[0].value, min(e.low for e in ends), max(e.high for e in ends))
    mse = [estimate(evidence, find("mse"), "dr", a, end).interval() for end in ("alike", "low, alike")]
    assert interval_of(evidence, find("mse"), "dr", a)[1:3] == (min(e.low for e in mse), max(e.high for e in mse))


@pytest.mark.parametrize(("value", "error", "raised"), [(0.3, 0.1, 0.464), (-0.9, 0.1, 0.0), (0.0, np.inf, 1.0)])
def test_the_low_end_of_the_band_is_at_a_raised_slope(world, monkeypatch, value, error, raised):
    """By 1.64 of its errors, and to 1 where the log cannot tell it."""
    asked, fold = [], Pairs.of(world.log).folds(5, np.random.default_rng(0))
    imputed = SimpleNamespace(expected=lambda u, i, *slope: asked.extend(slope) or np.full(len(u), 0.5))
    monkeypatch.setattr(judge, "imputation_of", lambda log, seed: imputed)
    monkeypatch.setattr(judge, "slope_of", lambda *given: Slope(value, error, 1.0))
    judge._fitted(world.log, fold, judge._rows(world.log, fold, np.random.default_rng(0)), 0, False)
    assert asked == pytest.approx([raised] * 5)


def test_a_sample_of_unseen_pairs_tells_the_same(world, evidence, monkeypatch):
    truth = world.preference
    before = lambda u, i: np.clip(truth(u, i) + 0.3 * np.sin(7.0 * u + 3.0 * i), 0.01, 0.99)  # noqa: E731
    whole = gains.gain(evidence, *(evidence.scores([f]) for f in (before, truth)))
    monkeypatch.setattr(judge, "MOST_UNSEEN", 4000)
    monkeypatch.setattr(kept, "_KNOWN", {})
    few = judge.gather(world.log)
    assert not few.whole
    assert (~few.held).sum() < 5 * 4000
    some = gains.gain(few, *(few.scores([f]) for f in (before, truth)))
    assert some.order.value == pytest.approx(whole.order.value, abs=whole.order.error)
    assert some.squared[0].value == pytest.approx(whole.squared[0].value, abs=whole.squared[0].error)
    base, all_of = few.corners["alike"].base, evidence.corners["alike"].base
    assert base.sum() == pytest.approx(all_of.sum(), rel=1e-9)
    monkeypatch.setattr(judge, "MOST_UNSEEN", world.n_pairs - len(world.log))
    assert judge._few(world.log)
    monkeypatch.setattr(judge, "MOST_UNSEEN", 2000)  # too few for everybody: a user has at least 20
    rows = judge._rows(world.log, evidence.fold_of_ratings, np.random.default_rng(0))
    assert len(np.unique(rows.users[rows.fold == 0])) == 100


@pytest.mark.slow
def test_two_million_unseen_pairs_suffice_of_ten():
    """Another draw of them moves estimates by a fraction of their errors; what the judge would fit is made up."""
    world = unskew.simulate(4000, 2500, density=0.03, selection="taste", strength=0.6, interaction=1.5, seed=2)
    log, fold = world.log, Pairs.of(world.log).folds(5, np.random.default_rng(0))

    def found(seed):
        rows = judge._rows(log, fold, np.random.default_rng(seed))
        truth, p = (of(rows.users, rows.items) for of in (world.preference, world.propensity))
        off = [truth + 0.3 * np.sin(13.0 * rows.users + 78.0 * rows.items + k) for k in range(3)]
        odds = np.log(np.clip(p, 1e-6, 1 - 1e-6) / np.clip(1 - p, 1e-6, 1))
        made = {"raw": off[0], "low": 0.8 * off[0], "odds": odds, "slope": np.array([0.3, 0.1, 1.0])}
        evidence = judge._read(log, fold, rows, made, None)
        assert 1.9e6 < (~evidence.held).sum() <= 2e6
        gain = gains.gain(evidence, off[1], (off[2] + truth) / 2)
        return [gain.order, *gain.squared, *gain.aligned]

    for one, other in zip(found(0), found(1), strict=True):
        assert abs(one.value - other.value) < 0.5 * one.error


def test_known_propensities_weigh_by_their_odds(world):
    p = world.propensity(world.log.users, world.log.items)
    found = judge.gather(world.log, propensity=p)
    known = dict(zip(world.log.users.astype(int) * 80 + world.log.items, (1 - p) / p, strict=True))
    rows = np.flatnonzero(found.held)
    expected = [known[key] for key in found.users[rows] * 80 + found.items[rows]]
    np.testing.assert_allclose(found.corners["alike"].weight[rows], expected)
    p[7] = 0.0
    with pytest.raises(DataError, match=r"the propensity\[7\] = 0.0 is none of what was seen"):
        unskew.estimate_risk(lambda u, i: np.zeros(len(u)), world.log, propensity=p)
    p[7] = 1e-9  # one rating would have to stand for nearly everything
    with pytest.raises(DataError, match=r"are worth 1 equal ones, and 30 are needed to judge by: collect random"):
        unskew.compare(lambda u, i: np.zeros(len(u)), lambda u, i: np.ones(len(u)), world.log, propensity=p)


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        (lambda log: log.take(np.arange(99)), "99 ratings cannot judge anything: at least 100 are needed"),
        (lambda log: log.take(log.ratings == 1), "are of one class"),
        (
            lambda log: unskew.RatingLog.from_arrays([0] * 120, range(120), [1, 2] * 60, positive=2),
            "the log knows only 1 user",
        ),
        (
            lambda log: unskew.RatingLog.from_arrays(
                np.repeat(range(20), 10), [*range(10)] * 20, [1, 2] * 100, user_ids=range(21)
            ),
            "Every user has rated every item, or none",
        ),
    ],
)
def test_what_cannot_judge_is_refused_in_a_sentence(world, rows, sentence):
    with pytest.raises(DataError, match=sentence):
        judge.gather(rows(world.log))
