"""Which ratings may judge a model: those it was not trained on."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from unskew.data.log import RatingLog
from unskew.data.pairs import SeenPairs
from unskew.errors import DataError, ParameterError
from unskew.model import Recommender


class Judging(NamedTuple):
    """The ratings to judge by, the whole log they are a random part of, and which share of it they are."""

    log: RatingLog
    whole: RatingLog
    share: float


def judging_log(judged: Sequence[Any], log: RatingLog | None, share: float) -> Judging:
    """The log given, unless an unskew model was trained on part of it; without one, what all the models held out."""
    if log is not None:
        for source in judged:
            _refuse_trained_on(source, log)
        return Judging(log, log, share)
    models = [source for source in judged if isinstance(source, Recommender)]
    if len(models) < len(judged):
        raise ParameterError("log is missing; only unskew models know which ratings they have not been trained on.")
    whole = models[0].log
    for other in models[1:]:
        if not _same(whole, other.log):
            raise DataError("The models were fitted on different logs; pass a log that neither has seen.")
    rows = reduce(np.intersect1d, [model.split.holdout_rows for model in models])
    if not len(rows):
        raise DataError(
            "There is no rating that every model held out; fit them with one seed, or pass a log of new ratings."
        )
    return Judging(whole.take(rows), whole, len(rows) / len(whole))


def for_judging(source: Any, log: RatingLog | None) -> Any:
    """What may be judged by a log or, without one, by the hold-out of a model."""
    return source.for_judging() if log is None and isinstance(source, Recommender) else source


def _same(one: RatingLog, other: RatingLog) -> bool:
    columns = ("users", "items", "ratings")
    ids = one.user_ids.arrow.equals(other.user_ids.arrow) and one.item_ids.arrow.equals(other.item_ids.arrow)
    return ids and all(np.array_equal(getattr(one, name), getattr(other, name)) for name in columns)


def _refuse_trained_on(source: Any, log: RatingLog) -> None:
    if not isinstance(source, Recommender):
        return
    users = source.log.user_ids.codes(log.user_ids.arrow)[log.users]
    items = source.log.item_ids.codes(log.item_ids.arrow)[log.items]
    known = (users >= 0) & (items >= 0)
    trained = int(SeenPairs(source.trained_on)(users[known], items[known]).sum())
    if trained:
        raise DataError(
            f"The model was trained on {trained:,} of these {len(log):,} ratings, so its errors on them are too small; "
            "judge it by ratings it has not seen (log=None takes those it held out)."
        )
