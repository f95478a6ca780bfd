"""Is the log biased? What people chose to rate beside everything: as a band from the log, and by random ratings."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from unskew import charts
from unskew.data.log import RatingLog
from unskew.evaluation.judge import Evidence
from unskew.findings import Finding, Interval
from unskew.metrics.intervals import normal_interval
from unskew.selection.slope import USEFUL_ERROR

NOTABLE = 0.02  # of the level
Answer = Literal["yes", "no", "cannot tell"]


class Levels:
    """Mean ratings: in the log, over all pairs from the lowest to the highest that the log allows, of random pairs."""

    def __init__(self, log: RatingLog, evidence: Evidence | None, random: RatingLog | None) -> None:
        self.form, self.what = (".0%", "liked") if log.binary else (".2f", "mean rating")
        seen = len(log) / log.n_pairs
        self.log = self._of(log.positive_rate, math.nan, math.nan, log)
        self.all = None
        if evidence is not None:
            ends = [(1 - seen) * end + seen * log.positive_rate for end in evidence.level[1:3]]
            self.all = self._of(math.nan, min(ends), max(ends), log)
        self.random = None
        if random is not None and len(random):
            y = random.ratings.astype(np.float64)
            error = max(float(y.std(ddof=1)) / math.sqrt(len(y)) if len(y) > 1 else math.nan, 1e-9)
            self.random = self._of(*normal_interval(float(y.mean()), error)[:3], log)

    def _of(self, value: float, low: float, high: float, log: RatingLog) -> Interval:
        value, low, high = (float(log.scale.from_unit(v)) if math.isfinite(v) else v for v in (value, low, high))
        return Interval(value, low, high, self.form)


def bias(log: RatingLog, evidence: Evidence | None, random: RatingLog | None = None) -> Finding:
    """By the slope of seeing on liking and its standard error, the band of the level, and random ratings if any."""
    levels = Levels(log, evidence, random)
    answer, headline = _answer(levels, evidence, log)
    numbers = {"in the log": levels.log}
    rows = [charts.Row("In your log", levels.log, "plain")]
    if levels.all is not None:
        numbers["over all pairs"] = levels.all
        rows.append(charts.Row("Over all pairs, by the log alone", levels.all))
    if levels.random is not None:
        assert random is not None
        numbers["random ratings"] = levels.random
        rows.append(charts.Row(f"Random ratings ({len(random):,})", levels.random, "third"))
    words = "; ".join(f"{row.name.lower()} {row.at}" for row in rows)
    chart = charts.rows(f"Share {levels.what}" if log.binary else "Mean rating", f"{words}.", rows, axis=levels.what)
    meaning, rests_on = "The log is too small to tell by itself.", ""
    if evidence is not None:
        slope = evidence.slope
        numbers["slope of seeing on liking"] = normal_interval(slope.value, slope.error, form=".2f")
        meaning = _meaning(levels, evidence)
        rests_on = (
            "The band reaches from what the log says as it stands to what it would be if people rated what they turned "
            "out to like, by the slope raised by 1.64 of its errors; no log can tell where in it the truth lies."
        )
    action = "" if answer == "no" else f"Do not report {levels.log} as what people like."
    return Finding("bias", answer, headline, meaning, numbers, rests_on=rests_on, action=action, chart=chart)


def _answer(levels: Levels, evidence: Evidence | None, log: RatingLog) -> tuple[Answer, str]:
    if levels.random is not None:
        gap = levels.log.value - levels.random.value
        if levels.random.covers(levels.log.value):
            return "no", "No: random ratings are as high as the log's"
        return "yes", f"Yes, by {_gap(gap, log)}: random ratings say {levels.random.value:{levels.form}}"
    if evidence is None or levels.all is None:
        return "cannot tell", "This log cannot tell"
    notable = NOTABLE * (1.0 if log.binary else log.scale.high - log.scale.low)
    if evidence.slope.evidence or levels.all.high < levels.log.value - notable:
        low, high = levels.log.value - levels.all.high, levels.log.value - levels.all.low
        if high <= 0:
            return "cannot tell", "Liking drives seeing, but not how far"
        first = f"{100 * max(low, 0.0):.0f}" if log.binary else f"{max(low, 0.0):.2f}"
        return "yes", f"Yes, by {first} to {_gap(high, log)}"
    if evidence.slope.error <= USEFUL_ERROR:
        return "no", "No sign of it"
    return "cannot tell", "This log cannot tell"


def _gap(gap: float, log: RatingLog) -> str:
    return f"{100 * gap:.0f} points" if log.binary else f"{gap:.2f}"


def _meaning(levels: Levels, evidence: Evidence) -> str:
    slope = evidence.slope
    if slope.evidence:
        times = math.exp(min(slope.value, 5.0))
        return (
            f"People rate what they like: a step of liking as large as the noise of one rating makes a pair "
            f"{times:.1f} times as likely to be rated ({slope.value / slope.error:.0f} times its standard error)."
        )
    if not math.isfinite(slope.error) or slope.error > USEFUL_ERROR:
        return "The log is too small, or too even, to tell whether people rate what they like."
    return "Whether a pair is rated does not rise with how much it is liked, as far as the log can tell."
