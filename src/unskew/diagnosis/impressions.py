"""Findings on what was shown, clicked and bought: a later or left-out part of the log judges models of the rest.

What is known of the outcome has weights 1 / p, p the chance that it was clicked, or shown (`evaluation.impressions`).
With q the answers of a posterior of the rest, the level over everything shown, or over all items of the users of these
rows, is mean q + sum w (r - q) / sum w, doubly robust. All errors are by user and item.
"""

from __future__ import annotations

import numpy as np

from unskew import charts
from unskew.data.log import RatingLog
from unskew.data.population import AllPairs
from unskew.data.split import usual
from unskew.diagnosis.lists import OTHER_SEED, OWN, PLAIN, lists
from unskew.evaluation.compare import by_impressions, judged_by_random
from unskew.evaluation.fits import Values, plain_training
from unskew.evaluation.impressions import Judge
from unskew.findings import DECISIONS, Answer, Finding, Findings, Interval, Table
from unskew.metrics.calibration import reliability_curve
from unskew.metrics.intervals import effective_sample_size, normal_interval, two_way_error
from unskew.model import Recommender

FEWEST = 50  # equal rows below which nothing is decided
DRAWN = 20_000  # pairs that stand for all
STEPS = {
    "use": "Bid and rank by this model; log random rows to check it.",
    "test": "Compare it with what runs now in an A/B test before switching.",
    "stop": "Keep plain training.",
}
BY_CHOICE = (
    "Holds if what drives both a click and the outcome is known of user and item. Chances of clicks are learned and "
    "too much alike: in simulated logs a quarter of a gap stays hidden."
)
BY_POLICY = "Holds if chances to be shown are true: logged as pscore, or learned from who was shown what before."


def _error(judge: Judge, influence: Values) -> float:
    """Return the standard error of a sum over what was clicked, or shown."""
    return two_way_error(judge.held.users, judge.held.items, influence)


def diagnose_impressions(
    source: RatingLog | Recommender, log: RatingLog, random: RatingLog | None, *, show_ids: bool, called: str, seed: int
) -> Findings:
    """Judge a log of impressions, or a model of it, by a part that models of the rest have not seen.

    Random rows overrule it.
    """
    judge = Judge.of(log, seed)
    which, over_all = "latest" if usual(log) == "time" else "left out", log.listed is None
    findings = [impressions(log), _bias(judge, random), _shares(judge) if over_all else _clicks(judge)]
    about = f"{log.n_rows:,} rows shown, judged by the {len(judge.seen):,} {which}"
    about += "" if random is None else f" and by {len(random):,} random rows"
    if isinstance(source, RatingLog):
        decision, why = DECISIONS[findings[1].answer], f"{findings[1].headline}."
        return Findings(decision, why, findings, [f"unskew fit {called} --out model"], about, "log")
    assert judge.rest is not None
    fitted = plain_training(log, source.seed) if over_all or random is not None else None
    by_random, _ = judged_by_random((fitted, source), (PLAIN, OWN), log, random)
    plain, answers = plain_training(judge.rest, seed), judge.answers(source, OWN)
    comparison = by_impressions((plain.predict_codes, answers), (PLAIN, OWN), judge, by_random, random)
    gain = comparison.finding()
    findings[2:2] = [gain, _calibration(judge, answers(*judge.shown))]
    if over_all and fitted is not None:
        other = plain_training(log, source.seed + OTHER_SEED)
        findings.insert(4, lists(source, fitted, other, show_ids=show_ids))
    why = f"{findings[1].headline}. {gain.headline}{'' if comparison.better else ' this model from plain training'}."
    about += f"; model {type(source.method).__name__}"
    return Findings(comparison.decision, why, findings, [STEPS[comparison.decision]], about)


def impressions(log: RatingLog) -> Finding:
    """Return what there is: rows shown, and what came of them."""
    (seen, won, *_), n, n_won = log.wording, log.n_rows, int(log.ratings.sum())
    stages = {"shown": n, seen: len(log), won: n_won}  # two of them where all that was shown is seen
    parts = [f"{count:,} {name} ({count / n:.1%})" for name, count in stages.items() if name != "shown"]
    headline = f"{n:,} rows were shown, {', '.join(parts)}"
    meaning = f"{log.n_users:,} users and {log.n_items:,} items; {n_won / len(log):.1%} of what was {seen} was {won}."
    numbers = {name: Interval(count, form=",.0f") for name, count in stages.items()}
    rows = [charts.Row(name, Interval(c / n, form=".2%"), note=f"{c:,} ({c / n:.2%})") for name, c in stages.items()]
    chart = charts.rows("From shown to the outcome", headline, rows, axis="share of what was shown", log=n_won > 0)
    return Finding("data", "yes" if n_won >= FEWEST else "cannot tell", headline, meaning, numbers, chart=chart)


