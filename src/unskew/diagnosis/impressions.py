"""Findings on what was shown, clicked and bought: a later or left-out part of the log judges models of the rest.

Weights of what was clicked are 1 / p, p the chance of a click by a fit to the rest (`propensity.clicks`). With q the
answers of a posterior of the rest, the level over everything shown is mean q + sum w (r - q) / sum w, doubly robust,
its errors by user and item. Two models are compared as `compare` does.
"""

from __future__ import annotations

import shlex

import numpy as np
from numpy.typing import NDArray

from unskew import charts
from unskew.data.log import RatingLog
from unskew.data.population import AllPairs
from unskew.data.split import usual
from unskew.evaluation.compare import by_impressions
from unskew.evaluation.impressions import QUIET, Judge
from unskew.findings import DECISIONS, Answer, Finding, Findings, Interval, Table
from unskew.metrics.intervals import effective_sample_size, normal_interval, two_way_error
from unskew.model import Recommender
from unskew.registry import make

Values = NDArray[np.float64]
PLAIN, OWN = "plain training", "this model"
FEWEST = 50  # equal clicks below which nothing is decided
DRAWN = 20_000  # pairs that stand for all


def _error(judge: Judge, influence: Values) -> float:
    """Return the standard error of a sum over what was clicked."""
    return two_way_error(judge.held.users, judge.held.items, influence)


def diagnose_impressions(source: RatingLog | Recommender, log: RatingLog, called: str, seed: int) -> Findings:
    """Judge a log of impressions, or a model of it, by a part that models of the rest have not seen."""
    judge = Judge.of(log, seed)
    assert log.listed is not None
    assert judge.rest is not None
    which = "latest" if usual(log) == "time" else "left out"
    findings = [_data(log), _bias(judge), _clicks(judge)]
    about = f"{len(log.listed):,} rows shown, judged by the {len(judge.seen):,} {which}"
    if isinstance(source, RatingLog):
        decision, why = DECISIONS[findings[1].answer], f"{findings[1].headline}."
        return Findings(decision, why, findings, [f"unskew fit {shlex.quote(called)} --out model"], about, "log")
    answers = judge.answers(source, OWN)
    plain = make("naive").fit(judge.rest, seed=seed, training=QUIET).predict_codes
    gain = by_impressions((plain, answers), (PLAIN, OWN), judge).finding()
    decision = DECISIONS[gain.answer]
    about += f"; model {type(source.method).__name__}"
    findings = [*findings[:2], gain, _conversions(judge, answers(*judge.shown)), findings[2]]
    steps = {
        "use": "Bid and rank by this model; log random rows to check it.",
        "test": "Compare it with what runs now in an A/B test before switching.",
        "stop": "Keep plain training.",
    }
    return Findings(decision, f"{findings[1].headline}. {gain.headline}.", findings, [steps[decision]], about)


def _words(log: RatingLog) -> tuple[str, str]:
    """Return what is seen of what was shown, and what may come of it."""
    return ("clicked", "bought") if log.target == "conversion" else ("seen", "liked")


def _data(log: RatingLog) -> Finding:
    assert log.listed is not None
    counts = dict(zip(("shown", *_words(log)), (len(log.listed), len(log), int(log.ratings.sum())), strict=True))
    (_, n), (seen, n_seen), (won, n_won) = counts.items()
    headline = f"{n:,} rows were shown, {n_seen:,} {seen} ({n_seen / n:.1%}), {n_won:,} {won}"
    meaning = f"{log.n_users:,} users and {log.n_items:,} items; {n_won / n_seen:.1%} of what was {seen} was {won}."
    numbers = {name: Interval(count, form=",.0f") for name, count in counts.items()}
    stages = [charts.Row(name, Interval(c / n, form=".2%"), note=f"{c:,} ({c / n:.2%})") for name, c in counts.items()]
    chart = charts.rows("From shown to the outcome", headline, stages, axis="share of what was shown", log=n_won > 0)
    return Finding("data", "yes" if n_won >= FEWEST else "cannot tell", headline, meaning, numbers, chart=chart)


