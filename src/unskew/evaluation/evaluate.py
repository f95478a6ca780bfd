"""All metrics of a model on a test log, in one pass, each with its interval and beside simple models."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from unskew.data.log import RatingLog
from unskew.data.read import as_log
from unskew.errors import DataError, ParameterError
from unskew.findings import Interval, Table
from unskew.metrics.checks import Columns, finite_vector, require_choice, require_count
from unskew.metrics.intervals import normal_interval, two_way_error
from unskew.metrics.ranking import POSITIVE_FROM, EmptyUsers, UserLists, mean_over_users
from unskew.metrics.table import METRICS, PROBABILITY_FLOOR, Metric
from unskew.model import Recommender

T = TypeVar("T")
Values = NDArray[np.float64]
Notes = list[str]
LIKE_THE_LOG = 0.5  # of the way from random items to the log's, from which a test was chosen, not drawn


class Predicts(Protocol):
    """Anything that answers for pairs of external ids; an unskew `Recommender` does."""

    def predict(self, users: Any, items: Any) -> ArrayLike: ...


Scorer = Callable[[NDArray[Any], NDArray[Any]], ArrayLike]


@dataclass(frozen=True, eq=False)
class PerUser:
    """One value per user and metric, NaN where the metric is undefined for that user."""

    user_ids: pa.Array
    columns: dict[str, NDArray[Any]]  # n_ratings, n_positives, auc, then what has a k, for every k

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
    """What `evaluate` found, and by which rules; `baselines` are the same metrics of simple models."""

    intervals: dict[str, Interval]
    per_user: PerUser
    n_pairs: int  # test pairs
    n_users: int  # users with at least one test pair
    n_empty_users: int  # users without a positive test pair
    empty_users: EmptyUsers
    positive_from: float  # the external rating from which a pair is positive
    notes: tuple[str, ...]  # what was left out, and what deserves a second look
    baselines: Mapping[str, dict[str, float]] = field(default_factory=dict)

    @property
    def metrics(self) -> dict[str, float]:
        """The values alone."""
        return {name: interval.value for name, interval in self.intervals.items()}

    def __getitem__(self, name: str) -> float:
        return _looked_up(self.intervals, name, "metric").value

    @property
    def table(self) -> Table:
        """Every metric with its interval, beside those of simple models."""
        others = {name: found.get for name, found in self.baselines.items()}
        rows = [(name, interval, *(get(name) for get in others.values())) for name, interval in self.intervals.items()]
        return Table(f"{self.n_pairs:,} test pairs of {self.n_users:,} users", ("", "this model", *others), rows)

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value:.4f}" for name, value in self.metrics.items())
        return f"Evaluation({values}; {self.n_pairs:,} pairs of {self.n_users:,} users)"

    def __str__(self) -> str:
        rule = {"skip": "left out of the means", "one": "counted as 1", "zero": "counted as 0"}
        both = int((~np.isnan(self.per_user["auc"])).sum())
        head = [
            f"{self.n_pairs:,} test pairs of {self.n_users:,} users; intervals hold the truth in 95 of 100 tests",
            f"positive: a rating of at least {self.positive_from:g}",
            f"empty_users={self.empty_users!r}: {self.n_empty_users:,} users without a positive pair are "
            f"{rule[self.empty_users]}",
            f"user_auc: the mean over {both:,} users with positive and negative pairs",
        ]
        return "\n".join([*head, self.table.text(), *(f"note: {note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        return self.table._repr_html_()


def evaluate(
    model_or_scores: Predicts | Scorer | ArrayLike,
    test: RatingLog,
    *,
    k: int | Iterable[int] = (5, 10),
    empty_users: EmptyUsers = "skip",
    on_unknown: str = "raise",
    baselines: bool = False,
) -> Evaluation:
    """Compare answers for the pairs of `test` with its ratings.

    `model_or_scores` is an object with `predict(user_ids, item_ids)`, a function of two arrays of external
    ids, or an array of scores in the order of the test's rows. Answers are probabilities for a binary log and
    ratings on the original scale for a graded one; other scores are welcome where only their order counts.

    Binary: mse, mae and log_loss compare probabilities with 0 and 1. Graded: mse and mae are on the original
    scale, log_loss is left out, ndcg has ratings scaled to [0, 1] as gains, and a pair is positive from the
    middle of the scale on. `rating_rmse` and `rating_mae` compare expected ratings with those of the test as they
    stand, where the model knows levels of ratings. `auc` is over all pairs; `user_auc` is over each user's own, then
    averaged over the users who have both classes. Other metrics are averaged over users, and `empty_users` says what
    a user counts for whom the metric is undefined: "skip" (nothing), "one" or "zero". A metric that nothing defines
    is left out, and `notes` says why.

    Of an unskew model: `on_unknown="fallback"` answers for unknown users and items as for the average ones, and counts
    them; `baselines` puts popularity, item means, user means and plain training beside it.
    """
    cutoffs = (k,) if isinstance(k, int | np.integer) else tuple(k)
    for cutoff in cutoffs:
        require_count(cutoff, "k")
    require_choice(empty_users, "empty_users", get_args(EmptyUsers))
    test = as_log(test, model_or_scores)
    if not len(test):
        raise DataError("the test log has no ratings; evaluate on a log with at least one.")
    model = model_or_scores if isinstance(model_or_scores, Recommender) else None
    notes: Notes = [] if model is None else _about_model(model, test, on_unknown)
    scores = _scores(model_or_scores, test, on_unknown)
    lists, per_user, found, more = _measured(test, scores, cutoffs, empty_users)
    if model is not None and test.stars is not None:
        found |= _stars(model, test, on_unknown)
    others: dict[str, dict[str, float]] = {}
    if baselines and model is not None:
        for name, answers in _baselines(model, test).items():
            others[name] = {each: i.value for each, i in _measured(test, answers, cutoffs, empty_users)[2].items()}
    counts = {"n_ratings": lists.lengths, "n_positives": lists.positives}
    return Evaluation(
        intervals=found,
        per_user=PerUser(test.user_ids.take(lists.users), counts | per_user),
        n_pairs=len(test),
        n_users=len(lists.users),
        n_empty_users=int((lists.positives == 0).sum()),
        empty_users=empty_users,
        positive_from=positive_from(test),
        notes=(*more, *notes),
        baselines=others,
    )


def positive_from(test: RatingLog) -> float:
    """The external rating from which a pair counts as positive."""
    scale = test.scale
    return float(scale.from_unit(POSITIVE_FROM)) if scale.positive is None else scale.positive


def _scores(source: Any, test: RatingLog, on_unknown: str) -> Values:
    answers = source
    if hasattr(source, "predict") or callable(source):
        users, items = _pairs(test)
        if isinstance(source, Recommender):
            answers = source.predict(users, items, on_unknown=on_unknown)  # type: ignore[arg-type]
        elif hasattr(source, "predict"):
            answers = source.predict(users, items)
        else:
            answers = source(users.to_numpy(zero_copy_only=False), items.to_numpy(zero_copy_only=False))
    scores = finite_vector(answers, "scores")
    if scores.size != len(test):
        raise DataError(f"there are {scores.size:,} scores for {len(test):,} test rows; give one for each row.")
    return scores


def _pairs(test: RatingLog) -> tuple[pa.Array, pa.Array]:
    return test.user_ids.take(test.users), test.item_ids.take(test.items)


def _measured(
    test: RatingLog, scores: Values, cutoffs: Iterable[int], empty_users: EmptyUsers
) -> tuple[UserLists, dict[str, Values], dict[str, Interval], Notes]:
    """Every metric of the table; those that scores or ratings do not allow are noted instead."""
    lists = UserLists.from_rows(test.ratings, scores, test.users)
    found, notes = _of_pairs(test, scores)
    per_user, nobody = {}, []
    for metric in METRICS.values():
        if metric.kind == "users":
            with_k = metric.name not in ("user_auc", "mrr")
            for cutoff in cutoffs if with_k else (0,):
                name = f"{metric.name}@{cutoff}" if with_k else metric.name
                values = metric.of(lists, cutoff)
                per_user["auc" if name == "user_auc" else name] = values
                rule: EmptyUsers = "skip" if name == "user_auc" else empty_users  # one class leaves nothing to order
                if rule == "skip" and np.isnan(values).all():
                    nobody.append(name)
                    continue
                counted = (
                    values[~np.isnan(values)] if rule == "skip" else np.where(np.isnan(values), rule == "one", values)
                )
                found[name] = normal_interval(mean_over_users(values, rule), _error_of_mean(counted))
    if nobody:
        notes.append(f"left out, as defined for no user: {', '.join(nobody)}.")
    order = sorted(found, key=lambda name: int(name.partition("@")[2] or 0))
    return lists, per_user, {name: found[name] for name in order}, notes


def _error_of_mean(values: Values) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


def _of_pairs(test: RatingLog, scores: Values) -> tuple[dict[str, Interval], Notes]:
    """Metrics over all pairs alike, their errors two-way by user and item."""
    unit = test.ratings.astype(np.float64)
    ratings, notes, found = np.asarray(test.scale.from_unit(unit)), _about_scores(test, scores), {}
    inside = test.binary and scores.min() >= 0 and scores.max() <= 1
    for metric in METRICS.values():
        if metric.cell is not None and (inside or not metric.probabilities):
            found[metric.name] = _mean(metric, test, scores, ratings)
    positive = unit >= POSITIVE_FROM
    if positive.all() or not positive.any():
        notes.append(f"auc is left out: every test pair is {'positive' if positive.all() else 'negative'}.")
    else:
        value = METRICS["auc"].of(Columns(positive.astype(np.float64), scores, np.ones(len(scores))))
        liked, disliked = scores[positive], scores[~positive]
        above, below = 1 - _placed(scores, liked), _placed(scores, disliked)
        influence = np.where(positive, (below - value) / len(liked), (above - value) / len(disliked))
        found["auc"] = normal_interval(value, two_way_error(test.users, test.items, influence))
    return found, notes


def _placed(scores: Values, among: Values) -> Values:
    """The share of `among` that lies below each score, half of its ties counted."""
    ends = [np.searchsorted(np.sort(among), scores, side) for side in ("left", "right")]
    return np.asarray(sum(ends) / (2 * len(among)))


def _mean(metric: Metric, test: RatingLog, scores: Values, ratings: Values) -> Interval:
    assert metric.cell is not None
    cells = metric.cell(scores, ratings)
    value = metric.of(Columns(ratings, scores, np.ones(len(scores))))
    return normal_interval(value, two_way_error(test.users, test.items, (cells - value) / len(cells)))


def _stars(model: Recommender, test: RatingLog, on_unknown: str) -> dict[str, Interval]:
    """RMSE and MAE of expected ratings as they stand, of a model that knows levels."""
    assert test.stars is not None
    try:
        expected = model.predict(*_pairs(test), as_="rating", on_unknown=on_unknown)  # type: ignore[arg-type]
    except ParameterError:
        return {}
    stars = test.stars.astype(np.float64)
    mse, mae = (_mean(METRICS[name], test, np.asarray(expected, np.float64), stars) for name in ("mse", "mae"))
    value, low, high = (float(np.sqrt(max(end, 0.0))) for end in mse[:3])
    return {"rating_rmse": Interval(value, low, high, ".4f"), "rating_mae": mae}


def _baselines(model: Recommender, test: RatingLog) -> dict[str, Values]:
    """Answers of popularity, item means, user means and plain training on the model's log."""
    from unskew.registry import make

    log = model.log
    users, items = log.user_ids.codes(_pairs(test)[0]), log.item_ids.codes(_pairs(test)[1])
    mean = log.positive_rate

    def shrunk(codes: NDArray[Any], asked: NDArray[Any], n: int) -> Values:
        total, count = np.bincount(codes, log.ratings, n), np.bincount(codes, minlength=n)
        level = np.append((total + 5 * mean) / (count + 5), mean)  # the last, which -1 reads, for unknown ones
        return np.asarray(log.scale.from_unit(level[asked]), np.float64)

    counts = np.append(np.bincount(log.items, minlength=log.n_items), 0)
    plain = make("naive").fit(log, seed=model.seed).predict(*_pairs(test), on_unknown="fallback")
    return {
        "popularity": counts[items] / max(counts.max(), 1),
        "item means": shrunk(log.items, items, log.n_items),
        "user means": shrunk(log.users, users, log.n_users),
        "plain training": np.asarray(plain, np.float64),
    }


