"""Claims about `python -m benchmarks`: fits are recorded once, tables are what records say, worlds obey their law."""

from __future__ import annotations

import importlib
import json
import math
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import unskew

ROOT = str(Path(__file__).parents[2])
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)
cases, experiments, tables, runner = map(
    importlib.import_module, (f"benchmarks.{name}" for name in ("cases", "experiments", "tables", "__main__"))
)


@pytest.fixture
def small(monkeypatch, tmp_path):
    """An experiment of seconds: two methods on a world without files; gives the file of its records."""
    world = {"tiny": lambda data, seed: cases.tiny()}
    experiment = experiments.Experiment("a tiny world", ("naive", "snips"), world, 2, experiments.fit_and_measure)
    monkeypatch.setitem(experiments.EXPERIMENTS, "small", experiment)
    return tmp_path / "small.jsonl"


def test_a_run_records_what_evaluate_finds_and_resumes(small, monkeypatch):
    assert runner.main(["run", "small", "--records", str(small), "--seeds", "1", "--methods", "naive"]) == 0
    (record,) = map(json.loads, small.read_text().splitlines())
    case = cases.tiny()
    found = unskew.evaluate(unskew.make("naive").fit(case.train, seed=0), case.test, empty_users="one")
    assert {name: record["metrics"][name] for name in experiments.METRICS} == {
        name: found[name] for name in experiments.METRICS
    }
    assert record["metrics"]["seconds"] > 0
    assert {"label": unskew.__version__, "case": "tiny", "method": "naive", "seed": 0}.items() <= record.items()
    assert {"unskew", "commit", "date", "numpy", "numba"} <= record.keys()
    fitted = []
    plain = experiments.EXPERIMENTS["small"]
    measure = lambda name, case, seed: fitted.append((name, seed)) or {"mse": 0.25}  # noqa: E731
    monkeypatch.setitem(experiments.EXPERIMENTS, "small", plain._replace(measure=measure))
    assert runner.main(["run", "small", "--records", str(small)]) == 0
    assert fitted == [("snips", 0), ("naive", 1), ("snips", 1)]
    assert len(small.read_text().splitlines()) == 4
    assert runner.main(["run", "small", "--records", str(small), "--label", "new"]) == 0
    assert len(fitted) == 7


def test_a_table_shows_mean_sd_error_and_z_of_two_labels(tmp_path, capsys):
    file = tmp_path / "coat.jsonl"
    values = {"old": [0.2, 0.21, 0.22, 0.25], "new": [0.19, 0.2, 0.23]}
    for label, found in values.items():
        for seed, value in enumerate(found):
            key = {"label": label, "case": "coat", "method": "naive", "seed": seed}
            tables.append(file, key | {"metrics": {"mse": value}})
    assert runner.main(["table", "coat", "--records", str(file)]) == 0
    rows = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines()[2:]]
    errors = {}
    for row, (label, found) in zip(rows, values.items(), strict=False):
        mean = math.fsum(found) / len(found)
        sd = math.sqrt(math.fsum((x - mean) ** 2 for x in found) / (len(found) - 1))
        errors[label] = mean, sd / math.sqrt(len(found))
        assert row == ["coat", "naive", label, str(len(found)), f"{mean:.4f} ± {sd:.4f} ({errors[label][1]:.4f})"]
    (old, old_error), (new, new_error) = errors.values()
    z = (new - old) / math.sqrt(old_error**2 + new_error**2)
    assert rows[2][:3] == ["coat", "naive", "z"]
    assert float(rows[2][-1].strip()) == pytest.approx(z, abs=0.005)
    assert runner.main(["table", "coat", "--records", str(file), "--labels", "new"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
    tables.append(file, key | {"seed": 9, "method": "other", "metrics": {"seconds": 123.456}})
    assert runner.main(["table", "coat", "--records", str(file)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "| coat | other | new | 1 | nan | 123.5 |"


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        (["run", "cloth"], "There is no experiment 'cloth'"),
        (["run", "coat", "--methods", "nave"], "There is no method 'nave'"),
        (["run", "coat", "--seeds", "0"], "--seeds must be at least 1, not 0."),
        (["table", "coat", "--labels", "1.0", "--records", "empty.jsonl"], "no records of the label '1.0'"),
        (["table", "coat", "--records", "empty.jsonl"], "There are no records"),
        (["table", "coat", "--records", "broken.jsonl"], "broken.jsonl, line 1 is no record of a fit"),
        (["run", "jester", "--data", "nowhere", "--methods", "naive", "--records", "empty.jsonl"], "cannot be read"),
    ],
)
def test_bad_input_ends_with_one_sentence_and_code_2(asked, sentence, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    Path("broken.jsonl").write_text('{"label": "1.0"}\n')
    if asked[:2] == ["run", "jester"]:
        monkeypatch.setitem(experiments.EXPERIMENTS, "jester", experiments.EXPERIMENTS["jester"]._replace(n_seeds=1))
    assert runner.main(asked) == 2
    printed = capsys.readouterr().err
    assert sentence in printed
    assert "Traceback" not in printed


def test_every_listed_method_is_named_once_and_case_made_by_seed(capsys):
    assert runner.main(["list"]) == 0
    assert capsys.readouterr().out.count("\n") == len(experiments.EXPERIMENTS)
    for experiment in experiments.EXPERIMENTS.values():
        assert len(set(experiment.methods)) == len(experiment.methods)


@pytest.mark.parametrize(("law", "slope"), [("uniform", 0.0), ("popularity", 0.0), ("rating", 0.9), ("taste", 0.6)])
def test_pairs_are_seen_by_the_law_of_their_world(law, slope):
    stars = np.random.default_rng(3).integers(0, 5, (400, 50))
    seen, probability = cases.select(stars, law, slope, seed=1)
    assert probability.mean() == pytest.approx(0.12, abs=1e-9)
    assert abs((seen - probability).sum()) < 4 * math.sqrt((probability * (1 - probability)).sum())
    log_odds = np.log(probability / (1 - probability))
    if law == "uniform":
        assert np.ptp(log_odds) < 1e-9
    rest = log_odds - log_odds.mean(0) - log_odds.mean(1, keepdims=True)
    liking = {"rating": stars, "taste": cases.taste(stars)}.get(law, np.zeros(stars.shape))
    liking = liking - liking.mean(0) - liking.mean(1, keepdims=True)
    assert np.allclose(rest - rest.mean(), slope * (liking - liking.mean()))
    assert np.array_equal(cases.select(stars, law, slope, seed=1).seen, seen)
    assert not np.array_equal(cases.select(stars, law, slope, seed=2).seen, seen)


def test_jester_learns_from_seen_pairs_and_is_judged_on_all_others(monkeypatch):
    stars = np.random.default_rng(4).integers(0, 5, (60, 30))
    monkeypatch.setattr(cases, "jester_stars", lambda data: stars)
    case = cases.jester("popularity", 0.0, Path("anywhere"), seed=5)
    assert len(case.train) + len(case.test) == stars.size
    for log in (case.train, case.test):
        assert (log.n_users, log.n_items) == stars.shape
        assert np.array_equal(log.ratings, stars[log.users, log.items] >= 3)
    made = experiments.EXPERIMENTS["jester"].cases["rating .6"]
    assert isinstance(made, partial)
    assert made.args == ("rating", 0.6)
