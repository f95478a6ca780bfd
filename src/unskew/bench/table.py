"""The outcome of a benchmark: means, places, and who differs from whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from unskew.bench.significance import Paired, holm, paired

NAIVE = "naive"
SHOWN = {"true_risk": "true risk", "mse": "MSE", "auc": "AUC", "ndcg@5": "nDCG@5", "ndcg@10": "nDCG@10"}
CALIBRATION_ERRORS = frozenset({"propensity_ece", "propensity_equal_mass_ece", "imputation_ece"})
LOWER_IS_BETTER = frozenset({"true_risk", "mse", "mae", "log_loss"}) | CALIBRATION_ERRORS
Scores = Mapping[str, Sequence[Mapping[str, float]]]  # of each method, the metrics of each seed


class Cell(NamedTuple):
    """The mean over seeds, the standard deviation (of a single seed there is none), and the place: 1 is the best."""

    mean: float
    sd: float | None
    place: int

    def __str__(self) -> str:
        return f"{self.mean:.4f}" if self.sd is None else f"{self.mean:.4f} ± {self.sd:.4f}"


class Versus(NamedTuple):
    """A method against another: how their means differ, and p-values as they are and corrected by Holm."""

    other: str
    difference: float
    t: float
    t_holm: float
    wilcoxon: float
    wilcoxon_holm: float


@dataclass(frozen=True)
class Standing:
    """All methods by one metric.

    `best_competitor` compares each method with the best of the others, so the best with its runner-up, and `naive` all
    with the method of that name; p-values are corrected over the pairs of methods in one such comparison, where the
    best and its runner-up are one pair. Methods that lack the metric for a seed are left out, and with a single seed
    nothing is compared.
    """

    metric: str
    cells: dict[str, Cell]
    best_competitor: dict[str, Versus]
    naive: dict[str, Versus]


@dataclass(frozen=True)
class Table:
    """What a benchmark found: a standing for every metric, and in words how it was found and what went wrong."""

    title: str
    setting: tuple[str, ...]
    methods: tuple[str, ...]
    standings: dict[str, Standing]
    choices: tuple[tuple[str, ...], ...] = ()  # of each tuned method: name, trial, its score, that of the defaults, ...
    notes: tuple[str, ...] = ()

    @property
    def shown(self) -> list[Standing]:
        """The standings that pages show; files for machines have all."""
        return [self.standings[metric] for metric in SHOWN if metric in self.standings]


def standings_of(scores: Scores) -> dict[str, Standing]:
    metrics = dict.fromkeys(metric for seeds in scores.values() for found in seeds for metric in found)
    return {metric: standing(metric, scores) for metric in metrics}


def standing(metric: str, scores: Scores) -> Standing:
    values = {
        method: np.array([found[metric] for found in seeds])
        for method, seeds in scores.items()
        if seeds and all(metric in found for found in seeds)
    }
    sign = 1 if metric in LOWER_IS_BETTER else -1
    badness = {method: sign * float(own.mean()) for method, own in values.items()}
    ordered = sorted(values, key=badness.__getitem__)
    cells = {
        method: Cell(
            float(own.mean()),
            float(own.std(ddof=1)) if len(own) > 1 else None,
            1 + sum(other < badness[method] for other in badness.values()),
        )
        for method, own in values.items()
    }
    rivals = {method: next((other for other in ordered if other != method), None) for method in values}
    others = {method: NAIVE if NAIVE in values and method != NAIVE else None for method in values}
    return Standing(metric, cells, _compared(values, rivals), _compared(values, others))


def _compared(values: Mapping[str, np.ndarray], others: Mapping[str, str | None]) -> dict[str, Versus]:
    tests: dict[str, tuple[str, Paired]] = {}
    for method, other in others.items():
        if other is not None and (test := paired(values[method], values[other])) is not None:
            tests[method] = other, test
    pairs = {frozenset({method, other}): test for method, (other, test) in tests.items()}
    t_holm = dict(zip(pairs, holm([test.t for test in pairs.values()]), strict=True))
    wilcoxon_holm = dict(zip(pairs, holm([test.wilcoxon for test in pairs.values()]), strict=True))
    found = {}
    for method, (other, test) in tests.items():
        pair = frozenset({method, other})
        found[method] = Versus(other, test.difference, test.t, t_holm[pair], test.wilcoxon, wilcoxon_holm[pair])
    return found
