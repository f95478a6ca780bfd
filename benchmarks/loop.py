"""Play the loop of serving, rating and learning in worlds of known taste, and draw what becomes of the level."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

import unskew
from benchmarks.cases import Array, Experiment, Job, Measured
from benchmarks.tables import Record, values
from unskew.charts import Chart, Point, lines
from unskew.findings import Interval, Table

WORLDS = {"world": (200, 8, 5), "long": (400, 16, 2)}
"""Items, rounds, and random ratings of each user before the first: more than can be shown in all of the rounds."""
FIGURES = ("regret", "coverage", "error of the level", "error by chances", "error of the log's share")
LOOPS = {
    "naive, greedy": ("naive", "greedy", 0.0),
    "naive, epsilon .1": ("naive", "epsilon", 0.1),
    "dce-bayes, greedy": ("dce-bayes", "greedy", 0.0),
    "dce-bayes, thompson .1": ("dce-bayes", "thompson", 0.1),
}


class LoopCase(NamedTuple):
    """A world whose users rate whatever they are shown, and how long the loop runs in it."""

    world: unskew.World
    rounds: int
    start: int


def world(name: str, _: Path, seed: int) -> LoopCase:
    """Return the loop of this name."""
    n_items, rounds, start = WORLDS[name]
    return LoopCase(unskew.simulate(150, n_items, density=0.1, selection="uniform", seed=seed), rounds, start)


def measure(job: Job) -> Measured:
    """Play one loop; figures by name and round."""
    method, policy, explore = LOOPS[job.method]
    case: LoopCase = job.case  # type: ignore[assignment]
    asked = {"policy": policy, "explore": explore, "rounds": case.rounds, "start": case.start}
    figures = {}
    for one in unskew.datasets.simulate_loop(case.world, method=method, **asked, seed=job.seed):
        errors = (level - one.true_level for level in (one.level, one.level_by_chances, one.liked_in_log))
        named = zip(FIGURES, (one.regret, one.coverage, *errors), strict=True)
        figures |= {f"{name}, round {one.round}": value for name, value in named if math.isfinite(value)}
    return Measured(figures, asked)


def over_seeds(records: list[Record], case: str, loop: str, figure: str, number: int) -> Array:
    """Return a figure of one round, a value a seed."""
    return np.array([*values(records, case, loop, f"{figure}, round {number}").values()])


def table(records: list[Record]) -> str:
    """Print the last round of every loop, mean and spread over seeds."""
    rows = []
    for case, (_, rounds, _) in WORLDS.items():
        for loop in LOOPS:
            cells = [over_seeds(records, case, loop, name, rounds) for name in FIGURES]
            if len(cells[0]):
                shown = (f"{own.mean():.3f}({own.std():.3f})" if len(own) else "" for own in cells)
                rows.append([str(rounds), loop, *shown, str(len(cells[0]))])
    return Table("After the last round", ["rounds", "loop", *FIGURES, "seeds"], rows).markdown()


def picture(records: list[Record]) -> Chart:
    """Draw the error of the level over rounds, with the spread of seeds; with logged chances where there are any."""
    series, (_, rounds, _) = {}, WORLDS["world"]
    shown = {"naive, greedy": "error of the level", "dce-bayes, thompson .1": "error by chances"}
    for loop, name in shown.items():
        points = []
        for number in range(1, rounds + 1):
            own = over_seeds(records, "world", loop, name, number)
            error = own.std() / math.sqrt(len(own))
            points.append(Point(number, Interval(own.mean(), own.mean() - 2 * error, own.mean() + 2 * error)))
        series[loop if name == FIGURES[2] else "dce-bayes with chances"] = points
    about = (
        "The share of all pairs that a recommender believes to be liked, less the truth, as it learns from its lists."
    )
    return lines("The loop bends what is believed", about, series, x="round", y="believed less true share liked")


EXPERIMENT = Experiment(
    "rounds of serving, rating and learning with several policies, in worlds of known taste",
    tuple(LOOPS),
    {name: partial(world, name) for name in WORLDS},
    5,
    measure,
    table=table,
)
