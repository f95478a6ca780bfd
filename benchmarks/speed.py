"""Time the sampler and the default method; whatever is compared is timed in one process."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import unskew
from benchmarks.cases import Job, Measured
from benchmarks.quality import QUIET, Posterior, warm_up, with_columns
from unskew.posterior.exposure import Pairs
from unskew.posterior.factors import Problem

SWEEPS = 8


def seconds(run: Callable[[], Any], clock: Callable[[], float] = time.process_time) -> float:
    """Return the time that a call takes."""
    began = clock()
    run()
    return clock() - began


def sweep(job: Job) -> Measured:
    """Time one Gibbs sweep of 16 factors per million ratings: processor time on one thread, and the clock's on both.

    Ratings of a simulated log are binary: a draw makes five levels of them, as ratings have.
    """
    case, rng = job.case.train, np.random.default_rng(job.seed)
    stars = np.asarray(case.ratings * 2 + rng.integers(0, 3, len(case)), np.float64)
    problem = Problem(Pairs.of(case, stars), seed=job.seed)
    samplers = [problem.chain(0).sampler for _ in range(2)]
    for sampler, sampler.threads in zip(samplers, (1, 2), strict=True):
        sampler.sweep()
    own = min(seconds(samplers[0].sweep) for _ in range(SWEEPS))
    one, two = np.min([[seconds(s.sweep, time.perf_counter) for s in samplers] for _ in range(SWEEPS)], axis=0)
    while samplers[1].sweeps < samplers[0].sweeps:
        samplers[1].sweep()
    first, second = (sampler.state() for sampler in samplers)
    same = all(np.array_equal(first[key], second[key]) for key in first)
    found = {"processor seconds": own, "seconds": one, "seconds, 2 threads": two}
    figures = {f"sweep: {name}": float(x) * 1e6 / len(case) for name, x in found.items()}
    figures |= {"sweep: gain": float(one / two), "sweep: same bits": float(same)}
    return Measured(figures, {"d": problem.settings.n_factors, "levels": samplers[0].n_levels})


def whole(job: Job) -> Measured:
    """Time the default method against one Bayesian fit with the same columns and nothing else."""
    warm_up("dce-bayes")
    method, fitted, log = unskew.make("dce-bayes"), list[unskew.Recommender](), job.case.train
    taken = seconds(lambda: fitted.append(method.fit(log, seed=job.seed, training=QUIET)))
    alone = Posterior(factors=with_columns(method.factors, fitted[0].part("prediction").notes))
    one = seconds(lambda: alone.fit(log, seed=job.seed, training=QUIET))
    figures = {"whole: seconds": taken, "whole: one fit": one, "whole: ratio": taken / one}
    return Measured(figures, {"method": repr(method)})


TIMED = {"sweep": sweep, "dce-bayes": whole}
