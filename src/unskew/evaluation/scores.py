"""Anybody's scores as a function of the log's codes: a frame, a file, an array, a function or a model."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unskew.data.features import columns_of, missing_column
from unskew.data.ids import Vocabulary
from unskew.data.log import RatingLog
from unskew.data.pairs import SeenPairs, pair_keys
from unskew.data.read import read_frame
from unskew.errors import DataError
from unskew.evaluation.fits import fewer_sweeps
from unskew.evaluation.judge import fingerprint
from unskew.metrics.checks import finite_vector
from unskew.model import Recommender
from unskew.runtime import bar
from unskew.training.options import Training

Codes = NDArray[np.integer[Any]]
Values = NDArray[np.float64]
Answers = Callable[[Codes, Codes], Values]
CHUNK = 1 << 18
MOST_FITTED = 8
_FITTED: dict[Any, Sequence[Answers]] = {}  # what was fitted fold by fold in this process


@dataclass(frozen=True, eq=False)
class Scores:
    """One number on the unit scale for each pair of codes; `notes` say what was left out."""

    answer: Answers
    notes: tuple[str, ...] = ()

    def __call__(self, users: Codes, items: Codes) -> Values:
        """In chunks, so that no answer is longer than a few hundred thousand pairs."""
        starts = range(0, len(users), CHUNK)
        parts = [self.answer(users[start : start + CHUNK], items[start : start + CHUNK]) for start in starts]
        return np.concatenate(parts) if parts else np.empty(0)


def by_fold(source: Any, log: RatingLog, fold: NDArray[np.int64], name: str) -> Sequence[Answers]:
    """What is judged on each fold: of an unskew model fitted on this log its method without the fold; else the scores.

    Scores that were not trained on the log answer for all folds.
    """
    if isinstance(source, Recommender) and source.log is log:
        key = (fingerprint(log), fold.tobytes(), repr(source.method), repr(source.training), source.seed)
        if key in _FITTED:
            return _FITTED[key]
        method, training = fewer_sweeps(source.method, len(log)), Training(progress=False)
        found: list[Answers] = []
        with bar(f"judging {name}", int(fold.max()) + 1, "fold") as progress:
            for k in range(int(fold.max()) + 1):
                model = method.fit(log.take(fold != k), seed=source.seed + k, training=source.training or training)
                found.append(model.predict_codes)
                progress.advance()
        while len(_FITTED) >= MOST_FITTED:
            _FITTED.pop(next(iter(_FITTED)))
        _FITTED[key] = found
        return found
    scores = scores_of(source, log, name)
    if isinstance(source, Recommender):
        users, items = (own.codes(asked.arrow) for own, asked in _sides(source, log))
        if known := int(SeenPairs(source.trained_on)(users[log.users], items[log.items]).sum()):
            raise DataError(
                f"{name} was trained on {known:,} of the log's {len(log):,} ratings: give ratings that it has not "
                "seen, or no log, so that its method is fitted again without what judges it."
            )
    return [scores]


def scores_of(source: Any, log: RatingLog, name: str = "the scores", column: str = "score") -> Scores:
    """What `source` answers for pairs, whatever it is.

    A frame or a file with columns user_id, item_id and `column`; an object with `predict(users, items)` or a function
    of (users, items), both of external ids; an array with one value a row of the log; or an unskew model.
    """
    if isinstance(source, Recommender):
        return _of_model(source, log)
    if isinstance(source, str | os.PathLike):
        return _of_frame(read_frame(source), log, os.fspath(source), column)
    if hasattr(source, "predict"):
        return _of_function(source.predict, log, name)
    if callable(source):
        return _of_function(source, log, name)
    if hasattr(source, "columns") or hasattr(source, "column_names"):
        return _of_frame(source, log, name, column)
    values = finite_vector(source, name)
    if len(values) != len(log):
        raise DataError(f"there are {len(values):,} values in {name} for {len(log):,} ratings; give one for each row.")
    return _looked_up(log.users, log.items, values, log, name, ())


def _of_model(model: Recommender, log: RatingLog) -> Scores:
    if model.log.binary != log.binary:
        raise DataError(
            f"the model answers with {'probabilities' if model.log.binary else 'graded ratings'} and the log is "
            f"{'binary' if log.binary else 'graded'}; read the log on the model's scale."
        )
    known = []
    for side, (own, asked) in zip(("user", "item"), _sides(model, log), strict=True):
        codes = own.codes(asked.arrow)
        if (codes < 0).any():
            raise DataError(
                f"The model does not know {int((codes < 0).sum())} of the log's {len(codes)} {side}s, among them "
                f"{asked[int(np.argmax(codes < 0))]!r}; leave their ratings out, or pass lambda users, items: "
                "model.predict(users, items, on_unknown='fallback')."
            )
        known.append(codes)
    return Scores(lambda u, i: model.predict_codes(known[0][u], known[1][i]))


def _sides(model: Recommender, log: RatingLog) -> tuple[tuple[Vocabulary, Vocabulary], ...]:
    return (model.log.user_ids, log.user_ids), (model.log.item_ids, log.item_ids)


def _of_function(function: Callable[[Any, Any], Any], log: RatingLog, name: str) -> Scores:
    user_ids, item_ids = np.asarray(log.user_ids), np.asarray(log.item_ids)

    def answer(users: Codes, items: Codes) -> Values:
        found = finite_vector(function(user_ids[users], item_ids[items]), name)
        if len(found) != len(users):
            raise DataError(f"{name} gave {len(found):,} values for {len(users):,} pairs; give one for each pair.")
        return _unit(found, log)

    return Scores(answer)


def _unit(values: Values, log: RatingLog) -> Values:
    """From the scale of the log's own answers to that of the judge."""
    return values if log.binary else (values - log.scale.low) / (log.scale.high - log.scale.low)


