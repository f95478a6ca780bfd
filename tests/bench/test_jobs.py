"""Runs resume: nothing is repeated or lost, whatever ends them, and two runs never share a file."""

from __future__ import annotations

import importlib
import json
import os
import signal
import time

import pytest

import unskew
from unskew.bench.jobs import Job, Stopped, run
from unskew.files.lock import locked


class Counted:
    """Work that counts how often it is done."""

    def __init__(self, value=1.0):
        self.value, self.times = value, 0

    def __call__(self, given=None):
        self.times += 1
        if isinstance(self.value, BaseException):
            raise self.value
        return {"x": self.value}


def job(key, work, recipe="as it is"):
    return Job(key, recipe, work)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "records.jsonl"


def test_a_finished_job_is_read_from_its_record_and_not_run_again(file, capsys):
    first, second = Counted(0.1), Counted(0.2)
    run([job("a", first)], file)
    outcome = run([job("a", first), job("b", second)], file)
    assert (first.times, second.times) == (1, 1)
    assert outcome.values == {"a": {"x": 0.1}, "b": {"x": 0.2}}
    assert f"1 of 2 jobs had been finished before and were read from {file}." in capsys.readouterr().err


def test_records_of_another_recipe_or_version_are_counted_and_run_anew(file, capsys, monkeypatch):
    with monkeypatch.context() as older:
        older.setattr(unskew, "__version__", "0.0.1")
        run([job("old version", Counted())], file)
    run([job("other recipe", Counted(), "l2=1"), job("same", Counted())], file)
    work = Counted(2.0)
    now = [job("old version", work), job("other recipe", work, "l2=2"), job("same", work)]
    assert run(now, file).values["same"] == {"x": 1.0}
    assert work.times == 2
    assert (
        f"2 jobs were recorded in {file} with other settings or another version and are run" in capsys.readouterr().err
    )
    run(now, file)
    assert work.times == 2
    assert "run anew" not in capsys.readouterr().err


def test_ctrl_c_keeps_what_is_finished_and_says_how_to_go_on(file):
    done, interrupted = Counted(), Counted(KeyboardInterrupt())
    with pytest.raises(Stopped, match=r"1 of 2 jobs finished and kept in .*; run the same command again"):
        run([job("a", done), job("b", interrupted)], file)
    interrupted.value = 5.0
    assert run([job("a", done), job("b", interrupted)], file).values == {"a": {"x": 1.0}, "b": {"x": 5.0}}
    assert done.times == 1


@pytest.mark.parametrize("cut", [1, 12, 60])
def test_a_line_cut_short_by_a_crash_costs_only_its_own_job(file, cut, capsys):
    first, second = Counted(), Counted()
    run([job("a", first), job("b", second)], file)
    whole, torn = file.read_text().splitlines()
    file.write_text(f"{whole}\n{torn[:cut]}")
    run([job("a", first), job("b", second)], file)
    assert (first.times, second.times) == (1, 2)
    assert "was cut short" in capsys.readouterr().err
    assert [json.loads(line)["key"] for line in file.read_text().splitlines()] == ["a", "b"]


@pytest.mark.parametrize("text", ["hello", "hello\n", "{}\n", '{"key": 1}\n{"key"', "[1]\n", "\n"])
def test_a_file_that_holds_no_records_is_refused_and_left_alone(file, text):
    file.write_text(text)
    work = Counted()
    with pytest.raises(unskew.DataError, match=r"Line 1 of .* is not a record"):
        run([job("a", work)], file)
    assert file.read_text() == text
    assert work.times == 0


def test_a_place_that_cannot_be_written_is_refused_before_the_work(tmp_path):
    work = Counted()
    with pytest.raises(unskew.ParameterError, match=r"cannot be used: no such file or directory"):
        run([job("a", work)], tmp_path / "missing" / "records.jsonl")
    assert work.times == 0


def test_a_failed_job_stops_no_other_leaves_no_record_and_is_tried_again(file):
    failing, odd, fine = Counted(unskew.DivergedError("It left.")), Counted(float("nan")), Counted()
    jobs = [job("a", failing), job("b", odd), job("c", fine)]
    outcome = run(jobs, file)
    assert outcome.failures == {"a": "It left.", "b": "x is nan"}
    assert outcome.values.keys() == {"c"}
    run(jobs, file)
    assert (failing.times, odd.times, fine.times) == (2, 2, 1)


def test_a_defect_is_no_failure_and_keeps_its_trace(file):
    with pytest.raises(ZeroDivisionError):
        run([job("a", Counted(ZeroDivisionError()))], file)


def wait_until_nobody_is_left(group):
    """Workers of a process that was killed end by themselves."""
    for _ in range(400):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    os.killpg(group, signal.SIGKILL)
    raise AssertionError("workers have outlived the process that was killed")


def test_workers_compute_on_one_thread_with_what_they_are_given_and_end_when_their_parent_is_killed(
    file, tmp_path, monkeypatch, forked
):
    (tmp_path / "observed_threads.py").write_text(
        "import numba, time\n"
        "def threads(given):\n"
        "    return {'numba': numba.get_num_threads(), 'given': given}\n"
        "def sleep(given):\n"
        "    time.sleep(60)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    observed = importlib.import_module("observed_threads")
    jobs = [job(key, observed.threads) for key in ("first", "second", "third")]

    def lead():
        os.setpgid(0, 0)
        before = dict(os.environ)
        run(jobs, file, workers=2, given=[1.0, 2.0])
        assert dict(os.environ) == before
        run([*jobs, job("fourth", observed.sleep)], file, workers=2, given=[])

    running = forked(lead)
    while not file.exists() or file.read_bytes().count(b"\n") < 3:
        assert running.is_alive(), "it ended by itself"
        time.sleep(0.01)
    running.kill()
    running.join()
    wait_until_nobody_is_left(running.pid)
    seen = {"numba": 1, "given": [1.0, 2.0]}
    assert run([job(key, None) for key in ("first", "second", "third")], file).values == dict.fromkeys(
        ("first", "second", "third"), seen
    )


def test_a_value_that_is_not_finite_is_found_however_deep_it_stands(file):
    outcome = run([job("a", lambda given: {"test": {"mse": 0.1, "auc": float("inf")}})], file)
    assert outcome.failures == {"a": "test auc is inf"}


def test_a_second_run_on_the_same_file_is_told_who_writes_to_it_and_a_dead_one_bars_nobody(file, tmp_path, forked):

    def hold():
        with locked(file):
            (tmp_path / "holds").touch()
            time.sleep(60)

    holder = forked(hold)
    while not (tmp_path / "holds").exists():
        assert holder.is_alive()
        time.sleep(0.01)
    work = Counted()
    with pytest.raises(unskew.ParameterError, match=f"Process {holder.pid} is writing to .*records.jsonl: wait"):
        run([job("a", work)], file)
    assert work.times == 0
    holder.kill()
    holder.join()
    assert run([job("a", work)], file).values == {"a": {"x": 1.0}}
    assert sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith(".")) == ["holds", file.name]


def test_no_more_than_one_block_at_a_time_has_the_lock(file):
    with locked(file), pytest.raises(unskew.ParameterError, match=f"Process {os.getpid()} is writing"), locked(file):
        pass
    with locked(file):
        pass


@pytest.mark.parametrize("workers", [0, -1])
def test_there_is_at_least_one_worker(file, workers):
    with pytest.raises(unskew.ParameterError, match=f"workers must be at least 1, not {workers}"):
        run([], file, workers=workers)
