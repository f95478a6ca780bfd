"""How much memory a report takes beside the model it is about: `python benchmarks/report_memory.py [--folder FOLDER]`.

Fits `dce-dr` for one epoch to ten million made-up ratings by a million users on 100,000 items, saves it, and writes the
report on it in a fresh interpreter. Told are the anonymous memory (RssAnon of Linux) with the model loaded, and the
most that was seen while each step of the report went on, in samples every 20 ms. The folder keeps the model.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import threading
import time
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
from load import anonymous

import unskew
from unskew.report import material
from unskew.report.report import write_report

GB = 1e9


def made_up(n_users: int, n_items: int, n_ratings: int) -> unskew.RatingLog:
    """Popular items have more ratings, and better ones; no pair comes twice."""
    rng = np.random.default_rng(0)
    users = rng.integers(n_users, size=2 * n_ratings)
    items = (n_items * rng.random(2 * n_ratings) ** 2).astype(np.int64)
    pairs = rng.permutation(np.unique(users * n_items + items))[:n_ratings]
    users, items = np.divmod(pairs, n_items)
    ratings = rng.random(len(pairs)) < 0.7 - 0.4 * items / n_items
    return unskew.RatingLog.from_arrays(users, items, ratings.astype(np.float64), positive=1)


def fit(folder: Path, sizes: list[int]) -> None:
    training = unskew.Training(max_epochs=1, progress=False)
    unskew.make("dce-dr").fit(made_up(*sizes), training=training).save(folder / "model")


def report(folder: Path) -> None:
    import torch  # noqa: F401 (what the interpreter has before)

    empty = anonymous()
    model = unskew.load(folder / "model")
    loaded = anonymous()
    print(f"{model.log!r}: {(loaded - empty) / GB:.2f} GB of a model")
    step, peaks, ended = ["opening"], dict[str, int](), threading.Event()
    usual = material.Workshop.__init__

    def overheard(shop: material.Workshop, announce: material.Announce) -> None:
        def heard(what: str) -> None:
            step[0] = what
            announce(what)

        usual(shop, heard)

    def watch() -> None:
        while not ended.wait(0.02):
            peaks[step[0]] = max(peaks.get(step[0], 0), anonymous())

    material.Workshop.__init__ = overheard  # type: ignore[method-assign]
    watcher = threading.Thread(target=watch)
    watcher.start()
    began = time.process_time()
    write_report(model, folder / "report.html")
    ended.set()
    watcher.join()
    for what, peak in peaks.items():
        print(f"{(peak - loaded) / GB:5.2f} GB above it at most: {what}")
    print(f"{time.process_time() - began:.0f} s of processor time")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="where to keep the model")
    parser.add_argument("--sizes", type=int, nargs=3, default=[1_000_000, 100_000, 10_000_000], metavar="N")
    parser.add_argument("--step", choices=("all", "fit", "report"), default="all", help=argparse.SUPPRESS)
    options = parser.parse_args()
    folder = options.folder or Path(mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    if options.step == "all":
        again = [sys.executable, __file__, "--folder", str(folder), "--sizes", *map(str, options.sizes), "--step"]
        for one in ("fit", "report") if not (folder / "model").exists() else ("report",):
            subprocess.run([*again, one], check=True)
    else:
        fit(folder, options.sizes) if options.step == "fit" else report(folder)


if __name__ == "__main__":
    main()
