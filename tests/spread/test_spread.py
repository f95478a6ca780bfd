"""Several workers train the model that one would; one that is killed changes nothing."""

from __future__ import annotations

import csv
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import unskew
from unskew.data.feed import Feed
from unskew.errors import ParameterError

SCRIPT = Path(__file__).with_name("together.py")
spec = importlib.util.spec_from_file_location("together", SCRIPT)
together = importlib.util.module_from_spec(spec)
spec.loader.exec_module(together)


def torchrun(task, folder, *options):
    source = Path(unskew.__file__).parents[1]
    environment = os.environ | {"PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", *options]
    done = subprocess.run([*words, SCRIPT, task, folder], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return done


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("spread")
    log = together.world().log
    with (folder / "ratings.csv").open("w", newline="") as file:
        csv.writer(file).writerow(["user_id", "item_id", "rating"])
        csv.writer(file).writerows(zip(log.users, log.items, 1 + 4 * log.ratings, strict=True))
    return folder


@pytest.fixture(scope="module")
def both(folder):
    """What each of two workers found, and what the first one said."""
    done = torchrun("agree", folder)
    return [json.loads((folder / f"agree-{rank}.json").read_text()) for rank in (0, 1)], done.stdout


@pytest.mark.parametrize("engine", ["compiled", "torch"])
@pytest.mark.parametrize("name", together.METHODS)
def test_two_workers_train_the_model_that_one_does(name, engine, both, monkeypatch):
    monkeypatch.setattr(Feed, "_stretch", together.every_pair)
    (first, second), alone = both[0], together.fitted(name, engine, spread=False)
    ours = first[f"{name} {engine}"]
    assert len(alone["risks"]) >= 6
    assert ours.keys() == alone.keys()
    for figures in alone.keys() - {"shared"}:
        np.testing.assert_allclose(ours[figures], alone[figures], rtol=1e-5, atol=1e-5, err_msg=figures)
    assert second[f"{name} {engine}"]["risks"] == ours["risks"]


def test_rows_of_items_and_small_nets_are_equal_on_all_workers_to_the_bit(both):
    first, second = both[0]
    for name in together.METHODS:
        assert first[f"{name} compiled"]["shared"] == second[f"{name} compiled"]["shared"] != []


def test_what_cannot_be_spread_is_refused_by_name(both):
    said = both[0][1]["refusals"]
    assert said["known"].startswith("Known cannot be fitted by several workers: use Additive()")
    assert "training ratings for" in said["batches"]
    assert said["batches"].endswith("start fewer workers or give a larger batch.")


def test_a_worker_that_is_killed_changes_nothing(both, folder):
    torchrun("die", folder, "--max_restarts", "2")
    assert (folder / "died").exists()
    weights = [(folder / name / "weights.safetensors").read_bytes() for name in ("killed", "undisturbed")]
    assert weights[0] == weights[1]
    model = unskew.load(folder / "killed")
    assert len(model.log) == len(together.world().log)
    assert not (folder / "states of killed").exists()


def test_only_the_first_worker_speaks(both):
    assert both[1].count("wrote the model to") == 1


def test_spreading_without_torchrun_is_refused(monkeypatch):
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ParameterError, match="torchrun has started: torchrun --nproc_per_node 2"):
        unskew.Naive().fit(together.world().log, training=unskew.Training(spread=True))
