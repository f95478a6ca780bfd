"""The whole protocol on a tiny world, its jobs and records: who is fitted on what, and that a run can always go on."""

import csv
import json

import numpy as np
import pytest

import unskew
from unskew.bench import Benchmark, Validation, benchmark
from unskew.bench.protocol import JOURNAL, RECORDS, Setup
from unskew.bench.run import Job, opened
from unskew.bench.run import run as run_jobs
from unskew.errors import FileError, ParameterError
from unskew.methods.base import Method
from unskew.metrics.calibration import calibration_error
from unskew.metrics.theory import label_errors, theorem_2
from unskew.store.recipe import read_fit, to_plain

METHODS = {"naive": unskew.Naive(), "snips": unskew.SNIPS(propensity=unskew.Additive())}
TABLES = ("table.md", "table.tex")


def compared(world, validation, out, **changes):
    settings = {"seeds": 3, "trials": 4, "validation": validation, "world": world} | changes
    return benchmark(world.log, world.test, METHODS, out, **settings)


def lines(out):
    return [json.loads(line) for line in (out / RECORDS).read_text().splitlines()]


@pytest.fixture(scope="module")
def finished(world, validation, tmp_path_factory):
    """A run that nothing disturbed."""
    out = tmp_path_factory.mktemp("finished")
    return out, compared(world, validation, out)


def test_a_run_leaves_tables_recipes_and_records(finished, world):
    out, result = finished
    files = {path.name for path in out.iterdir() if not path.name.startswith(".")}
    assert files == {*TABLES, RECORDS, JOURNAL, "results.csv", "benchmark.json", "recipes"}
    records = lines(out)
    assert [record["key"] for record in records] == [f"fit/{name}/{seed}" for seed in range(3) for name in METHODS]
    for record in records:
        assert record["versions"]["unskew"] == unskew.__version__
        assert record["values"].keys() == {"seconds", "parameters", "test", "notes"}
        assert record["values"]["test"].keys() >= {"mse", "auc", "ndcg@5", "true_risk"}
    assert "propensity_ece" in records[1]["values"]["test"]
    assert len(list(csv.DictReader((out / "results.csv").open()))) > 60
    for name, method in result.recipes.items():
        assert to_plain(read_fit(out / "recipes" / f"{name}.toml")[0]) == method


def test_the_record_is_plain_data_that_can_be_read(finished, tmp_path):
    out, result = finished
    assert Benchmark.read(out) == result
    assert result.headline.startswith(f"{result.shown[0].order[0]} is best of 2 methods by true error: ")
    assert [row[0] for table in (result.chosen(), result.costs()) for row in table.rows] == [*METHODS, *METHODS]
    assert len(result.charts()) == len(result.tests()) == len(result.shown) == 6
    with pytest.raises(FileError, match="is not the record of a benchmark"):
        Benchmark.read(tmp_path)


def test_figures_are_of_the_chosen_recipes_on_the_whole_log(finished, world, validation):
    out, result = finished
    for name in METHODS:
        recipe = read_fit(out / "recipes" / f"{name}.toml")[0]
        models = [recipe.fit(world.log, seed=seed, training=validation.training) for seed in range(3)]
        means = {figure: result.standings[figure].means[name] for figure in ("auc", "true_risk", "parameters")}
        assert means["auc"] == pytest.approx(sum(unskew.evaluate(model, world.test)["auc"] for model in models) / 3)
        assert means["true_risk"] == pytest.approx(sum(world.risk(model.predict_codes) for model in models) / 3)
        if name == "naive":  # with a row each for unknown users and items
            assert means["parameters"] == (world.n_users + world.n_items + 2) * (recipe.net.n_factors + 1) + 1


def test_only_what_is_new_is_fitted(finished, world, validation, monkeypatch, tmp_path):
    out, result = finished
    before = {name: (out / name).read_bytes() for name in TABLES}
    fits, fit = [], Method.fit
    monkeypatch.setattr(Method, "fit", lambda self, *a, **k: fits.append(self) or fit(self, *a, **k))
    assert compared(world, validation, out) == result
    assert fits == []
    assert {name: (out / name).read_bytes() for name in TABLES} == before
    for name in (RECORDS, JOURNAL):
        (tmp_path / name).write_bytes((out / name).read_bytes())
    compared(world, validation, tmp_path, seeds=4)
    assert len(fits) == len(METHODS)


def test_the_test_is_not_touched_before_the_last_trial(world, validation, tmp_path):
    touched = []

    class Spied:
        """The test, with a note of how many trials were finished whenever anything about it is asked."""

        def __init__(self, log):
            self.__dict__["hidden"] = log

        def __getattr__(self, name):
            file = tmp_path / JOURNAL
            touched.append(file.read_text().count('"number":') if file.exists() else 0)
            return getattr(self.__dict__["hidden"], name)

        def __len__(self):
            self.__getattr__("ratings")
            return len(self.__dict__["hidden"])

    settings = {"seeds": 1, "trials": 5, "validation": validation}
    benchmark(world.log, Spied(world.test), {"naive": unskew.Naive()}, tmp_path, **settings)
    assert set(touched) == {5}


def test_a_method_that_cannot_be_fitted_stands_as_failed(world, validation, tmp_path, monkeypatch):
    def fail(self, log, **_):
        raise unskew.DivergedError("It left.")

    monkeypatch.setattr(unskew.SNIPS, "fit", fail)
    tuned = compared(world, validation, tmp_path / "tuned", trials=1)
    assert "| snips | failed |" in (tmp_path / "tuned" / "table.md").read_text()
    assert "All trials of snips failed, the first because: It left." in tuned.notes
    as_it_is = compared(world, validation, tmp_path / "as it is", trials=0, seeds=1)
    assert "Failed: fit/snips/0: It left." in as_it_is.notes
    assert list(as_it_is.scores) == ["naive"]
    assert as_it_is.recipes == {name: to_plain(method) for name, method in METHODS.items()}
    assert "Nothing was tuned" in (tmp_path / "as it is" / "table.md").read_text()
    assert "±" not in as_it_is.results().text()


