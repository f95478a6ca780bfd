"""Who is best, and whether that is more than chance: means over seeds, places, paired t-tests corrected by Holm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import stdtr, stdtrit

from unskew.charts import Chart, Row, rows
from unskew.errors import ParameterError
from unskew.findings import Interval, Table
from unskew.metrics.table import find

NAIVE = "naive"
Scores = Mapping[str, Sequence[Mapping[str, float]]]  # of each method, the figures of each seed
SURE = 0.05  # of a p-value, after correction


class Figure(NamedTuple):
    """What a figure is called, whether higher (1) or lower (-1) is better or it is only counted (0), and its form."""

    name: str
    direction: int = -1
    form: str = ".4f"

    @classmethod
    def of(cls, figure: str) -> Figure:
        """Return what is known of a figure by its key: of a metric, or of what a fit is and costs."""
        if figure in FIGURES:
            return FIGURES[figure]
        try:
            metric = find(figure)
        except ParameterError:
            return cls(figure.replace("_", " "), 0)
        return cls(metric.label, 1 if metric.higher_is_better else -1)

    @property
    def heading(self) -> str:
        """The name with an arrow to where it is better."""
        return self.name + {1: " ↑", 0: "", -1: " ↓"}[self.direction]

    def shown(self, value: float | None, sd: float | None = None) -> str:
        """Return a number as tables have it, with its standard deviation if there is one; nothing for None."""
        return "" if value is None else f"{value:{self.form}}" + (f" ± {sd:{self.form}}" if sd else "")


FIGURES = {
    "true_risk": Figure("true error"),
    "propensity_ece": Figure("propensity ECE"),
    "propensity_ece_mass": Figure("propensity ECE by mass"),
    "imputation_ece": Figure("imputation ECE"),
    "bias": Figure("bias"),
    "theorem_2": Figure("bound (Theorem 2)"),
    "seconds": Figure("seconds", 0, ".1f"),
    **{count: Figure(count, 0, ",.0f") for count in ("parameters", "users", "items", "train", "test")},
}


class Versus(NamedTuple):
    """A method against another: how their means differ, and the two-sided p-value, as it is and corrected."""

    other: str
    difference: float
    p: float
    p_holm: float

    def __str__(self) -> str:
        return f"{self.difference:+.4f} (p {self.p_holm:.2g})"


@dataclass(frozen=True)
class Standing:
    """All methods by one figure; those that lack it for a seed are left out.

    Each is compared with the best of the others, so the best with its runner-up, and with the method named naive;
    p-values are corrected over the pairs of methods in one such comparison. With a single seed nothing is compared.
    """

    key: str
    values: dict[str, list[float]]

    @property
    def figure(self) -> Figure:
        return Figure.of(self.key)

    @cached_property
    def means(self) -> dict[str, float]:
        return {method: float(np.mean(own)) for method, own in self.values.items()}

    def sd(self, method: str) -> float | None:
        own = self.values.get(method, ())
        return float(np.std(own, ddof=1)) if len(own) > 1 else None

    def spread(self, method: str) -> Interval:
        """Return the mean of a method, its ends a standard deviation away."""
        mean, sd = self.means[method], self.sd(method) or 0.0
        return Interval(mean, mean - sd, mean + sd, self.figure.form)

    def shown(self, method: str, missing: str = "failed") -> str:
        """Return the mean ± standard deviation of a method."""
        return self.figure.shown(self.means[method], self.sd(method)) if method in self.means else missing

    @cached_property
    def order(self) -> list[str]:
        """Methods, the best first."""
        return sorted(self.means, key=lambda method: -(self.figure.direction or -1) * self.means[method])

    def is_best(self, method: str) -> bool:
        ranked = self.figure.direction != 0 and len(self.order) > 1
        return ranked and method in self.means and self.means[method] == self.means[self.order[0]]

    @cached_property
    def naive(self) -> str | None:
        return next((method for method in self.values if method.lower() == NAIVE), None)

    @cached_property
    def against_best(self) -> dict[str, Versus]:
        return self._against({method: next((o for o in self.order if o != method), None) for method in self.values})

    @cached_property
    def against_naive(self) -> dict[str, Versus]:
        return self._against({method: self.naive for method in self.values if method != self.naive})

    def _against(self, others: Mapping[str, str | None]) -> dict[str, Versus]:
        met = {method: other for method, other in others.items() if other and len(self.values[method]) > 1}
        pairs = {frozenset(pair): p_value(*(self.values[method] for method in pair)) for pair in met.items()}
        corrected = dict(zip(pairs, holm(list(pairs.values())), strict=True))
        return {
            one: Versus(
                other, self.means[one] - self.means[other], pairs[both := frozenset({one, other})], corrected[both]
            )
            for one, other in met.items()
        }

    def tests(self) -> Table | None:
        """Return who differs from the best of the others and from naive training; None if nothing was compared."""
        if not self.against_best:
            return None
        cells = [
            (method, versus.other, str(versus), str(self.against_naive.get(method, "")))
            for method, versus in self.against_best.items()
        ]
        caption = f"{self.figure.heading}: mean difference over seeds, p of a paired t-test, corrected by Holm."
        return Table(caption, ("method", "best competitor", "minus it", "minus naive"), cells)

    def chart(self) -> Chart:
        """Draw a dot a seed, and the mean with its 95% interval, the best first."""
        data = [
            Row(method, _interval(self.values[method]), "accent" if n == 0 else "plain", dots=self.values[method])
            for n, method in enumerate(self.order)
        ]
        best, name = self.order[0], self.figure.heading
        meaning = f"A dot is a seed. Best is {best} with {self.figure.shown(self.means[best])}."
        here = None if self.naive is None else self.means[self.naive]
        return rows(f"{name} by method", meaning, data, axis=name, here=here)


def _interval(values: Sequence[float]) -> Interval:
    mean, n = float(np.mean(values)), len(values)
    reach = float(stdtrit(n - 1, 0.975) * np.std(values, ddof=1) / np.sqrt(n)) if n > 1 else np.nan
    return Interval(mean, mean - reach, mean + reach, ".4f")


def standings_of(scores: Scores) -> dict[str, Standing]:
    """Return all methods by every figure that any has."""
    figures = dict.fromkeys(figure for seeds in scores.values() for found in seeds for figure in found)
    return {figure: standing(figure, scores) for figure in figures}


def standing(figure: str, scores: Scores) -> Standing:
    """Return all methods by one figure."""
    complete = {m: seeds for m, seeds in scores.items() if seeds and all(figure in found for found in seeds)}
    return Standing(figure, {method: [float(f[figure]) for f in seeds] for method, seeds in complete.items()})


def results(methods: Sequence[str], standings: Sequence[Standing], caption: str) -> Table:
    """Return the mean ± standard deviation of every method by every figure, the best marked."""
    cells = [(method, *(each.shown(method) for each in standings)) for method in methods]
    strong = {(n, k + 1) for n, m in enumerate(methods) for k, s in enumerate(standings) if s.is_best(m)}
    return Table(caption, ("method", *(each.figure.heading for each in standings)), cells, frozenset(strong))


def p_value(own: Sequence[float], other: Sequence[float]) -> float:
    """Return the two-sided p of a paired t-test; what varies by rounding alone differs for sure (0) or not at all."""
    a, b = np.asarray(own, np.float64), np.asarray(other, np.float64)
    gap, error = abs(float((a - b).mean())), float((a - b).std(ddof=1) / np.sqrt(len(a)))
    rounding = 1e-12 * max(np.abs(a).max(), np.abs(b).max())
    return float(gap <= rounding) if error <= rounding else float(2 * stdtr(len(a) - 1, -gap / error))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected so that the chance of any false rejection is bounded (Holm, 1979).

    The k-th smallest of m, counted from 0, becomes the largest of (m - j) p_(j) over j <= k, at most 1.
    """
    order = np.argsort(p_values, kind="stable")
    factors = len(p_values) - np.arange(len(p_values))
    corrected = np.empty(len(p_values))
    corrected[order] = np.minimum(np.maximum.accumulate(factors * np.asarray(p_values, np.float64)[order]), 1.0)
    return [float(value) for value in corrected]
