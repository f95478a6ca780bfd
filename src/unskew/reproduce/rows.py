"""What a suite found: for each entry the mean and spread of every quantity, beside the paper's number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from unskew.bench.exam import key
from unskew.bench.jobs import Outcome
from unskew.bench.records import Values
from unskew.bench.table import LOWER_IS_BETTER
from unskew.data.log import RatingLog
from unskew.metrics.ranking import POSITIVE_FROM
from unskew.reproduce.suite import DatasetFacts, Entry, Numbers, Suite

HEADINGS = {
    "mse": "MSE",
    "true_risk": "true risk",
    "auc": "AUC",
    "propensity_ece": "ECE of the propensity",
    "propensity_equal_mass_ece": "the same, equal mass",
    "imputation_ece": "ECE of the imputation",
    "liked_in_train": "liked in train",
    "liked_in_test": "liked in test",
}
HIGHER = frozenset({"auc"})
COUNTS = frozenset({"parameters", "users", "items", "train", "test"})


class Found(NamedTuple):
    """Of one quantity: the mean over seeds, the standard deviation (None of a single one), the paper's mean and sd."""

    mean: float | None
    sd: float | None = None
    paper: float | None = None
    paper_sd: float | None = None
    released: float | None = None


@dataclass(frozen=True)
class Row:
    """An entry and what was found of it; `scores` are the values of each seed, `place` is for the picture."""

    name: str
    found: Mapping[str, Found]
    place: Mapping[str, Any] = field(default_factory=dict)
    scores: Sequence[Mapping[str, float]] = ()


def heading(quantity: str) -> str:
    shown = HEADINGS.get(quantity, quantity.replace("ndcg", "nDCG"))
    if quantity in LOWER_IS_BETTER:
        return f"{shown} ↓"
    return f"{shown} ↑" if quantity in HIGHER or quantity.startswith("ndcg") else shown


def shown(quantity: str, value: float) -> str:
    """A number as tables have it."""
    if quantity in COUNTS:
        return f"{value:,.0f}"
    return f"{value:.1f}" if quantity == "seconds" else f"{value:.4f}"


def rows_of(suite: Suite, facts: DatasetFacts, outcome: Outcome, keys: Mapping[str, str], seeds: int) -> list[Row]:
    """A row for every entry; one whose fits failed for any seed has the paper's numbers alone."""
    return [_row(suite, facts, entry, _fits(outcome, keys[entry.name], seeds)) for entry in suite.entries]


def _fits(outcome: Outcome, name: str, seeds: int) -> list[Values]:
    fits = [outcome.values.get(key(name, seed)) for seed in range(seeds)]
    return [] if None in fits else [fit for fit in fits if fit is not None]


def _row(suite: Suite, facts: DatasetFacts, entry: Entry, fits: Sequence[Values]) -> Row:
    scores = [_flat(fit) for fit in fits]
    found = {}
    for number, quantity in enumerate(facts.quantities(suite)):
        values = np.array([score[quantity] for score in scores if quantity in score])
        stated = (_stated(numbers, facts.name, number) for numbers in (entry.paper, entry.paper_sd, entry.released))
        found[quantity] = Found(*_mean_and_sd(values, len(scores)), *stated)
    return Row(entry.name, found, entry.place, scores)


def _flat(fit: Values) -> dict[str, float]:
    costs = {name: float(fit[name]) for name in ("seconds", "parameters")}
    return {**costs, **fit["test"], **fit["calibration"]}


def _mean_and_sd(values: np.ndarray, wanted: int) -> tuple[float | None, float | None]:
    if not wanted or len(values) < wanted:
        return None, None
    return float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else None


def _stated(numbers: Numbers, dataset: str, place: int) -> float | None:
    stated = numbers.get(dataset, ())
    return float(stated[place]) if place < len(stated) else None


def statistics(suite: Suite, facts: DatasetFacts, log: RatingLog, test: RatingLog) -> list[Row]:
    """The one row of a table of data."""
    counts = {
        "users": log.n_users,
        "items": log.n_items,
        "train": len(log),
        "test": len(test),
        "density": len(log) / log.n_pairs,
        "liked_in_train": _liked(log),
        "liked_in_test": _liked(test),
    }
    found = {name: Found(float(counts[name]), paper=facts.paper.get(name)) for name in suite.quantities}
    return [Row(facts.title, found)]


def _liked(log: RatingLog) -> float:
    return float((log.ratings >= POSITIVE_FROM).mean())


def places(rows: Sequence[Row], quantity: str) -> Iterator[int]:
    """The place of each row by a quantity, 1 for the best; 0 where there is nothing to rank."""
    means = [row.found[quantity].mean for row in rows]
    known = [mean for mean in means if mean is not None]
    ranked = quantity in LOWER_IS_BETTER or heading(quantity).endswith("↑")
    sign = 1 if quantity in LOWER_IS_BETTER else -1
    for mean in means:
        yield 0 if mean is None or not ranked or len(known) < 2 else 1 + sum(sign * k < sign * mean for k in known)
