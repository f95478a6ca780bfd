"""When the model says 40%, is it 40%? By left-out ratings, weighted to the pairs that nobody chose, or random ones."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from unskew import charts
from unskew.evaluation.fits import Values
from unskew.evaluation.judge import Evidence
from unskew.findings import Answer, Finding, Interval, Table
from unskew.metrics.calibration import calibration_error, calibration_interval, reliability_curve
from unskew.metrics.intervals import normal_interval
from unskew.posterior.targeted import TENTHS, Targeted

N_BINS = 8
VISIBLE = 0.05  # an error that people act on
LEAST = 10  # ratings in a point of the curve
NOTABLE, ENOUGH = 3.0, 30  # errors of the largest of fifteen residuals by chance; ratings of which one has an error
HEADLINES: dict[Answer, str] = {
    "yes": "Yes, within 5 points",
    "no": "No: its chances are off",
    "cannot tell": "This log cannot tell",
}


def calibration(evidence: Evidence, scores: dict[str, Values]) -> Finding:
    """Judge the first of the models; answers are cut to [0, 1] for the curve alone.

    If liking drives rating, left-out ratings are too high: chances are off only if so, and on the same side, at both
    ends of the band.
    """
    by_log = bool(evidence.held.any())
    whose = "left-out" if by_log else "random"
    rows = evidence.held if by_log else np.ones(len(evidence.held), bool)
    y, ends = evidence.y[rows], ("alike", "low, alike") if by_log else ("alike",)
    weights = [evidence.corners[end].weight[rows] if by_log else np.ones(len(y)) for end in ends]
    inside = {name: np.clip(values[rows], 0.0, 1.0) for name, values in scores.items()}
    external, form, finer = evidence.log.scale.from_unit, *((".0%", ".1%") if evidence.log.binary else (".2f", ".3f"))
    series = {name: _points(y, values, weights[0], external) for name, values in inside.items()}
    asked = next(iter(inside.values()))
    errors = [calibration_interval(y, asked, bins="mass", n_bins=N_BINS, sample_weight=w) for w in weights]
    largest = calibration_error(y, asked, norm="max", bins="mass", n_bins=N_BINS, sample_weight=weights[0])
    says = float(external(np.average(asked, weights=weights[0])))
    found = [float(external(np.average(y, weights=w))) for w in weights]
    low, high = (min(found), max(found)) if by_log else (np.nan, np.nan)
    numbers = dict(zip(("calibration error", "the same if liking drives rating"), errors, strict=False))
    numbers |= {
        "largest gap": Interval(largest, form=".4f"),
        f"says of {whose} ratings": Interval(says, form=finer),
        f"found in {whose} ratings": Interval(found[0], low, high, finer),
    }
    between = dict.fromkeys(f"{end:{form}}" for end in sorted(found))
    where = f"{' to '.join(between)} is found{', depending on what drives seeing' if len(between) > 1 else ''}"
    meaning = f"Of {whose} ratings it says {says:{form}} where {where}; off by {errors[0].value:.3f} as they stand."
    meaning += "" if evidence.log.binary else " That is of a scale from 0 to 1."
    example = f"{float(external(0.4)):{form}}"
    title, words = f"When it says {example}, is it {example}?", f"{meaning} Points on the dashed line are right."
    chart = charts.lines(title, words, series, x="what it says", y="what is found", diagonal=True)
    rests = f"Chances are held against {len(y):,} {whose} ratings"
    if by_log:
        rests += (
            ", weighted to the pairs that nobody rated: if people rate what they turn out to like, the share found "
        )
        rests += "is too high"
    answer: Answer = "cannot tell"
    if all(error.low > VISIBLE for error in errors) and (says > max(found) or says < min(found)):
        answer = "no"
    elif all(error.value <= VISIBLE for error in errors):
        answer = "yes"
    return Finding("calibration", answer, HEADLINES[answer], meaning, numbers, rests_on=f"{rests}.", chart=chart)


def _points(y: Values, scores: Values, weight: Values, external: Callable[[Values], Values]) -> list[charts.Point]:
    curve = reliability_curve(y, scores, bins="mass", n_bins=N_BINS, sample_weight=weight)
    used = curve.count >= LEAST
    found = zip(external(curve.mean_score[used]), external(curve.mean_label[used]), strict=True)
    return [charts.Point(float(score), Interval(float(label))) for score, label in found]


def with_residuals(finding: Finding, targeted: Targeted) -> Finding:
    """Add what left-out ratings are above the model's answers, by tenth of their chance to be rated and by group."""
    names = [f"tenth {n} of chances to be rated" for n in range(1, TENTHS + 1)]
    names += [f"group {n} of people with like histories" for n in range(1, len(targeted.residuals) - TENTHS + 1)]
    found = [(name, *row) for name, row in zip(names, targeted.residuals.tolist(), strict=False) if row[2] >= ENOUGH]
    if not found:
        return finding
    rows = [(name, normal_interval(100 * mean, 100 * e, "+.1f"), int(n)) for name, mean, e, n in found]
    name, mean, error, _ = max(found, key=lambda row: abs(row[1]) / max(row[2], 1e-9))
    words = "Without the targeted correction" + (", which acts, " if targeted.applied else " (it does not act) ")
    words += "the model is off "
    far = f"most in {name}: ratings are {100 * abs(mean):.1f} points {'higher' if mean > 0 else 'lower'}."
    words += far if abs(mean) > NOTABLE * error else "by no more than chance, whoever rates and however rare a pair."
    table = Table(
        "Left-out ratings above answers before the correction, in points; tenth 1 is the rarest",
        ("", "above", "ratings"),
        rows,
    )
    return replace(finding, meaning=f"{finding.meaning} {words}", table=table)
