"""How fast, and in how much memory: ratios to something run beside it in the same process, for docs/performance.md.

    python benchmarks/speed.py --coat DATA/coat
    python benchmarks/speed.py --only steps --only large

Every timing is the median of `--repeats` runs that take turns with what they are compared to. Peak memory is measured
in processes of their own. Nothing else should run on the machine.
"""

from __future__ import annotations

import argparse
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numba
import numpy as np
import torch

import unskew
from unskew.data.split import holdout_split
from unskew.nets.base import Net
from unskew.propensity.additive import Additive
from unskew.training.loop import Loop
from unskew.training.threads import one_thread

sys.path.insert(0, str(Path(__file__).parent))
from plain_torch import PlainStep

QUIET = unskew.Training(progress=False)
YAHOO = {"n_users": 15_400, "n_items": 1_000, "density": 311_704 / 15_400_000}
MEGABYTE = 1 << 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=list(PARTS), help="a part, may be repeated (default: all)")
    parser.add_argument("--coat", type=Path, help="the folder of the published Coat files; without it Coat is left out")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--memory-of", choices=list(WORLDS), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.memory_of:
        print(memory_of(arguments.memory_of))
        return
    print(
        f"unskew {unskew.__version__}, Python {platform.python_version()}, PyTorch {torch.__version__}, "
        f"numba {numba.__version__} with {numba.get_num_threads()} threads, {platform.machine()}"
    )
    for name in arguments.only or PARTS:
        for line in PARTS[name](arguments):
            print(line, flush=True)


