"""`unskew fit --checkpoint`: Ctrl-C leaves the last checkpoint, and the same command goes on from it."""

from __future__ import annotations

import shlex

from unskew.training.checkpoint import Checkpoint

FEW = ("--method", "ips", "--set", "propensity=additive", "--epochs", 3, "--batch-size", 64)


def test_an_interrupted_fit_says_how_to_go_on_and_ends_with_the_same_bits(files, run, tmp_path, monkeypatch):
    command = ("fit", files / "ratings.csv", *FEW)
    run(*command, "--out", tmp_path / "undisturbed")
    states = tmp_path / "states"
    with_states = (*command, "--out", tmp_path / "model", "--checkpoint", states, "--checkpoint-every", 4)

    def save(self, content, arrays, write=Checkpoint.save):
        write(self, content, arrays)
        if self.number == 3:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Checkpoint, "save", save)
        said = run(*with_states, code=130).stderr
    command = shlex.join(["unskew", *map(str, with_states)])
    assert said.splitlines()[-2:] == [
        f"interrupted: the state of the run is kept in {states}.",
        f"to go on: {command}",
    ]
    assert states.is_dir()
    assert not (tmp_path / "model").exists()
    run(*with_states)
    weights = "weights.safetensors"
    assert (tmp_path / "model" / weights).read_bytes() == (tmp_path / "undisturbed" / weights).read_bytes()
    assert not states.exists()


def test_a_checkpoint_of_another_command_is_refused_before_training(files, run, tmp_path, monkeypatch):
    states = ("--checkpoint", tmp_path / "states", "--out", tmp_path / "model")
    monkeypatch.setattr(Checkpoint, "due", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    run("fit", files / "ratings.csv", *FEW, *states, code=130)
    said = run("fit", files / "ratings.csv", *FEW, *states, "--seed", 7, code=2).stderr
    assert "is of a run with another seed: 0, not 7" in said


def test_a_folder_of_other_things_is_never_taken_for_checkpoints(files, run, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    said = run("fit", files / "ratings.csv", *FEW, "--out", tmp_path / "model", "--checkpoint", tmp_path, code=2).stderr
    assert "holds 'notes.txt', which is no part of a checkpoint" in said
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_fit_is_resumable_without_asking_and_leaves_nothing_behind(files, run, tmp_path, monkeypatch):
    monkeypatch.setattr(Checkpoint, "_not_before", 0.0)
    command = ("fit", files / "ratings.csv", *FEW, "--out", tmp_path / "model", "--quiet")

    def save(self, content, arrays, write=Checkpoint.save):
        write(self, content, arrays)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Checkpoint, "save", save)
        said = run(*command, code=130).stderr
    states = tmp_path / "model.states"
    assert said.splitlines() == [
        f"interrupted: the state of the run is kept in {states}.",
        f"to go on: {shlex.join(['unskew', *map(str, command)])}",
    ]
    assert list(tmp_path.iterdir()) == [states]
    run(*command)
    assert list(tmp_path.iterdir()) == [tmp_path / "model"]
    assert "states" not in (tmp_path / "model" / "model.json").read_text()


def test_without_states_an_interrupted_fit_leaves_nothing_and_says_so(files, run, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("unskew.training.loop.Loop.run", interrupted)
    command = ("fit", files / "ratings.csv", *FEW, "--out", tmp_path / "model", "--quiet", "--no-checkpoint")
    assert run(*command, code=130).stderr == "interrupted: no half-written file was left behind.\n"
    assert not list(tmp_path.iterdir())


def test_states_are_written_as_often_as_costs_little_time(tmp_path, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("unskew.training.checkpoint.time.monotonic", lambda: clock[0])
    monkeypatch.setattr(Checkpoint, "_not_before", 0.0)

    def slow(*_):
        clock[0] += 3.0

    monkeypatch.setattr("unskew.training.checkpoint.replace_file", slow)
    usual, inner, strict = (
        Checkpoint(str(tmp_path / name), every, {}) for name, every in (("a", 0), ("b", 0), ("c", 1000))
    )
    assert [usual.due(1) for _ in range(1000)] == [False] * 999 + [True]
    usual.save({}, {})  # it took 3 s, so that the next may be written 60 s later
    clock[0] += 59
    assert not usual.affordable
    assert not inner.affordable
    assert strict.affordable
    assert sum(usual.due(1) for _ in range(1000)) == 0
    assert sum(strict.due(1) for _ in range(1000)) == 1
    clock[0] += 1
    assert usual.affordable
    assert usual.due(1)
