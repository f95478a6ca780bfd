"""The whole protocol on a tiny world: who is fitted on what, when the test is read, and that a run can always go on."""

from __future__ import annotations

import csv
import json
import time

import pytest

import unskew
from unskew.bench import Judging, benchmark
from unskew.bench.protocol import RECORDS
from unskew.errors import DataError, ParameterError
from unskew.recipe import read_recipe

METHODS = {"naive": unskew.Naive(), "snips": unskew.SNIPS(propensity=unskew.Additive())}
TABLES = ("table.csv", "table.md", "table.tex", "table.html")


def compared(world, judging, out, **changes):
    settings = {"seeds": 3, "trials": 6, "judging": judging, "world": world} | changes
    return benchmark(world.log, world.test, METHODS, out, **settings)


def lines(out):
    return [json.loads(line) for line in (out / RECORDS).read_text().splitlines()]


@pytest.fixture(scope="module")
def finished(world, judging, tmp_path_factory):
    """A run that nothing disturbed."""
    out = tmp_path_factory.mktemp("finished")
    return out, compared(world, judging, out)


def count_fits(monkeypatch):
    fits = []
    for method in (unskew.Naive, unskew.SNIPS):
        fit = method.fit
        counted = lambda self, *a, fit=fit, **k: fits.append(self) or fit(self, *a, **k)  # noqa: E731
        monkeypatch.setattr(method, "fit", counted)
    return fits


def test_a_run_leaves_tables_recipes_and_a_record_of_every_fit(finished, world):
    out, result = finished
    assert {path.name for path in out.iterdir() if not path.name.startswith(".")} == {
        *TABLES,
        RECORDS,
        "costs.csv",
        "recipes",
    }
    records = lines(out)
    trials, fits = ([r for r in records if r["key"].startswith(kind)] for kind in ("trial/", "fit/"))
    assert len(trials) == 2 * 6 * 2
    assert len(fits) == 2 * 3
    for record in records:
        assert record["recipe"]["criterion"] == "weighted_log_loss"
        assert record["versions"]["unskew"] == unskew.__version__
        assert {"seconds", "peak_megabytes", "parameters", "validation"} <= record["values"].keys()
        assert ("test" in record["values"]) == record["key"].startswith("fit/")
    assert fits[0]["values"]["test"].keys() >= {"mse", "auc", "ndcg@5", "true_risk"}
    for name, method in result.recipes.items():
        assert read_recipe(out / "recipes" / f"{name}.toml")[0] == method


def test_the_figures_are_those_of_the_chosen_recipes_fitted_on_the_whole_log(finished, world, judging):
    _, result = finished
    for name, recipe in result.recipes.items():
        models = [recipe.fit(world.log, seed=seed, training=judging.training) for seed in range(3)]
        cells = {metric: result.table.standings[metric].cells[name] for metric in ("auc", "true_risk")}
        aucs = [unskew.evaluate(model, world.test)["auc"] for model in models]
        assert cells["auc"].mean == pytest.approx(sum(aucs) / 3)
        assert cells["true_risk"].mean == pytest.approx(sum(world.risk(model.predict_codes) for model in models) / 3)
    rows, width = world.n_users + world.n_items + 2, result.recipes["naive"].net.n_factors + 1
    assert result.costs["naive"]["parameters"] == rows * width + 1  # with a row each for unknown users and items
    assert result.costs["naive"]["peak_megabytes"] > 50


def test_a_finished_run_is_read_and_not_repeated_and_writes_the_same_bytes(finished, world, judging, monkeypatch):
    out, result = finished
    before = {name: (out / name).read_bytes() for name in TABLES}
    fits = count_fits(monkeypatch)
    again = compared(world, judging, out)
    assert fits == []
    assert again.table == result.table
    assert {name: (out / name).read_bytes() for name in TABLES} == before


def test_more_seeds_cost_only_the_seeds_that_are_new(finished, world, judging, monkeypatch, tmp_path):
    out, _ = finished
    (tmp_path / RECORDS).write_bytes((out / RECORDS).read_bytes())
    fits = count_fits(monkeypatch)
    compared(world, judging, tmp_path, seeds=4)
    assert len(fits) == len(METHODS)


