"""Do propensity, imputation and prediction mean what they say? Before and after calibration, overall and by group."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from unskew.diagnosis.groups import Groups
from unskew.diagnosis.subject import Nuisance, Subject
from unskew.estimation.calibrated import OfPairs, seen_and_unseen
from unskew.estimation.scores import Codes, Values
from unskew.metrics.calibration import reliability_bins
from unskew.metrics.summary import CalibrationSummary, calibration_summary

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST = 20_000  # rows of a kind, seen or unseen
REPLICATES = 200
FEWEST = 30  # rows of a group
NOTABLE = 0.1  # of the base rate


@dataclass(frozen=True)
class Curve:
    """A reliability diagram: in bins of equal weight, what was said on average and what came true."""

    said: tuple[float, ...]
    came_true: tuple[float, ...]


@dataclass(frozen=True)
class Calibration:
    """One role on some rows; `used` says which of before and after the model uses, `rows` what they are."""

    role: str
    rows: str
    used: str
    before: CalibrationSummary
    after: CalibrationSummary
    curve_before: Curve
    curve_after: Curve
    groups: tuple[tuple[str, CalibrationSummary, CalibrationSummary], ...]

    @property
    def in_use(self) -> CalibrationSummary:
        return self.before if self.used == "before" else self.after

    @property
    def visible(self) -> bool:
        """Whether an error larger than chance and than a tenth of the base rate is left in what is used."""
        return _visible(self.in_use)

    @property
    def wrong_groups(self) -> tuple[tuple[str, CalibrationSummary], ...]:
        """The groups in which such an error is left, the largest first."""
        in_use = ((name, before if self.used == "before" else after) for name, before, after in self.groups)
        wrong = [(name, summary) for name, summary in in_use if _visible(summary)]
        return tuple(
            sorted(wrong, key=lambda entry: -entry[1].debiased_error.value / max(entry[1].base_rate.value, 1e-12))
        )


def _visible(summary: CalibrationSummary) -> bool:
    error = summary.debiased_error
    return error.low > 0 and error.value > NOTABLE * summary.base_rate.value


@dataclass(frozen=True, eq=False)
class Rows:
    """Pairs, what came true of each, and how many pairs it stands for."""

    users: Codes
    items: Codes
    labels: Values
    weight: Values | None

    def take(self, rows: NDArray[np.bool_]) -> Rows:
        weight = None if self.weight is None else self.weight[rows]
        return Rows(self.users[rows], self.items[rows], self.labels[rows], weight)

    def thinned(self, first: int, seed: int) -> Rows:
        """With at most `MOST` of the `first` rows, drawn at random, each then standing for more."""
        if first <= MOST or self.weight is None:
            return self
        kept = np.sort(np.random.default_rng([seed, 63]).choice(first, MOST, replace=False))
        rows = np.concatenate([kept, np.arange(first, len(self.labels))])
        weight = self.weight * np.where(np.arange(len(self.weight)) < first, first / MOST, 1.0)
        return Rows(self.users[rows], self.items[rows], self.labels[rows], weight[rows])


def calibrations_of(subject: Subject) -> tuple[Calibration, ...]:
    """Of the propensity over all pairs; of imputation and prediction over rated ones, weighted to stand for all."""
    return tuple(_calibrations(subject))


def _calibrations(subject: Subject) -> Iterator[Calibration]:
    groups = Groups(subject.log, subject.seed)
    for part, words, rows in rows_of(subject):
        yield _calibration(part.name, words, part.used, (part.before, part.after), rows, groups, subject.seed)


def rows_of(subject: Subject) -> Iterator[tuple[Nuisance, str, Rows]]:
    """The rows by which propensity and imputation are judged, and in words what they are.

    Weights are not clipped: an imputation that was calibrated under a clip would look right by the same clip.
    """
    log = subject.log
    pairs = seen_and_unseen(log, seed=subject.seed, most=MOST)
    everywhere = Rows(pairs.users, pairs.items, pairs.seen, pairs.weight)
    yield subject.propensity, "all pairs", everywhere.thinned(pairs.n_seen, subject.seed)
    judging = subject.judging
    weight = 1 / np.maximum(subject.seen_used[subject.judged], 1e-9)
    rated = Rows(judging.users, judging.items, judging.ratings.astype(np.float64), weight)
    words = "ratings it was not trained on, weighted"
    yield subject.imputation, words, rated.thinned(len(judging), subject.seed)
    slice_ = subject.random_ratings
    if slice_ is not None:
        random = Rows(slice_.users, slice_.items, slice_.ratings.astype(np.float64), None)
        yield subject.imputation, "random ratings", random


def _calibration(
    role: str, words: str, used: str, says: tuple[OfPairs, OfPairs], rows: Rows, groups: Groups, seed: int
) -> Calibration:
    said = [np.clip(one(rows.users, rows.items), 0.0, 1.0) for one in says]
    whole = np.ones(len(rows.labels), bool)
    before, after = (_summary(one, rows, whole, seed) for one in said)
    apart = groups.apart(rows.users, rows.items) if role == "propensity" else whole
    by_group = tuple(
        (name, _summary(said[0], rows, mask & apart, seed), _summary(said[1], rows, mask & apart, seed))
        for name, mask in groups.masks(rows.users, rows.items)
        if (mask & apart).sum() >= FEWEST
    )
    return Calibration(role, words, used, before, after, curve(said[0], rows), curve(said[1], rows), by_group)


def _summary(said: Values, rows: Rows, mask: NDArray[np.bool_], seed: int) -> CalibrationSummary:
    weight = None if rows.weight is None else rows.weight[mask]
    replicates = REPLICATES if mask.all() else REPLICATES // 2
    return calibration_summary(rows.labels[mask], said[mask], sample_weight=weight, n_replicates=replicates, seed=seed)


def curve(said: Values, rows: Rows, n_bins: int = 10) -> Curve:
    bins = reliability_bins(rows.labels, said, strategy="quantile", n_bins=n_bins, sample_weight=rows.weight)
    return Curve(tuple(bins.mean_score.tolist()), tuple(bins.mean_label.tolist()))


def reliability_diagrams(calibrations: tuple[Calibration, ...]) -> Figure:
    """Before and after, one panel each."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5 * len(calibrations), 4.5), layout="constrained")
    for axes, entry in zip(figure.subplots(1, len(calibrations), squeeze=False)[0], calibrations, strict=True):
        top = 0.0
        for curve, label, marker in ((entry.curve_before, "before", "o"), (entry.curve_after, "after", "s")):
            axes.plot(curve.said, curve.came_true, marker=marker, label=label)
            top = max(top, *curve.said, *curve.came_true)
        axes.plot([0, top], [0, top], color="grey", linewidth=1, linestyle="--", label="perfect")
        axes.set(title=f"{entry.role}, {entry.rows}", xlabel="mean probability said", ylabel="share that happened")
        axes.legend()
    return figure
