"""All metrics of a recommender on a test log, in one pass and with the rules they were computed by."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from unskew.data.log import RatingLog
from unskew.data.read import as_log
from unskew.errors import DataError, ParameterError
from unskew.metrics.accuracy import PROBABILITY_FLOOR, log_loss, mean_absolute_error, mean_squared_error, roc_auc
from unskew.metrics.checks import finite_vector, require_choice, require_count
from unskew.metrics.ranking import POSITIVE_FROM, EmptyUsers, UserLists, mean_over_users

T = TypeVar("T")
Metrics = dict[str, float]
Notes = list[str]


class Predicts(Protocol):
    """Anything that answers for pairs of external ids; an unskew `Recommender` does."""

    def predict(self, users: Any, items: Any) -> ArrayLike: ...


Scorer = Callable[[NDArray[Any], NDArray[Any]], ArrayLike]


@dataclass(frozen=True, eq=False)
class PerUser:
    """One value per user and metric, NaN where the metric is undefined for that user."""

    user_ids: pa.Array
    columns: dict[str, NDArray[Any]]  # n_ratings, n_positives, auc, then ndcg@k, recall@k, precision@k for every k

    def __len__(self) -> int:
        return len(self.user_ids)

    def __getitem__(self, name: str) -> NDArray[Any]:
        return _looked_up(self.columns, name, "column")

    def to_arrow(self) -> pa.Table:
        """A table that starts with user_id; undefined values are null."""
        columns = {name: pa.array(values, from_pandas=True) for name, values in self.columns.items()}
        return pa.table({"user_id": self.user_ids} | columns)


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """What `evaluate` found, and by which rules."""

    metrics: Metrics  # mse, mae, log_loss, auc, user_auc, then ndcg@k, recall@k, precision@k for every k
    per_user: PerUser
    n_pairs: int  # test pairs
    n_users: int  # users with at least one test pair
    n_empty_users: int  # users without a positive test pair
    empty_users: EmptyUsers
    positive_from: float  # the external rating from which a pair is positive
    notes: tuple[str, ...]  # what was left out, and what deserves a second look

    def __getitem__(self, name: str) -> float:
        return _looked_up(self.metrics, name, "metric")

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value:.4f}" for name, value in self.metrics.items())
        return f"Evaluation({values}; {self.n_pairs:,} pairs of {self.n_users:,} users)"

    def __str__(self) -> str:
        rule = {"skip": "left out of the means", "one": "counted as 1", "zero": "counted as 0"}
        both = int((~np.isnan(self.per_user["auc"])).sum())
        head = [
            f"{self.n_pairs:,} test pairs of {self.n_users:,} users",
            f"positive: a rating of at least {self.positive_from:g}",
            f"empty_users={self.empty_users!r}: {self.n_empty_users:,} users without a positive pair are "
            f"{rule[self.empty_users]}",
            f"user_auc: the mean over {both:,} users with positive and negative pairs",
        ]
        width = max(map(len, self.metrics), default=0)
        table = [f"  {name:<{width}}  {value:.4f}" for name, value in self.metrics.items()]
        return "\n".join([*head, *table, *(f"note: {note}" for note in self.notes)])


def evaluate(
    model_or_scores: Predicts | Scorer | ArrayLike,
    test: RatingLog,
    *,
    k: int | Iterable[int] = (5, 10),
    empty_users: EmptyUsers = "skip",
) -> Evaluation:
    """Compare answers for the pairs of `test` with its ratings.

    `model_or_scores` is an object with `predict(user_ids, item_ids)`, a function of two arrays of external
    ids, or an array of scores in the order of the test's rows. Answers are probabilities for a binary log and
    ratings on the original scale for a graded one; other scores are welcome where only their order counts.

    Binary: mse, mae and log_loss compare probabilities with 0 and 1. Graded: mse and mae are on the original
    scale, log_loss is left out, ndcg has ratings scaled to [0, 1] as gains, and a pair is positive from the
    middle of the scale on. `auc` is over all pairs; `user_auc` is over each user's own, then averaged over
    the users who have both classes. ndcg, recall and precision are averaged over users, and `empty_users`
    says what a user counts for whom the metric is undefined: "skip" (nothing), "one" or "zero". A metric that
    nothing defines is left out, and `notes` says why.
    """
    cutoffs = (k,) if isinstance(k, int | np.integer) else tuple(k)
    for cutoff in cutoffs:
        require_count(cutoff, "k")
    require_choice(empty_users, "empty_users", get_args(EmptyUsers))
    test = as_log(test, model_or_scores)
    scores = _scores(model_or_scores, test)
    lists = UserLists.from_rows(test.ratings, scores, test.users)
    per_user = {"auc": lists.auc()}
    for cutoff in cutoffs:
        per_user[f"ndcg@{cutoff}"] = lists.ndcg(cutoff)
        per_user[f"recall@{cutoff}"] = lists.recall(cutoff)
        per_user[f"precision@{cutoff}"] = lists.precision(cutoff)
    pair_metrics, pair_notes = _pair_metrics(test, scores)
    user_metrics, user_notes = _user_metrics(per_user, empty_users)
    counts = {"n_ratings": lists.lengths, "n_positives": lists.positives}
    return Evaluation(
        metrics=pair_metrics | user_metrics,
        per_user=PerUser(test.user_ids.take(lists.users), counts | per_user),
        n_pairs=len(test),
        n_users=len(lists.users),
        n_empty_users=int((lists.positives == 0).sum()),
        empty_users=empty_users,
        positive_from=positive_from(test),
        notes=(*pair_notes, *user_notes),
    )


def _scores(source: Any, test: RatingLog) -> NDArray[np.float64]:
    if not len(test):
        raise DataError("the test log has no ratings; evaluate on a log with at least one.")
    answers = source
    if hasattr(source, "predict") or callable(source):
        users, items = test.user_ids.take(test.users), test.item_ids.take(test.items)
        if hasattr(source, "predict"):
            answers = source.predict(users, items)
        else:
            answers = source(users.to_numpy(zero_copy_only=False), items.to_numpy(zero_copy_only=False))
    scores = finite_vector(answers, "scores")
    if scores.size != len(test):
        raise DataError(f"there are {scores.size:,} scores for {len(test):,} test rows; give one for each row.")
    return scores


def positive_from(test: RatingLog) -> float:
    """The external rating from which a pair counts as positive."""
    scale = test.scale
    return float(scale.from_unit(POSITIVE_FROM)) if scale.positive is None else scale.positive


def _pair_metrics(test: RatingLog, scores: NDArray[np.float64]) -> tuple[Metrics, Notes]:
    """Metrics over all pairs alike; those that the scores or the ratings do not allow are noted instead."""
    unit = test.ratings.astype(np.float64)
    ratings = test.scale.from_unit(unit)
    metrics = {"mse": mean_squared_error(ratings, scores), "mae": mean_absolute_error(ratings, scores)}
    notes = _score_notes(test, scores)
    if test.binary and scores.min() >= 0 and scores.max() <= 1:
        metrics["log_loss"] = log_loss(unit, scores)
    positive = unit >= POSITIVE_FROM
    if positive.all() or not positive.any():
        notes.append(f"auc is left out: every test pair is {'positive' if positive.all() else 'negative'}.")
    else:
        metrics["auc"] = roc_auc(positive, scores)
    return metrics, notes


def _score_notes(test: RatingLog, scores: NDArray[np.float64]) -> Notes:
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


def _user_metrics(per_user: dict[str, NDArray[np.float64]], empty_users: EmptyUsers) -> tuple[Metrics, Notes]:
    """Means over users; user_auc knows no rule for empty users, as one class leaves nothing to order."""
    metrics, nobody = {}, []
    for column, values in per_user.items():
        name = "user_auc" if column == "auc" else column
        rule: EmptyUsers = "skip" if column == "auc" else empty_users
        if rule == "skip" and np.isnan(values).all():
            nobody.append(name)
        else:
            metrics[name] = mean_over_users(values, rule)
    return metrics, [f"left out, as defined for no user: {', '.join(nobody)}."] if nobody else []


def _looked_up(values: dict[str, T], name: str, kind: str) -> T:
    if name not in values:
        raise ParameterError(f"there is no {kind} {name!r} here; choose from {', '.join(values)}.")
    return values[name]