def _bias(judge: Judge) -> Finding:
    """Is the outcome of what was clicked that of everything shown?"""
    r, w, imputed = judge.outcome[judge.seen], judge.weights, judge.imputation.probability(*judge.shown)
    log, (seen, won), worth = judge.log, _words(judge.log), effective_sample_size(judge.weights)
    left = r - imputed[judge.seen]
    there = float((w * left).sum())
    level, share = float(imputed.mean()) + there, 1 / len(r)
    of_clicks = normal_interval(float(r.mean()), _error(judge, share * (r - r.mean())), ".2%")
    of_shown = normal_interval(level, _error(judge, w * (left - there)), ".2%")
    error = _error(judge, share * (r - r.mean()) - w * (left - there))
    gap = normal_interval(float(r.mean()) - level, error, "+.1%")
    answer: Answer = "yes" if abs(gap.value) > 2 * error else "cannot tell" if error > 0.1 * max(level, 1e-9) else "no"
    if worth < FEWEST:
        answer = "cannot tell"
    headline = f"{of_clicks.value:.1%} of what was {seen} was {won}, {of_shown.value:.1%} of everything shown would be"
    pairs = AllPairs(log.n_users, log.n_items).draw_evenly(DRAWN, np.random.default_rng([judge.seed, 62]))
    anything = normal_interval(float(judge.clicks.pair(pairs.users, pairs.items).mean()), 0.0, ".2%")
    chosen, by_place = judge.visible.mean(), judge.clicks.examination
    meaning = f"By choice: what is {seen} is {won} more often by {gap}. By policy: of what it shows {chosen:.1%} is "
    meaning += f"{seen}, of all pairs {anything.value:.1%} would be."
    if len(by_place) > 1:
        meaning += f" By position: places multiply that by {by_place.min():.2f} to {by_place.max():.2f}."
    numbers = {
        f"of what was {seen}": of_clicks,
        "of everything shown": of_shown,
        f"of all pairs, {seen}": anything,
        "equal rows": Interval(worth, form=",.0f"),
    }
    rows = [charts.Row(f"Of what was {seen}", of_clicks, "plain"), charts.Row("Of everything shown", of_shown)]
    chart = charts.rows("The outcome, seen and everywhere", headline, rows, axis=f"share {won}")
    rests = (
        "Holds if what drives both a click and the outcome is known of user and item. Chances of clicks are learned "
        "and too much alike: in simulated logs a quarter of a gap stays hidden."
    )
    return Finding("bias", answer, headline, meaning, numbers, rests_on=rests, chart=chart)


def _clicks(judge: Judge) -> Finding:
    """Can the chances of clicks be believed, which the weights rest on?"""
    seen, clicked = _words(judge.log)[0], judge.seen.astype(float)
    table, chart, worst = _by_tenths(f"Chances to be {seen}", judge.visible, clicked)
    headline = f"chances to be {seen} are off by {worst:.1%} in the worst tenth of rows"
    answer: Answer = "yes" if worst < 0.25 * clicked.mean() else "no"
    return Finding("reach", answer, headline, f"{headline[0].upper()}{headline[1:]}.", table=table, chart=chart)


def _conversions(judge: Judge, answers: Values) -> Finding:
    """By tenths of the answers, because bids use the number and not the order."""
    r, w = judge.outcome[judge.seen], judge.weights
    table, chart, worst = _by_tenths("Answers of the model", answers[judge.seen], r, w)
    level, found = float(answers.mean()), float((w * r).sum())
    headline = f"it answers {level:.1%} on average, where weighted clicks say {found:.1%}"
    answer: Answer = "yes" if abs(level - found) < 0.25 * found else "no"
    return Finding("calibration", answer, headline, f"The worst tenth is off by {worst:.1%}.", table=table, chart=chart)


def _by_tenths(
    what: str, p: Values, outcome: Values, weight: Values | None = None
) -> tuple[Table, charts.Chart, float]:
    """Return mean answer and mean outcome by tenths of the answers, and how far the two are apart at most."""
    w = np.ones(len(p)) if weight is None else weight
    tenth = np.searchsorted(np.quantile(p, np.linspace(0, 1, 11)[1:-1]), p, side="right")
    total = np.maximum(np.bincount(tenth, w, 10), 1e-12)
    means = [np.bincount(tenth, w * column, 10) / total for column in (p, outcome)]
    rows = [(str(k + 1), f"{a:.2%}", f"{b:.2%}") for k, (a, b) in enumerate(zip(*means, strict=True))]
    points = [charts.Point(100 * a, Interval(100 * b)) for a, b in zip(*means, strict=True)]
    chart = charts.lines("By tenths, in percent:", what, {what: points}, x="answered", y="found", diagonal=True)
    return Table(what, ("tenth", "answer", "found"), rows), chart, float(np.abs(means[0] - means[1]).max())
