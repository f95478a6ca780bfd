"""All metrics of a model on a test log, in one pass, each with its interval and next to simple models."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.asked import OnUnknown, for_the_average
from unskew.data.log import RatingLog
from unskew.data.pairs import pair_keys
from unskew.data.read import as_log
from unskew.errors import DataError, ParameterError, UnskewError, chosen, flag, whole
from unskew.evaluation import fits
from unskew.evaluation.gain import order_of, order_share
from unskew.evaluation.judge import Evidence
from unskew.evaluation.scores import asked
from unskew.findings import Interval, Table, paragraphs
from unskew.metrics.checks import Values, finite_vector
from unskew.metrics.intervals import interval_in, two_way_error
from unskew.metrics.ranking import POSITIVE_FROM, EmptyUsers, UserLists
from unskew.metrics.table import METRICS, PROBABILITY_FLOOR, WITH_K, Metric
from unskew.model import Recommender
from unskew.registry import named

LIKE_THE_LOG = 0.5  # of the way from random items to the log's, from which a test was chosen, not drawn


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """What `evaluate` found, and by which rules; `baselines` are the same metrics of simple models."""

    intervals: dict[str, Interval]
    per_user: pa.Table  # user_id, n_ratings, n_positives, auc, then what has a k; null where undefined
    n_pairs: int  # test pairs
    n_empty_users: int  # users without a positive test pair
    empty_users: EmptyUsers
    positive_from: float  # the external rating from which a pair is positive
    notes: tuple[str, ...]  # what was left out, and what deserves a second look
    baselines: Mapping[str, dict[str, float]] = field(default_factory=dict)

    @property
    def metrics(self) -> dict[str, float]:
        """The values alone."""
        return {name: interval.value for name, interval in self.intervals.items()}

    @property
    def n_users(self) -> int:
        """Users with at least one test pair."""
        return int(self.per_user.num_rows)

    def __getitem__(self, name: str) -> float:
        if not isinstance(name, str) or name not in self.intervals:
            raise ParameterError(f"there is no metric {name!r} here; choose from {', '.join(self.intervals)}.")
        return self.intervals[name].value

    @property
    def table(self) -> Table:
        """Every metric with its interval, next to those of simple models."""
        others = self.baselines.values()
        rows = [(name, interval, *(found.get(name) for found in others)) for name, interval in self.intervals.items()]
        header = ("", "this model", *self.baselines)
        return Table(f"{self.n_pairs:,} test pairs of {self.n_users:,} users", header, rows)

    @property
    def rules(self) -> list[str]:
        """By what the figures were found."""
        rule = {"skip": "left out of the means", "one": "counted as 1", "zero": "counted as 0"}[self.empty_users]
        both = self.n_users - self.per_user["auc"].null_count
        return [
            f"{self.n_pairs:,} test pairs of {self.n_users:,} users; intervals hold the truth in 95 of 100 tests",
            f"positive: a rating of at least {self.positive_from:g}",
            f"empty_users={self.empty_users!r}: {self.n_empty_users:,} users without a positive pair are {rule}",
            f"user_auc: the mean over {both:,} users with positive and negative pairs",
        ]

    def __repr__(self) -> str:
        return "\n".join([*self.rules, self.table.text(), *(f"note: {note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        return paragraphs(self.rules) + self.table.html() + paragraphs(f"note: {note}" for note in self.notes)


def evaluate(
    model_or_scores: Any,
    test: RatingLog,
    *,
    k: int | Iterable[int] = (5, 10),
    empty_users: EmptyUsers = "skip",
    on_unknown: OnUnknown = "raise",
    baselines: bool = True,
) -> Evaluation:
    """Compare answers for the pairs of `test` with its ratings.

    `model_or_scores` is an object with `predict(user_ids, item_ids)`, a function of two arrays of external ids, or an
    array of scores in the order of the test's rows: probabilities for a binary log, ratings on the original scale for a
    graded one (where log_loss is left out, gains of ndcg are ratings scaled to [0, 1], and a pair is positive from the
    middle of the scale on), or other scores where only their order counts. `rating_rmse` and `rating_mae` are of
    expected ratings, where the model knows levels. `auc` is over all pairs; all else is a mean over users, `user_auc`
    over those who have both classes, and `empty_users` says what another counts who has no positive pair: "skip"
    (nothing), "one" or "zero". What nothing defines is left out, and `notes` says why.

    Of an unskew model: `on_unknown="fallback"` answers for unknown users and items as for the average ones, and counts
    them; popularity, item means, user means and plain training on its log stand next to it unless `baselines` is False.

    Examples:
        >>> world = unskew.simulate(n_users=60, n_items=40, density=0.2, seed=0)
        >>> found = unskew.evaluate(unskew.make("naive").fit(world.log), world.test, baselines=False)
        >>> 0.5 < found["auc"] < 1
        True
    """
    cutoffs = tuple(k) if isinstance(k, list | tuple | range) else (k,)
    for cutoff in cutoffs:
        whole(cutoff, "k", 1)
    chosen(empty_users, "empty_users", get_args(EmptyUsers))
    flag(baselines, "baselines")
    test = as_log(test, model_or_scores)
    if not len(test):
        raise DataError("the test log has no ratings; evaluate on a log with at least one.")
    scores, others = _scores(model_or_scores, test, on_unknown), dict[str, dict[str, float]]()
    lists, per_user, found = _measured(test, scores, cutoffs, empty_users)
    notes = _about_scores(test, scores)
    if "auc" not in found:
        notes.append(f"auc is left out: every test pair is {'positive' if lists.positives.any() else 'negative'}.")
    if nobody := [name for name in per_user if name not in found]:
        notes.append(f"left out, as defined for no user: {', '.join(nobody)}.")
    if isinstance(model_or_scores, Recommender):
        notes += _about_model(model_or_scores, test, on_unknown)
        found |= _stars(model_or_scores, test, on_unknown)
        try:
            others = _beside(model_or_scores, test, cutoffs, empty_users) if baselines else {}
        except UnskewError as error:
            notes.append(f"simple models are left out: {error}")
    counts = {"user_id": test.user_ids.take(lists.users), "n_ratings": lists.lengths, "n_positives": lists.positives}
    named_as = {"user_auc": "auc"}
    columns = {named_as.get(name, name): pa.array(each, from_pandas=True) for name, each in per_user.items()}
    return Evaluation(
        {name: found[name] for name in sorted(found, key=lambda name: int(name.partition("@")[2] or 0))},
        pa.table(counts | columns),
        len(test),
        int((lists.positives == 0).sum()),
        empty_users,
        positive_from(test),
        tuple(notes),
        others,
    )


def positive_from(test: RatingLog) -> float:
    """Return the external rating from which a pair counts as positive."""
    scale = test.scale
    return float(scale.from_unit(POSITIVE_FROM)) if scale.positive is None else scale.positive


def _scores(source: Any, test: RatingLog, on_unknown: OnUnknown) -> Values:
    users, items = _pairs(test)
    if isinstance(source, Recommender):
        source = source.predict(users, items, on_unknown=on_unknown)
    elif callable(function := getattr(source, "predict", source)):
        source = asked(function, np.asarray(users), np.asarray(items), "the scores")
    scores = finite_vector(source, "scores")
    if scores.size != len(test):
        raise DataError(f"there are {scores.size:,} scores for {len(test):,} test rows; give one for each row.")
    return scores


def _pairs(test: RatingLog) -> tuple[pa.Array, pa.Array]:
    return test.user_ids.take(test.users), test.item_ids.take(test.items)


def _of_pairs(test: RatingLog, scores: Values) -> dict[str, Interval]:
    """Return metrics over all pairs alike, their errors two-way by user and item."""
    ratings = np.asarray(test.scale.from_unit(test.ratings.astype(np.float64)))
    inside = test.binary and scores.min() >= 0 and scores.max() <= 1
    asked = [each for each in named("metric").values() if each.cell is not None and (inside or not each.probabilities)]
    found = {metric.name: _mean(metric, test, scores, ratings) for metric in asked}
    liked = (test.ratings >= POSITIVE_FROM).astype(np.float64)
    if liked.min() < liked.max():
        rows = Evidence.rated(test, test, liked)
        share = order_share(rows, order_of(rows, scores, rows.corners["alike"], within_users=False))
        found["auc"] = interval_in((0, 1), share.value, share.error)
    return found


def _mean(metric: Metric, test: RatingLog, scores: Values, ratings: Values) -> Interval:
    assert metric.cell is not None
    cells = metric.cell(scores, ratings)
    value = float(cells.mean())
    return interval_in(metric.range, value, two_way_error(test.users, test.items, (cells - value) / len(cells)))


def _measured(
    test: RatingLog, scores: Values, cutoffs: Iterable[int], empty_users: EmptyUsers
) -> tuple[UserLists, dict[str, Values], dict[str, Interval]]:
    """Return users' lists, metrics of each of them, and all metrics; what is defined for nobody is left out."""
    lists = UserLists.from_rows(test.ratings, scores, test.users)
    per_user, found = dict[str, Values](), _of_pairs(test, scores)
    for metric in (each for each in named("metric").values() if each.over == "users"):
        for cutoff in cutoffs if metric.name in WITH_K else (0,):
            name = f"{metric.name}@{cutoff}" if cutoff else metric.name
            per_user[name] = values = metric.of(lists, cutoff)
            defined = values[~np.isnan(values)]
            if empty_users != "skip" and name != "user_auc":  # of which one class leaves nothing to order
                defined = np.where(np.isnan(values), empty_users == "one", values)
            if len(defined):
                error = float(defined.std(ddof=1) / np.sqrt(len(defined))) if len(defined) > 1 else np.nan
                found[name] = interval_in(metric.range, float(defined.mean()), error)
    return lists, per_user, found


