"""Several workers train the model that one would; one that is killed changes nothing."""

from __future__ import annotations

import csv
import importlib.util
import json
import os
import subprocess
import sys
from itertools import product
from pathlib import Path
from subprocess import PIPE

import numpy as np
import pytest

import unskew
from unskew.data.feed import Feed
from unskew.errors import ParameterError

SCRIPT = Path(__file__).with_name("together.py")
spec = importlib.util.spec_from_file_location("together", SCRIPT)
together = importlib.util.module_from_spec(spec)
spec.loader.exec_module(together)


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """The folder of one run for all claims, and what it said: starting takes longer than the rest."""
    folder = tmp_path_factory.mktemp("together")
    log = together.world().log
    with (folder / "ratings.csv").open("w", newline="") as file:
        csv.writer(file).writerow(["user_id", "item_id", "rating"])
        csv.writer(file).writerows(zip(log.users, log.items, 1 + 4 * log.ratings, strict=True))
    environment = os.environ | {"PYTHONPATH": str(Path(unskew.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        [sys.executable, SCRIPT, folder], env=environment, stdout=PIPE, stderr=PIPE, text=True
    ) as run:
        try:
            said, complaints = run.communicate(timeout=300)
        except subprocess.TimeoutExpired:
            run.terminate()  # the agent then ends its workers, which a kill would leave behind
            raise
    assert run.returncode == 0, complaints[-3000:]
    return folder, said


def test_two_workers_train_the_model_that_one_does(ran, monkeypatch):
    folder, _ = ran
    first, second = (json.loads((folder / f"agree-{rank}.json").read_text()) for rank in (0, 1))
    monkeypatch.setattr(Feed, "stretches", together.every_pair)
    for name, engine in product(together.METHODS, ("compiled", "torch")):
        alone, ours = together.fitted(name, engine, spread=False), first[f"{name} {engine}"]
        assert len(alone["risks"]) >= 6
        assert ours.keys() == alone.keys()
        for figures in alone.keys() - {"shared"}:
            what = f"{figures} of {name}, {engine}"
            np.testing.assert_allclose(ours[figures], alone[figures], rtol=1e-5, atol=1e-5, err_msg=what)
        # Decisions are the same everywhere, and so are rows of items and small nets, to the bit.
        assert second[f"{name} {engine}"]["risks"] == ours["risks"]
        assert second[f"{name} {engine}"]["shared"] == ours["shared"] != []
    for engine, found in first["by rows"].items():  # of large tables, rows that were read are sent, to the same effect
        assert found == first[f"naive {engine}"]
    said = second["refusals"]
    assert said["known"].startswith("Known cannot be fitted by several workers: use Additive()")
    assert said["batches"].endswith("batches: start fewer workers or give a larger batch.")


def test_a_worker_that_is_killed_changes_nothing(ran):
    folder, said = ran
    assert (folder / "died").exists()
    weights = [(folder / name / "weights.safetensors").read_bytes() for name in ("killed", "undisturbed")]
    assert weights[0] == weights[1]
    assert len(unskew.load(folder / "killed").log) == len(together.world().log)
    assert not (folder / "states of killed").exists()
    assert said.count("wrote the model to") == 2  # of two models, each by the first worker


def test_spreading_without_torchrun_is_refused(monkeypatch):
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ParameterError, match="torchrun has started: torchrun --nproc_per_node 2"):
        unskew.Naive().fit(together.world().log, training=unskew.Training(spread=True))
