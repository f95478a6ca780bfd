"""Learn conversions from simulated funnels, and measure over everything shown, where the truth is known."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import unskew
from benchmarks.cases import Experiment, Job, Measured
from benchmarks.quality import QUIET, TEN, warm_up
from unskew.datasets import Funnel, simulate_funnel
from unskew.metrics import calibration_error

SIZE: dict[str, Any] = {"n_users": 1000, "n_items": 200, "n_requests": 10_000, "conversion_rate": 0.2}


def simulated(data: Path, seed: int, **change: float) -> Funnel:
    """Draw a funnel; a `link` of 0 leaves clicks no bearing on conversions."""
    return simulate_funnel(**SIZE | change, seed=1000 + seed)


def measure(job: Job) -> Measured:
    """Fit with defaults and measure over everything shown, clicked or not.

    "bias" is the mean answer minus the true mean, "clicks" that of the conversions of what was clicked; "mse" is the
    squared distance from the true chance, and AUC and calibration are by outcomes drawn from it for every row.
    """
    warm_up(job.method)
    funnel: Funnel = job.case  # type: ignore[assignment]
    log = unskew.read_log(funnel.rows)
    users, items = (funnel.rows[name].to_numpy() for name in ("user_id", "item_id"))
    truth = funnel.chance_converted(users, items)
    outcome = (np.random.default_rng([job.seed, 7]).random(len(truth)) < truth).astype(float)
    began = time.process_time()
    model = unskew.make(job.method).fit(log, seed=job.seed, training=QUIET)
    seconds = time.process_time() - began
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


EXPERIMENT = Experiment(
    "conversions over everything shown, in simulated funnels",
    ("naive", "dr-jl", "dce-dr", "esmm", "escm2-ips", "escm2-dr", "dce-bayes"),
    {
        "clicks tell": simulated,
        "clicks do not tell": partial(simulated, link=0.0),
        "clicks tell, rare": partial(simulated, conversion_rate=0.005),
    },
    20,
    measure,
)
