"""What random ratings buy: every method fitted with more and more of them, drawn from the test, judged on the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from unskew.bench.exam import Exam
from unskew.bench.jobs import Job, Outcome, Runner, opened
from unskew.bench.protocol import RECORDS, made_folder
from unskew.bench.records import Values
from unskew.bench.search import refuse_another_log
from unskew.bench.significance import Paired, paired
from unskew.errors import ParameterError
from unskew.files.logs import fingerprint
from unskew.methods.base import Method
from unskew.metrics.checks import require_count
from unskew.recipe import to_plain

SIZES = (0, 50, 100, 500, 1000)


class Point(NamedTuple):
    """A metric of a method with some random ratings: mean and standard deviation over draws, None of a single one.

    `against_none` compares with the same draws and seeds without random ratings.
    """

    mean: float
    sd: float | None
    against_none: Paired | None

    def __str__(self) -> str:
        return f"{self.mean:.4f}" if self.sd is None else f"{self.mean:.4f} ± {self.sd:.4f}"


@dataclass(frozen=True)
class Curve:
    """The points by metric, method and number of random ratings; methods with a failed fit are in `notes` instead."""

    sizes: tuple[int, ...]
    draws: int
    n_judged: int
    points: dict[str, dict[str, dict[int, Point]]]
    notes: tuple[str, ...]


def unbiased_curve(
    exam: Exam,
    methods: Mapping[str, Method],
    out: Path,
    *,
    sizes: Sequence[int] = SIZES,
    draws: int = 20,
    workers: int = 1,
) -> Curve:
    """Fit every method with each number of random ratings, `draws` times, and keep the records in the folder `out`.

    Draw d shuffles the test; fits with seed d are given the first so many of it, and all of them are judged on what is
    left when the largest slice is taken out, so that points differ by what was learned alone. A run that was stopped
    goes on where it ended.
    """
    require_count(draws, "draws")
    require_count(workers, "workers")
    wanted = _checked(sizes, len(exam.test))
    names = {
        _key(name, size, draw): (method, size, draw)
        for draw in range(draws)
        for size in wanted
        for name, method in methods.items()
    }
    facts = exam.facts() | {"largest": wanted[-1]}
    jobs = [
        Job(
            key,
            {"method": to_plain(method), "unbiased": size, "draw": draw} | facts,
            partial(_judged, method=method, size=size, largest=wanted[-1], draw=draw),
        )
        for key, (method, size, draw) in names.items()
    ]
    with opened(made_folder(out) / RECORDS) as records:
        refuse_another_log(records, exam.log, fingerprint(exam.log))
        with Runner(records, len(jobs), workers, exam, "fit") as runner:
            outcome = runner.run(jobs)
    points = _points(outcome, list(methods), wanted, draws)
    failures = tuple(f"Failed: {key}: {sentence}" for key, sentence in outcome.failures.items())
    return Curve(wanted, draws, len(exam.test) - wanted[-1], points, failures)


def drawn(exam: Exam, size: int, largest: int, draw: int) -> Exam:
    """The exam with so many random ratings to learn from, and the test without the largest slice of this draw."""
    order = np.random.default_rng([draw, 0x64726177]).permutation(len(exam.test))
    rest = exam.test.take(np.sort(order[largest:]))
    return replace(exam, test=rest, unbiased=exam.test.take(np.sort(order[:size])) if size else None)


def _judged(exam: Exam, *, method: Method, size: int, largest: int, draw: int) -> Values:
    return drawn(exam, size, largest, draw).sat(method, draw)


def _checked(sizes: Sequence[int], n_test: int) -> tuple[int, ...]:
    wanted = tuple(sorted(set(sizes)))
    if not wanted or wanted[0] < 0:
        raise ParameterError(
            f"The numbers of random ratings must be whole and not below 0, such as 0, 50; not {sizes}."
        )
    if wanted[-1] >= n_test:
        raise ParameterError(
            f"{wanted[-1]:,} random ratings cannot be taken from a test of {n_test:,} and leave something to be judged "
            "by; ask for fewer."
        )
    return wanted


def _points(
    outcome: Outcome, names: Sequence[str], sizes: Sequence[int], draws: int
) -> dict[str, dict[str, dict[int, Point]]]:
    found: dict[str, dict[str, dict[int, Point]]] = {}
    for name in names:
        fits = {size: [outcome.values.get(_key(name, size, draw)) for draw in range(draws)] for size in sizes}
        tests = {size: [fit["test"] for fit in own if fit] for size, own in fits.items()}
        if any(len(own) < draws for own in tests.values()):
            continue
        common = set.intersection(*(set(test) for own in tests.values() for test in own))
        for metric in [metric for metric in tests[sizes[0]][0] if metric in common]:
            values = {size: np.array([test[metric] for test in own]) for size, own in tests.items()}
            found.setdefault(metric, {})[name] = {size: _point(own, values.get(0)) for size, own in values.items()}
    return found


def _point(values: np.ndarray, without: np.ndarray | None) -> Point:
    sd = float(values.std(ddof=1)) if len(values) > 1 else None
    return Point(float(values.mean()), sd, None if without is None else paired(values, without))


def _key(name: str, size: int, draw: int) -> str:
    return f"curve/{name}/{size}/{draw}"
