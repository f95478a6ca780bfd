"""How much faster several workers train one model: `python benchmarks/spread.py [--workers 2] [--epochs 3]`.

A simulated log in the shape of Yahoo!R3 (15,400 users, 1,000 items, 311,704 ratings), or with `--world million` one of
a million ratings (100,000 users, 10,000 items), is fitted with 64 factors by one worker and by several, each on one
thread, with the same global batch. Both are started by torchrun and take turns.
"Seconds" are those of an epoch in the model's history, the least of all runs, so that reading, starting and compiling
are left out. "Processor" is what the busiest worker's main thread spends on an epoch, which is what an epoch would take
if nobody else used the machine and sending took no time.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

METHODS = ("naive", "dr-jl", "dce-dr")
WORLDS = {"yahoo": (15_400, 1_000, 311_704), "million": (100_000, 10_000, 1_000_000)}


def work(method: str, world: str, epochs: int, batch_size: int | None) -> None:
    """What each process does; the first one prints wall and processor seconds of each stage's epochs."""
    import torch

    import unskew
    from unskew.training.loop import Loop

    busy: dict[str, list[float]] = {}

    def timed(loop: Any, stage: Any, *rest: Any, run: Any = Loop._run_epoch) -> Any:
        began = time.thread_time()
        risk = run(loop, stage, *rest)
        busy.setdefault(stage.name, []).append(float(loop.group.largest(time.thread_time() - began)))
        return risk

    Loop._run_epoch = timed  # type: ignore[method-assign]
    torch.set_num_threads(1)
    n_users, n_items, n_ratings = WORLDS[world]
    log = unskew.simulate(n_users, n_items, density=n_ratings / (n_users * n_items), seed=0).log
    training = unskew.Training(max_epochs=epochs, batch_size=batch_size, spread=True, progress=False)
    model = unskew.make(method).fit(log, training=training)
    if training.group.rank == 0:
        seconds: dict[str, list[float]] = {}
        for epoch in model.history.epochs:
            seconds.setdefault(epoch.stage.split()[0], []).append(epoch.seconds)
        risk = model.history.epochs[-1].validation
        print("RESULT", json.dumps({"seconds": seconds, "processor": busy, "risk": risk}), flush=True)


def run(workers: int, method: str, world: str, epochs: int, batch_size: int | None) -> dict[str, Any]:
    source = Path(__file__).parents[1] / "src"
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(workers), __file__]
    words += ["--work", method, "--world", world, "--epochs", str(epochs)]
    words += ["--batch-size", str(batch_size)] if batch_size else []
    environment = os.environ | one_thread | {"PYTHONPATH": str(source)}
    done = subprocess.run(words, env=environment, check=True, capture_output=True, text=True)
    line = next(line for line in done.stdout.splitlines() if "RESULT" in line)
    result: dict[str, Any] = json.loads(line.split("RESULT ")[1])
    return result


def main(arguments: argparse.Namespace) -> None:
    import torch

    print(
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, torch {torch.__version__}"
    )
    print(f"{'method':8} {'stage':12} {'':10} {'1 worker':>9} {f'{arguments.workers} workers':>10} {'ratio':>6}")
    for method in arguments.methods or METHODS:
        least: dict[int, dict[tuple[str, str], float]] = {1: {}, arguments.workers: {}}
        for _ in range(arguments.repeats):
            for workers, found in least.items():
                result = run(workers, method, arguments.world, arguments.epochs, arguments.batch_size)
                for kind in ("seconds", "processor"):
                    for stage, values in result[kind].items():
                        quickest = min(values[1:] or values)  # the first epoch compiles
                        found[stage, kind] = min(found.get((stage, kind), float("inf")), quickest)
        for (stage, kind), alone in sorted(least[1].items(), reverse=True):
            together = least[arguments.workers][stage, kind]
            row = f"{method:8} {stage:12} {kind:10} {alone:8.3f}s {together:9.3f}s {alone / together:6.2f}"
            print(row, flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--world", choices=WORLDS, default="yahoo")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--batch-size", type=int)
    parser.add_argument("--methods", nargs="*", choices=METHODS)
    parser.add_argument("--work", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        work(given.work, given.world, given.epochs, given.batch_size)
    else:
        main(given)
