"""What the records of a benchmark hold: fits by method and seed, and trials."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unskew.bench.jobs import Outcome
from unskew.bench.records import Record, Values, read_records
from unskew.bench.report import Costs, costs_of, tabled
from unskew.bench.table import Table
from unskew.errors import DataError

FIT, TRIAL = "fit/", "trial/"
NUMBERS = ("seconds", "peak_megabytes", "parameters")


@dataclass(frozen=True)
class Tuned:
    """The trials of one method: how many, how many of them failed, and the scores of the first and of the best."""

    method: str
    n_trials: int
    n_failed: int
    criterion: str
    first: float | None
    best: float | None


@dataclass(frozen=True)
class Fits:
    """All fits by key, of two records of one key the later; `facts` are what the last was made by."""

    outcome: Outcome
    methods: tuple[str, ...]
    seeds: int
    facts: dict[str, Any]
    versions: dict[str, str]
    n_replaced: int
    n_cut_short: int
    tuned: tuple[Tuned, ...]

    @classmethod
    def read(cls, file: Path) -> Fits:
        records, cut_short = read_records(file)
        fits = [record for record in records if str(record.key).startswith(FIT)]
        if not fits:
            raise DataError(
                f"{file} holds no finished fit of a benchmark; let `unskew benchmark` finish, or give another file."
            )
        parts = [_checked(record, file) for record in fits]
        return cls(
            outcome=Outcome({record.key: record.values for record in fits}, {}),
            methods=tuple(dict.fromkeys(method for method, _ in parts)),
            seeds=max(seed for _, seed in parts) + 1,
            facts=fits[-1].recipe if isinstance(fits[-1].recipe, dict) else {},
            versions=fits[-1].versions if isinstance(fits[-1].versions, dict) else {},
            n_replaced=len(fits) - len(set(parts)),
            n_cut_short=int(cut_short > 0),
            tuned=_tuned(records),
        )

    @property
    def table(self) -> Table:
        return tabled(self.methods, self.outcome, (), self.seeds, ())

    @property
    def costs(self) -> Costs:
        return costs_of(self.methods, self.outcome, self.seeds)

    def of(self, method: str, metric: str) -> list[float]:
        """The values of a metric for every seed that has one."""
        found = (self.outcome.values.get(f"{FIT}{method}/{seed}") for seed in range(self.seeds))
        return [values["test"][metric] for values in found if values is not None and metric in values["test"]]


def _checked(record: Record, file: Path) -> tuple[str, int]:
    """Method and seed of a fit, refused unless it has all that a page is made of."""
    method, _, seed = record.key.removeprefix(FIT).rpartition("/")
    values = record.values
    whole = isinstance(values, dict) and all(_is_number(values.get(name)) for name in NUMBERS)
    tested = whole and isinstance(values.get("test"), dict) and all(map(_is_number, values["test"].values()))
    noted = tested and isinstance(values.get("notes"), list) and all(isinstance(n, str) for n in values["notes"])
    if not (method and seed.isdecimal() and len(seed) < 7 and noted):
        raise DataError(f"The record {record.key!r} of {file} is not a fit of a benchmark; give another file.")
    return method, int(seed)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _tuned(records: Sequence[Record]) -> tuple[Tuned, ...]:
    """A line for each method that was searched; records that are no trials are passed over."""
    trials: dict[str, dict[int, list[Values]]] = {}
    criterion = ""
    for record in records:
        method, _, number = str(record.key).removeprefix(TRIAL).rpartition("/")[0].rpartition("/")
        if str(record.key).startswith(TRIAL) and number.isdecimal() and isinstance(record.values, dict):
            trials.setdefault(method, {}).setdefault(int(number), []).append(record.values)
            criterion = str(record.recipe.get("criterion", "")) if isinstance(record.recipe, dict) else criterion
    return tuple(_line(method, own, criterion) for method, own in trials.items())


def _line(method: str, trials: dict[int, list[Values]], criterion: str) -> Tuned:
    scores = {number: _score(verdicts, criterion) for number, verdicts in trials.items()}
    known = [score for score in scores.values() if score is not None]
    best = (max if criterion == "auc" else min)(known, default=None)
    return Tuned(method, len(scores), len(scores) - len(known), criterion, scores.get(0), best)


def _score(verdicts: list[Values], criterion: str) -> float | None:
    found = [verdict.get("validation", {}).get(criterion) for verdict in verdicts]
    return float(np.mean(found)) if all(map(_is_number, found)) else None
