"""unskew compare, diagnose, tune, benchmark and reproduce: the answers of the library, as text, JSON and pages."""

import json
from pathlib import Path

import pytest

import unskew
from unskew.bench.protocol import WORLD_SETTINGS
from unskew.cli.benchmarks import material
from unskew.cli.reading import Reading
from unskew.store.recipe import read_fit


def test_it_says_in_one_line_what_the_library_finds(run, files):
    words = (files / "B.csv", files / "A.csv", "--log", files / "test.csv")
    text = run("compare", *words).stdout
    log = unskew.read_log(files / "test.csv")
    found = unskew.compare(files / "B.csv", files / "A.csv", log, names=("B", "A"))
    assert text == f"{found}\n"
    assert text.startswith("A is better than B: ")
    facts = json.loads(run("compare", *words, "--json").stdout)
    assert (facts["better"], facts["decision"]) == ("A", "use")
    assert facts["in_words"] == str(found)


def test_two_models_of_one_log_need_no_other_log(run, files, model, tmp_path):
    few = ("--method", "naive", "--set", "training.max_epochs=1")
    run("fit", files / "ratings.csv", *few, "--out", tmp_path / "other")
    text = run("compare", model, tmp_path / "other").stdout
    assert "model" in text
    assert "other" in text
    text = run("compare", model, tmp_path / "other", "--log", files / "ratings.csv", code=2).stderr
    assert "was trained on" in text


def test_ratings_that_a_model_has_learned_from_are_no_test(run, files, model):
    assert "these figures flatter it: judge it by" in run("evaluate", model, files / "ratings.csv").stdout
    assert "flatter" not in run("evaluate", model, files / "test.csv").stdout


def test_random_ratings_overrule_the_log(run, files):
    words = ("compare", files / "B.csv", files / "A.csv", "--log", files / "ratings.csv")
    facts = json.loads(run(*words, "--random-ratings", files / "test.csv", "--json").stdout)
    assert facts["decision"] == "use"
    assert facts["finding"]["rests_on"].endswith("of pairs that the log holds.")


def test_a_log_is_diagnosed_in_words_and_as_json(run, files):
    text = run("diagnose", files / "ratings.csv").stdout
    assert text.split("\n\n")[1].split(".")[0] in ("CORRECT IT", "CANNOT TELL", "PLAIN IS FINE")
    facts = json.loads(run("diagnose", files / "ratings.csv", "--json").stdout)
    assert facts["subject"] == "log"
    assert [one["key"] for one in facts["findings"]] == ["data", "bias", "reach", "assumption"]


def test_a_model_becomes_a_page(run, files, model, tmp_path):
    page = tmp_path / "report.html"
    text = run("diagnose", model, "--random-ratings", files / "test.csv", "--out", page).stdout
    assert f"wrote the page to {page}" in text
    html = page.read_text()
    assert "How far to trust this page" in html
    assert f"unskew diagnose {model} --random-ratings" in html
    again = run("report", model, "--random-ratings", files / "test.csv", "--out", page).stdout
    assert again == text


def test_a_fit_can_be_judged_at_once(run, files, tmp_path):
    asked = "fit", files / "ratings.csv", "--method", "naive", "--set", "training.max_epochs=2", "--out"
    facts = json.loads(run(*asked, tmp_path / "judged", "--diagnose", "--json").stdout)
    assert facts["diagnosis"]["subject"] == "model"
    assert "diagnosis" not in json.loads(run(*asked, tmp_path / "plain", "--json").stdout)


@pytest.fixture
def tiny_world(monkeypatch):
    for name, value in {"n_users": 30, "n_items": 20, "density": 0.3}.items():
        monkeypatch.setitem(WORLD_SETTINGS, name, value)


@pytest.mark.usefixtures("tiny_world")
def test_the_papers_numbers_stand_on_the_terminal(run, tmp_path, monkeypatch):
    words = ("reproduce", "figure1", "--dataset", "world", "--out", tmp_path, "--seeds", 1, "--epochs", 1)
    shown = run(*words, "--only", "DR, both heuristic").stdout
    assert "Figure 1: What miscalibration costs doubly robust estimators (a simulated world)" in shown
    assert "bound (Theorem 2)" in shown
    assert (tmp_path / "figure1-bias-by-theorem_2.svg").exists()


QUICK = ("--set", "training.max_epochs=1", "--set", "validation.criterion=log_loss")
COMPARE = ("--methods", "naive,eib", "--seeds", 2, *QUICK)


