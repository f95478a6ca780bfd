"""How well calibrated a role was before and after, measured on rows its calibrator was not fitted on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from unskew.calibration.platt import Examples, PlattMaps, Values, examples_for
from unskew.losses.batch import View
from unskew.losses.elementwise import sigmoid
from unskew.metrics.calibration import calibration_error


@dataclass(frozen=True)
class Figures:
    """The mean of probabilities on weighted rows, and their calibration errors over 15 equal-width bins."""

    mean: float
    expected_error: float
    maximum_error: float

    @classmethod
    def of(cls, p: Values, examples: Examples) -> Figures:
        measured = partial(calibration_error, examples.labels, p, sample_weight=examples.weights)
        return cls(float((examples.shares * p).sum()), measured(norm="mean"), measured(norm="max"))


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


def report_of(view: View) -> CalibrationReport | None:
    """Judge the calibrators of propensity and imputation on rows that they were not fitted to; None without any."""

    def entry(role: str, fitted: PlattMaps) -> RoleCalibration:
        examples = examples_for(role, view)
        return RoleCalibration(
            role,
            len(examples),
            examples.target_mean,
            Figures.of(np.asarray(sigmoid(examples.logits)), examples),
            Figures.of(examples.calibrated(fitted), examples),
            usage=tuple(fitted.usage.tolist()),
            entropy=fitted.entropy if len(fitted.usage) else None,
            collapsed=fitted.collapsed,
        )

    by_role = view.parts.calibrators
    entries = tuple(entry(role, view.parts[by_role[role]]) for role in ("propensity", "imputation") if role in by_role)
    return CalibrationReport(entries) if entries else None
