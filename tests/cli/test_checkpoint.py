"""`unskew fit --checkpoint`: Ctrl-C leaves the last checkpoint, and the same command goes on from it."""

from __future__ import annotations

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
    assert said == f"interrupted: the same command goes on from the last checkpoint in {states}.\n"
    assert states.is_dir()
    assert not (tmp_path / "model").exists()
    run(*with_states)
    weights = "weights.safetensors"
    assert (tmp_path / "model" / weights).read_bytes() == (tmp_path / "undisturbed" / weights).read_bytes()
    assert not states.exists()


def test_a_checkpoint_of_another_command_is_refused_before_training(files, run, tmp_path, monkeypatch):
    states = ("--checkpoint", tmp_path / "states", "--out", tmp_path / "model")
    monkeypatch.setattr(Checkpoint, "due", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
    run("fit", files / "ratings.csv", *FEW, *states, code=130)
    said = run("fit", files / "ratings.csv", *FEW, *states, "--seed", 7, code=2).stderr
    assert "is of a run with another seed: 0, not 7" in said


def test_a_folder_of_other_things_is_never_taken_for_checkpoints(files, run, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    said = run("fit", files / "ratings.csv", *FEW, "--out", tmp_path / "model", "--checkpoint", tmp_path, code=2).stderr
    assert "holds 'notes.txt', which is no part of a checkpoint" in said
    assert (tmp_path / "notes.txt").read_text() == "mine"
