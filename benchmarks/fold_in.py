"""What folding in is worth: the error on new users' items, in worlds where every preference is known.

    python benchmarks/fold_in.py --seeds 20

A fifth of the users of a world is kept from a model. Each of them then brings 1, 3, 10 or all of the ratings they have
given, and is answered for as the average user, folded in (`model.fold_in`), or fitted: by a model trained anew on the
whole log, which has all their ratings. The error is the mean squared distance to the true preferences of these users
over all items, and it is compared with that of the average user on the same world and method.

`--speed N` folds N users of 10 ratings each into a model of 64 factors instead, and says what it took.
"""

from __future__ import annotations

import argparse
from resource import RUSAGE_SELF, getrusage
from time import process_time
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import unskew
from unskew.runtime import each

QUIET = unskew.Training(progress=False)
METHODS = {"naive": unskew.Naive(), "ips": unskew.IPS(propensity=unskew.Additive()), "dce-dr": unskew.make("dce-dr")}
RATINGS = (1, 3, 10, None)  # of each new user; None is all
COLUMNS = ("average user", *(f"{n or 'all'} ratings" for n in RATINGS), "fitted anew")


def measured(method: unskew.Method, seed: int, n_users: int, n_items: int, training: unskew.Training) -> list[float]:
    """The errors in the order of the columns."""
    world = unskew.simulate(n_users, n_items, density=0.06, seed=seed)
    log, generator = world.log, np.random.default_rng(seed)
    new = np.sort(generator.choice(np.unique(log.users), n_users // 5, replace=False))
    known = log.take(~np.isin(log.users, new))
    model = method.fit(_as_log(known, n_items), seed=seed, training=training)
    truth = world.preference(new[:, None], np.arange(n_items)[None])

    def error(of: unskew.Recommender, **rules: Any) -> float:
        said = of.predict(np.repeat(new, n_items), np.tile(np.arange(n_items), len(new)), **rules)
        return float(np.square(said.reshape(truth.shape) - truth).mean())

    rows = generator.permutation(np.flatnonzero(np.isin(log.users, new)))
    found = [error(model, on_unknown="fallback")]
    found += [error(model.fold_in(_frame(log.take(_first(log.users, rows, most))))) for most in RATINGS]
    return [*found, error(method.fit(_as_log(log, n_items), seed=seed, training=training))]


def _as_log(log: unskew.RatingLog, n_items: int) -> unskew.RatingLog:
    return unskew.RatingLog.from_arrays(log.users, log.items, log.ratings, positive=1, item_ids=range(n_items))


def _first(users: NDArray[Any], rows: NDArray[np.int64], most: int | None) -> NDArray[np.int64]:
    """Of each user, no more than so many of the rows."""
    ordered = rows[np.argsort(users[rows], kind="stable")]
    starts = np.searchsorted(users[ordered], users[ordered])
    return ordered if most is None else ordered[np.arange(len(ordered)) - starts < most]


def _frame(log: unskew.RatingLog) -> pa.Table:
    return pa.table({"user_id": log.users, "item_id": log.items, "rating": log.ratings})


def table(seeds: int, n_users: int = 600, n_items: int = 300, training: unskew.Training = QUIET) -> str:
    lines = [f"| error x 1000, {seeds} worlds | {' | '.join(COLUMNS)} |", "|---" * (len(COLUMNS) + 1) + "|"]
    for name, method in METHODS.items():
        found = [measured(method, seed, n_users, n_items, training) for seed in each(range(seeds), name, "world")]
        errors = 1000 * np.array(found)
        gains = errors - errors[:, :1]
        cells = [f"{errors[:, 0].mean():.1f}"]
        for column in gains.T[1:]:
            spread = f" ± {column.std(ddof=1) / np.sqrt(seeds):.1f}" if seeds > 1 else ""
            cells.append(f"{column.mean():+.1f}{spread}")
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def speed(n_new: int, n_users: int = 2000, n_items: int = 1000) -> str:
    """Seconds of processor time, and by how much the largest amount of memory grew."""
    world = unskew.simulate(n_users, n_items, density=0.02, seed=0)
    model = unskew.Naive().fit(world.log, training=unskew.Training(max_epochs=1, progress=False))
    generator = np.random.default_rng(0)
    items = (generator.integers(n_items, size=(n_new, 1)) + 37 * np.arange(10)) % n_items
    users = n_users + np.repeat(np.arange(n_new), 10)
    frame = pa.table({"user_id": users, "item_id": items.ravel(), "rating": generator.integers(0, 2, 10 * n_new)})
    before, began = getrusage(RUSAGE_SELF).ru_maxrss, process_time()
    model.fold_in(frame)
    seconds, grown = process_time() - began, getrusage(RUSAGE_SELF).ru_maxrss - before
    return f"{n_new:,} users of 10 ratings: {seconds:.1f} s of processor time, {grown / 1e3:.0f} MB more memory"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20, help="how many worlds (default: 20)")
    parser.add_argument("--speed", type=int, metavar="N", help="fold in so many users instead")
    asked = parser.parse_args()
    print(table(asked.seeds) if asked.speed is None else speed(asked.speed))
