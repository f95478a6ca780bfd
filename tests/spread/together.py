"""What two workers do in `test_spread`: `together.py FOLDER` starts them as torchrun would; or one, from the test."""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

import unskew
from unskew.cli import app
from unskew.data.features import Features
from unskew.data.feed import Feed, Stretch
from unskew.data.rows import Pairs, Shuffled
from unskew.errors import UnskewError
from unskew.nets import compiled, sharing
from unskew.training.checkpoint import Checkpoint

SMALL = unskew.MF(n_factors=4)
DESCRIBED = unskew.MF(n_factors=4, features="always")
# Experts settle on a user's map like a thrown die: rounding decides. As a warm mixture they are a smooth function.
EXPERTS = unskew.ExpertPlatt(assignment="expected")
METHODS = {
    "naive": unskew.Naive(net=SMALL),
    "ips": unskew.IPS(net=SMALL, propensity=unskew.Additive()),
    "dr-jl": unskew.DRJL(net=SMALL),
    "dce-dr": unskew.DoublyCalibrated(
        unskew.DRJL(net=SMALL, propensity=unskew.Factors(n_folds=2)), unskew.UserPlatt(), EXPERTS
    ),
    "mr": unskew.MR(net=SMALL, propensity=unskew.Popularity()),
    "escm2-dr": unskew.ESCM2DR(net=unskew.Trunk(n_factors=4)),
    "with features": unskew.DRJL(net=DESCRIBED, propensity=unskew.Factors(net=DESCRIBED, n_folds=2)),
}
REFUSED = {
    "known": unskew.IPS(net=SMALL, propensity=unskew.Known(lambda users, items: np.full(len(users), 0.2))),
    "batches": unskew.Naive(net=SMALL),
}


def world() -> unskew.World:
    return unskew.simulate(n_users=61, n_items=40, density=0.25, seed=1)


def described() -> unskew.RatingLog:
    """Three features each, some of them missing."""
    log, rng = world().log, np.random.default_rng(2)
    values = [np.where(rng.random((n, 3)) < 0.2, np.nan, rng.normal(size=(n, 3))) for n in (log.n_users, log.n_items)]
    users, items = (Features(("a", "b", "c"), side) for side in values)
    return replace(log, user_features=users, item_features=items)


def every_pair(feed: Feed):
    """In the place of a sample: all pairs of this worker's users, so that one worker and several see the same."""
    users, items = np.divmod(np.arange(feed.log.n_pairs), feed.log.n_items)
    if feed.members:
        copies = range(feed.members.copies)
        placed = [feed.members.placed(users, items, np.full(len(users), copy)) for copy in copies]
        users, items = (np.concatenate(side) for side in zip(*placed, strict=True))
    pairs = Pairs(torch.from_numpy(users), torch.from_numpy(items), seen=feed._was_seen)
    rows = Shuffled(feed._train, np.arange(len(feed._train)))
    cuts = (np.array([0, len(block)]) for block in (rows, pairs))
    yield Stretch(rows, pairs, *cuts, len(rows) * feed._train_weight, len(pairs), feed.n_pairs)


def fitted(name: str, engine: str, spread: bool):
    """Validation risks and predictions of a model, and the bytes of all that workers keep equal."""
    log = described() if name == "with features" else world().log
    epochs = 40 if name == "dce-dr" else 8  # planned: it stops when patience ends, and its experts stay warm
    training = unskew.Training(
        max_epochs=epochs, patience=2, batch_size=1 << 20, engine=engine, spread=spread, progress=False
    )
    model = METHODS[name].fit(log, training=training)
    shared = [
        table.value.numpy().tobytes().hex()
        for player in model.cast.players.values()
        for net in (player, *getattr(player, "nets", ()))
        if isinstance(net, torch.nn.Module)
        for table in net.tables()
        if not table.by_user
    ]
    found = {"risks": [epoch.validation for epoch in model.history.epochs][:12], "shared": shared}
    if training.group.rank == 0:
        pairs = np.divmod(np.arange(log.n_pairs), log.n_items)
        found["predictions"] = model.predict_codes(*pairs)[::31].tolist()
        if model.overlap:
            found["overlap"] = [model.overlap.effective_sample_size, model.overlap.mean_over_pairs]
        if model.calibration:
            found["calibration"] = [role.after.expected_error for role in model.calibration.roles]
    return found


def refusal(name: str) -> str:
    training = unskew.Training(batch_size=1 if name == "batches" else None, spread=True, progress=False)
    try:
        REFUSED[name].fit(world().log, training=training)
    except UnskewError as error:
        return str(error)
    return "nothing was refused"


def agree(folder: Path) -> None:
    usual, Feed.stretches = Feed.stretches, every_pair
    found = {f"{name} {engine}": fitted(name, engine, True) for name in METHODS for engine in ("compiled", "torch")}
    for module in (sharing, compiled):
        module.SENT_WHOLE = 0  # as if every table were a large one
    found["by rows"] = {engine: fitted("naive", engine, True) for engine in ("compiled", "torch")}
    Feed.stretches = usual
    found["refusals"] = {name: refusal(name) for name in REFUSED}
    (folder / f"agree-{os.environ['RANK']}.json").write_text(json.dumps(found))


def fit(folder: Path, model: str) -> None:
    words = ["fit", folder / "ratings.csv", "--method", "dce-dr", "--out", folder / model, "--epochs", 3]
    states = ["--batch-size", 256, "--checkpoint", folder / f"states of {model}", "--checkpoint-every", 4]
    app([str(word) for word in (*words, *states)], standalone_mode=False)


def die_once(folder: Path) -> None:
    """The second worker is killed in the middle, before the state it was about to write, and never again."""

    def save(self, content, arrays, write=Checkpoint.save):
        died = folder / "died"
        if os.environ["RANK"] == "1" and content["place"]["stage"] == 2 and self.number >= 5 and not died.exists():
            died.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        write(self, content, arrays)

    Checkpoint.save = save
    fit(folder, "killed")


def work(folder: Path) -> None:
    torch.set_num_threads(1)
    die_once(folder)
    fit(folder, "undisturbed")
    agree(folder)


def main(folder: Path) -> None:
    """As `torchrun --standalone --nproc_per_node 2 --max_restarts 2`, but workers are forked and need no imports."""
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=2,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        run_id=folder.name,
        max_restarts=2,
        start_method="fork",
        monitor_interval=0.1,
    )
    elastic_launch(config, work)(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
