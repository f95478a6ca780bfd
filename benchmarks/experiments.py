"""The experiments: which methods are measured on which cases with how many seeds, and by what."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import cases, funnel, judge, loop, peers, quality, speed
from benchmarks.cases import Job, Measured
from benchmarks.tables import Record

LAWS = {"uniform": 0.0, "popularity": 0.0, "rating .3": 0.3, "rating .6": 0.6, "rating .9": 0.9, "taste .6": 0.6}
Maker = Callable[[Path, int], Any]
COAT: dict[str, Maker] = {"coat": cases.coat, "coat with features": partial(cases.coat, features=True)}
MOVIELENS = {"movielens": cases.movielens, "movielens by time": cases.movielens_by_time}
JESTER = {f"jester, {name}": partial(cases.jester, name.split()[0], slope) for name, slope in LAWS.items()}
WORLDS = {f"simulated, {by}": partial(cases.simulated, by) for by in ("taste", "popularity")}


class Experiment(NamedTuple):
    """Methods, cases by name (made from the data folder and the seed), seeds, and what a job is measured by.

    `applies` says which methods are run on which cases; `tuned` that settings of one seed serve all others; `table`
    makes a table of the records where means say too little.
    """

    about: str
    methods: tuple[str, ...]
    cases: Mapping[str, Maker]
    n_seeds: int
    measure: Callable[[Job], Measured]
    applies: Callable[[str, str], bool] = lambda method, case: True
    tuned: bool = False
    table: Callable[[list[Record]], str] | None = None


EXPERIMENTS = {
    "quality": Experiment(
        "the default, naive training and methods of the paper on all real cases and two simulated worlds",
        ("naive", "dr-jl", "dce-dr", "dce-tdr", "bayes", "dce-bayes"),
        {**COAT, **MOVIELENS, **JESTER, **WORLDS},
        5,
        quality.measure,
    ),
    "peers": Experiment(
        "other libraries, tuned, on Coat and MovieLens",
        tuple(peers.PEERS),
        {**COAT, **MOVIELENS},
        5,
        peers.measure,
        lambda method, case: peers.PEERS[method].applies(case),
        tuned=True,
    ),
    "speed": Experiment(
        "sampler, default, lists, command and cluster, each against something in the same process",
        tuple(speed.TIMED),
        {"million": cases.million, "coat": cases.coat, "movielens": cases.movielens, "drawn": cases.nothing},
        3,
        speed.measure,
        lambda method, case: case in speed.TIMED[method][1],
        table=speed.table,
    ),
    "funnel": Experiment(
        "conversions over everything shown, in simulated funnels",
        ("naive", "dr-jl", "dce-dr", "esmm", "escm2-ips", "escm2-dr", "dce-bayes"),
        funnel.CASES,
        20,
        funnel.measure,
    ),
    "loop": Experiment(
        "rounds of serving, rating and learning with several policies, in worlds of known taste",
        tuple(loop.LOOPS),
        {name: partial(loop.world, name) for name in loop.WORLDS},
        5,
        loop.measure,
        table=loop.table,
    ),
    "judge": Experiment(
        "decisions of the judge about pairs of models in worlds whose truth is known",
        ("bayes",),
        {
            **{law: partial(judge.simulated, law) for law in judge.SIMULATED},
            **{f"jester, {name}": partial(judge.jester, name.split()[0], slope) for name, slope in LAWS.items()},
            "coat": judge.coat,
        },
        14,
        judge.measure,
        table=judge.table,
    ),
}