def test_the_test_set_is_not_touched_before_the_last_trial_is_recorded(world, judging, tmp_path):
    touched = []

    class Spied:
        """The test, with a note of how many trials were recorded whenever anything about it is asked."""

        def __init__(self, log):
            self.__dict__["hidden"] = log

        def __getattr__(self, name):
            file = tmp_path / RECORDS
            touched.append(file.read_text().count('"key": "trial/') if file.exists() else 0)
            return getattr(self.__dict__["hidden"], name)

        def __len__(self):
            self.__getattr__("ratings")
            return len(self.__dict__["hidden"])

    settings = {"seeds": 1, "trials": 5, "judging": judging}
    benchmark(world.log, Spied(world.test), {"naive": unskew.Naive()}, tmp_path, **settings)
    assert set(touched) == {5 * 2}


def test_a_run_that_is_killed_goes_on_to_the_same_tables(finished, world, judging, monkeypatch, tmp_path, forked):
    out, _ = finished
    running = forked(lambda: compared(world, judging, tmp_path))
    while not (tmp_path / RECORDS).exists() or (tmp_path / RECORDS).read_bytes().count(b"\n") < 10:
        assert running.is_alive(), "it ended by itself"
        time.sleep(0.001)
    running.kill()
    running.join()
    whole = (tmp_path / RECORDS).read_bytes().count(b"\n")
    fits = count_fits(monkeypatch)
    compared(world, judging, tmp_path)
    assert len(fits) == 2 * 6 * 2 + 2 * 3 - whole
    for name in TABLES:
        assert (tmp_path / name).read_bytes() == (out / name).read_bytes(), name


def test_a_method_that_cannot_be_fitted_stands_in_the_table_as_failed(world, judging, tmp_path, monkeypatch):
    def fail(self, log, **_):
        raise unskew.DivergedError("It left.")

    monkeypatch.setattr(unskew.SNIPS, "fit", fail)
    tuned = compared(world, judging, tmp_path / "tuned", trials=1)
    assert "| snips | failed |" in (tmp_path / "tuned" / "table.md").read_text()
    assert "All trials of snips failed, the first because: It left." in tuned.table.notes
    as_it_is = compared(world, judging, tmp_path / "as it is", trials=0, seeds=1)
    assert "Failed: fit/snips/0: It left." in as_it_is.table.notes
    assert list(as_it_is.costs) == ["naive"]


def test_without_trials_nothing_is_tuned_and_the_page_says_so(world, judging, tmp_path):
    result = compared(world, judging, tmp_path, trials=0, seeds=1)
    assert result.recipes == METHODS
    assert "Nothing was tuned" in (tmp_path / "table.html").read_text()
    rows = list(csv.DictReader((tmp_path / "table.csv").open()))
    assert {row["sd"] for row in rows} == {""}


def test_records_of_another_log_in_the_folder_are_refused(finished, world, judging, tmp_path):
    out, _ = finished
    (tmp_path / RECORDS).write_bytes((out / RECORDS).read_bytes())
    with pytest.raises(DataError, match="holds records of another log"):
        benchmark(world.draw(1), world.test, METHODS, tmp_path, seeds=1, judging=judging)


@pytest.mark.parametrize(
    ("methods", "changes", "sentence"),
    [
        ({}, {}, "There is no method to compare"),
        ({"a/b": unskew.Naive(), "a b": unskew.EIB()}, {}, "names that differ in punctuation only"),
        (METHODS, {"seeds": 0}, "seeds must be a whole number of at least 1"),
        (METHODS, {"trials": -1}, "trials must be a whole number of at least 1"),
        (METHODS, {"workers": 0}, "workers must be a whole number of at least 1"),
        (METHODS, {"trials": 1, "judging": Judging(folds=9999)}, "cannot be cut into 9999 folds"),
    ],
)
def test_what_cannot_be_run_is_refused(world, judging, tmp_path, methods, changes, sentence):
    with pytest.raises(ParameterError, match=sentence):
        benchmark(world.log, world.test, methods, tmp_path / "out", **({"seeds": 1, "judging": judging} | changes))
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_made_is_refused_before_the_work(world, judging, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ParameterError, match="cannot be made a folder"):
        compared(world, judging, tmp_path / "file")
