"""The value of a metric over the pairs that nobody chose, by estimators of the literature.

naive: the mean over left-out ratings. ips: sum w e / N, w = (1 - p) / p (Horvitz & Thompson, 1952). snips: sum w e /
sum w (Swaminathan & Joachims, NeurIPS 2015). dr: the mean over unseen pairs of the error by imputed ratings, plus the
self-normalised residual (Wang et al., ICML 2019). All are one formula with other weights and another imputation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from markupsafe import Markup

from unskew.data.log import RatingLog
from unskew.data.read import as_log
from unskew.errors import DataError, ParameterError, checked_seed, words
from unskew.evaluation.fits import POPULARITY, Values, baselines
from unskew.evaluation.gain import BAND, Estimate, hull, mean_of, order_of, order_share
from unskew.evaluation.impressions import USUAL, Judge, values_of
from unskew.evaluation.judge import N_FOLDS, Corner, Evidence, gather
from unskew.evaluation.kept import kept
from unskew.evaluation.scores import is_of, judged, known_propensity
from unskew.findings import Interval, Table, paragraphs
from unskew.metrics.table import Metric, find
from unskew.model import Recommender
from unskew.store.model import log_digest

ESTIMATORS = ("naive", "ips", "snips", "dr")
BY_THE_LOG = ("mse", "mae", "log_loss", "auc", "user_auc", "precision")
Found = dict[tuple[str, str], Interval | None]
OWN_FOLDS = (
    "The model was trained on these ratings, so its method is fitted again without each of five folds and judged "
    "there: figures are of models of 80% of the log."
)
OWN_ROWS = "The model was trained on these rows, so its method is fitted again without those that judge."
LISTS_NEED_ALL = "lists of a catalogue this large cannot be judged by a sample of its pairs."


@dataclass(frozen=True, eq=False, repr=False)
class Risk:
    """Values of metrics by estimators over the pairs that nobody chose; what cannot be is "cannot tell"."""

    found: Found  # by metric and estimator
    n_ratings: int
    effective: float
    baselines: Found = field(default_factory=dict)  # of simple models, by metric and model, by the last estimator
    over: str = "the pairs that nobody chose"
    notes: tuple[str, ...] = ()

    def __getitem__(self, key: tuple[str, str]) -> Interval | None:
        if key not in self.found:
            raise ParameterError(f"there is no estimate {key!r} here; choose from {', '.join(map(str, self.found))}.")
        return self.found[key]

    @property
    def tables(self) -> list[Table]:
        """A row a metric: a column an estimator and, in a second table, one a simple model."""
        worth = f"{self.n_ratings:,} ratings worth {self.effective:,.0f} equal ones"
        tables = [_table(f"Over {self.over}, by {worth}", self.found)]
        if self.baselines:
            last = list(self.found)[-1][1]
            own = {(metric, "this model"): found for (metric, name), found in self.found.items() if name == last}
            points = {key: found and Interval(found.value, form=found.form) for key, found in self.baselines.items()}
            tables.append(_table(f"The same of simple models, by {last}", own | points))
        return tables

    def __repr__(self) -> str:
        return "\n\n".join([*(f"{table.caption}\n{table.text()}" for table in self.tables), *self.notes])

    def _repr_html_(self) -> str:
        return Markup("").join(table.html() for table in self.tables) + paragraphs(self.notes)

    def to_dict(self) -> dict[str, Any]:
        """Return values and ends by metric and estimator, None for what cannot be."""
        facts: dict[str, Any] = {"ratings": self.n_ratings, "effective_ratings": self.effective}
        facts |= {"over": self.over, "notes": list(self.notes)}
        for name, found in (("estimates", self.found), ("baselines", self.baselines)):
            facts[name] = {metric: {} for metric, _ in found}
            for (metric, by), interval in found.items():
                facts[name][metric][by] = interval and interval.to_dict()
        return facts


def _table(caption: str, found: Mapping[tuple[str, str], Interval | None]) -> Table:
    columns = list(dict.fromkeys(by for _, by in found))
    rows = []
    for metric in dict.fromkeys(metric for metric, _ in found):
        cells = ("" if (metric, by) not in found else found[metric, by] or "cannot tell" for by in columns)
        rows.append((metric, *cells))
    return Table(caption, ("", *columns), rows)


def estimate_risk(
    model_or_scores: Any,
    log: RatingLog | None = None,
    *,
    metrics: Sequence[str] | None = None,
    estimators: Sequence[str] = ESTIMATORS,
    propensity: Any = None,
    seed: int = 0,
) -> Risk:
    """Estimate how good answers are over the pairs that nobody chose, from a log alone, next to simple models.

    An unskew model without a `log` is judged on its own: its method is fitted five times without a fold. Of all else
    give scores (see `scores_of`) that were not trained on the log. `propensity` are known chances of being seen: a
    function of (users, items), or one number a rating. The interval of a mean error by dr reaches from how the log
    stands to how it would if liking drives rating; other estimators know of chance alone.

    Impressions tell mean errors, "precision@k", the share of rows with the outcome if one of the k best of its user
    were shown in each, and "value", that of a policy: a function of (users, items) or a column, which gives the chance
    that a row shows what it does. The latest rows judge by logged (`pscore`), given or learned chances; a model of
    this log is fitted to the others.

    Examples:
        >>> world = unskew.simulate(n_users=60, n_items=40, density=0.2, seed=0)
        >>> found = unskew.estimate_risk(unskew.make("naive").fit(world.log), metrics=("mse",))
        >>> found["mse", "dr"].low < found["mse", "dr"].value < found["mse", "dr"].high
        True
    """
    estimators = words(estimators, "estimators")
    for name in estimators:
        if name not in ESTIMATORS:
            raise ParameterError(f"there is no estimator {name!r}; choose from {', '.join(ESTIMATORS)}.")
    model = model_or_scores if isinstance(model_or_scores, Recommender) else None
    if log is None and model is None:
        raise ParameterError("scores need a log that they were not trained on: give one.")
    log = model_or_scores.log if log is None else as_log(log, model_or_scores)
    asked_for = None if metrics is None else words(metrics, "metrics")
    if log.impressions:
        return _of_impressions(model_or_scores, log, asked_for or USUAL, estimators, propensity, seed)
    wanted = [find(name) for name in asked_for or ("mse", "auc", "user_auc", "precision@10")]
    for metric in wanted:
        if metric.cell is None and metric.name.partition("@")[0] not in BY_THE_LOG:
            raise ParameterError(f"a log cannot tell {metric.name} of unseen pairs; ask for {', '.join(BY_THE_LOG)}@K.")
    folder = None if model is None else model.folder
    evidence = gather(log, seed=seed, propensity=known_propensity(propensity, log), folder=folder)
    notes = [OWN_FOLDS] if is_of(model, log) else []
    if not evidence.whole and asked_for is None:
        notes += [f"{each.name} is left out: {LISTS_NEED_ALL}" for each in wanted if each.k]
        wanted = [each for each in wanted if not each.k]
    scores = judged(model_or_scores, evidence, "the model")
    facts = ("baselines", log_digest(log), checked_seed(seed), len(evidence.fold))
    simple = kept(facts, lambda: simple_scores(evidence, seed))
    found = {(each.name, by): interval_of(evidence, each, by, scores) for each in wanted for by in estimators}
    others = {
        (each.name, name): interval_of(evidence, each, estimators[-1], values)
        for name, values in simple.items()
        for each in wanted
        if name != POPULARITY or each.cell is None
    }
    return Risk(found, evidence.n_held, evidence.effective, others, notes=tuple(notes))


def _of_impressions(
    source: Any, log: RatingLog, metrics: Sequence[str], estimators: Sequence[str], propensity: Any, seed: int
) -> Risk:
    dr = "dr" in estimators
    judge = Judge.of(log, seed, propensity, learns=dr or isinstance(source, Recommender))
    values = values_of(source, judge, metrics, dr)
    found = {(name, by): value.estimates.get(by) for name, value in values.items() for by in estimators}
    worth, notes = min(value.effective for value in values.values()), [OWN_ROWS] if is_of(source, log) else []
    notes += [note for value in values.values() for note in value.notes]
    over = "all pairs" if log.listed is None else "everything shown"
    return Risk(found, len(judge.held), worth, {}, over, tuple(dict.fromkeys(notes)))


def simple_scores(evidence: Evidence, seed: int) -> dict[str, Values]:
    """Return what simple models of the ratings outside a fold answer to its rows."""
    parts = [evidence.log.take(evidence.fold_of_ratings != k) for k in range(N_FOLDS)]
    models = [baselines(part, seed + k) for k, part in enumerate(parts)]
    return {name: evidence.scores([each[name] for each in models]) for name in models[0]}


def interval_of(evidence: Evidence, metric: Metric, estimator: str, scores: Values) -> Interval | None:
    """Return the value of a metric with its ends; None if these lie outside its range."""
    ends = BAND if estimator == "dr" and metric.cell is not None else BAND[:1]
    found = hull([estimate(evidence, metric, estimator, scores, end) for end in ends])
    low, high = metric.range
    beyond = max(low - found.low, found.high - high)
    return found if beyond <= 1e-12 else None  # as sums of weights in another order may differ


def corner_of(evidence: Evidence, estimator: str, end: str = "alike") -> Corner:
    """Return how an estimator reads the log."""
    here = evidence.corners[end]
    if estimator == "dr":
        return here
    weight = evidence.held.astype(np.float64) if estimator == "naive" else here.weight
    return Corner(evidence.y, weight, np.zeros(len(weight)))


def estimate(evidence: Evidence, metric: Metric, estimator: str, scores: Values, end: str = "alike") -> Estimate:
    """Estimate one metric of one model's scores."""
    corner = corner_of(evidence, estimator, end)
    if metric.name in ("auc", "user_auc"):
        return order_share(evidence, order_of(evidence, scores, corner, within_users=metric.name == "user_auc"))
    if metric.k:
        return liked_of_shown(evidence, scores, metric.k, corner)
    binary, external = evidence.log.binary, evidence.log.scale.from_unit
    cell, given = metric.cell, np.asarray(external(scores))
    assert cell is not None
    if metric.probabilities and not (binary and scores.min() >= 0 and scores.max() <= 1):
        raise DataError(f"{metric.name} needs probabilities of a binary log, and some scores lie outside [0, 1].")
    happened = cell(given, np.asarray(external(evidence.y)))
    if binary:
        expected = corner.q * cell(given, np.ones(len(given))) + (1 - corner.q) * cell(given, np.zeros(len(given)))
    else:
        expected = cell(given, np.asarray(external(corner.q)))
    if estimator == "ips":
        base = evidence.corners["alike"].base
        value = float((corner.base * happened).sum() / base.sum())
        influence = (corner.base * happened - value * base) / base.sum()
        return Estimate(value, evidence.error(influence))
    return mean_of(evidence, corner, expected, happened - expected)


def liked_of_shown(evidence: Evidence, scores: Values, k: int, corner: Corner) -> Estimate:
    """Estimate the mean rating of the k best pairs of every user outside the training rows."""
    if not evidence.whole:
        raise DataError(f"{LISTS_NEED_ALL} Leave out precision@{k}, or give a test.")
    group = evidence.fold * evidence.log.n_users + evidence.users
    order = np.lexsort((-scores, group))
    starts = np.flatnonzero(np.diff(group[order], prepend=np.nan))
    place = np.arange(len(order)) - np.repeat(starts, np.diff(starts, append=len(order)))
    inside = np.zeros(len(order), bool)
    inside[order[place < k]] = True
    here = Corner(corner.q, corner.base * inside, corner.weight * inside)
    return mean_of(evidence, here, corner.q, evidence.y - corner.q)
