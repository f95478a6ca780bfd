"""How good anybody's scores are for all pairs, from a log in which users chose what to rate."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from unskew.data.log import RatingLog
from unskew.data.read import as_log
from unskew.errors import DataError, ParameterError, checked_seed
from unskew.estimation.auc import auc
from unskew.estimation.estimate import Estimate
from unskew.estimation.estimators import ESTIMATORS
from unskew.estimation.evidence import MAX_PAIRS, Evidence, imputation_from
from unskew.estimation.holdout import Judging, for_judging, judging_log
from unskew.estimation.quantities import Metric, check_probabilities, metrics_of
from unskew.estimation.scores import Scores, scores_of
from unskew.estimation.terms import Judged
from unskew.estimation.weighing import weighing_of
from unskew.metrics.checks import require_count
from unskew.metrics.intervals import normal_interval
from unskew.training.options import Training

COLUMNS = ("estimator", "metric", "value", "low", "high", "standard_error", "effective_sample_size")


def estimate_risk(
    scores: Any,
    log: RatingLog | None = None,
    *,
    propensity: Any = None,
    imputation: Any = None,
    estimators: str | Iterable[str] = ("naive", "ips", "snips", "dr", "tdr"),
    metrics: str | Iterable[str] = ("mse", "log_loss", "auc", "ndcg@5", "recall@5"),
    confidence: float = 0.95,
    share: float = 1.0,
    clip: float = 0.0,
    calibrate: bool = True,
    max_pairs: int = MAX_PAIRS,
    seed: int = 0,
    training: Training | None = None,
) -> pa.Table:
    """What the metrics would be if every pair of the catalogue were rated, by each estimator, with an interval.

    `scores` may be a frame or a file with columns user_id, item_id and score, a function of (users, items) in
    external ids, an object with such a `predict`, an array with one score a row of the log, or an unskew model.
    Scores that list seen pairs only are enough for naive, ips and snips of mse, mae, log_loss and auc.

    `log` holds ratings that the scores were not fitted to; for an unskew model it may be left out, and the ratings
    that the model held out judge it (they also stopped its training, so they flatter it a little). `propensity` is a
    recipe, by default `Factors()`, which is fitted on the log and calibrated to it (unless `calibrate=False`), a
    fitted propensity, an unskew model, a function, or a column with one value a row; if it speaks of all that was seen
    and the log is a random part of that, `share` says which. `imputation` is a number, a function, a frame or a model,
    by default cross-fitted `Naive` predictions.

    Errors are means over all pairs; ndcg@k, precision@k and recall@k are of the k best items of the *whole*
    catalogue, recall being liked pairs in lists over all liked pairs. Beyond `max_pairs` pairs the catalogue is
    sampled, and the sampling is part of the interval. Intervals take propensities as given; how they come about is
    told in `unskew.estimation.estimators`.

    Columns: estimator, metric, value, low, high, standard_error, effective_sample_size; the table's metadata has the
    settings and notes. Raises a DataError with one sentence if the seen pairs cannot stand for all of them.
    """
    log = None if log is None else as_log(log, scores)
    chosen, asked = estimator_names(estimators), metrics_of(metrics)
    normal_interval(0.0, 0.0, confidence)
    scores = for_judging(scores, log)
    judging = judging_log([scores], log, share)
    said = checked_scores(scores, judging.log, chosen, asked)  # before the work of fitting propensities
    evidence = evidence_for(
        judging,
        chosen,
        propensity,
        imputation,
        clip=clip,
        calibrate=calibrate,
        max_pairs=max_pairs,
        seed=seed,
        training=training,
    )
    judged = Judged(said, evidence, asked)
    rows = []
    for name in chosen:
        for metric in asked:
            found = estimate(name, metric, judged)
            value, low, high = found.interval(confidence)
            rows.append((name, metric.name, value, low, high, found.standard_error, found.effective_sample_size))
    columns = dict(zip(COLUMNS, zip(*rows, strict=True), strict=True))
    return pa.table(columns).replace_schema_metadata(_facts(evidence, judged, confidence))


def estimate(estimator: str, metric: Metric, judged: Judged) -> Estimate:
    """One metric of one model by one estimator."""
    if metric.kind == "auc":
        return auc(estimator, judged, judged.evidence)
    recipe = ESTIMATORS[estimator]
    return recipe.run(judged.terms(metric, recipe.imputes), judged.evidence)


def checked_scores(
    source: Any, log: RatingLog, estimators: Iterable[str], metrics: Iterable[Metric], name: str = "the scores"
) -> Scores:
    """The scores as a function of codes, refused if they cannot answer what these estimators and metrics will ask."""
    said = scores_of(source, log, name)
    for metric in metrics:
        if metric.k > log.n_items:
            raise ParameterError(f"{metric.name} asks for {metric.k} items, but the catalogue has {log.n_items}.")
        if metric.k:
            said.require_complete(name, f"{metric.name} is of lists from the whole catalogue")
        elif metric.lower_is_better:
            check_probabilities(said(log.users, log.items), metric, log.binary)
    for estimator in estimators:
        if ESTIMATORS[estimator].imputes:
            said.require_complete(name, f"{estimator} imputes errors of all pairs")
    return said


def evidence_for(
    judging: Judging,
    estimators: Iterable[str],
    propensity: Any,
    imputation: Any,
    *,
    clip: float = 0.0,
    calibrate: bool = True,
    max_pairs: int = MAX_PAIRS,
    seed: int = 0,
    training: Training | None = None,
) -> Evidence:
    """What these estimators need, and nothing they do not; refuses weights that cannot speak for all pairs."""
    require_count(max_pairs, "max_pairs")
    if not len(judging.log):
        raise DataError("the log has no ratings; give one with at least one.")
    needs = [ESTIMATORS[name] for name in estimators]
    weighing = said = None
    if any(one.weighs for one in needs):
        weighing = weighing_of(propensity, judging, clip=clip, calibrate=calibrate, seed=seed, training=training)
        weighing.refuse_trouble()
    if any(one.imputes for one in needs):
        said = imputation_from(imputation, judging.whole, seed=seed, training=training)
    return Evidence(judging.log, weighing, said, checked_seed(seed), max_pairs)


def estimator_names(estimators: str | Iterable[str]) -> tuple[str, ...]:
    names = (estimators,) if isinstance(estimators, str) else tuple(estimators)
    for name in names:
        if name not in ESTIMATORS:
            raise ParameterError(f"there is no estimator {name!r}; choose from {', '.join(ESTIMATORS)}.")
    if not names:
        raise ParameterError(f"estimators is empty; choose from {', '.join(ESTIMATORS)}.")
    return names


def _facts(evidence: Evidence, judged: Judged, confidence: float) -> dict[str, str]:
    log, weighing = evidence.log, evidence.weighing
    facts = {"confidence": f"{confidence:g}", "ratings": str(len(log)), "pairs": str(log.n_pairs)}
    notes = list(judged.scores.notes)
    if weighing is not None:
        facts["coverage"] = f"{weighing.coverage[0]:.4f}"
        facts["clipped"] = str(weighing.n_clipped)
        facts["calibrated"] = f"slope {weighing.platt.slope:.4f}, intercept {weighing.platt.intercept:.4f}"
        if weighing.n_clipped:
            count = f"{weighing.n_clipped:,} of {len(log):,}"
            notes.append(f"{count} propensities were raised to the clip {weighing.clip:g}.")
    if not evidence.whole:
        notes.append(f"{evidence.max_pairs:,} random pairs stand for the catalogue's {log.n_pairs:,}.")
    if len(evidence.list_users) < log.n_users:
        notes.append(f"lists are those of {len(evidence.list_users):,} of {log.n_users:,} users, drawn at random.")
    return facts | {"notes": " ".join(notes)}
