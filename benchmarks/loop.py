"""Play the loop of serving, rating and learning in worlds of known taste, and draw what becomes of the level."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

import unskew
from benchmarks.cases import Array, Job, Measured
from benchmarks.tables import Record, values
from unskew.charts import Chart, Point, lines
from unskew.findings import Interval, Table

ROUNDS = 8
FIGURES = ("regret", "coverage", "error of the level", "error by chances", "error of the log's share")
LOOPS = {
    "naive, greedy": ("naive", "greedy", 0.0),
    "naive, epsilon .1": ("naive", "epsilon", 0.1),
    "dce-bayes, greedy": ("dce-bayes", "greedy", 0.0),
    "dce-bayes, thompson .1": ("dce-bayes", "thompson", 0.1),
}


def world(_: Path, seed: int) -> unskew.World:
    """Return a world whose users rate whatever they are shown."""
    return unskew.simulate(150, 200, density=0.1, selection="uniform", seed=seed)


def measure(job: Job) -> Measured:
    """Play one loop; figures by name and round."""
    method, policy, explore = LOOPS[job.method]
    case: unskew.World = job.case  # type: ignore[assignment]
    asked = {"method": method, "policy": policy, "explore": explore, "rounds": ROUNDS}
    figures = {}
    for one in unskew.datasets.simulate_loop(case, **asked, seed=job.seed):
        errors = (level - one.true_level for level in (one.level, one.level_by_chances, one.liked_in_log))
        named = zip(FIGURES, (one.regret, one.coverage, *errors), strict=True)
        figures |= {f"{name}, round {one.round}": value for name, value in named if math.isfinite(value)}
    return Measured(figures, {"policy": policy, "explore": explore, "rounds": ROUNDS})


def over_seeds(records: list[Record], loop: str, figure: str, number: int) -> Array:
    """Return a figure of one round, a value a seed."""
    return np.array([*values(records, "world", loop, f"{figure}, round {number}").values()])


def table(records: list[Record]) -> str:
    """Print the last round of every loop, mean and spread over seeds."""
    rows = []
    for loop in LOOPS:
        cells = [over_seeds(records, loop, name, ROUNDS) for name in FIGURES]
        rows.append([loop, *(f"{own.mean():.3f}({own.std():.3f})" if len(own) else "" for own in cells)])
    return Table(f"After {ROUNDS} rounds", ["loop", *FIGURES], rows).markdown()


def picture(records: list[Record]) -> Chart:
    """Draw the error of the level over rounds, with the spread of seeds; with logged chances where there are any."""
    series = {}
    shown = {"naive, greedy": "error of the level", "dce-bayes, thompson .1": "error by chances"}
    for loop, name in shown.items():
        points = []
        for number in range(1, ROUNDS + 1):
            own = over_seeds(records, loop, name, number)
            error = own.std() / math.sqrt(len(own))
            points.append(Point(number, Interval(own.mean(), own.mean() - 2 * error, own.mean() + 2 * error)))
        series[loop if name == FIGURES[2] else "dce-bayes with chances"] = points
    about = (
        "The share of all pairs that a recommender believes to be liked, less the truth, as it learns from its lists."
    )
    return lines("The loop bends what is believed", about, series, x="round", y="believed less true share liked")