def _bias(judge: Judge, random: RatingLog | None) -> Finding:
    """Is the outcome of what was clicked that of everything shown, or that of what was shown that of all pairs?"""
    r, w, q = judge.outcome[judge.seen], judge.weights, judge.imputation.probability
    imputed = q(*judge.shown)
    everywhere = judge.over_items(q) if judge.held.listed is None else imputed
    log, (seen, won, *_) = judge.log, judge.log.wording
    over, worth = "everything shown" if log.listed is not None else "all pairs", effective_sample_size(w)
    left, mean, share = r - imputed[judge.seen], float(r.mean()), 1 / len(r)
    there = float((w * left).sum())
    level = float(everywhere.mean()) + there
    of_seen = normal_interval(mean, _error(judge, share * (r - mean)), ".2%")
    of_all = normal_interval(level, _error(judge, w * (left - there)), ".2%")
    error = _error(judge, share * (r - mean) - w * (left - there))
    gap = normal_interval(mean - level, error, "+.1%")
    answer: Answer = "yes" if abs(gap.value) > 2 * error else "cannot tell" if error > 0.1 * max(level, 1e-9) else "no"
    if worth < FEWEST:
        answer = "cannot tell"
    numbers = {f"of what was {seen}": of_seen, f"of {over}": of_all}
    rows = [charts.Row(f"Of what was {seen}", of_seen, "plain"), charts.Row(f"Of {over}", of_all)]
    headline = f"{mean:.1%} of what was {seen} was {won}, {level:.1%} of {over} would be"
    if random is not None and len(random) > 1:
        y = random.ratings.astype(np.float64)
        of_random = normal_interval(float(y.mean()), max(float(y.std(ddof=1)) / np.sqrt(len(y)), 1e-9), ".2%")
        answer, numbers["of random rows"] = "no" if of_random.covers(mean) else "yes", of_random
        rows.append(charts.Row(f"Of random rows ({len(y):,})", of_random, "third"))
        headline += f", {of_random.value:.1%} of random rows was"
    by = "policy" if log.listed is None else "choice"
    meaning = f"By {by}: what is {seen} is {won} more often by {gap}."
    if log.listed is not None:
        pairs = AllPairs(log.n_users, log.n_items).draw_evenly(DRAWN, np.random.default_rng([judge.seed, 62]))
        anything = Interval(float(judge.clicks.pair(pairs.users, pairs.items).mean()), form=".2%")
        chosen, by_place = judge.visible.mean(), judge.clicks.examination
        meaning += f" By policy: of what it shows {chosen:.1%} is {seen}, of all pairs {anything.value:.1%} would be."
        if len(by_place) > 1:
            meaning += f" By position: places multiply that by {by_place.min():.2f} to {by_place.max():.2f}."
        numbers[f"of all pairs, {seen}"] = anything
    numbers["equal rows"] = Interval(worth, form=",.0f")
    chart = charts.rows("The outcome, seen and everywhere", headline, rows, axis=f"share {won}")
    rests = BY_POLICY if log.listed is None else BY_CHOICE
    return Finding("bias", answer, headline, meaning, numbers, rests_on=rests, chart=chart)


def _clicks(judge: Judge) -> Finding:
    """Can the chances of clicks be believed, which the weights rest on?"""
    seen, clicked = judge.log.wording.seen, judge.seen.astype(float)
    table, chart, worst = _by_tenths(f"Chances to be {seen}", judge.visible, clicked)
    headline = f"chances to be {seen} are off by {worst:.1%} in the worst tenth of rows"
    answer: Answer = "yes" if worst < 0.25 * clicked.mean() else "no"
    return Finding("reach", answer, headline, f"{headline[0].upper()}{headline[1:]}.", table=table, chart=chart)


def _shares(judge: Judge) -> Finding:
    """Can the chances to be shown be believed, which the weights rest on?"""
    n = judge.log.n_items
    found = judge.value(None, lambda users, items: np.full(len(users), 1 / n), dr=False)
    numbers = {"mean weight": Interval(found.mean_weight, form=".3f")}
    headline = f"weights by the chance to be shown have a mean of {found.mean_weight:.2f}, where 1 is right"
    meaning = " ".join([f"{found.n_rows:,} rows are worth {found.effective:,.0f} equal ones.", *found.notes])
    return Finding("reach", "no" if found.notes else "yes", headline, meaning, numbers)


def _calibration(judge: Judge, answers: Values) -> Finding:
    """By tenths of the answers, because bids use the number and not the order."""
    own, r, w = answers[judge.seen], judge.outcome[judge.seen], judge.weights
    table, chart, worst = _by_tenths("Answers of the model", own, r, w)
    level, found, seen = float((w * own).sum()), float((w * r).sum()), judge.log.wording.seen
    headline = f"it answers {level:.1%} on average, where what was {seen}, weighted, says {found:.1%}"
    answer: Answer = "yes" if abs(level - found) < 0.25 * found else "no"
    return Finding("calibration", answer, headline, f"The worst tenth is off by {worst:.1%}.", table=table, chart=chart)


def _by_tenths(
    what: str, p: Values, outcome: Values, weight: Values | None = None
) -> tuple[Table, charts.Chart, float]:
    """Return mean answer and mean outcome by tenths of the answers, and how far the two are apart at most."""
    curve = reliability_curve(outcome, p, bins="mass", n_bins=10, sample_weight=weight)
    means = list(zip(curve.mean_score.tolist(), curve.mean_label.tolist(), strict=True))
    rows = [(str(n), f"{a:.2%}", f"{b:.2%}") for n, (a, b) in enumerate(means, 1)]
    points = [charts.Point(100 * a, Interval(100 * b)) for a, b in means]
    chart = charts.lines("By tenths, in percent:", what, {what: points}, x="answered", y="found", diagonal=True)
    return Table(what, ("tenth", "answer", "found"), rows), chart, float(curve.gap.max())
