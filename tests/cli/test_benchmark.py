"""`unskew benchmark` and `unskew tune` from end to end, on the tiny log and on what they can name."""

import json
from pathlib import Path

import pytest

import unskew
from unskew.cli.benchmarks import material
from unskew.cli.reading import Reading
from unskew.store.recipe import read_fit

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


def test_a_benchmark_in_a_world_knows_the_true_risk(run, tmp_path, monkeypatch):
    tiny = {"n_users": 40, "n_items": 30, "density": 0.3}
    monkeypatch.setattr("unskew.bench.protocol.WORLD_SETTINGS", tiny)
    facts = json.loads(run("benchmark", "world", "--seed", 3, "--out", tmp_path, *COMPARE, "--json").stdout)
    world = unskew.simulate(**tiny, seed=3)
    model = unskew.Naive().fit(world.log, seed=0, training=unskew.Training(max_epochs=1, progress=False))
    again = unskew.Naive().fit(world.log, seed=1, training=unskew.Training(max_epochs=1, progress=False))
    risks = [world.risk(each.predict_codes) for each in (model, again)]
    assert [seed["true_risk"] for seed in facts["scores"]["naive"]] == pytest.approx(risks)
    assert f"at best {world.risk(world.preference):.4f}" in facts["setting"][0]


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
