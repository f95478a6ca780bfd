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
from numpy.typing import NDArray
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit, logit, ndtr

import unskew
from benchmarks.cases import JESTER, REAL, Array, Experiment, Figures, Job, Measured, simulated, tiny
from unskew import BayesianFactors, Method, RatingLog, Recommender, World
from unskew.metrics import UserLists, calibration_error
from unskew.posterior.exposure import Pairs
from unskew.training.plan import Plan, Role, Stage

METRICS = ("mse", "auc", "ndcg@5", "ndcg@10")
QUIET = unskew.Training(progress=False)
LISTED = ("naive", "bayes", "dce-bayes")
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
    warm_up(job.method)
    method, case = unskew.make(job.method), job.case
    began = time.process_time()
    model = method.fit(case.train, seed=job.seed, training=QUIET)
    seconds = time.process_time() - began
    model = loaded(model)
    users, items = case.test.users.astype(np.int64), case.test.items.astype(np.int64)
    found = judged(model.predict_codes(users, items), case.test) | {"seconds": seconds}
    if case.world is not None:
        found |= truth_figures(model, case.world)
    if job.method in LISTED and case.name == "movielens by time":
        for by in ("liking", "choice"):
            if by in model.part("prediction").orders:
                found |= list_figures(top_ten(model, by), case.test, by)
    if job.method == "dce-bayes" and case.name.startswith("jester"):
        found |= level_figures(model, case.test)
    notes = list(model.part("prediction").notes)
    if case.name in LEFT_OUT and job.seed < FEWER_SEEDS and job.method in ("naive", "bayes"):
        alone = method if job.method == "naive" else Posterior(factors=with_columns(method.factors, notes))
        found["calibration: left out"] = left_out_calibration(alone, case.train, job.seed)
        if job.method == "bayes" and not case.name.startswith("jester"):
            found |= propensity_figures(method, case.train, job.seed)
    return Measured(found, {"method": repr(method), **model.settings, "notes": notes})


@cache
def warm_up(name: str) -> None:
    """Fit once on a tiny log, so that nothing is compiled while a fit is timed."""
    unskew.make(name).fit(tiny().train, seed=0, training=QUIET)


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


def top_ten(model: Recommender, by: str) -> NDArray[np.int64]:
    """Return the ten best items of every user of a log whose ids are codes."""
    return np.asarray(model.recommend(k=10, by=by)["item_id"], np.int64).reshape(-1, 10)


def list_figures(top: Array, test: RatingLog, by: str) -> Figures:
    """Measure lists: liked test items in a list, items in all lists, users who share the commonest first one."""
    liked = np.zeros((test.n_users, test.n_items), bool)
    liked[test.users, test.items] = test.ratings > 0
    hits = np.take_along_axis(liked, np.asarray(top, np.int64), 1).sum(1)
    first = np.bincount(top[:, 0]).max() / len(top)
    figures = {"liked in ten": hits.mean(), "items": len(np.unique(top)), "commonest first": first}
    return {f"{by}: {name}": float(value) for name, value in figures.items()}


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
    return {f"truth: {name}": float(value) for name, value in found.items()}


def level_figures(model: Recommender, test: RatingLog) -> Figures:
    """Measure answers without a shift, with k = 1, and with the best constant shift, which needs the truth."""
    fitted: Any = model.part("prediction")
    users, items = test.users.astype(np.int64), test.items.astype(np.int64)

    def mse(p: Array) -> float:
        return float(np.mean((p - test.ratings) ** 2))

    margin, spread = fitted.margin(users, items), fitted.spread(users, items)
    best = minimize_scalar(lambda c: mse(ndtr(margin - c / spread)), bounds=(-3, 6), method="bounded")
    at_one = fitted.answer(users, items, unexplained=1.0)
    figures = {"raw mse": mse(ndtr(margin)), "k=1 mse": mse(at_one), "k=1 mean": at_one.mean()}
    return {f"level: {name}": float(x) for name, x in {**figures, "best shift mse": best.fun}.items()}


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
    return {"propensity: auc": float(auc), "propensity: slope": logistic(x, event, weight)[1]}


def logistic(x: Array, y: Array, weight: Array | float = 1.0) -> tuple[float, float]:
    """Return (a, b) of the logistic regression of y on x."""
    centre, size = x.mean(), x.std() + 1e-12
    z = np.stack([np.ones(len(x)), (x - centre) / size])

    def loss(b: Array) -> tuple[float, Array]:
        f = b @ z
        return np.mean(weight * (np.logaddexp(0, f) - y * f)), z @ (weight * (expit(f) - y)) / len(x)

    a, b = minimize(loss, np.zeros(2), jac=True, method="BFGS", options={"gtol": 1e-9}).x
    return float(a - b * centre / size), float(b / size)


EXPERIMENT = Experiment(
    "the default, naive training and methods of the paper on all real cases and two simulated worlds",
    ("naive", "dr-jl", "dce-dr", "dce-tdr", "bayes", "dce-bayes"),
    {**REAL, **JESTER, **{f"simulated, {by}": partial(simulated, by) for by in ("taste", "popularity")}},
    5,
    measure,
)