def test_a_tuned_recipe_is_what_fit_takes_and_a_second_call_reads_its_trials(run, files, tmp_path):
    recipe, model = tmp_path / "naive.toml", tmp_path / "model"
    words = ("tune", files / "ratings.csv", "--method", "naive", "--trials", 3, "--out", recipe, *QUICK)
    printed = run(*words).stdout
    assert f"next: unskew fit {files / 'ratings.csv'} --method {recipe}" in printed
    facts = json.loads(run(*words, "--json").stdout)
    assert (tmp_path / "naive.trials.journal").read_text().count('"failure"') == 3
    scores = [trial["score"] for trial in facts["trials"]]
    assert facts["score"] == min(scores)
    assert f"log_loss: {min(scores):.4f}, with the settings it started from {scores[0]:.4f}" in printed
    run("fit", files / "ratings.csv", "--method", recipe, "--set", "learning_rate=0.02", "--out", model)
    fitted = unskew.load(model)
    method, training = read_fit(recipe)[:2]
    assert fitted.method == unskew.Naive(**(vars(method) | {"learning_rate": 0.02}))
    assert training.max_epochs == 1 == len(fitted.history.epochs)


def test_what_comes_after_tuning_reads_the_log_as_it_was_read():
    given = Reading(positive=4.0, duplicates="last", user_features=Path("a b"))
    by_set = ["--set", "log.duplicates=last", "--set", "log.user_features=a b"]
    assert given.words(for_fit=True) == ["--positive", "4", *by_set]
    assert Reading(graded=(1.0, 5.0), duplicates="last").words() == ["--graded", "1", "5", "--duplicates", "last"]


def test_a_benchmark_of_a_log_without_a_test_says_that_its_test_is_biased(run, files, tmp_path):
    result = run("benchmark", files / "ratings.csv", "--out", tmp_path / "out", "--tune", 2, *COMPARE)
    page = (tmp_path / "out" / "table.md").read_text()
    assert "This test is biased as the log is" in page
    assert "ratings.csv, of which a random 20% was set aside" in page
    assert "a random 20%" in result.stdout
    log = unskew.read_log(files / "ratings.csv")
    assert f"{len(log) - round(0.2 * len(log)):,} ratings" in page
    assert {path.name for path in (tmp_path / "out" / "recipes").iterdir()} == {"naive.toml", "eib.toml"}
    for word in ("naive", "eib", "MSE", "nDCG@10", "*", "is best of 2 methods"):
        assert word in result.stdout


def test_a_benchmark_with_a_test_file_reports_what_evaluate_says(run, files, tmp_path):
    words = ("benchmark", files / "ratings.csv", "--test", files / "test.csv", "--on-unknown", "fallback")
    rules = ("--empty-users", "one", "--positive", 4, "--out", tmp_path / "out", *COMPARE, "--json")
    facts = json.loads(run(*words, *rules).stdout)
    log = unskew.read_log(files / "ratings.csv", positive=4)
    test = unskew.read_log(files / "test.csv", positive=4)
    training = unskew.Training(max_epochs=1, progress=False)
    models = [unskew.EIB().fit(log, seed=seed, training=training) for seed in (0, 1)]
    for metric in ("mse", "ndcg@5"):
        found = [
            unskew.evaluate(lambda u, i, m=model: m.predict(u, i, on_unknown="fallback"), test, empty_users="one")
            for model in models
        ]
        mean = sum(each[metric] for each in found) / 2
        assert sum(seed[metric] for seed in facts["scores"]["eib"]) / 2 == pytest.approx(mean)
    assert "count as 1 in the means" in facts["setting"][-2]
    assert "Positive from a rating of 4" in facts["setting"][-2]


def test_test_pairs_that_the_log_has_too_are_counted(files):
    log, test = files / "ratings.csv", files / "test.csv"
    pairs = [{tuple(row.split(",")[:2]) for row in file.read_text().splitlines()[1:]} for file in (log, test)]
    for judge, both in ((log, len(pairs[0])), (test, len(pairs[0] & pairs[1]))):
        about = material(str(log), Reading(), test=str(judge), on_unknown="fallback").about
        n = len(unskew.read_log(judge))
        assert about[1] == f"The log has {both:,} of the {n:,} test pairs too, by which figures flatter."


@pytest.mark.parametrize("name", ["coat", "yahoo-r3", "kuairec"])
def test_a_dataset_is_what_a_benchmark_learns_from(name, monkeypatch):
    """What is read is the claim of other tests."""
    world = unskew.simulate(40, 30, density=0.3)
    read = lambda named, *_, **__: unskew.datasets.Dataset(named, world.log, world.test)  # noqa: E731
    monkeypatch.setattr(unskew.datasets, "load", read)
    given = material(f"{name}:data", Reading())
    assert (given.log, given.test) == (world.log, world.test)
    assert given.about[0].startswith(f"{name.replace('-', '_')}: users chose what to rate")
    assert any("not chosen blind to Coat's test" in sentence for sentence in given.about) == (name == "coat")
