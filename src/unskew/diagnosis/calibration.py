"""When the model says 40%, is it 40%? By left-out ratings, weighted to the pairs that nobody chose, or random ones."""

from __future__ import annotations

import numpy as np

from unskew import charts
from unskew.evaluation.fits import Values
from unskew.evaluation.judge import Evidence
from unskew.findings import Answer, Finding, Interval
from unskew.metrics.calibration import calibration_error, calibration_interval, reliability_curve

N_BINS = 8
VISIBLE = 0.05  # an error that people act on
LEAST = 10  # ratings in a point of the curve
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
    rows = evidence.held if by_log else np.ones(len(evidence.held), bool)
    y, ends = evidence.y[rows], ("alike", "low, alike") if by_log else ("alike",)
    weights = [evidence.corners[end].weight[rows] if by_log else np.ones(len(y)) for end in ends]
    inside = {name: np.clip(values[rows], 0.0, 1.0) for name, values in scores.items()}
    series = {name: _points(y, values, weights[0]) for name, values in inside.items()}
    asked = next(iter(inside.values()))
    errors = [calibration_interval(y, asked, bins="mass", n_bins=N_BINS, sample_weight=w) for w in weights]
    largest = calibration_error(y, asked, norm="max", bins="mass", n_bins=N_BINS, sample_weight=weights[0])
    says = float(np.average(asked, weights=weights[0]))
    found = [float(np.average(y, weights=w)) for w in weights]
    numbers = dict(zip(("calibration error", "the same if liking drives rating"), errors, strict=False))
    numbers |= {
        "largest gap": Interval(largest, form=".4f"),
        "says on average": Interval(says, form=".1%"),
        "found on average": Interval(found[0], min(found), max(found), ".1%"),
    }
    where = f"{found[0]:.0%} is found"
    if f"{min(found):.0%}" != f"{max(found):.0%}":
        where = f"{min(found):.0%} to {max(found):.0%} is found, depending on what drives seeing"
    meaning = f"It says {says:.0%} on average where {where}; off by {errors[0].value:.3f} as the ratings stand."
    chart = charts.lines(
        "When it says 40%, is it 40%?",
        f"{meaning} Points on the dashed line are right.",
        series,
        x="chance it gave",
        y="share found",
        diagonal=True,
    )
    rests = f"Chances are held against {len(y):,} random ratings."
    if by_log:
        rests = f"Chances are held against {len(y):,} left-out ratings, weighted to the pairs that nobody rated: if "
        rests += "people rate what they turn out to like, the share found is too high."
    answer: Answer = "cannot tell"
    if all(error.low > VISIBLE for error in errors) and (says > max(found) or says < min(found)):
        answer = "no"
    elif all(error.value <= VISIBLE for error in errors):
        answer = "yes"
    return Finding("calibration", answer, HEADLINES[answer], meaning, numbers, rests_on=rests, chart=chart)


def _points(y: Values, scores: Values, weight: Values) -> list[charts.Point]:
    curve = reliability_curve(y, scores, bins="mass", n_bins=N_BINS, sample_weight=weight)
    used = curve.count >= LEAST
    found = zip(curve.mean_score[used], curve.mean_label[used], strict=True)
    return [charts.Point(float(score), Interval(float(label))) for score, label in found]
