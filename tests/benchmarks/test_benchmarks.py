"""Claims about the benchmark scripts: runs resume, nothing is repeated or lost, every registered method fits in."""

from __future__ import annotations

import importlib
import json
import os
import sys
from functools import partial
from pathlib import Path

import pytest

import unskew

FOLDER = Path(__file__).parents[2] / "benchmarks"
REGISTERED = {entry.name: entry.build() for entry in unskew.methods()}
TINY = ["--size", "40", "30", "--seeds", "2"]


def script(name):
    """A script of the folder as the module it is when it is run; worker processes find it by the same path."""
    if str(FOLDER) not in sys.path:
        sys.path.insert(0, str(FOLDER))
    return importlib.import_module(name)


records, worlds, coat_methods = map(script, ("records", "worlds", "coat_methods"))


class Counted:
    """Work that counts how often it is done."""

    def __init__(self, value=1.0):
        self.value, self.times = value, 0

    def __call__(self):
        self.times += 1
        if isinstance(self.value, BaseException):
            raise self.value
        return {"x": self.value}


def job(key, work, recipe="as it is"):
    return records.Job(key, recipe, work)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "records.jsonl"


def test_a_finished_job_is_read_from_its_record_and_not_run_again(file, capsys):
    first, second = Counted(0.1), Counted(0.2)
    records.run([job("a", first)], file)
    outcome = records.run([job("a", first), job("b", second)], file)
    assert (first.times, second.times) == (1, 1)
    assert outcome.values == {"a": {"x": 0.1}, "b": {"x": 0.2}}
    assert f"1 of 2 jobs have been finished before and are read from {file}." in capsys.readouterr().err


def test_records_of_another_recipe_or_version_are_counted_and_run_anew(file, capsys, monkeypatch):
    with monkeypatch.context() as older:
        older.setattr(unskew, "__version__", "0.0.1")
        records.run([job("old version", Counted())], file)
    records.run([job("other recipe", Counted(), "l2=1"), job("same", Counted())], file)
    work = Counted(2.0)
    now = [job("old version", work), job("other recipe", work, "l2=2"), job("same", work)]
    assert records.run(now, file).values["same"] == {"x": 1.0}
    assert work.times == 2
    assert (
        f"2 jobs were recorded in {file} with other settings or another version and are run" in capsys.readouterr().err
    )
    records.run(now, file)
    assert work.times == 2
    assert "run anew" not in capsys.readouterr().err


def test_ctrl_c_keeps_what_is_finished_and_says_how_to_go_on(file):
    done, interrupted = Counted(), Counted(KeyboardInterrupt())
    with pytest.raises(records.Stopped, match=r"1 of 2 jobs finished and kept in .*; run the same command again"):
        records.run([job("a", done), job("b", interrupted)], file)
    interrupted.value = 5.0
    assert records.run([job("a", done), job("b", interrupted)], file).values == {"a": {"x": 1.0}, "b": {"x": 5.0}}
    assert done.times == 1


def test_a_script_ends_with_one_sentence_and_the_usual_exit_code(capsys):
    for raised, code, sentence in (
        (records.Stopped("Stopped."), 130, "Stopped.\n"),
        (unskew.DataError("Too small."), 2, "error: Too small.\n"),
    ):
        with pytest.raises(SystemExit) as ended:
            records.script(Counted(raised))
        assert ended.value.code == code
        assert capsys.readouterr().err == sentence


@pytest.mark.parametrize("cut", [1, 12, 60])
def test_a_line_cut_short_by_a_crash_costs_only_its_own_job(file, cut, capsys):
    first, second = Counted(), Counted()
    records.run([job("a", first), job("b", second)], file)
    whole, torn = file.read_text().splitlines()
    file.write_text(f"{whole}\n{torn[:cut]}")
    records.run([job("a", first), job("b", second)], file)
    assert (first.times, second.times) == (1, 2)
    assert "was cut short" in capsys.readouterr().err
    assert [json.loads(line)["key"] for line in file.read_text().splitlines()] == ["a", "b"]


@pytest.mark.parametrize("text", ["hello", "hello\n", "{}\n", '{"key": 1}\n{"key"', "[1]\n", "\n"])
def test_a_file_that_holds_no_records_is_refused_and_left_alone(file, text):
    file.write_text(text)
    work = Counted()
    with pytest.raises(unskew.DataError, match=r"Line 1 of .* is not a record"):
        records.run([job("a", work)], file)
    assert file.read_text() == text
    assert work.times == 0


def test_a_place_that_cannot_be_written_is_refused_before_the_work(tmp_path):
    work = Counted()
    with pytest.raises(unskew.ParameterError, match=r"cannot be used: no such file or directory"):
        records.run([job("a", work)], tmp_path / "missing" / "records.jsonl")
    assert work.times == 0


def test_a_failed_job_stops_no_other_leaves_no_record_and_is_tried_again(file):
    failing, odd, fine = Counted(unskew.DivergedError("It left.")), Counted(float("nan")), Counted()
    jobs = [job("a", failing), job("b", odd), job("c", fine)]
    outcome = records.run(jobs, file)
    assert outcome.failures == {"a": "It left.", "b": "x is nan"}
    assert outcome.values.keys() == {"c"}
    assert records.failed(outcome) == "Failed fits:\n\n- a: It left.\n- b: x is nan"
    records.run(jobs, file)
    assert (failing.times, odd.times, fine.times) == (2, 2, 1)


def test_a_defect_is_no_failure_and_keeps_its_trace(file):
    with pytest.raises(ZeroDivisionError):
        records.run([job("a", Counted(ZeroDivisionError()))], file)


