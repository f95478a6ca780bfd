"""`evaluate`: every metric by its own rule, every omission noted, simple models next to it."""

import numpy as np
import pytest

import unskew
from unskew.data.log import RatingLog
from unskew.data.pairs import SeenPairs
from unskew.errors import DataError, ParameterError
from unskew.evaluation import evaluate, fits
from unskew.metrics import METRICS, UserLists, roc_auc
from unskew.metrics.intervals import interval_in, two_way_error
from unskew.metrics.table import PROBABILITY_FLOOR

USERS = ["ann", "ann", "ann", "bob", "bob", "cy", "cy", "dee"]
ITEMS = ["x", "y", "z", "x", "y", "y", "z", "z"]
STARS = [5, 1, 3, 2, 1, 4, 4, 1]
SCORES = np.array([0.8, 0.3, 0.2, 0.4, 0.4, 0.7, 0.9, 0.1])


@pytest.fixture
def binary() -> RatingLog:
    return RatingLog.from_arrays(USERS, ITEMS, STARS)  # bob and dee are empty; only ann has both classes


@pytest.fixture
def graded() -> RatingLog:
    return RatingLog.from_arrays(USERS, ITEMS, STARS, positive=None, rating_scale=(1, 5))


def random_log(n_rows: int, n_items: int = 200) -> tuple[RatingLog, np.ndarray]:
    generator = np.random.default_rng(0)
    pairs = generator.choice(n_rows * 10, n_rows, replace=False)
    scores = generator.random(n_rows)
    return RatingLog.from_arrays(
        pairs // n_items, pairs % n_items, generator.random(n_rows) < scores, positive=1
    ), scores


@pytest.mark.parametrize("rule", ["skip", "one", "zero"])
def test_every_metric_is_the_plain_function_of_that_name(rule):
    test, scores = random_log(2000, n_items=40)  # four a user: some like all, some nothing
    found, labels = evaluate(scores, test, k=(2, 5), empty_users=rule), test.ratings
    expected = {name: METRICS[name].of(labels, scores) for name in ("mse", "mae", "log_loss", "auc")}
    lists = UserLists.from_rows(labels, scores, test.users)
    for name in (*("user_auc", "mrr"), *(f"{m}@{k}" for k in (2, 5) for m in ("ndcg", "recall", "precision", "hit"))):
        stem, _, k = name.partition("@")
        values = METRICS[stem].of(lists, int(k or 0))
        if rule != "skip" and name != "user_auc":
            values = np.where(np.isnan(values), rule == "one", values)
        expected[name] = np.nanmean(values)
    assert found.metrics == pytest.approx(expected, abs=1e-12)
    assert list(found.metrics) == list(expected)  # in reading order


def test_intervals_of_auc_and_errors_cover_what_they_claim():
    whole, scores = random_log(40_000)
    truth, rng = evaluate(scores, whole).metrics, np.random.default_rng(1)
    parts = [rng.permutation(40_000)[:1500] for _ in range(40)]
    found = [evaluate(scores[rows], whole.take(rows)).intervals for rows in parts]
    for name in ("mse", "auc"):
        assert np.mean([each[name].covers(truth[name]) for each in found]) >= 0.85


@pytest.mark.filterwarnings("error")
def test_counts_and_rules_are_stated(binary):
    found = evaluate(SCORES, binary, empty_users="one")
    assert (found.n_pairs, found.n_users, found.n_empty_users, found.empty_users) == (8, 4, 2, "one")
    for words in ("rating of at least 3", "2 users without a positive pair are counted as 1", "mean over 1 users"):
        assert words in str(found)
    assert f"{found['ndcg@10']:.4f}" in str(found)
    assert evaluate(SCORES[:3], binary.take(np.arange(3))).n_users == 1
    assert evaluate([0.4], binary.take(np.array([0])))["ndcg@5"] == 1


def test_simple_models_stand_next_to_a_model_unless_unwanted(tmp_path):
    world = unskew.simulate(60, 40, density=0.3, test_per_user=8, seed=1)
    model = unskew.make("snips").fit(world.log, seed=3, training=unskew.Training(max_epochs=3, progress=False))
    found = evaluate(model, world.test, k=5)
    assert list(found.baselines) == ["popularity", "item means", "user means", "plain training"]
    assert all(name in str(found) for name in found.baselines)
    plain = unskew.make("naive").fit(world.log, seed=3)
    assert found.baselines["plain training"]["mse"] == evaluate(plain, world.test, baselines=False)["mse"]
    counts = np.bincount(world.log.items, minlength=40)[world.test.items]
    order = evaluate(counts / counts.max(), world.test, k=5)
    assert found.baselines["popularity"] == pytest.approx(
        {name: value for name, value in order.metrics.items() if name not in ("mse", "mae", "log_loss")}
    )
    simple, unknown, rate = fits.baselines(world.log, 0), np.array([-1]), world.log.positive_rate
    assert [simple[name](unknown, unknown)[0] for name in list(found.baselines)[:3]] == [0, rate, rate]
    own = world.log.items == world.test.items[0]
    mean = (world.log.ratings[own].sum() + 5 * world.log.positive_rate) / (own.sum() + 5)
    first = world.test.take(np.array([0]))
    assert evaluate(model, first).baselines["item means"]["mse"] == pytest.approx((mean - first.ratings[0]) ** 2)
    assert evaluate(model, world.test, baselines=False).baselines == {}
    stars = [
        RatingLog.from_arrays(log.users, log.items, 1 + 4 * log.ratings, positive=None, rating_scale=(1, 5))
        for log in (world.log, world.test)
    ]
    graded = evaluate(unskew.make("naive").fit(stars[0]), stars[1]).baselines["item means"]
    assert graded["mse"] == pytest.approx(16 * found.baselines["item means"]["mse"])
    model.save(tmp_path / "bare", without_log=True)
    bare = evaluate(unskew.load(tmp_path / "bare"), world.test)
    assert bare.baselines == {}
    assert bare.notes[0].startswith("simple models are left out: The model was saved without its log")