def test_calibration_is_over_all_pairs_and_over_the_test(world):
    training = unskew.Training(max_epochs=1, progress=False)
    model = unskew.DRJL(propensity=unskew.Additive()).fit(world.log, training=training)
    rules = {"validation": Validation(training=training), "cutoffs": (3, 7), "world": world}
    found, _ = Setup(log=world.log, test=world.test, **rules).measure(model)
    assert {"ndcg@3", "ndcg@7"} <= found.keys()
    users, items = np.divmod(np.arange(1200), 30)
    seen = np.zeros(1200)
    seen[world.log.users * 30 + world.log.items] = 1
    assert found["propensity_ece"] == calibration_error(seen, model.propensity(users, items))
    imputed = model.imputation(world.test.users, world.test.items)
    assert found["imputation_ece"] == pytest.approx(calibration_error(world.test.ratings, imputed))
    p_hat = np.maximum(model.propensity(users, items), model.parts.clips["propensity"])
    e1, e0 = label_errors(model.predict_codes(users, items))
    residual = (world.preference(users, items) - model.imputation(users, items)) * (e1 - e0)
    bound = theorem_2(world.propensity(users, items), p_hat, residual)
    assert (found["bias"], found["theorem_2"]) == pytest.approx((bound.exact, bound.by_gap), rel=1e-5)
    assert 0 < found["bias"] < found["theorem_2"]
    naive = unskew.Naive().fit(world.log, training=training)
    plain, _ = Setup(log=world.log, test=world.test).measure(naive)
    assert not {"propensity_ece", "imputation_ece", "bias", "true_risk"} & plain.keys()


@pytest.mark.parametrize(
    ("methods", "changes", "sentence"),
    [
        ({"a/b": unskew.Naive(), "a b": unskew.EIB()}, {}, "names that differ in punctuation only"),
        (METHODS, {"seeds": 0}, "seeds must be a whole number from 1 to"),
    ],
)
def test_what_cannot_be_run_is_refused(world, validation, tmp_path, methods, changes, sentence):
    with pytest.raises(ParameterError, match=sentence):
        benchmark(
            world.log, world.test, methods, tmp_path / "out", **({"seeds": 1, "validation": validation} | changes)
        )
    assert not list(tmp_path.iterdir())
    (tmp_path / "file").write_text("")
    with pytest.raises(ParameterError, match="cannot be made a folder"):
        compared(world, validation, tmp_path / "file")


class Counted:
    """Work that counts how often it is done."""

    def __init__(self, value=1.0):
        self.value, self.times = value, 0

    def __call__(self, given=None):
        self.times += 1
        if isinstance(self.value, BaseException):
            raise self.value
        return {"x": self.value}


def run(jobs, file, **more):
    with opened(file) as records:
        return run_jobs(jobs, records, **more)


def job(key, work, recipe="as it is"):
    return Job(key, recipe, work)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "records.jsonl"


def test_stale_records_are_counted_and_run_anew(file, capsys, monkeypatch):
    with monkeypatch.context() as older:
        older.setattr(unskew, "__version__", "0.0.1")
        run([job("old version", Counted())], file)
    run([job("other recipe", Counted(), "l2=1"), job("same", Counted())], file)
    work = Counted(2.0)
    now = [job("old version", work), job("other recipe", work, "l2=2"), job("same", work)]
    for _ in range(2):  # what is finished is not run again
        assert run(now, file).values["same"] == {"x": 1.0}
        assert work.times == 2
    sentence = f"2 jobs were recorded in {file} with other settings or another version and are run anew"
    assert capsys.readouterr().err.count(sentence) == 1


@pytest.mark.parametrize("cut", [1, 12, 60])
def test_a_line_cut_short_costs_only_its_own_job(file, cut, capsys):
    first, second = Counted(), Counted()
    run([job("a", first), job("b", second)], file)
    whole, torn = file.read_text().splitlines()
    file.write_text(f"{whole}\n{torn[:cut]}")
    run([job("a", first), job("b", second)], file)
    assert (first.times, second.times) == (1, 2)
    assert "was cut short" in capsys.readouterr().err
    assert [json.loads(line)["key"] for line in file.read_text().splitlines()] == ["a", "b"]


@pytest.mark.parametrize("text", ["hello", "hello\n", "{}\n", '{"key": 1}\n{"key"', "[1]\n", "\n"])
def test_a_file_without_records_is_left_alone(file, text):
    file.write_text(text)
    with pytest.raises(unskew.DataError, match=r"Line 1 of .* is not a record"):
        run([job("a", lambda given: 1 / 0)], file)
    assert file.read_text() == text


def test_a_failed_job_stops_no_other_and_a_defect_keeps_its_trace(file):
    failing, odd, fine = Counted(unskew.DivergedError("It left.")), Counted({"auc": float("inf")}), Counted()
    jobs = [job("a", failing), job("b", odd), job("c", fine)]
    for _ in range(2):
        outcome = run(jobs, file)
        assert outcome.failures == {"a": "It left.", "b": "x auc is inf"}
        assert outcome.values.keys() == {"c"}
    assert (failing.times, odd.times, fine.times) == (2, 2, 1)
    with pytest.raises(ZeroDivisionError):
        run([job("d", Counted(ZeroDivisionError()))], file)