def test_workers_compute_on_one_thread_and_find_what_one_process_finds(file, tmp_path, monkeypatch):
    (tmp_path / "observed_threads.py").write_text(
        "import numba, torch\n"
        "def threads():\n"
        "    return {'torch': torch.get_num_threads(), 'numba': numba.get_num_threads()}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    threads = importlib.import_module("observed_threads").threads
    before = dict(os.environ)
    work = partial(worlds.true_risk, unskew.Naive(), "taste", (40, 30), 3)
    outcome = records.run([job("threads", threads), job("risk", work), job("x", partial(dict, x=2.0))], file, workers=2)
    assert outcome.values == {"threads": {"torch": 1, "numba": 1}, "risk": work(), "x": {"x": 2.0}}
    assert dict(os.environ) == before
    assert len(file.read_text().splitlines()) == 3


@pytest.mark.parametrize("name", REGISTERED)
def test_every_method_is_told_the_truth_where_it_takes_a_propensity_and_meets_naive_with_its_net(name):
    method, truth = REGISTERED[name], unskew.Known(lambda users, items: 0.5)
    role = worlds.told(method, truth).plan().roles.get("propensity")
    source = worlds.propensity_of(method)
    if role is None:
        assert source == "none"
    else:
        assert (role.net is truth, role.net is truth and role.clip == 0.01) == (source == "true",) * 2
    prediction = method.plan().roles["prediction"]
    naive = worlds.naive_beside(method)
    assert naive.net == prediction.net or prediction.on
    assert naive == unskew.Naive(net=naive.net)


def test_wrapped_methods_are_told_the_truth_and_joint_ones_keep_their_own():
    sources = {name: worlds.propensity_of(unskew.make(name)) for name in ("naive", "ips", "dce-dr")}
    assert sources == {"naive": "none", "ips": "true", "dce-dr": "true"}
    assert worlds.propensity_of(unskew.MultiDR()) == "own"
    assert worlds.naive_beside(unskew.MultiDR()) == unskew.Naive()


def test_worlds_prints_each_method_beside_naive_names_the_losers_and_resumes(tmp_path, capsys):
    file, out = tmp_path / "w.jsonl", tmp_path / "table.md"
    asked = [*TINY, "--method", "naive", "--method", "snips", "--records", str(file), "--out", str(out)]
    worlds.main(asked)
    printed = capsys.readouterr().out
    assert out.read_text() == printed
    lines = file.read_text().splitlines()
    found = {record["key"]: record["values"]["risk"] for record in map(json.loads, lines)}
    assert len(found) == len(lines) == 8
    means = {key[:-2]: (found[key] + found[f"{key[:-1]}1"]) / 2 for key in found if key.endswith("/0")}
    for selection in worlds.SELECTIONS:
        difference = means[f"{selection}/snips"] - means[f"{selection}/naive"]
        assert f"| {means[f'{selection}/snips']:.4f} ± " in printed
        assert f"| {difference:+.4f} (p " in printed
        assert f"- {selection}: {'none' if difference < 0 else 'snips'}\n" in printed
    worlds.main(asked)
    assert file.read_text().splitlines() == lines
    assert capsys.readouterr().out == printed


def test_a_method_with_another_net_brings_the_naive_that_has_it():
    net = unskew.MF(n_factors=3)
    compared = worlds.Comparison({"naive": unskew.Naive(), "mine": unskew.IPS(net=net)}, (40, 30), 1)
    assert compared.naive["naive"] == "naive"
    assert compared.methods[compared.naive["mine"]] == unskew.Naive(net=net)
    assert len(compared.jobs()) == 3 * len(worlds.SELECTIONS)


def test_a_fit_that_broke_off_is_a_case_that_fails():
    compared = worlds.Comparison({"naive": unskew.Naive(), "ips": unskew.IPS()}, (40, 30), 1)
    values = {"popularity/naive/0": {"risk": 0.2}, "popularity/ips/0": {"risk": 0.1}, "taste/naive/0": {"risk": 0.2}}
    outcome = records.Outcome(values, {"taste/ips/0": "It left."})
    assert "| ips | true | 0.1000 | -0.1000 | failed |  |" in compared.table(outcome)
    assert compared.cases_that_fail(outcome).endswith("- popularity: none\n- taste: ips")


def test_coat_methods_reports_what_evaluate_says_and_resumes(tmp_path, capsys, monkeypatch):
    world = unskew.simulate(n_users=60, n_items=40, density=0.2, test_per_user=3, seed=1)  # some without a positive
    data = unskew.datasets.Dataset("coat", world.log, world.test, None, ())
    monkeypatch.setattr(coat_methods, "coat", lambda folder: data)
    methods = {"naive": unskew.Naive(), "snips": unskew.SNIPS(propensity=unskew.Additive())}
    monkeypatch.setattr(coat_methods, "chosen", lambda names: methods)
    asked = ["anywhere", "--seeds", "2", "--records", str(tmp_path / "c.jsonl"), "--out", str(tmp_path / "table.md")]
    coat_methods.main(asked)
    printed = capsys.readouterr().out
    for name, method in methods.items():
        fits = [method.fit(world.log, seed=seed, training=unskew.Training(progress=False)) for seed in (0, 1)]
        found = [unskew.evaluate(fit, world.test, empty_users="one") for fit in fits]
        cells = [
            records.mean_and_sd([each[metric] for each in found]) for metric in ("mse", "auc", "ndcg@5", "ndcg@10")
        ]
        assert f"| {name} | {' | '.join(cells)} | " in printed
    for words in ("positive from 3", 'empty_users="one"', "seeds 0 to 1", "not chosen blind to this test set"):
        assert words in printed
    coat_methods.main(asked)
    assert capsys.readouterr().out == printed == (tmp_path / "table.md").read_text()
