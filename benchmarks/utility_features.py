"""Selection on utility where users and items have features that liking and exposure follow: a table of docs/utility.md.

    python benchmarks/utility_features.py --seeds 8

300 users and 300 items, about 7,000 ratings. Users are of two kinds and items stand in two sections: everybody likes
what stands in the own section better, by a logit of 1.2, and features tell of kind and section, of taste and of
quality, the latter two with noise. In an even shop everything is met alike; in a divided shop the other section is met
a quarter as often, whatever is liked there. Nets read features, or do not, or the log knows none.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scripts import failed, mean_and_sd, publish, script

import unskew
from unskew.bench.formats import markdown_grid
from unskew.bench.jobs import Job, Outcome, run
from unskew.bench.records import Values
from unskew.data.features import Features

SLOPES = (0.0, 0.2)
SHOPS = {"even": 1.0, "divided": 0.25}  # chance to meet the other section, beside that to meet the own
NETS = ("with features", "without features", "features unknown")
DENSITY, FIT = 0.08, 0.6
TRAINING = unskew.Training(progress=False)


def shop(slope: float, other: float, seed: int, n: int = 300) -> tuple[unskew.World, unskew.RatingLog]:
    """A world, and the log of what its users met and rated."""
    density = DENSITY * 2 / (1 + other)
    world = unskew.simulate(n, n, density, selection="utility", strength=slope, n_factors=2, seed=seed)
    rng = np.random.default_rng([seed, 7])
    kind, section = (rng.choice([-1.0, 1.0], size=n) for _ in range(2))
    factors = (
        np.column_stack([held, FIT**0.5 * side])
        for held, side in ((world.user_factors, kind), (world.item_factors, section))
    )
    users, items = factors
    bound = world.interaction_bound + FIT
    world = replace(world, user_factors=users, item_factors=items, interaction_bound=bound)

    def features(factors: Any, effects: Any) -> Features:
        noisy = np.column_stack([factors[:, :1], effects]) + rng.normal(0, 0.7, (n, 2))
        return Features(("kind", "taste", "quality"), np.column_stack([factors[:, -1:], noisy]))

    log = world.log
    met = (kind[log.users] == section[log.items]) | (rng.random(len(log)) < other)
    told = {"user_features": features(users, world.user_effects), "item_features": features(items, world.item_effects)}
    return world, replace(log.take(np.flatnonzero(met)), **told)


def fit(_: Any, *, slope: float, other: float, net: str, seed: int) -> Values:
    world, log = shop(slope, other, seed)
    if net == "features unknown":
        log = replace(log, user_features=None, item_features=None)
    reads = "always" if net == "with features" else "never"
    method = unskew.NaiveUtility(
        net=unskew.MF(features=reads),
        utility=unskew.Utility(base=unskew.Uniform(), net=unskew.MF(spread=0.1, features=reads)),
    )
    model = method.fit(log, seed=seed, training=TRAINING)
    found = model.player("selection")
    n, (low, high) = found.selection.numbers, found.interval
    pairs = np.divmod(np.arange(world.n_pairs), world.n_items)
    naive = replace(model, cast=replace(model.cast, calibrators={}))
    return {
        **{name: getattr(n, name) for name in ("estimate", "item_slope", "item_error")},
        "features_slope": None if np.isnan(n.features_slope) else n.features_slope,
        "gain": found.gain,
        "low": low,
        "high": high,
        "finding": found.selection.finding,
        "used": found.slope,
        "log_rate": log.positive_rate,
        "naive_rate": float(naive.predict_codes(*pairs).mean()),
        "rate": float(model.predict_codes(*pairs).mean()),
        "true_rate": float(world.preference(*pairs).mean()),
        "naive": world.risk(naive.predict_codes),
        "naive-utility": world.risk(model.predict_codes),
    }


def table(outcome: Outcome, name: str, seeds: int) -> str:
    rows = []
    for slope in SLOPES:
        for net in NETS:
            found = [outcome.values.get(f"{name}/{slope}/{net}/{seed}") for seed in range(seeds)]
            held = [each for each in found if each]
            columns = {key: np.array([each[key] for each in held]) for key in held[0]}
            by_features = [each["features_slope"] for each in held if each["features_slope"] is not None]
            findings = columns["finding"].tolist()
            covers = (columns["low"] <= slope) & (slope <= columns["high"])
            rates = (f"{columns[key].mean():.3f}" for key in ("log_rate", "naive_rate", "rate", "true_rate"))
            risks = (f"{columns[key].mean():.4f}" for key in ("naive", "naive-utility"))
            rows.append(
                [
                    f"{slope:g}",
                    net,
                    mean_and_sd(columns["estimate"], 3),
                    mean_and_sd(columns["item_slope"], 3),
                    f"{np.mean(by_features):.2f}" if by_features else "",
                    mean_and_sd(columns["used"], 3),
                    ", ".join(f"{findings.count(word)} {word}" for word in dict.fromkeys(findings)),
                    f"{covers.sum()} of {len(covers)}",
                    " / ".join(rates),
                    " / ".join(risks),
                ]
            )
    header = ["true slope", "nets", "by interactions", "by item counts", "by features", "used", "verdicts"]
    header += ["interval covers", "positive rate: log / naive / mapped / truth", "true risk: naive / naive-utility"]
    return f"**{name.capitalize()} shop**\n\n" + markdown_grid(header, rows)


def main(arguments: list[str] | None = None) -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seeds", type=int, default=8)
    options.add_argument("--workers", type=int, default=1)
    options.add_argument("--records", type=Path, default=Path("utility_features.jsonl"))
    options.add_argument("--out", type=Path)
    asked = options.parse_args(arguments)
    jobs = [
        Job(
            f"{name}/{slope}/{net}/{seed}",
            f"{unskew.NaiveUtility()!r}, {DENSITY}, {FIT}, {other}",
            partial(fit, slope=slope, other=other, net=net, seed=seed),
        )
        for seed in range(asked.seeds)
        for name, other in SHOPS.items()
        for slope in SLOPES
        for net in NETS
    ]
    outcome = run(jobs, asked.records, asked.workers)
    publish((*(table(outcome, name, asked.seeds) for name in SHOPS), failed(outcome)), asked.out)


if __name__ == "__main__":
    script(main)