def _stars(model: Recommender, test: RatingLog, on_unknown: OnUnknown) -> dict[str, Interval]:
    """Return RMSE and MAE of expected ratings as they stand, of a model that knows levels."""
    if test.stars is None:
        return {}
    try:
        expected = np.asarray(model.predict(*_pairs(test), as_="rating", on_unknown=on_unknown), np.float64)
    except ParameterError:
        return {}
    mse, mae = (_mean(METRICS[name], test, expected, test.stars.astype(np.float64)) for name in ("mse", "mae"))
    value, low, high = map(float, np.sqrt(mse[:3]))
    return {"rating_rmse": Interval(value, low, high, ".4f"), "rating_mae": mae}


def _beside(
    model: Recommender, test: RatingLog, cutoffs: Iterable[int], empty_users: EmptyUsers
) -> dict[str, dict[str, float]]:
    """Return the same metrics of simple models of the model's log; of popularity those of order."""
    log = model.with_log("what they would be fitted on")
    codes, found = _codes(log, test), {}
    for name, answer in fits.baselines(log, model.seed).items():
        scores = np.asarray(answer(*codes), np.float64)
        if name != fits.POPULARITY:
            scores = np.asarray(test.scale.from_unit(scores), np.float64)
        *_, each = _measured(test, scores, cutoffs, empty_users)
        errors = [metric.name for metric in named("metric").values() if metric.cell and name == fits.POPULARITY]
        found[name] = {metric: interval.value for metric, interval in each.items() if metric not in errors}
    return found


