"""Selection on utility where the truth is known, and on the real Coat: the tables of docs/utility.md.

    python benchmarks/utility.py --part worlds --seeds 20
    python benchmarks/utility.py --part risks --seeds 20
    python benchmarks/utility.py --part taste --seeds 20
    python benchmarks/utility.py --part slice --seeds 20
    python benchmarks/utility.py --coat DATA/coat --seeds 10

Worlds have 1,000 users, 500 items and about 25,000 ratings; worlds of one seed differ only in what is seen. `worlds`
estimates slopes of 0 to 0.3; `risks` compares the true risk of DR-JL, with its defaults, under this and other
propensities; `taste` has people who rate by explained liking alone; `slice` gives the estimate 50 random ratings.
`--coat` fits the methods with their defaults and reads the test set once for every fit, at its end. A run that is
stopped goes on where it ended.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scripts import failed, publish, script
from utility_tables import coat_table, risk_table, slice_table, taste_table, world_table

import unskew
from unskew.bench.jobs import Job, run
from unskew.bench.records import Values
from unskew.methods.features import set_features
from unskew.propensity.base import FittedPropensity, Propensity
from unskew.propensity.utility import FittedUtility

SLOPES, TASTES, UNEXPLAINED = (0.0, 0.1, 0.2, 0.3), (0.1, 0.2, 0.3), (0.0, 0.5, 1.0, 1.5)
WORLD: dict[str, Any] = {"n_users": 1000, "n_items": 500, "density": 0.05, "n_factors": 2}
TRAINING = unskew.Training(progress=False)
DR, OURS = unskew.DRJL(), unskew.make("dr-utility").propensity
SLICE = 50
METRICS = ("mse", "auc", "ndcg@5", "ndcg@10")
COAT = {
    "naive": unskew.Naive(),
    "naive-utility": unskew.make("naive-utility"),
    "naive-utility, 5 members": unskew.make("naive-utility", n_members=5),
    "dr-jl": unskew.make("dr-jl"),
    "dr-utility": unskew.make("dr-utility"),
    "dce-dr": unskew.make("dce-dr"),
    "dce-utility": unskew.make("dce-utility"),
    "ips-utility": unskew.make("ips-utility"),
    "utility-model": unskew.make("utility-model"),
}
BLIND = ("naive", "naive-utility", "dr-utility")  # also with nets that read no features
COAT |= {f"{name}, no features": set_features(COAT[name], False) for name in BLIND}


@dataclass(frozen=True, eq=False)
class Prefitted(unskew.Utility):
    """A propensity fitted before, so that several methods of a job share it."""

    known: FittedPropensity | None = None

    def fit_split(self, split: unskew.Split, **_: object) -> Any:
        return self.known


def told(world: unskew.World, fitted: FittedUtility) -> dict[str, Propensity]:
    """Every propensity of the comparison: those that ignore the rating, ours, and the truth about it."""
    return {
        "uniform": unskew.Uniform(),
        "popularity": Prefitted(known=fitted.base),
        "additive": unskew.Additive(),
        "factors": unskew.Factors(),
        "true p(u, i)": unskew.Known(world.propensity),
        "utility": Prefitted(known=fitted),
        "true p(u, i, r)": unskew.Known(world.propensity, given_rating=world.propensity),
    }


def found(fitted: FittedUtility, world: unskew.World) -> Values:
    """What the estimate says, beside what is true."""
    n, (low, high) = fitted.selection.numbers, fitted.interval
    mean = world.preference(*np.divmod(np.arange(world.n_pairs), world.n_items)).mean()
    return {
        "estimate": n.estimate,
        "low": low,
        "high": high,
        "gain": n.gain,
        "item_slope": n.item_slope,
        "finding": fitted.selection.finding,
        "log_rate": world.log.positive_rate,
        "rate": n.positive_rate,
        "true_rate": float(mean),
    }


def mapped(fitted: FittedUtility, log: unskew.RatingLog, seed: int) -> unskew.Recommender:
    """Naive-utility with a selection that is known."""
    return unskew.NaiveUtility(utility=Prefitted(known=fitted)).fit(log, seed=seed, training=TRAINING)


def utility_world(_: Any, *, slope: float, seed: int) -> Values:
    world = unskew.simulate(**WORLD, selection="utility", strength=slope, seed=seed)
    fitted = unskew.Utility(base=unskew.Uniform()).fit(world.log, seed=seed, training=TRAINING)
    naive = unskew.Naive().fit(world.log, seed=seed, training=TRAINING)
    risks = {
        "naive": world.risk(naive.predict_codes),
        "naive-utility": world.risk(mapped(fitted, world.log, seed).predict_codes),
    }
    return found(fitted, world) | {"risk": risks}


def risks_in_world(_: Any, *, slope: float, seed: int) -> Values:
    world = unskew.simulate(**WORLD, selection="utility", strength=slope, seed=seed)
    fitted = OURS.fit(world.log, seed=seed, training=TRAINING)
    risks = {
        name: world.risk(replace(DR, propensity=p).fit(world.log, seed=seed, training=TRAINING).predict_codes)
        for name, p in told(world, fitted).items()
    }
    risks["naive"] = world.risk(unskew.Naive().fit(world.log, seed=seed, training=TRAINING).predict_codes)
    risks["naive-utility"] = world.risk(mapped(fitted, world.log, seed).predict_codes)
    return {"risk": risks, "best": world.risk(world.preference)}


def taste_world(_: Any, *, slope: float, seed: int) -> Values:
    world = unskew.simulate(**WORLD, selection="taste", strength=slope, seed=seed)
    model = unskew.make("naive-utility").fit(world.log, seed=seed, training=TRAINING)
    right = model.at(unexplained=0.0)
    return found(model.player("selection"), world) | {
        "risk": world.risk(model.predict_codes),
        "risk_at_zero": world.risk(right.predict_codes),
        "slope_at_zero": right.player("selection").selection.numbers.estimate,
        "rate_at_zero": right.player("selection").selection.numbers.positive_rate,
    }


def slice_world(_: Any, *, unexplained: float, seed: int) -> Values:
    world = unskew.simulate(**WORLD, selection="utility", strength=0.2, unexplained=unexplained, seed=seed)
    rows = np.random.default_rng([seed, 50]).choice(len(world.test), SLICE, replace=False)
    recipe = unskew.Utility(base=unskew.Uniform())
    alone = recipe.fit(world.log, seed=seed, training=TRAINING)
    informed = replace_selection(alone, recipe.estimate(alone.cross_fitted, world.log, world.test.take(rows)))
    n = informed.selection.numbers
    return {
        "alone": world.risk(mapped(alone, world.log, seed).predict_codes),
        "with_slice": world.risk(mapped(informed, world.log, seed).predict_codes),
        "used": n.unexplained,
        "low": n.unexplained_low,
        "high": n.unexplained_high,
    }


def replace_selection(fitted: FittedUtility, selection: Any) -> FittedUtility:
    return FittedUtility(fitted.base, fitted.nets, fitted.seed, fitted.n_repeats, selection)


def coat_fit(data: unskew.datasets.Dataset, *, method: unskew.Method, seed: int) -> Values:
    model = method.fit(data.train, seed=seed, training=TRAINING)
    scores = unskew.evaluate(model, data.test, empty_users="one")
    slope = model.selection.slope if model.selection else 0.0
    mean = float(model.predict_codes(*np.divmod(np.arange(data.train.n_pairs), data.train.n_items)).mean())
    return {metric: scores[metric] for metric in METRICS} | {"slope": slope, "mean": mean}


def world_jobs(seeds: int, names: tuple[float, ...], part: str, work: Callable[..., Values], setting: str) -> list[Job]:
    facts = f"{WORLD}, {OURS!r}, {DR!r}, {unskew.Naive()!r}"
    return [
        Job(f"{part}/{value}/{seed}", f"{facts}, {setting} {value}", partial(work, **{setting: value}, seed=seed))
        for seed in range(seeds)
        for value in names
    ]


PARTS = {
    "worlds": (SLOPES, utility_world, "slope", world_table),
    "risks": (SLOPES, risks_in_world, "slope", risk_table),
    "taste": (TASTES, taste_world, "slope", taste_table),
    "slice": (UNEXPLAINED, slice_world, "unexplained", slice_table),
}


def main(arguments: list[str] | None = None) -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--part", choices=PARTS, default="worlds")
    options.add_argument("--coat", help="the folder of the published Coat files, instead of worlds")
    options.add_argument("--method", action="append", choices=COAT, help="on Coat, may be repeated (default: all)")
    options.add_argument("--seeds", type=int, default=20)
    options.add_argument("--workers", type=int, default=1)
    options.add_argument("--records", type=Path, default=Path("utility.jsonl"))
    options.add_argument("--out", type=Path)
    asked = options.parse_args(arguments)
    if asked.coat:
        data, chosen = unskew.datasets.coat(asked.coat), asked.method or list(COAT)
        jobs = [
            Job(f"coat/{name}/{seed}", repr(COAT[name]), partial(coat_fit, method=COAT[name], seed=seed))
            for seed in range(asked.seeds)
            for name in chosen
        ]
        outcome = run(jobs, asked.records, asked.workers, data)
        publish((coat_table(outcome, chosen, asked.seeds), failed(outcome)), asked.out)
        return
    values, work, setting, table = PARTS[asked.part]
    outcome = run(world_jobs(asked.seeds, values, asked.part, work, setting), asked.records, asked.workers)
    publish((*table(outcome, values, asked.seeds), failed(outcome)), asked.out)


if __name__ == "__main__":
    script(main)
