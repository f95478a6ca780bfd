"""unskew compare, diagnose and reproduce: the library's answers in a line, as JSON and as a page."""

import json

import pytest

import unskew
from unskew.bench.protocol import WORLD_SETTINGS


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
    run(
        "fit", files / "ratings.csv", "--method", "naive", "--set", "training.max_epochs=1", "--out", tmp_path / "other"
    )
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