def _codes(log: RatingLog, test: RatingLog) -> tuple[NDArray[Any], NDArray[Any]]:
    users, items = _pairs(test)
    return log.user_ids.codes(users), log.item_ids.codes(items)


def _about_model(model: Recommender, test: RatingLog, on_unknown: str) -> list[str]:
    """Say what the scales mean, who is unknown, and whether the test was chosen like the log."""
    log, notes = model.log, []
    if test.binary != log.binary:
        answers = "probabilities" if log.binary else "graded ratings"
        raise ParameterError(f"the model answers with {answers}: read the test on the model's scale.")
    own, asked = log.scale.positive, test.scale.positive
    if own is not None and asked is not None and own != asked:
        notes.append(f"the model learned what is rated {own:g} or more, the test asks for {asked:g} or more")
    users, items = _codes(log, test)
    unknown = (users < 0) | (items < 0)
    if unknown.any() and on_unknown == "fallback":
        notes.append(for_the_average(users, items))
    keys = pair_keys(users, items, log.n_items)[~unknown]
    learned = int(np.isin(keys, pair_keys(log.users, log.items, log.n_items)).sum())
    if learned:
        flattered = ", so these figures flatter it: judge it by ratings that it has not seen, as `unskew split` sets "
        notes.append(
            f"the model was trained on ratings of {learned:,} of these {len(test):,} pairs"
            + (f"{flattered}them apart" if 2 * learned > len(test) else "")
        )
    counts = np.log1p(np.bincount(log.items, minlength=log.n_items))
    span = counts[log.items].mean() - counts.mean() if len(log) else 0.0
    if span > 0.1 and (items >= 0).any() and counts[items[items >= 0]].mean() - counts.mean() > LIKE_THE_LOG * span:
        notes.append(
            "the items of the test are as popular as those of the log: it was chosen, not drawn at random, so "
            "these figures say nothing of the pairs that nobody chose; `unskew diagnose` does"
        )
    return notes


def _about_scores(test: RatingLog, scores: Values) -> list[str]:
    notes = []
    low, high = (0.0, 1.0) if test.binary else (test.scale.low, test.scale.high)
    if not test.binary:
        notes.append(
            f"ratings are graded from {low:g} to {high:g}: mse and mae are on that scale, log_loss is left "
            "out, ndcg has ratings scaled to [0, 1] as gains and is undefined only for users whose ratings "
            f"are all {low:g}."
        )
    if outside := int(((scores < low) | (scores > high)).sum()):
        left_out = "log_loss is left out, and " if test.binary else ""
        notes.append(
            f"{outside:,} of {scores.size:,} scores lie outside [{low:g}, {high:g}]: {left_out}mse and mae "
            "take them as they stand."
        )
    elif test.binary and (clamped := int((np.abs(scores - 0.5) > 0.5 - PROBABILITY_FLOOR).sum())):
        notes.append(f"log_loss clamped {clamped:,} probabilities closer than {PROBABILITY_FLOOR:g} to 0 or 1.")
    return notes
