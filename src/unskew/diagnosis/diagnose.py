"""A log or a model in, findings and a decision out; one baseline is trained besides the judge's folds."""

import shlex
from collections.abc import Sequence
from dataclasses import replace
from os import PathLike, fspath
from typing import Any

import numpy as np

from unskew.data.log import RatingLog
from unskew.data.read import as_log
from unskew.diagnosis.advice import about_log, about_model, assumption
from unskew.diagnosis.bias import Levels, bias
from unskew.diagnosis.calibration import calibration, with_residuals
from unskew.diagnosis.impressions import diagnose_impressions, impressions
from unskew.diagnosis.lists import OTHER_SEED, OWN, PLAIN, K, lists, shown_by, some_users
from unskew.errors import ParameterError, flag, words
from unskew.evaluation.compare import Witnesses, compared
from unskew.evaluation.estimators import liked_of_shown
from unskew.evaluation.fits import Values, plain_training
from unskew.evaluation.gain import order_of
from unskew.evaluation.judge import Evidence, random_evidence
from unskew.findings import Answer, Finding, Findings, Interval, Table
from unskew.methods.bayesian import Corrected
from unskew.model import Recommender

LEAST, MOST = 0.8, 1.25  # of the unseen pairs, by the weights of the ratings


def diagnose(
    source: RatingLog | Recommender | Any,
    *,
    random_ratings: RatingLog | None = None,
    show_ids: bool = False,
    called: str | Sequence[str] | None = None,
    seed: int = 0,
) -> Findings:
    """Judge a log (a frame is read as one) or a model, by the log and, if any, by random ratings.

    Of a model: its method and plain training are fitted without each of five folds and judged there, so the verdict is
    on models of 80% of the log. In lists people are person A, B and C unless `show_ids`, items have their titles if
    the log knows any; `called` is what commands in the next steps call the source, or the words by which they read it:
    its path if it is one, else `model` or `ratings.csv` (`shown.csv`).

    Examples:
        >>> found = unskew.diagnose(unskew.simulate(n_users=100, n_items=60, density=0.1, seed=0).log)
        >>> found.decision in ("use", "test", "stop"), found.findings[0].key
        (True, 'data')
    """
    if called is None and isinstance(source, str | PathLike):
        called = fspath(source)
    if not isinstance(source, RatingLog | Recommender):
        source = as_log(source)
    log = source.log if isinstance(source, Recommender) else source
    usual = "model" if source is not log else "shown.csv" if log.impressions else "ratings.csv"
    called = [called or usual] if isinstance(called, str) else words([usual] if called is None else called, "called")
    called = shlex.join(called)
    flag(show_ids, "show_ids")
    if not len(log):
        raise ParameterError("The model was saved without its log, and nothing else can judge it: fit it again.")
    if log.impressions:
        random = Witnesses.random_of(log, random_ratings)
        return diagnose_impressions(source, log, random, show_ids=show_ids, called=called, seed=seed)
    folder = source.folder if isinstance(source, Recommender) else None
    _, evidence, random = witnesses = Witnesses.of(log, random_ratings, seed, folder)
    first = [data(log), bias(log, evidence, random), *([] if evidence is None else [reach(evidence)])]
    about = f"{len(log):,} ratings by {log.n_users:,} people on {log.n_items:,} items ({log.density:.1%} of "
    about += f"all pairs), judged by {'the log alone' if random is None else f'{len(random):,} random ratings'}"
    if isinstance(source, RatingLog):
        return about_log([*first, assumption(None)], about=about, source=called)
    plain, other = (plain_training(log, source.seed + more) for more in (0, OTHER_SEED))
    comparison, by_fold, as_fitted = compared((plain, source), (PLAIN, OWN), witnesses)
    rows = evidence if random is None else random_evidence(log, random)
    assert rows is not None
    given = by_fold if random is None else as_fitted
    found = comparison.finding()
    meaning = found.meaning[:1].upper() + found.meaning[1:]
    merged = replace(found, meaning=meaning, table=_table(evidence, by_fold, rows, given, first[1]))
    honest, part = calibration(rows, {OWN: given[1], PLAIN: given[0]}), source.part("prediction")
    if isinstance(part, Corrected) and part.targeted is not None:
        honest = with_residuals(honest, part.targeted)
    seen = lists(source, plain, other, show_ids=show_ids)
    findings = [*first[:2], merged, honest, seen, *first[2:], assumption(comparison)]
    about += f"; model {type(source.method).__name__}"
    return about_model(comparison, findings, about=about, source=called, orders=part.orders)


