"""A log or a model in, findings and a decision out; one baseline is trained beside the judge's folds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from unskew.data.log import RatingLog
from unskew.data.read import as_log
from unskew.diagnosis.advice import about_log, about_model, assumption
from unskew.diagnosis.bias import Levels, bias
from unskew.diagnosis.calibration import calibration
from unskew.diagnosis.lists import K, Names, lists, shown_by, some_users
from unskew.diagnosis.reach import data, reach
from unskew.errors import DataError, ParameterError
from unskew.evaluation.compare import Comparison, answers, read_like
from unskew.evaluation.estimators import liked_of_shown
from unskew.evaluation.judge import Evidence, Values, gain, gather, order_gain, order_of, random_evidence
from unskew.evaluation.scores import scores_of
from unskew.findings import Finding, Findings, Interval, Table
from unskew.model import Recommender
from unskew.registry import make
from unskew.selection.random_ratings import in_codes
from unskew.training.options import Training

OTHER_SEED = 7919
PLAIN, OWN = "plain training", "this model"


def diagnose(
    source: RatingLog | Recommender | Any,
    *,
    random_ratings: RatingLog | None = None,
    names: Names = str,
    show_ids: bool = False,
    called: str = "model",
    seed: int = 0,
) -> Findings:
    """Judge a log (a frame is read as one) or a model, by the log and, if any, by random ratings.

    Of a model: its method and plain training are fitted without each of five folds and judged there, so the verdict is
    on models of 80% of the log. `names` gives the text of an item's id in lists, where people are person A, B and C
    unless `show_ids`; `called` is what commands in the next steps call the source.
    """
    if not isinstance(source, RatingLog | Recommender):
        source = as_log(source)
    log = source.log if isinstance(source, Recommender) else source
    if not len(log):
        raise ParameterError("The model was saved without its log, and nothing else can judge it: fit it again.")
    random = None if random_ratings is None else in_codes(log, read_like(log, random_ratings))[0]
    evidence, refusal = None, ""
    try:
        evidence = gather(log, seed=seed)
    except DataError as error:
        if random is None:
            raise
        refusal = str(error)
    first = [data(log), bias(log, evidence, random), *([] if evidence is None else [reach(evidence)])]
    about = f"{len(log):,} ratings by {log.n_users:,} people on {log.n_items:,} items ({len(log) / log.n_pairs:.1%} of "
    about += f"all pairs), judged by {'the log alone' if random is None else f'{len(random):,} random ratings'}"
    if isinstance(source, RatingLog):
        return about_log([*first, assumption(None)], about=about, source=called)
    training = Training(progress=False)
    plain, other = (
        make("naive").fit(log, seed=number, training=training) for number in (source.seed, source.seed + OTHER_SEED)
    )
    comparison, scores = _compared(source, plain, evidence, random, refusal)
    rows = evidence if random is None else random_evidence(log, random)
    assert rows is not None
    found = comparison.finding()
    given = scores if random is None else _answers(plain, source, rows)
    meaning = found.meaning[:1].upper() + found.meaning[1:]
    merged = replace(found, meaning=meaning, table=_table(evidence, rows, given, scores, first[1]))
    honest = calibration(rows, given)
    seen = lists(source, plain, other, names=names, show_ids=show_ids)
    findings = [*first[:2], merged, honest, seen, *first[2:], assumption(comparison)]
    about += f"; model {type(source.method).__name__}"
    return about_model(comparison, findings, about=about, source=called, orders=source.part("prediction").orders)


def _compared(
    model: Recommender, plain: Recommender, evidence: Evidence | None, random: RatingLog | None, refusal: str
) -> tuple[Comparison, dict[str, Values]]:
    """Plain training and the model, fold by fold; and as fitted on the whole log by random ratings."""
    by_log, scores = None, dict[str, Values]()
    if evidence is not None:
        found = answers([plain, model], evidence, (PLAIN, OWN))
        scores = {OWN: found[1], PLAIN: found[0]}
        by_log = gain(evidence, found[0], found[1])
    by_random, n_random = None, 0
    if random is not None:
        rows = random_evidence(model.log, random)
        given = _answers(plain, model, rows)
        by_random, n_random = gain(rows, given[PLAIN], given[OWN]), len(random)
    n, effective = (0, 0.0) if evidence is None else (evidence.n_held, evidence.effective)
    return Comparison((PLAIN, OWN), by_log, by_random, n, effective, n_random, refusal), scores


def _answers(plain: Recommender, model: Recommender, rows: Evidence) -> dict[str, Values]:
    return {name: scores_of(each, model.log)(rows.users, rows.items) for name, each in ((PLAIN, plain), (OWN, model))}


def _table(
    evidence: Evidence | None, rows: Evidence, scores: dict[str, Values], by_fold: dict[str, Values], level: Finding
) -> Table:
    """Popular items, plain training and the model: order, liked of ten shown, and what they say on average."""
    log = rows.log
    counts = np.bincount(log.items, minlength=log.n_items).astype(np.float64)
    columns = {"popular items": counts[rows.items], **scores}
    corner = rows.corners["activity"]
    orders = {name: order_of(rows, values, corner) for name, values in columns.items()}
    difference = order_gain(rows, orders[PLAIN], orders[OWN]).interval("+.1%")
    lines: list[tuple[Any, ...]] = [
        ("a liked item ranked above a disliked one", *(f"{one.value:.0%}" for one in orders.values()), difference)
    ]
    if evidence is not None and evidence.whole:
        here, shown = evidence.corners["alike"], {"popular items": counts[evidence.items], **by_fold}
        tops = [liked_of_shown(evidence, values, K, here) for values in shown.values()]
        possible = all(0 <= top.value <= 1 for top in tops)
        lines.append(
            (f"liked, of {K} shown", *(f"{K * top.value:.1f}" if possible else "cannot tell" for top in tops), "")
        )
    true = level.numbers.get("random ratings") or level.numbers.get("over all pairs")
    unit = log.scale.from_unit
    says = [Interval(float(unit(log.positive_rate)), form=".0%" if log.binary else ".2f")]
    says += [Interval(float(np.mean(unit(values))), form=says[0].form) for values in scores.values()]
    lines.append((f"says liked on average (true: {true})", *map(str, says), ""))
    return Table("Over the pairs that nobody chose", ("", *columns, "difference"), lines)


def known_already(model: Recommender) -> list[str]:
    """What a fit knows without the judge, in three lines: the data, what each step did, and what lists are like."""
    log = model.log
    level, shown = Levels(log, None, None), shown_by(model, some_users(model))
    known = [str(each) for each in (model.weights, model.random_ratings) if each is not None]
    steps = " ".join(" ".join([str(model.history), *known]).split())
    return [
        f"{data(log).headline} ({len(log) / log.n_pairs:.1%} of all pairs), {level.log} {level.what} in the log",
        steps,
        f"lists of {K} show {shown.coverage(K):.0%} of the items; one first item for {shown.same_first():.0%} of all",
    ]
