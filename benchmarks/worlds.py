"""Learn conversions from simulated funnels, and play the loop of serving, rating and learning in simulated worlds."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import unskew
from benchmarks.cases import Experiment, Figures, Job, Measured, grouped
from benchmarks.quality import TEN, fitted
from unskew.datasets import Funnel, simulate_funnel
from unskew.metrics import calibration_error

ROUNDS, BEFORE = 16, 2
"""Rounds of a loop, and random ratings of each user before the first."""
LOOPS = {
    "naive, greedy": ("naive", "greedy", 0.0),
    "naive, epsilon .1": ("naive", "epsilon", 0.1),
    "dce-bayes, greedy": ("dce-bayes", "greedy", 0.0),
    "dce-bayes, thompson .1": ("dce-bayes", "thompson", 0.1),
}


def funnel(data: Path, seed: int, **change: float) -> Funnel:
    """Draw a funnel; a `link` of 0 leaves clicks no bearing on conversions."""
    size: dict[str, Any] = {"n_users": 1000, "n_items": 200, "n_requests": 10_000, "conversion_rate": 0.2}
    return simulate_funnel(**size | change, seed=1000 + seed)


def converted(job: Job) -> Measured:
    """Fit with defaults and measure over everything shown, clicked or not.

    "bias" is the mean answer minus the true mean, "clicks" that of the conversions of what was clicked; "mse" is the
    squared distance from the true chance, and AUC and calibration are by outcomes drawn from it for every row.
    """
    log = unskew.read_log(job.data.rows)
    users, items = (job.data.rows[name].to_numpy() for name in ("user_id", "item_id"))
    truth = job.data.chance_converted(users, items)
    outcome = (np.random.default_rng([job.seed, 7]).random(len(truth)) < truth).astype(float)
    model, seconds = fitted(job.method, log, job.seed)
    p = model.predict(users, items)
    found = {
        "bias": p.mean() - truth.mean(),
        "clicks": log.positive_rate - truth.mean(),
        "mse": np.mean((p - truth) ** 2),
        "auc": unskew.metrics.roc_auc(outcome, p),
        "calibration": calibration_error(truth, p, **TEN),
        "seconds": seconds,
    }
    notes = list(model.part("prediction").notes)
    return Measured({name: float(value) for name, value in found.items()}, {**model.settings, "notes": notes})


FUNNEL = Experiment(
    "conversions over everything shown, in simulated funnels",
    ("naive", "dr-jl", "dce-dr", "esmm", "escm2-ips", "escm2-dr", "dce-bayes"),
    {
        "clicks tell": funnel,
        "clicks do not tell": partial(funnel, link=0.0),
        "clicks tell, rare": partial(funnel, conversion_rate=0.005),
    },
    20,
    converted,
)


def world(data: Path, seed: int) -> unskew.World:
    """Return a world whose users rate whatever they are shown, of five times as many items as all rounds show one."""
    return unskew.simulate(150, 400, density=0.1, selection="uniform", seed=seed)


def played(job: Job) -> Measured:
    """Play one loop; levels are those believed, less the truth, "promise" what lists promise, less what is liked."""
    method, policy, explore = LOOPS[job.method]
    asked = {"policy": policy, "explore": explore, "rounds": ROUNDS, "start": BEFORE}
    figures: Figures = {}
    for one in unskew.datasets.simulate_loop(job.data, method=method, **asked, seed=job.seed):
        levels = {"level": one.level, "by chances": one.level_by_chances, "log's share": one.liked_in_log}
        errors = {name: level - one.true_level for name, level in levels.items() if math.isfinite(level)}
        own = {"promise": one.promised - one.liked, "regret": one.regret, "coverage": one.coverage}
        figures |= grouped(f"round {one.round}", own | errors)
    return Measured(figures, asked)


LOOP = Experiment(
    "rounds of serving, rating and learning with several policies, in worlds of known taste",
    tuple(LOOPS),
    {"world": world},
    10,
    played,
)