def medians(runs: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Seconds of each, taking turns, after a first round that is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(repeats + 1):
        for name, run in runs.items():
            began = time.perf_counter()
            run()
            if number:
                seconds[name].append(time.perf_counter() - began)
    return {name: float(np.median(values)) for name, values in seconds.items()}


def world(**settings: Any) -> unskew.RatingLog:
    return unskew.simulate(selection="taste", seed=0, **settings).log


def yahoo() -> unskew.RatingLog:
    return world(**YAHOO)


def coat(folder: Path) -> unskew.RatingLog:
    return unskew.datasets.coat(folder).train


# Steps


def steps(arguments: argparse.Namespace) -> list[str]:
    cases = [("Yahoo-sized, batch 4096, 64 factors", world(**YAHOO), 4096, 64)]
    coat_sized = world(n_users=290, n_items=300, density=0.08)
    cases.append(("Coat-sized, batch 512, 16 factors", coat_sized, 512, 16))
    lines = []
    for title, log, batch_size, n_factors in cases:
        ours, theirs = our_epoch(log, batch_size, n_factors), PlainStep(log, batch_size, n_factors)
        count = ours()
        found = medians({"ours": ours, "theirs": lambda: theirs.take(count)}, arguments.repeats)  # noqa: B023
        ms = {name: 1000 * value / count for name, value in found.items()}
        ratio = ms["theirs"] / ms["ours"]
        lines.append(f"DCE-DR step, {title}: {ms['ours']:.2f} ms against {ms['theirs']:.2f} ms: {ratio:.1f}x")
    return lines


def our_epoch(log: unskew.RatingLog, batch_size: int, n_factors: int) -> Callable[[], int]:
    """Takes all joint steps of an epoch of DCE-DR, imputation and prediction, in its training; says how many."""
    base = unskew.DRJL(net=unskew.MF(n_factors=n_factors), propensity=Additive())
    plan = unskew.DoublyCalibrated(base).plan()
    training = unskew.Training(batch_size=batch_size, max_epochs=1, progress=False)
    with one_thread():
        loop = Loop(plan, holdout_split(log, 0.1, seed=0), 0, training, None, None, "")
        loop.run()
        loop._look_up(plan.roles)
    stage = plan.stages[-1]
    still = frozenset(plan.roles) - stage.moves

    def epoch() -> int:
        with one_thread():
            return sum(len(values) for values in loop._taken(stage.updates, still))

    return epoch


# Whole fits


def fits(arguments: argparse.Namespace) -> list[str]:
    lines = []
    if arguments.coat:
        log = coat(arguments.coat)
        found = medians({"dce": lambda: fit("dce-dr", log), "naive": lambda: fit("naive", log)}, arguments.repeats)
        lines.append(f"DCE-DR whole fit on Coat: {found['dce']:.2f} s (Naive {found['naive']:.2f} s)")
    large = yahoo()
    found = medians({"dce": lambda: fit("dce-dr", large), "naive": lambda: fit("naive", large)}, arguments.repeats)
    lines.append(f"DCE-DR whole fit, Yahoo-shaped: {found['dce']:.1f} s (Naive {found['naive']:.1f} s)")
    epochs = unskew.Training(progress=False, max_epochs=10, patience=10)
    runs = {name: (lambda name=name: fit(name, large, epochs)) for name in ("dce-dr", "naive")}
    found = medians(runs, arguments.repeats)
    ratio = found["dce-dr"] / found["naive"]
    lines.append(
        f"Whole fit, 10 epochs, Yahoo-shaped: DCE-DR {found['dce-dr']:.1f} s, "
        f"Naive {found['naive']:.1f} s: {ratio:.1f}x"
    )
    return lines


def pairs(arguments: argparse.Namespace) -> list[str]:
    """DCE-DR over Naive by the number of pairs sampled for a rating, in joint learning and for the propensity."""
    log, epochs = yahoo(), unskew.Training(progress=False, max_epochs=10, patience=10)
    runs: dict[str, Callable[[], object]] = {"naive": lambda: fit("naive", log, epochs)}
    for count in (0.5, 1.0, 2.0):
        base = unskew.DRJL(pairs_per_row=count, propensity=unskew.Factors(pairs_per_row=count))
        runs[f"{count:g}"] = partial(unskew.DoublyCalibrated(base).fit, log, training=epochs)
    naive, *found = medians(runs, arguments.repeats).items()
    ratios = ", ".join(f"{seconds / naive[1]:.1f}x with {count}" for count, seconds in found)
    return [f"Whole fit, 10 epochs, Yahoo-shaped, DCE-DR over Naive by pairs sampled for a rating: {ratios}"]


def fit(name: str, log: unskew.RatingLog, training: unskew.Training = QUIET) -> unskew.Recommender:
    return unskew.make(name).fit(log, training=training)


def cornac(arguments: argparse.Namespace) -> list[str]:
    """The library's own compiled MF with biases against our Naive: same factors, same epochs, same rows."""
    from cornac.data import Dataset
    from cornac.models import MF

    log, n_factors, epochs = yahoo(), 64, 50
    rows = list(zip(log.users.tolist(), log.items.tolist(), log.ratings.tolist(), strict=True))
    data = Dataset.build(rows)
    method = unskew.Naive(net=unskew.MF(n_factors=n_factors))
    training = unskew.Training(progress=False, max_epochs=epochs, patience=epochs)
    found = medians(
        {
            "ours": lambda: method.fit(log, training=training),
            "theirs": lambda: MF(k=n_factors, max_iter=epochs, use_bias=True, seed=0, num_threads=1).fit(data),
        },
        arguments.repeats,
    )
    ratio = found["ours"] / found["theirs"]
    return [
        f"Naive, 64 factors, 50 epochs, Yahoo-shaped: {found['ours']:.2f} s against {found['theirs']:.2f} s "
        f"of Cornac's MF: {ratio:.1f}x"
    ]


# Scale and memory

LARGE = {"n_users": 1_000_000, "n_items": 100_000, "density": 1e-4}
MEDIUM = {"n_users": 100_000, "n_items": 10_000, "density": 1e-3}
WORLDS = {"yahoo": (YAHOO, 64), "large": (LARGE, 32)}


def large(arguments: argparse.Namespace) -> list[str]:
    training = unskew.Training(progress=False, max_epochs=arguments.repeats, patience=arguments.repeats)
    method = unskew.DoublyCalibrated(unskew.DRJL(net=unskew.MF(n_factors=32)))
    per_rating = {}
    for title, settings in (("1 million", MEDIUM), ("10 million", LARGE)):
        log = world(**settings)
        history = method.fit(log, training=training).history
        epochs = [epoch.seconds for epoch in history.of("prediction")]
        per_rating[title] = float(np.median(epochs)) / len(log) * 1e6
    ratio = per_rating["10 million"] / per_rating["1 million"]
    words = ", ".join(f"{title} ratings {value:.2f} us" for title, value in per_rating.items())
    return [f"DCE-DR, time per rating and epoch: {words}: {ratio:.2f}x"]


def memory(arguments: argparse.Namespace) -> list[str]:
    command = [sys.executable, __file__, "--memory-of"]
    return [subprocess.run([*command, name], check=True, capture_output=True, text=True).stdout for name in WORLDS]


def memory_of(name: str) -> str:
    """Fit DCE-DR once; the peak of the process, and what of it is above interpreter, log and tables."""
    settings, n_factors = WORLDS[name]
    log = world(**settings)
    small = world(n_users=300, n_items=200, density=0.3)
    for batch_size in (256, 1 << 14):  # compile first, for one thread and for many
        options = unskew.Training(progress=False, max_epochs=1, batch_size=batch_size)
        unskew.make("dce-dr").fit(small, training=options)
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak of making the world
    training = unskew.Training(progress=False, max_epochs=2, patience=2)
    method = unskew.DoublyCalibrated(unskew.DRJL(net=unskew.MF(n_factors=n_factors)))
    model = method.fit(log, training=training)
    status = Path("/proc/self/status").read_text()
    peak = int(status.split("VmHWM:")[1].split()[0]) * 1024
    above = peak - resident - tables_of(model)
    return (
        f"DCE-DR, {len(log):,} ratings, {n_factors} factors: peak {peak / MEGABYTE:,.0f} MB, "
        f"{above / MEGABYTE:,.0f} MB above the interpreter, the log and the nets' tables with their moments"
    )


def tables_of(model: unskew.Recommender) -> int:
    """Values and both moments of all nets, those of a propensity once for each fold."""
    nets = [player for player in model.cast.players.values() if isinstance(player, Net)]
    nets += getattr(model.cast.players["propensity"], "nets", [])
    return sum(3 * table.value.numel() * 4 + table.steps.numel() * 8 for net in nets for table in net.tables())


PARTS: dict[str, Callable[[argparse.Namespace], list[str]]] = {
    "steps": steps,
    "fits": fits,
    "pairs": pairs,
    "cornac": cornac,
    "large": large,
    "memory": memory,
}

if __name__ == "__main__":
    main()