def test_a_test_that_was_chosen_like_the_log_is_noted():
    world = unskew.simulate(80, 60, density=0.3, selection="popularity", test_per_user=10, seed=2)
    model = unskew.make("naive").fit(world.log, training=unskew.Training(max_epochs=1, progress=False))
    chosen, drawn = (evaluate(model, test, baselines=False).notes for test in (world.draw(1), world.test))
    assert any("it was chosen, not drawn at random" in note for note in chosen)
    assert not any("it was chosen" in note for note in drawn)
    users = np.arange(20)  # of whom all have rated the first item
    log = RatingLog.from_arrays(np.r_[users, users], np.r_[0 * users, 1 + users % 9], np.arange(40) % 2, positive=1)
    model = unskew.make("naive").fit(log, training=unskew.Training(max_epochs=1, progress=False))
    assert any("it was chosen" in note for note in evaluate(model, log.take(users), baselines=False).notes)


def test_it_is_plain_that_a_model_was_trained_on_what_it_is_evaluated_on():
    world = unskew.simulate(80, 60, density=0.3, test_per_user=10, seed=2)
    model = unskew.make("naive").fit(world.log, training=unskew.Training(max_epochs=1, progress=False))
    n, both = len(world.log), SeenPairs(world.log)(world.test.users, world.test.items)
    half = world.test.take(np.r_[np.flatnonzero(both)[:20], np.flatnonzero(~both)[:20]])
    own, test, fresh = (str(evaluate(model, log, baselines=False)) for log in (world.log, half, world.test.take(~both)))
    flattered = f"note: the model was trained on ratings of {n:,} of these {n:,} pairs, so these figures flatter it: "
    assert flattered + "judge it by ratings that it has not seen, as `unskew split` sets them apart" in own
    assert "note: the model was trained on ratings of 20 of these 40 pairs" in test
    assert "flatter" not in test
    assert "was trained on" not in fresh
    in_notebook = evaluate(model, world.log, baselines=False)._repr_html_()
    assert all(f"<p>{line}</p>" in in_notebook for line in own.splitlines() if line.startswith(("note: ", "positive")))


def test_unknown_ids_are_answered_by_the_stated_policy_and_counted(world):
    log, test = world.log, world.test.take(np.flatnonzero(world.test.users < 5))
    known = log.users > 1  # nobody knows users 0 and 1
    some = RatingLog.from_arrays(log.users[known], log.items[known], log.ratings[known], positive=1)
    model = unskew.make("naive").fit(some, training=unskew.Training(max_epochs=1, progress=False))
    with pytest.raises(DataError, match="The user 0 is not in the log"):
        evaluate(model, test, baselines=False)
    notes, n = evaluate(model, test, baselines=False, on_unknown="fallback").notes, int((test.users < 2).sum())
    words = f"{n} of 100 pairs were answered for the average user or item ({n} have an unknown user, 0 an unknown item)"
    assert any(note.startswith(words) for note in notes)


def test_model_function_and_array_give_the_same_answer(binary):
    table = dict(zip(zip(USERS, ITEMS, strict=True), SCORES, strict=True))

    class Model:
        def predict(self, users, items, on_unknown="error"):
            return [table[pair] for pair in zip(users, items, strict=True)]

    def function(users, items):
        assert isinstance(users, np.ndarray)
        return np.array([table[pair] for pair in zip(users, items, strict=True)])

    shuffled = binary.take(np.array([5, 2, 7, 0, 1, 6, 4, 3]))
    for source in (Model(), function):
        assert evaluate(source, shuffled).metrics == pytest.approx(evaluate(SCORES, binary).metrics)