def _of_frame(frame: Any, log: RatingLog, name: str, column: str) -> Scores:
    found = columns_of(frame)
    for needed in ("user_id", "item_id", column):
        if needed not in found:
            raise missing_column(needed, list(found), name)
    users, items = log.user_ids.codes(found["user_id"]), log.item_ids.codes(found["item_id"])
    values = finite_vector(found[column].to_numpy(), f"column {column!r} of {name}")
    known = (users >= 0) & (items >= 0)
    unknown = int((~known).sum())
    note = f"{unknown:,} of {len(known):,} rows of {name} are of users or items that the log does not know."
    return _looked_up(users[known], items[known], values[known], log, name, (note,) if unknown else ())


def _looked_up(users: Codes, items: Codes, values: Values, log: RatingLog, name: str, notes: tuple[str, ...]) -> Scores:
    """Scores that are listed pair by pair; a pair that is not listed is refused with its ids."""
    keys = pair_keys(users, items, log.n_items)
    order = np.argsort(keys, kind="stable")
    keys, values = keys[order], values[order]
    if (twice := keys[1:] == keys[:-1]).any():
        user, item = divmod(int(keys[1:][twice][0]), log.n_items)
        raise DataError(
            f"{name} lists user {log.user_ids[user]!r} and item {log.item_ids[item]!r} twice; keep one row."
        )

    def answer(asked_users: Codes, asked_items: Codes) -> Values:
        wanted = pair_keys(asked_users, asked_items, log.n_items)
        place = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
        missing = keys[place] != wanted if len(keys) else np.ones(len(wanted), bool)
        if missing.any():
            user, item = divmod(int(wanted[missing][0]), log.n_items)
            raise DataError(
                f"{name} has no value for user {log.user_ids[user]!r} and item {log.item_ids[item]!r} "
                f"({int(missing.sum()):,} of {len(wanted):,} pairs are missing); the judge asks for pairs that nobody "
                "rated too: list all pairs, or give a function or a model."
            )
        return _unit(np.asarray(values[place]), log)

    return Scores(answer, notes)
