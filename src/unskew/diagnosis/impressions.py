"""Findings on what was shown, clicked and bought: a later or left-out part of the log judges models of the rest.

Weights of what was clicked are 1 / p, p the chance of a click by a fit to the rest (`propensity.clicks`). With q the
answers of a posterior of the rest, the level over everything shown is mean q + sum w (r - q) / sum w, doubly robust;
errors of two models are compared by sum w (e - e') / sum w. All errors are by user and item.
"""

from __future__ import annotations

import shlex
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unskew import charts
from unskew.data.log import RatingLog
from unskew.data.split import usual
from unskew.evaluation.gain import Z
from unskew.evaluation.impressions import QUIET, Judge
from unskew.findings import DECISIONS, Answer, Finding, Findings, Interval, Table
from unskew.metrics.intervals import effective_sample_size, normal_interval, two_way_error
from unskew.model import Recommender
from unskew.registry import make

Values = NDArray[np.float64]
FEWEST = 50  # equal clicks below which nothing is decided


class Judged(NamedTuple):
    """The part that judges: its rows, the chance of a click of each, what is imputed, what plain training answers."""

    log: RatingLog
    seen: NDArray[np.bool_]
    p: Values
    imputed: Values
    plain: Values

    @property
    def weight(self) -> Values:
        """1 / p of what was clicked, as shares."""
        inverse = 1 / self.p[self.seen]
        return np.asarray(inverse / inverse.sum())

    def error(self, influence: Values) -> float:
        """Return the standard error of a sum over what was clicked."""
        return two_way_error(self.log.users, self.log.items, influence)


def diagnose_impressions(source: RatingLog | Recommender, log: RatingLog, called: str, seed: int) -> Findings:
    """Judge a log of impressions, or a model of it, by a part that models of the rest have not seen."""
    judge = Judge.of(log, seed)
    held, shown = judge.held, judge.shown
    assert log.listed is not None
    assert held.listed is not None
    assert judge.rest is not None
    plain = make("naive").fit(judge.rest, seed=seed, training=QUIET).predict_codes(*shown)
    judged = Judged(held, judge.seen, judge.visible, judge.imputation.probability(*shown), plain)
    findings = [_data(log), _bias(judged, log), _clicks(judged, judge.clicks.examination)]
    which = "latest" if usual(log) == "time" else "left out"
    about = f"{len(log.listed):,} rows shown, judged by the {len(held.listed):,} {which}"
    if isinstance(source, RatingLog):
        decision, why = DECISIONS[findings[1].answer], f"{findings[1].headline}."
        return Findings(decision, why, findings, [f"unskew fit {shlex.quote(called)} --out model"], about, "log")
    answers = judge.answers(source, "the model")(*shown)
    gain = _gain(judged, answers)
    decision = DECISIONS[gain.answer]
    about += f"; model {type(source.method).__name__}"
    findings = [*findings[:2], gain, _conversions(judged, answers), findings[2]]
    steps = {
        "use": "Bid and rank by this model; log random rows to check it.",
        "test": "Compare it with what runs now in an A/B test before switching.",
        "stop": "Keep plain training.",
    }
    return Findings(decision, f"{findings[1].headline}. {gain.headline}.", findings, [steps[decision]], about)


def _data(log: RatingLog) -> Finding:
    assert log.listed is not None
    n, won = len(log.listed), int(log.ratings.sum())
    headline = f"{n:,} rows were shown, {len(log):,} seen ({log.density:.1%}), {won:,} of these with the outcome"
    counts = {"shown": n, "seen": len(log), "with the outcome": won}
    numbers = {name: Interval(count, form=",.0f") for name, count in counts.items()}
    names = ("shown", "clicked", "bought") if log.target == "conversion" else counts
    stages = [
        charts.Row(name, Interval(c / n, form=".2%"), note=f"{c:,} ({c / n:.2%})")
        for name, c in zip(names, counts.values(), strict=True)
    ]
    chart = charts.rows("From shown to the outcome", headline, stages, axis="share of what was shown", log=won > 0)
    return Finding("data", "yes" if won >= FEWEST else "cannot tell", headline, f"{headline}.", numbers, chart=chart)


