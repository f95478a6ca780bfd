"""What random ratings buy where the truth is known: the tables of docs/slice.md.

    python benchmarks/slice_worlds.py --seeds 10

Worlds have 500 users, 250 items and about 10,000 ratings, seen by popularity alone (nothing to correct), by the
rating itself (constant odds), by liking of any cause, or by taste. Every model is given slices of random ratings, ten
of each size and one of the largest, and asked for its true risk; a method that trains by the slice is fitted anew for
two of each size. A run that is stopped goes on where it ended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np
from scipy.stats import ttest_1samp
from scripts import bare_parser, count, failed, publish, script

import unskew
from unskew.bench.formats import markdown_grid
from unskew.bench.jobs import Job, Outcome, run
from unskew.bench.records import Values

SIZES = (20, 50, 100, 500, 1000, 3000)
SELECTIONS = {"popularity": 0.5, "rating": 0.7, "utility": 0.25, "taste": 0.5}
WORLD: dict[str, Any] = {"n_users": 500, "n_items": 250, "density": 0.08, "n_factors": 4, "test_per_user": 40}
TRAINING = unskew.Training(progress=False)
SLICES, FITS = 10, 2
METHODS = {
    "naive": unskew.Naive(),
    "dr-jl": unskew.make("dr-jl"),
    "dr-jl, NaiveBayes(Factors())": unskew.DRJL(propensity=unskew.NaiveBayes(base=unskew.Factors())),
    "dce-dr": unskew.make("dce-dr"),
}


@lru_cache(maxsize=1)
def world(selection: str, seed: int) -> unskew.World:
    return unskew.simulate(**WORLD, selection=selection, strength=SELECTIONS[selection], seed=seed)


def drawn(here: unskew.World, size: int, number: int) -> unskew.RatingLog:
    rows = np.random.default_rng([here.seed, number]).permutation(len(here.test))[:size]
    return here.test.take(rows)


def trained_by_slice(method: unskew.Method) -> bool:
    parts = (role.part for role in method.plan().roles.values())
    return any(isinstance(part, unskew.NaiveBayes) for part in parts)


def risks(_: Any, *, method: unskew.Method, selection: str, seed: int) -> Values:
    """The true risk without random ratings (None for a method that cannot do without) and with each slice."""
    here, trains = world(selection, seed), trained_by_slice(method)
    needs = isinstance(getattr(method, "propensity", None), unskew.NaiveBayes)
    alone = None if needs else method.fit(here.log, seed=seed, training=TRAINING)

    def informed(size: int, number: int) -> unskew.Recommender:
        random = drawn(here, size, number)
        if alone is not None and not trains:
            return alone.with_random_ratings(random)
        return method.fit(here.log, seed=seed, training=TRAINING, random_ratings=random)

    found = {
        str(size): [here.risk(informed(size, number).predict_codes) for number in range(_times(size, trains))]
        for size in SIZES
    }
    return found | ({} if alone is None else {"0": [here.risk(alone.predict_codes)]})


def _times(size: int, trains: bool) -> int:
    return 1 if size == SIZES[-1] else FITS if trains else SLICES


def jobs(methods: Mapping[str, unskew.Method], seeds: int) -> list[Job]:
    return [
        Job(
            f"{selection}/{name}/{seed}",
            f"{method!r}, {selection} {strength}, {WORLD}, {SIZES}, {SLICES} {FITS}",
            partial(risks, method=method, selection=selection, seed=seed),
        )
        for seed in range(seeds)
        for selection, strength in SELECTIONS.items()
        for name, method in methods.items()
    ]


def world_table(outcome: Outcome, selection: str, names: Sequence[str], seeds: int) -> str:
    """Mean true risk by size, what the slice changed, and the p-value of that over worlds."""
    sizes = (0, *SIZES)
    rows = []
    for name in names:
        fits = [outcome.values.get(f"{selection}/{name}/{seed}") for seed in range(seeds)]
        if not all(fits):
            continue
        known = [fit for fit in fits if fit]
        means = {size: np.array([np.mean(fit[str(size)]) for fit in known if str(size) in fit]) for size in sizes}
        rows.append([name, *(_cell(means[size], means[0]) for size in sizes)])
    return f"**{selection}**\n\n" + markdown_grid(["true risk", *(f"{size:,}" for size in sizes)], rows)


def _cell(risk: np.ndarray, without: np.ndarray) -> str:
    if not len(risk):
        return ""
    text = f"{risk.mean():.4f}"
    if risk is without or not len(without):
        return text
    change = risk - without
    p = f", p {ttest_1samp(change, 0).pvalue:.1g}" if len(change) > 1 else ""
    return f"{text} ({change.mean():+.4f}{p})"


def main(arguments: list[str] | None = None) -> None:
    options = bare_parser(__doc__, "slice.jsonl")
    options.add_argument("--seeds", type=count, default=10, help="worlds of each kind (default: 10)")
    options.add_argument("--method", action="append", choices=METHODS, help="may be repeated (default: all)")
    asked = options.parse_args(arguments)
    methods = {name: METHODS[name] for name in asked.method or METHODS}
    outcome = run(jobs(methods, asked.seeds), asked.records, asked.workers)
    tables = (world_table(outcome, selection, list(methods), asked.seeds) for selection in SELECTIONS)
    publish((*tables, failed(outcome)), asked.out)


if __name__ == "__main__":
    script(main)
