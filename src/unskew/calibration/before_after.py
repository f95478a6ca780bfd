"""How well calibrated a role was before and after, measured on rows its calibrator was not fitted on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from unskew.calibration.platt import Calibrates, Examples, Values, examples_for
from unskew.losses.batch import View
from unskew.losses.elementwise import sigmoid
from unskew.metrics.calibration import calibration_error, reliability_curve


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
    def of(cls, p: Values, examples: Examples) -> Figures:
        labels, weights = examples.labels, examples.weights
        bins = reliability_curve(labels, p, sample_weight=weights)
        used = bins.count > 0
        return cls(
            mean=float((examples.shares * p).sum()),
            expected_error=calibration_error(labels, p, sample_weight=weights),
            maximum_error=calibration_error(labels, p, norm="max", sample_weight=weights),
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
        if self.usage:
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


def report_of(view: View, calibrators: Mapping[str, Calibrates]) -> CalibrationReport:
    """Judge the calibrators, by the names of their roles, on rows that they were not fitted to."""
    entries = []
    for name, role in calibrators.items():
        examples, fitted = examples_for(role.target, view), view.parts.parts[name]
        entry = RoleCalibration(
            role=role.target,
            n_rows=len(examples),
            target_mean=examples.target_mean,
            before=Figures.of(np.asarray(sigmoid(examples.logits)), examples),
            after=Figures.of(examples.calibrated(fitted), examples),
            usage=tuple(fitted.usage.tolist()),
            entropy=fitted.entropy if len(fitted.usage) else None,
            collapsed=fitted.collapsed,
        )
        entries.append(entry)
    return CalibrationReport(tuple(entries))
