"""How well calibrated a role was before and after, measured on rows its calibrator was not fitted on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from unskew.calibration.base import Calibrates, examples_for
from unskew.calibration.experts import FittedExperts
from unskew.calibration.platt import Examples
from unskew.metrics.calibration import (
    expected_calibration_error,
    maximum_calibration_error,
    reliability_bins,
)
from unskew.training.view import View

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Figures:
    """Calibration of probabilities on weighted rows: errors over 15 equal-width bins, and the bins that are used.

    `scores` are the bins' mean probabilities, `shares` the share of labels that came true in each.
    """

    mean: float
    expected_error: float
    maximum_error: float
    scores: tuple[float, ...]
    shares: tuple[float, ...]

    @classmethod
    def of(cls, said: NDArray[np.float64], examples: Examples) -> Figures:
        columns = examples.labels, said
        bins = reliability_bins(*columns, sample_weight=examples.weights)
        used = bins.count > 0
        return cls(
            mean=float(np.average(said, weights=examples.weights)),
            expected_error=expected_calibration_error(*columns, sample_weight=examples.weights),
            maximum_error=maximum_calibration_error(*columns, sample_weight=examples.weights),
            scores=tuple(bins.mean_score[used].tolist()),
            shares=tuple(bins.mean_label[used].tolist()),
        )


@dataclass(frozen=True)
class RoleCalibration:
    """One role before and after calibration; `target_mean` is what the mean should be."""

    role: str
    n_rows: int
    target_mean: float
    before: Figures
    after: Figures
    usage: tuple[float, ...] = ()
    entropy: float | None = None
    collapsed: bool = False

    def __str__(self) -> str:
        lines = [
            f"{self.role}: ECE {self.before.expected_error:.4f} -> {self.after.expected_error:.4f}, "
            f"MCE {self.before.maximum_error:.4f} -> {self.after.maximum_error:.4f}, "
            f"mean {self.before.mean:.4f} -> {self.after.mean:.4f} (should be {self.target_mean:.4f}), "
            f"on {self.n_rows:,} rows not fitted on"
        ]
        if self.entropy is not None:
            shares = ", ".join(f"{share:.0%}" for share in self.usage)
            lines.append(f"  experts have {shares} of the users; entropy {self.entropy:.2f} of the largest possible")
        if self.collapsed:
            lines.append("  the assignment has collapsed: nearly all users share one expert")
        return "\n".join(lines)


@dataclass(frozen=True)
class CalibrationReport:
    """The calibration of every calibrated role of a fitted model."""

    roles: tuple[RoleCalibration, ...]

    def __getitem__(self, role: str) -> RoleCalibration:
        return next(entry for entry in self.roles if entry.role == role)

    def __str__(self) -> str:
        return "\n".join(map(str, self.roles))

    def plot(self) -> Figure:
        """Reliability diagrams before and after, one panel a role."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(5 * len(self.roles), 4.5), layout="constrained")
        for axes, entry in zip(figure.subplots(1, len(self.roles), squeeze=False)[0], self.roles, strict=True):
            _draw(axes, entry)
        return figure


def _draw(axes: Any, entry: RoleCalibration) -> None:
    top = 0.0
    for figures, name, marker in ((entry.before, "before", "o"), (entry.after, "after", "s")):
        axes.plot(figures.scores, figures.shares, marker=marker, label=f"{name} (ECE {figures.expected_error:.3f})")
        top = max(top, *figures.scores, *figures.shares)
    axes.plot([0, top], [0, top], color="grey", linewidth=1, linestyle="--", label="perfect")
    axes.set(title=entry.role, xlabel="mean probability said", ylabel="share that happened")
    axes.legend()


def report_of(view: View, calibrators: Mapping[str, Calibrates]) -> CalibrationReport:
    """Judged on a view of rows that the calibrators were not fitted to."""
    entries = []
    for name, role in calibrators.items():
        examples, fitted = examples_for(role.target, view), view.cast.players[name]
        raw = expit(examples.bounded_logits)
        experts: dict[str, Any] = {}
        if isinstance(fitted, FittedExperts):
            experts = {"usage": tuple(fitted.usage.tolist()), "entropy": fitted.entropy, "collapsed": fitted.collapsed}
        entry = RoleCalibration(
            role=role.target,
            n_rows=len(examples),
            target_mean=examples.target_mean,
            before=Figures.of(raw, examples),
            after=Figures.of(examples.said(*fitted.maps(examples.user_codes, examples.vectors)), examples),
            **experts,
        )
        entries.append(entry)
    return CalibrationReport(tuple(entries))
