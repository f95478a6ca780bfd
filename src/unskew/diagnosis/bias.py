"""Is the log biased? What people chose to rate against everything: as a band from the log, and by random ratings."""

import math

import numpy as np

from unskew import charts
from unskew.data.log import RatingLog
from unskew.evaluation.judge import Evidence
from unskew.findings import Answer, Finding, Interval
from unskew.metrics.intervals import normal_interval
from unskew.selection.slope import USEFUL_ERROR

NOTABLE = 0.02  # of the level


class Levels:
    """Mean ratings: in the log, over all pairs from the lowest to the highest that the log allows, of random pairs."""

    def __init__(self, log: RatingLog, evidence: Evidence | None, random: RatingLog | None) -> None:
        self.scale, self.binary = log.scale, log.binary
        self.form, self.what = (".0%", "liked") if log.binary else (".2f", "mean rating")
        seen = len(log) / log.n_pairs
        self.log, self.all, self.random = self._of(log.positive_rate, math.nan, math.nan), None, None
        if evidence is not None:
            ends = sorted((1 - seen) * end + seen * log.positive_rate for end in evidence.level[1:3])
            self.all = self._of(math.nan, *ends)
        if random is not None and len(random):
            y = random.ratings.astype(np.float64)
            error = max(float(y.std(ddof=1)) / math.sqrt(len(y)) if len(y) > 1 else math.nan, 1e-9)
            self.random = self._of(*normal_interval(float(y.mean()), error)[:3])

    def _of(self, *ends: float) -> Interval:
        value, low, high = (float(self.scale.from_unit(end)) if math.isfinite(end) else end for end in ends)
        return Interval(value, low, high, self.form)

    def gap(self, gap: float, unit: bool = True) -> str:
        return f"{100 * gap:.0f}{' points' if unit else ''}" if self.binary else f"{gap:.2f}"


def bias(log: RatingLog, evidence: Evidence | None, random: RatingLog | None = None) -> Finding:
    """By the slope of seeing on liking and its standard error, the band of the level, and random ratings if any."""
    levels = Levels(log, evidence, random)
    answer, headline, meaning = _answer(levels, evidence)
    numbers = {"in the log": levels.log}
    rows = [charts.Row("In your log", levels.log, "plain")]
    rests_on = ""
    if levels.all is not None and evidence is not None:
        numbers["over all pairs"] = levels.all
        rows.append(charts.Row("Over all pairs, by the log alone", levels.all))
        numbers["slope of seeing on liking"] = normal_interval(evidence.slope.value, evidence.slope.error, form=".2f")
        rests_on = (
            "The band reaches from what the log says as it stands to what it would be if people rated what they turned "
            "out to like, by the slope raised by 1.64 of its errors; no log can tell where in it the truth lies."
        )
    if levels.random is not None and random is not None:
        numbers["random ratings"] = levels.random
        rows.append(charts.Row(f"Random ratings ({len(random):,})", levels.random, "third"))
    words = "; ".join(f"{row.name.lower()} {row.at}" for row in rows)
    chart = charts.rows(f"Share {levels.what}" if log.binary else "Mean rating", f"{words}.", rows, axis=levels.what)
    action = "" if answer == "no" else f"Do not report {levels.log} as what people like."
    return Finding("bias", answer, headline, meaning, numbers, rests_on=rests_on, action=action, chart=chart)


def _answer(levels: Levels, evidence: Evidence | None) -> tuple[Answer, str, str]:
    """Return answer, headline and meaning, which are one statement: by random ratings, else by slope and band."""
    known = _known(evidence)
    if levels.random is not None:
        if levels.random.covers(levels.log.value):
            meaning = "What people chose to rate is liked as much as pairs drawn at random, whatever they chose by."
            return "no", "No: random ratings are as high as the log's", meaning
        gap = levels.log.value - levels.random.value
        headline = f"Yes, by {levels.gap(abs(gap))}: random ratings say {levels.random.value:{levels.form}}"
        if evidence is None or not evidence.slope.evidence:
            than = "more" if gap > 0 else "less"
            known = f"What people chose to rate is liked {than} than pairs drawn at random; why, the log hides"
        return "yes", headline, f"{known}."
    if evidence is None or levels.all is None:
        return "cannot tell", "This log cannot tell", "The log is too small to tell by itself."
    low, high = levels.log.value - levels.all.high, levels.log.value - levels.all.low
    headline = f"Yes, by {levels.gap(max(low, 0.0), unit=False)} to {levels.gap(high)}"
    if evidence.slope.evidence:
        unclear = "Liking drives seeing, but not how far"
        return ("yes", headline, f"{known}.") if high > 0 else ("cannot tell", unclear, f"{known}.")
    if low > NOTABLE * (1.0 if levels.binary else levels.scale.high - levels.scale.low):
        why = "People and items with many ratings are liked more than the rest, which makes the difference"
        beyond = "whether people also choose what they like, the log is too small, or too even, to tell"
        if evidence.slope.error <= USEFUL_ERROR:
            beyond = "that people also choose what they like is not to be seen"
        return "yes", headline, f"{why}; {beyond}."
    sure = evidence.slope.error <= USEFUL_ERROR
    return ("no", "No sign of it", f"{known}.") if sure else ("cannot tell", "This log cannot tell", f"{known}.")


def _known(evidence: Evidence | None) -> str:
    """Say what the slope tells, without a full stop."""
    slope = None if evidence is None else evidence.slope
    if slope is not None and slope.evidence:
        return (
            "People rate what they like: a step of liking as large as the noise of one rating makes a pair "
            f"{math.exp(min(slope.value, 5.0)):.1f} times as likely to be rated ({slope.value / slope.error:.0f} times "
            "its standard error)"
        )
    if slope is None or not slope.error <= USEFUL_ERROR:
        return "The log is too small, or too even, to tell whether people rate what they like"
    return "Whether a pair is rated does not rise with how much it is liked, as far as the log can tell"
