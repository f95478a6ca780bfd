"""Runs resume: nothing is repeated or lost; `tests/faults` kills and interrupts them."""

from __future__ import annotations

import json

import pytest

import unskew
from unskew.bench.run import Job, opened
from unskew.bench.run import run as run_jobs


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


def test_a_finished_job_is_not_run_again(file, capsys):
    first, second = Counted(0.1), Counted(0.2)
    run([job("a", first)], file)
    outcome = run([job("a", first), job("b", second)], file)
    assert (first.times, second.times) == (1, 1)
    assert outcome.values == {"a": {"x": 0.1}, "b": {"x": 0.2}}
    assert f"1 jobs to run; 1 of 2 had been finished before and were read from {file}." in capsys.readouterr().err


def test_stale_records_are_counted_and_run_anew(file, capsys, monkeypatch):
    with monkeypatch.context() as older:
        older.setattr(unskew, "__version__", "0.0.1")
        run([job("old version", Counted())], file)
    run([job("other recipe", Counted(), "l2=1"), job("same", Counted())], file)
    work = Counted(2.0)
    now = [job("old version", work), job("other recipe", work, "l2=2"), job("same", work)]
    for _ in range(2):
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


def test_a_bad_place_is_refused_before_the_work(tmp_path):
    with pytest.raises(unskew.ParameterError, match=r"cannot be used: no such file or directory"):
        run([job("a", lambda given: 1 / 0)], tmp_path / "missing" / "records.jsonl")


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


def numbers(given):
    return {"given": given}


@pytest.mark.parametrize("workers", [1, 2])
def test_any_number_of_workers_finds_the_same(file, workers):
    outcome = run([job(f"n/{n}", numbers) for n in range(3)], file, workers=workers, given=[1.0, 2.0])
    assert outcome.values == {f"n/{n}": {"given": [1.0, 2.0]} for n in range(3)}
    assert list(outcome.values) == ["n/0", "n/1", "n/2"]


def test_how_many_and_how_long_is_said_beforehand(file, capsys):
    run([job(f"{kind}/{n}", Counted()) for n in range(3) for kind in ("fit/a", "fit/b")], file)
    first, second = capsys.readouterr().err.splitlines()
    assert first == "6 jobs to run."
    assert second == "The other 4 will take about 0:00:00, by one of each kind."
