"""Fit methods of the package and measure what they answer, once saved and loaded again."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit, logit, ndtr

import unskew
from benchmarks import cases
from benchmarks.cases import QUIET, Array, Figures, Job, Measured, grouped
from unskew import BayesianFactors, Method, RatingLog, Recommender, World
from unskew.metrics import UserLists, calibration_error
from unskew.posterior.exposure import Pairs
from unskew.training.plan import Plan, Role, Stage

METRICS = ("mse", "auc", "ndcg@5", "ndcg@10")
LEFT_OUT = ("coat", "movielens", "movielens by time", "jester, uniform")
UNSEEN, FOLDS, FEWER_SEEDS = 1000, 5, 2
TEN: dict[str, Any] = {"bins": "mass", "n_bins": 10}


@dataclass(frozen=True, kw_only=True)
class Posterior(Method):
    """The posterior of `bayes` by itself, so that folds do not pay for an exposure that nobody asks."""

    factors: BayesianFactors

    def plan(self) -> Plan:
        return Plan({"prediction": Role(self.factors)}, (Stage("prediction", fits=("prediction",)),))


def measure(job: Job) -> Measured:
    """Fit a method with its defaults, save and load it, and measure everything that the case lets be measured."""
    model, seconds = fitted(job.method, job.data.train, job.seed)
    method, (train, test, world), part = model.method, job.data, model.part("prediction")
    found = judged(model.predict_codes(test.users, test.items), test) | {"seconds": seconds}
    if world is not None:
        found |= truth_figures(model, world)
    if job.case == "movielens by time":
        for by in ("liking", "choice") if job.method in ("naive", "bayes", "dce-bayes") else ():
            if by in part.orders:
                top = np.asarray(model.recommend(k=10, by=by)["item_id"], np.int64).reshape(-1, 10)
                found |= list_figures(top, test, by)
    if job.method == "dce-bayes" and job.case.startswith("jester"):
        found |= level_figures(model, test)
    if job.case in LEFT_OUT and job.seed < FEWER_SEEDS and job.method in ("naive", "bayes"):
        alone = method if job.method == "naive" else Posterior(factors=with_columns(method.factors, part.notes))
        found["calibration: left out"] = left_out_calibration(alone, train, job.seed)
        if job.method == "bayes" and not job.case.startswith("jester"):
            found |= propensity_figures(method, train, job.seed)
    return Measured(found, {"method": repr(method), **model.settings, "notes": list(part.notes)})


def fitted(name: str, log: RatingLog, seed: int) -> tuple[Recommender, float]:
    """Return a model as its folder gives it back, and the time of its fit, in which nothing is compiled."""
    warm_up(name)
    began = time.process_time()
    model = unskew.make(name).fit(log, seed=seed, training=QUIET)
    return loaded(model), time.process_time() - began


@cache
def warm_up(name: str) -> None:
    """Fit once on a tiny log."""
    unskew.make(name).fit(cases.tiny().train, seed=0, training=QUIET)


def loaded(model: Recommender) -> Recommender:
    """Return the model as its folder gives it back."""
    with TemporaryDirectory() as folder:
        model.save(Path(folder) / "model")
        return unskew.load(Path(folder) / "model")


def judged(predicted: Array, test: RatingLog) -> Figures:
    """Measure P(liked) on a test; nDCG of a user without a liked pair counts as 1, as in the literature."""
    found = unskew.evaluate(predicted, test, empty_users="one")
    calibration = calibration_error(test.ratings, predicted, **TEN)
    return {m: float(found[m]) for m in METRICS} | {"mean": float(predicted.mean()), "calibration: test": calibration}


def list_figures(top: Array, test: RatingLog, by: str) -> Figures:
    """Measure lists: liked test items in a list, items in all lists, users who share the commonest first one."""
    liked = np.zeros((test.n_users, test.n_items), bool)
    liked[test.users, test.items] = test.ratings > 0
    hits = np.take_along_axis(liked, np.asarray(top, np.int64), 1).sum(1)
    first = np.bincount(top[:, 0]).max() / len(top)
    return grouped(by, {"liked in ten": hits.mean(), "items": len(np.unique(top)), "commonest first": first})


def truth_figures(model: Recommender, world: World) -> Figures:
    """Measure over all pairs of a world: expected squared error, distance from preferences and from propensities."""
    users, items = (codes.ravel() for codes in np.indices((world.n_users, world.n_items)))
    answers, preferences = model.predict_codes(users, items), world.preference(users, items)
    found: dict[str, Any] = {
        "true risk": world.risk(model.predict_codes),
        "error of preference": np.mean((answers - preferences) ** 2),
    }
    if "propensity" in model.parts:
        gaps = np.abs(model.scores("propensity", users, items) - world.propensity(users, items))
        found["error of propensity"] = gaps.mean()
    return grouped("truth", found)


def level_figures(model: Recommender, test: RatingLog) -> Figures:
    """Measure answers without a shift, with k = 1, and with the best constant shift, which needs the truth."""
    part, pairs = model.part("prediction"), (test.users, test.items)

    def mse(p: Array) -> float:
        return float(np.mean((p - test.ratings) ** 2))

    margin, spread, at_one = part.margin(*pairs), part.spread(*pairs), part.answer(*pairs, unexplained=1.0)
    best = minimize_scalar(lambda c: mse(ndtr(margin - c / spread)), bounds=(-3, 6), method="bounded")
    figures = {"raw mse": mse(ndtr(margin)), "k=1 mse": mse(at_one), "k=1 mean": at_one.mean()}
    return grouped("level", figures | {"best shift mse": best.fun})


def with_columns(factors: BayesianFactors, notes: Sequence[str]) -> BayesianFactors:
    """Return the specification with those columns that a fit has let in, so that it does not ask again."""
    text = " ".join(notes)
    return replace(factors, exposure="Who-saw-what enters" in text, history="The history of seen items enters" in text)


def left_out_calibration(method: Method, log: RatingLog, seed: int) -> float:
    """Return the calibration error of answers for every rating by a fit that has not seen its fold."""
    fold, answers = np.random.default_rng([seed, 30]).integers(FOLDS, size=len(log)), np.zeros(len(log))
    for k in range(FOLDS):
        model, own = method.fit(log.take(fold != k), seed=seed, training=QUIET), fold == k
        answers[own] = model.predict_codes(log.users[own], log.items[own])
    return calibration_error(log.ratings, answers, **TEN)


def propensity_figures(method: Method, log: RatingLog, seed: int) -> Figures:
    """Fit without a tenth of the log, and measure how the propensity tells its pairs from unseen ones, by user.

    A pair that the rest of the log does not hold, and would hold with chance p, is among the left-out ones with chance
    r p / (1 - p), r the share left out over the share of the rest: the slope of left out on its logit should be 1.
    """
    rng = np.random.default_rng([seed, 31])
    left_out = Pairs.of(log).folds(10, rng) == 0  # an equal share of every user's: counts tell nothing of what is out
    rest, (users, items) = log.take(~left_out), (codes[left_out] for codes in (log.users, log.items))
    model = loaded(method.fit(rest, seed=seed, training=QUIET))
    known = np.bincount(rest.items, minlength=log.n_items) > 0
    columns = list[Array]()
    for user in range(log.n_users):
        own = items[(users == user) & known[items]]
        unseen = np.setdiff1d(np.flatnonzero(known), log.items[log.users == user])
        asked = np.r_[own, rng.permutation(unseen)[:UNSEEN]].astype(np.int64)
        event, weight = np.arange(len(asked)) < len(own), len(unseen) / max(len(asked) - len(own), 1)
        p = np.clip(model.scores("propensity", np.full(len(asked), user), asked), 1e-9, 1 - 1e-9)
        columns.append(np.stack([p, event, np.where(event, 1.0, weight), np.full(len(asked), user)]))
    p, event, weight, user = np.concatenate(columns, axis=1)
    x = logit(np.clip(left_out.mean() / (1 - left_out.mean()) * p / (1 - p), 1e-9, 1 - 1e-9))
    auc = np.nanmean(UserLists.from_rows(event, p, user.astype(int)).auc())
    return grouped("propensity", {"auc": auc, "slope": logistic(x, event, weight)[1]})


def logistic(x: Array, y: Array, weight: Array | float = 1.0) -> tuple[float, float]:
    """Return (a, b) of the logistic regression of y on x."""
    centre, size = x.mean(), x.std() + 1e-12
    z = np.stack([np.ones(len(x)), (x - centre) / size])

    def loss(b: Array) -> tuple[float, Array]:
        f = b @ z
        return np.mean(weight * (np.logaddexp(0, f) - y * f)), z @ (weight * (expit(f) - y)) / len(x)

    a, b = minimize(loss, np.zeros(2), jac=True, method="BFGS", options={"gtol": 1e-9}).x
    return float(a - b * centre / size), float(b / size)


EXPERIMENT = cases.Experiment(
    "the default, naive training and methods of the paper on all real cases and two simulated worlds",
    ("naive", "dr-jl", "dce-dr", "dce-tdr", "bayes", "dce-bayes"),
    cases.REAL
    | cases.by_law(cases.jester)
    | {f"simulated, {by}": partial(cases.simulated, by) for by in ("taste", "popularity")},
    5,
    measure,
)
