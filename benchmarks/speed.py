"""Time the sampler and the default method; whatever is compared is timed in one process."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import unskew
from benchmarks.cases import Figures, Job, Measured
from benchmarks.quality import QUIET, warm_up, with_columns
from unskew.posterior.answers import Ratings
from unskew.posterior.factors import BayesianFactors, Pairs, sample
from unskew.posterior.gibbs import Sampler

SWEEPS = 5


def seconds(run: Callable[[], Any], clock: Callable[[], float] = time.process_time) -> float:
    """Return the time that a call takes."""
    began = clock()
    run()
    return clock() - began


def pairs_of(log: unskew.RatingLog) -> Pairs:
    """Return a log as the sampler reads it, ratings as they stand."""
    ratings = np.asarray(log.ratings if log.stars is None else log.stars, float)
    return Pairs(log.users.astype(np.int64), log.items.astype(np.int64), ratings, log.n_users, log.n_items).checked()


def sweep(job: Job) -> Measured:
    """Time one Gibbs sweep of 16 factors per million ratings by the clock, on one thread and on two.

    Ratings of a simulated log are binary; five levels are made of its latent order, as ratings have.
    """
    log = pairs_of(job.case.train)
    log = log._replace(ratings=log.ratings * 2 + np.random.default_rng(job.seed).integers(0, 3, len(log.ratings)))
    ratings, settings = Ratings.of(log.ratings), BayesianFactors(exposure=False, history=False)
    columns = settings.columns(log, job.seed, None, None)
    found, states = dict[str, float](), []
    for threads in (1, 2):
        sampler = Sampler(
            log.users, log.items, ratings.encode(log.ratings), ratings.n_levels, *columns, d=settings.d,
            prior_scale=settings.prior_scale, seed=job.seed, threads=threads,
        )  # fmt: skip
        sampler.sweep()
        taken = [seconds(sampler.sweep, time.perf_counter) for _ in range(SWEEPS)]
        found[f"sweep: {threads} threads"] = min(taken) * 1e6 / len(log.users)
        states.append(sampler.state())
    found["sweep: gain"] = found["sweep: 1 threads"] / found["sweep: 2 threads"]
    same = all(np.array_equal(states[0][key], states[1][key]) for key in states[0])
    return Measured(found | {"sweep: same bits": float(same)}, {"d": settings.d, "levels": ratings.n_levels})


def whole(job: Job) -> Measured:
    """Time the default method against one Bayesian fit with the same columns and nothing else."""
    warm_up("dce-bayes")
    log = job.case.train
    method, model = unskew.make("dce-bayes"), list[unskew.Recommender]()
    taken = seconds(lambda: model.append(method.fit(log, seed=job.seed, training=QUIET)))
    columns = with_columns(method.factors, model[0].part("prediction").notes)
    settings = BayesianFactors(exposure=columns.exposure, history=columns.history)
    one = seconds(lambda: sample(*pairs_of(log), settings=settings, seed=job.seed))
    figures: Figures = {"whole: seconds": taken, "whole: one fit": one, "whole: ratio": taken / one}
    return Measured(figures, {"method": repr(method)})


TIMED = {"sweep": sweep, "dce-bayes": whole}