def _table(
    evidence: Evidence | None, by_fold: list[Values], rows: Evidence, given: list[Values], level: Finding
) -> Table:
    """Popular items, plain training and the model: order, liked of ten shown, and what they say on average."""
    log, names = rows.log, ("popular items", PLAIN, OWN)
    counts = np.bincount(log.items, minlength=log.n_items).astype(np.float64)
    shown, here = (counts[rows.items], *given), rows.corners["order"]
    shares = [order_of(rows, values, here).value for values in shown]
    orders = (f"{share:.0%}" if np.isfinite(share) else "cannot tell" for share in shares)
    lines = [("a liked item ranked above a disliked one", *orders)]
    if evidence is not None and evidence.whole:
        tops = [
            liked_of_shown(evidence, values, K, evidence.corners["alike"]).value
            for values in (counts[evidence.items], *by_fold)
        ]
        possible = all(0 <= top <= 1 for top in tops)
        lines.append((f"liked, of {K} shown", *(f"{K * top:.1f}" if possible else "cannot tell" for top in tops)))
    known = next((name for name in ("random ratings", "over all pairs") if name in level.numbers), "")
    form = ".0%" if log.binary else ".2f"
    unseen = rows.corners["alike"].base
    means = (log.positive_rate, *(np.average(values, weights=unseen) for values in given))
    says = (f"{float(log.scale.from_unit(mean)):{form}}" for mean in means)
    lines.append((f"says {'liked ' if log.binary else ''}on average ({known}: {level.numbers[known]})", *says))
    return Table("Over the pairs that nobody chose", ("", *names), lines)


def known_already(model: Recommender) -> list[str]:
    """Tell what a fit knows without the judge: data, lists and weights, and, each in a line, what its steps did."""
    log, shown = model.log, shown_by(model, some_users(model))
    about, level = impressions(log).headline if log.impressions else data(log).headline, Levels(log, None, None)
    if not log.impressions:
        about += f" ({log.density:.1%} of all pairs), {level.log} {level.what} in the log"
    lists_of = f"lists of {K} show {shown.coverage(K):.0%} of the items; one first item for {shown.same_first():.0%} of"
    steps = [str(model.history), *([] if model.random_ratings is None else [str(model.random_ratings)])]
    return [
        about,
        f"{lists_of} all" + ("" if model.weights is None else f"; {model.weights}"),
        "\n".join(f"- {step}" for step in "\n".join(steps).splitlines()),
    ]


def data(log: RatingLog) -> Finding:
    """Return what there is: ratings, users, items, and who has none."""
    users, items = (np.bincount(c, minlength=n) for c, n in ((log.users, log.n_users), (log.items, log.n_items)))
    silent, unrated = int((users == 0).sum()), int((items == 0).sum())
    numbers = {
        "ratings": Interval(len(log), form=",.0f"),
        "people": Interval(log.n_users, form=",.0f"),
        "items": Interval(log.n_items, form=",.0f"),
        "share of all pairs": Interval(len(log) / log.n_pairs, form=".2%"),
        "ratings of the middle person": Interval(float(np.median(users)), form=",.0f"),
        "items without a rating": Interval(unrated, form=",.0f"),
    }
    enough = len(log) >= 1000 and float(np.median(users)) >= 5
    headline = f"{len(log):,} ratings by {log.n_users:,} people on {log.n_items:,} items"
    parts = [f"{silent:,} people and {unrated:,} items have no rating at all" if silent or unrated else ""]
    parts.append(f"{log.duplicates_merged:,} repeated ratings were merged" if log.duplicates_merged else "")
    meaning = "; ".join(part for part in parts if part) or "Nobody and nothing is without a rating"
    action = f"Ask about the {unrated:,} items without a rating first, or leave them out." if unrated else ""
    return Finding("data", "yes" if enough else "cannot tell", headline, f"{meaning}.", numbers, action=action)


def reach(evidence: Evidence) -> Finding:
    """Return the effective sample, what the ratings stand for, and the largest share of one rating."""
    corner, held = evidence.corners["alike"], evidence.held
    weight = corner.weight[held]
    covered, largest = float(weight.sum() / corner.base.sum()), float(weight.max() / weight.sum())
    effective = evidence.effective
    numbers = {
        "ratings": Interval(evidence.n_held, form=",.0f"),
        "worth equal ratings": Interval(effective, form=",.0f"),
        "stand for, of the unseen pairs": Interval(covered, form=".0%"),
        "share of the largest weight": Interval(largest, form=".1%"),
    }
    meaning = f"Weighted by how rarely their like is seen, ratings are worth {effective:,.0f} equal ratings"
    meaning += f" and stand for {covered:.0%} of the pairs that nobody rated (100% is ideal)."
    headline = f"Ratings stand for {covered:.0%} of the pairs that nobody rated"
    if covered < LEAST:
        headline += ": some are seen so rarely that nothing stands for them"
    answer: Answer = "yes" if LEAST <= covered <= MOST else "cannot tell"
    return Finding("reach", answer, headline, meaning, numbers)