def _bias(judged: Judged, log: RatingLog) -> Finding:
    """Is the outcome of what was clicked that of everything shown?"""
    r, q, w = judged.log.ratings.astype(float), judged.imputed, judged.weight
    left = r - q[judged.seen]
    there = float((w * left).sum())
    level, share = float(q.mean()) + there, 1 / len(r)
    of_clicks = normal_interval(float(r.mean()), judged.error(share * (r - r.mean())), ".2%")
    of_shown = normal_interval(level, judged.error(w * (left - there)), ".2%")
    gap = r.mean() - level
    error = judged.error(share * (r - r.mean()) - w * (left - there))
    answer: Answer = "yes" if abs(gap) > 2 * error else "cannot tell" if error > 0.1 * max(level, 1e-9) else "no"
    ess = effective_sample_size(w)
    if ess < FEWEST:
        answer = "cannot tell"
    headline = f"{of_clicks.value:.1%} of what was seen has the outcome, {of_shown.value:.1%} of everything shown would"
    numbers = {
        "of what was seen": of_clicks,
        "of everything shown": of_shown,
        "equal clicks": Interval(ess, form=",.0f"),
    }
    rows = [charts.Row("Of what was seen", of_clicks, "plain"), charts.Row("Of everything shown", of_shown)]
    chart = charts.rows("The outcome, seen and everywhere", headline, rows, axis="share with the outcome")
    rests = (
        "Holds if what drives both a click and the outcome is known of user and item. Chances of clicks are learned "
        "and too much alike: in simulated logs a quarter of a gap stays hidden."
    )
    return Finding("bias", answer, headline, _data(log).meaning, numbers, rests_on=rests, chart=chart)


def _clicks(judged: Judged, examination: Values) -> Finding:
    """Can the chances of clicks be believed, which the weights rest on?"""
    table, (answered, found) = _deciles(judged.p, judged.seen.astype(float), np.full(len(judged.p), 1 / len(judged.p)))
    worst = np.abs(answered - found).max()
    spread = f"positions multiply them by {examination.min():.2f} to {examination.max():.2f}"
    headline = f"chances of clicks lie within {worst:.1%} of what was clicked in every tenth; {spread}"
    answer: Answer = "yes" if worst < 0.25 * judged.seen.mean() else "no"
    return Finding("reach", answer, headline, f"{headline[0].upper()}{headline[1:]}.", table=table)


def _conversions(judged: Judged, answers: Values) -> Finding:
    """By tenths of the answers, because bids use the number and not the order."""
    table, means_by = _deciles(answers[judged.seen], judged.log.ratings.astype(float), judged.weight)
    worst = np.abs(means_by[0] - means_by[1]).max()
    means = float(answers.mean()), float((judged.weight * judged.log.ratings).sum())
    headline = f"it answers {means[0]:.1%} on average, where weighted clicks say {means[1]:.1%}"
    answer: Answer = "yes" if abs(means[0] - means[1]) < 0.25 * means[1] else "no"
    points = [charts.Point(100 * a, Interval(100 * b)) for a, b in zip(*means_by, strict=True)]
    chart = charts.lines(
        "Answers and outcomes by tenths, in percent.", headline, {"model": points}, x="answer", y="found"
    )
    meaning = f"The worst tenth is off by {worst:.1%}."
    return Finding("calibration", answer, headline, meaning, table=table, chart=chart)


def _deciles(p: Values, outcome: Values, weight: Values) -> tuple[Table, list[Values]]:
    """Mean answer and mean outcome by tenths of the answers."""
    tenth = np.searchsorted(np.quantile(p, np.linspace(0, 1, 11)[1:-1]), p, side="right")
    total = np.maximum(np.bincount(tenth, weight, 10), 1e-12)
    means = [np.bincount(tenth, weight * column, 10) / total for column in (p, outcome)]
    rows = [(str(k + 1), f"{a:.2%}", f"{b:.2%}") for k, (a, b) in enumerate(zip(*means, strict=True))]
    return Table("By tenths of the answers", ("tenth", "answer", "found"), rows), means


def _gain(judged: Judged, answers: Values) -> Finding:
    """Squared error of plain training minus that of the model, over everything shown by weighted clicks."""
    r, w = judged.log.ratings.astype(float), judged.weight
    own, plain = (np.square(r - each[judged.seen]) for each in (answers, judged.plain))
    gain = float((w * (plain - own)).sum())
    error = judged.error(w * (plain - own - gain))
    found = normal_interval(gain, error, "+.5f")
    few = effective_sample_size(w) < FEWEST
    answer: Answer = "cannot tell" if few or abs(gain) <= Z * error else "yes" if gain > 0 else "no"
    words = {
        "yes": "is closer to the outcome than plain training",
        "no": "is farther from the outcome than plain training",
    }
    headline = f"The model {words.get(answer, 'cannot be distinguished from plain training by this log')}"
    numbers = {"gain in squared error": found, "of plain training": Interval(float((w * plain).sum()), form=".5f")}
    return Finding("gain", answer, headline, f"{headline}.", numbers)