def test_per_user_table_lists_users_with_null_where_undefined(binary):
    found = evaluate(SCORES, binary, k=2)
    table = found.per_user
    assert table.column_names[:5] == ["user_id", "n_ratings", "n_positives", "auc", "ndcg@2"]
    assert table["user_id"].to_pylist() == ["ann", "bob", "cy", "dee"]
    assert table["n_ratings"].to_pylist() == [3, 2, 2, 1]
    assert table["n_positives"].to_pylist() == [2, 0, 2, 0]
    assert table["auc"].to_pylist() == [0.5, None, None, None]
    assert table["recall@2"].to_pylist() == [0.5, None, 1.0, None]
    assert found.intervals["recall@2"][:3] == interval_in((0, 1), 0.75, 0.25)[:3]  # std / sqrt(2), of two


def test_expected_ratings_are_held_to_stars_as_they_stand(binary, monkeypatch):
    model = unskew.make("naive").fit(binary, training=unskew.Training(max_epochs=1, progress=False))
    answers = {"rating": (stars := 1 + 4 * SCORES), None: SCORES}
    monkeypatch.setattr(type(model), "predict", lambda *given, as_=None, on_unknown: answers[as_])
    found, apart = evaluate(model, binary, baselines=False).intervals, np.abs(stars - STARS)
    square = np.mean(apart**2)
    error = two_way_error(binary.users, binary.items, (apart**2 - square) / 8)
    assert found["rating_rmse"][:3] == pytest.approx(np.sqrt(interval_in((0, np.inf), square, error)[:3]))
    assert found["rating_mae"].value == pytest.approx(apart.mean())


def test_scores_that_are_no_probabilities_leave_log_loss_out_and_say_so(binary):
    raw, calm = evaluate(SCORES * 10 - 4, binary), evaluate(SCORES, binary)
    assert "log_loss" not in raw.metrics
    assert not any("log_loss" in evaluate(SCORES + moved, binary).metrics for moved in (-0.3, 0.3))
    assert raw["mse"] == pytest.approx(np.mean((SCORES * 10 - 4 - binary.ratings) ** 2))
    assert any("6 of 8 scores lie outside [0, 1]: log_loss is left out" in note for note in raw.notes)
    assert calm.notes == ()
    assert all(raw[name] == calm[name] for name in ("auc", "user_auc", "ndcg@5"))
    ends = evaluate([0.0, 1.0, 1e-7, PROBABILITY_FLOOR, *SCORES[4:]], binary)
    assert "log_loss" in ends.metrics
    (note,) = ends.notes
    assert "clamped 3 prob" in note


def test_graded_logs_are_judged_on_their_own_scale(graded):
    predictions = 1 + 4 * SCORES
    found = evaluate(predictions, graded, k=2)
    assert found["mse"] == pytest.approx(np.mean((predictions - STARS) ** 2))
    assert found["mae"] == pytest.approx(np.mean(np.abs(predictions - STARS)))
    assert found["auc"] == pytest.approx(roc_auc(np.array(STARS) >= 3, SCORES))
    lists = UserLists.from_rows((np.array(STARS) - 1) / 4, SCORES, graded.users)
    assert found["ndcg@2"] == pytest.approx(np.nanmean(lists.ndcg(2)))
    assert ("log_loss" in found.metrics, found.positive_from) == (False, 3)
    assert any("graded from 1 to 5" in note for note in found.notes)
    assert any("8 of 8 scores lie outside [1, 5]" in note for note in evaluate(SCORES, graded).notes)


@pytest.mark.parametrize(("rows", "kind"), [([0, 2, 5], "positive"), ([1, 3, 7], "negative")])
def test_a_test_of_one_class_has_no_auc_and_says_so(binary, rows, kind):
    found = evaluate(SCORES[rows], binary.take(np.array(rows)))
    assert not {"auc", "user_auc"} & found.metrics.keys()
    assert any(f"every test pair is {kind}" in note for note in found.notes)
    assert any("defined for no user: user_auc" in note for note in found.notes)
    assert ("ndcg@5" in found.metrics) == (kind == "positive")
    assert not np.isnan(list(found.metrics.values())).any()


@pytest.mark.parametrize(
    ("scores", "sentence"),
    [
        (SCORES[:3], "there are 3 scores for 8 test rows"),
        (np.full(8, np.nan), r"scores\[0\] = nan is not a finite number \(8 such rows\)"),
        (SCORES[:, None], "scores must be one-dimensional"),
        ("best", "scores must be a sequence of numbers"),
    ],
)
def test_unusable_scores_are_refused_in_one_sentence(binary, scores, sentence):
    with pytest.raises(DataError, match=sentence):
        evaluate(scores, binary)


@pytest.mark.parametrize("options", [{"k": 0}, {"k": (5, 2.5)}, {"empty_users": "none"}])
def test_bad_settings_are_refused_before_the_model_is_asked(binary, options):
    with pytest.raises(ParameterError):
        evaluate(lambda users, items: 1 / 0, binary, **options)


def test_what_is_not_there_is_refused(binary):
    with pytest.raises(DataError, match="the test log has no ratings"):
        evaluate([], binary.take(np.array([], dtype=int)))
    with pytest.raises(ParameterError, match=r"no metric 'ndcg@7' here; choose from mse, mae, "):
        evaluate(SCORES, binary)["ndcg@7"]