def _about_model(model: Recommender, test: RatingLog, on_unknown: str) -> Notes:
    """Unknown users and items, what the scales mean, and whether the test was chosen like the log."""
    log, notes = model.log, []
    if test.binary != log.binary:
        answers = "probabilities" if log.binary else "graded ratings"
        raise ParameterError(f"the model answers with {answers}: read the test on the model's scale.")
    own, asked = log.scale.positive, test.scale.positive
    if own is not None and asked is not None and own != asked:
        notes.append(f"the model learned what is rated {own:g} or more, the test asks for {asked:g} or more")
    users, items = log.user_ids.codes(_pairs(test)[0]), log.item_ids.codes(_pairs(test)[1])
    unknown = (users < 0) | (items < 0)
    if unknown.any() and on_unknown == "fallback":
        notes.append(
            f"{unknown.sum():,} of {len(unknown):,} pairs were answered for the average user or item "
            f"({(users < 0).sum():,} have an unknown user, {(items < 0).sum():,} an unknown item)"
        )
    counts = np.log1p(np.bincount(log.items, minlength=log.n_items))
    span = counts[log.items].mean() - counts.mean()
    if span > 0.1 and (items >= 0).any():
        way = (counts[items[items >= 0]].mean() - counts.mean()) / span
        if way > LIKE_THE_LOG:
            notes.append(
                "the items of the test are as popular as those of the log: it was chosen, not drawn at random, so "
                "these figures say nothing of the pairs that nobody chose; `unskew diagnose` does"
            )
    return notes


def _about_scores(test: RatingLog, scores: Values) -> Notes:
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


def _looked_up(values: dict[str, T], name: str, kind: str) -> T:
    if name not in values:
        raise ParameterError(f"there is no {kind} {name!r} here; choose from {', '.join(values)}.")
    return values[name]
