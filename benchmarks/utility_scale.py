"""How long selection on utility takes to estimate in a large log, and how much memory: a figure of docs/utility.md.

    python benchmarks/utility_scale.py --users 1000000 --items 100000 --ratings 10000000

The log is that of a simulated utility world, with slope 0.2 unless told otherwise, so that the estimate can be compared
with the truth.
"""

from __future__ import annotations

import argparse
import time

from scripts import publish, script

import unskew
from unskew.bench.measure import Memory, warm_up


def main(arguments: list[str] | None = None) -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--users", type=int, default=1_000_000)
    options.add_argument("--items", type=int, default=100_000)
    options.add_argument("--ratings", type=int, default=10_000_000)
    options.add_argument("--slope", type=float, default=0.2)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--factors", type=int, default=16, help="of the naive nets (default: 16)")
    options.add_argument("--l2", type=float, default=unskew.Utility().l2, help="of the naive nets (default: the usual)")
    asked = options.parse_args(arguments)
    density = asked.ratings / asked.users / asked.items
    began = time.perf_counter()
    law = {"selection": "utility", "strength": asked.slope, "n_factors": 2, "test_per_user": 5, "seed": asked.seed}
    world = unskew.simulate(asked.users, asked.items, density, **law)
    log = world.log
    simulated = time.perf_counter() - began
    warm_up()
    Memory.forget_peak()
    began, worked = time.perf_counter(), time.process_time()
    net = unskew.MF(n_factors=asked.factors, spread=0.1)
    utility = unskew.Utility(base=unskew.Uniform(), net=net, l2=asked.l2)
    fitted = utility.fit(log, training=unskew.Training(progress=False))
    seconds, busy = time.perf_counter() - began, time.process_time() - worked
    nets = sum(epoch.seconds for epoch in fitted.history.epochs) if fitted.history else 0.0
    n = fitted.selection.numbers
    publish(
        [
            f"{asked.users:,} users x {asked.items:,} items, {len(log):,} ratings (simulated in {simulated:.0f} s), "
            f"true slope {asked.slope}: {' '.join(fitted.notes)} Sampling error of the slope {n.sampling_error:.4f}; "
            f"positive rate {log.positive_rate:.3f} in the log, {n.positive_rate:.3f} estimated, 0.350 true. "
            f"{seconds:.0f} s ({busy:.0f} s of processors), of which {nets:.0f} s trained {len(fitted.nets)} nets; "
            f"peak memory {Memory.peak() / 1e9:.1f} GB.",
        ],
        None,
    )


if __name__ == "__main__":
    script(main)
