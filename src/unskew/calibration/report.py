"""What a model reports of its fit: how the propensity weighs seen pairs, how calibrated roles were before and after."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from unskew.calibration.platt import Examples, PlattMaps, Values, examples_for
from unskew.losses.batch import View
from unskew.losses.columns import sigmoid, value_of
from unskew.metrics.calibration import calibration_error
from unskew.metrics.intervals import effective_sample_size
from unskew.training.loop import Loop


@dataclass(frozen=True)
class WeightReport:
    """Figures of the weights 1 / max(p, clip) on the training ratings, and of p over a sample of all pairs.

    Where p depends on the rating, weights do too; the clip and what it touched concern p whatever the rating.
    What concerns all pairs is None for propensities that are known of the seen pairs only.
    """

    base_rate: float
    mean_over_pairs: float | None
    std_over_pairs: float | None
    smallest_seen: float
    clip: float
    clipped_seen: int
    clipped_share_of_seen: float
    clipped_share_of_pairs: float | None
    largest_weight: float
    effective_sample_size: float

    def __str__(self) -> str:
        over_pairs, clipped_pairs = f"known of seen pairs only (base rate {self.base_rate:.4f})", ""
        if self.mean_over_pairs is not None:
            over_pairs = f"mean {self.mean_over_pairs:.4f} over all pairs (base rate {self.base_rate:.4f})"
            over_pairs += f", standard deviation {self.std_over_pairs:.4f}"
            clipped_pairs = f" and {self.clipped_share_of_pairs:.1%} of all pairs"
        return (
            f"propensity: {over_pairs}; clip {self.clip:.3g} raised {self.clipped_seen:,} training ratings "
            f"({self.clipped_share_of_seen:.1%}){clipped_pairs}; "
            f"largest weight {self.largest_weight:.1f}, effective sample size {self.effective_sample_size:,.0f}"
        )


def weights_of(trained: Loop) -> WeightReport:
    """Measure on the rows that were trained on and on the loop's own sample of pairs."""
    role, view = "propensity", trained.view(trained.feed.train)
    clip, o = trained.parts.clips[role], view.observed
    seen, weight = value_of(o.probability(role)), o.inverse_propensity(role).astype(np.float64)
    raised, (mean, std, clipped) = seen < clip, (None,) * 3
    if trained.parts[role].answers_unseen:
        p = value_of(view.sampled.probability(role)).astype(np.float64)
        mean, std, clipped = float(p.mean()), float(p.std()), float((p < clip).mean())
    return WeightReport(
        base_rate=trained.feed.split.density,
        mean_over_pairs=mean,
        std_over_pairs=std,
        smallest_seen=float(seen.min()),
        clip=clip,
        clipped_seen=int(raised.sum()),
        clipped_share_of_seen=float(raised.mean()),
        clipped_share_of_pairs=clipped,
        largest_weight=float(weight.max()),
        effective_sample_size=effective_sample_size(weight),
    )


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
        )

    by_role = view.parts.calibrators
    entries = tuple(entry(role, view.parts[by_role[role]]) for role in ("propensity", "imputation") if role in by_role)
    return CalibrationReport(entries) if entries else None
