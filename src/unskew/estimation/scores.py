"""Anybody's scores as a function of the log's codes: a frame, a file, an array, a function or a model."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unskew.data.features import columns_of, missing_column
from unskew.data.ids import Vocabulary
from unskew.data.log import RatingLog
from unskew.data.pairs import pair_keys
from unskew.data.read import read_frame
from unskew.errors import DataError
from unskew.metrics.checks import finite_vector
from unskew.model import Recommender

Codes = NDArray[np.integer[Any]]
Values = NDArray[np.float64]
CHUNK = 1 << 18


@dataclass(frozen=True, eq=False)
class Scores:
    """One number for each pair asked for; `complete` if every pair of the catalogue may be asked for."""

    answer: Callable[[Codes, Codes], Values]
    complete: bool
    notes: tuple[str, ...] = ()

    def require_complete(self, name: str, reason: str) -> None:
        if not self.complete:
            raise DataError(
                f"{name} lists some pairs only, but {reason}; ask for naive, ips and snips of mse, mae, log_loss or "
                "auc, or give a function or a model."
            )

    def __call__(self, users: Codes, items: Codes) -> Values:
        """In chunks, so that no answer is longer than a few hundred thousand pairs."""
        parts = [
            self.answer(users[start : start + CHUNK], items[start : start + CHUNK])
            for start in range(0, len(users), CHUNK)
        ]
        return np.concatenate(parts) if parts else np.empty(0)


def scores_of(source: Any, log: RatingLog, name: str = "the scores", column: str = "score") -> Scores:
    """What `source` says of pairs, whatever it is.

    A frame or a file with columns user_id, item_id and `column`; an object with `predict(users, items)` or a function
    of (users, items), both of external ids; an array with one value a row of the log; or an unskew model.
    """
    if isinstance(source, Scores):
        return source
    if isinstance(source, Recommender):
        return _of_model(source, log, source.predict_codes)
    if isinstance(source, (str, os.PathLike)):
        return _of_frame(read_frame(source), log, os.fspath(source), column)
    if hasattr(source, "predict"):
        return _of_function(source.predict, log, name)
    if callable(source):
        return _of_function(source, log, name)
    if hasattr(source, "columns") or hasattr(source, "column_names"):
        return _of_frame(source, log, name, column)
    return _of_rows(source, log, name)


def _of_model(model: Recommender, log: RatingLog, answer: Callable[[Codes, Codes], Values]) -> Scores:
    users, items = (
        _model_codes(known, asked, side)
        for known, asked, side in (
            (model.log.user_ids, log.user_ids, "user"),
            (model.log.item_ids, log.item_ids, "item"),
        )
    )
    scale = model.log.scale
    if scale.binary != log.binary:
        raise DataError(
            f"the model answers with {'probabilities' if scale.binary else 'graded ratings'} and the log is "
            f"{'binary' if log.binary else 'graded'}; read the log on the model's scale."
        )
    return Scores(lambda u, i: np.asarray(scale.from_unit(answer(users[u], items[i])), np.float64), complete=True)


def _model_codes(known: Vocabulary, asked: Vocabulary, side: str) -> NDArray[np.int32]:
    codes = known.codes(asked.arrow)
    if (codes < 0).any():
        first = asked[int(np.argmax(codes < 0))]
        raise DataError(
            f"The model does not know {int((codes < 0).sum())} of the log's {len(codes)} {side}s, among them "
            f"{first!r}; leave their ratings out, or pass lambda users, items: model.predict(users, items, "
            "on_unknown='fallback')."
        )
    return codes


def imputation_of(model: Recommender, log: RatingLog) -> Scores:
    """A model's imputation or, where it has none, its prediction."""
    role = "imputation" if "imputation" in model.parts else "prediction"
    return _of_model(model, log, lambda users, items: model.scores(role, users, items))


def _of_function(function: Callable[[Any, Any], Any], log: RatingLog, name: str) -> Scores:
    user_ids, item_ids = np.asarray(log.user_ids), np.asarray(log.item_ids)

    def answer(users: Codes, items: Codes) -> Values:
        said = finite_vector(function(user_ids[users], item_ids[items]), name)
        if len(said) != len(users):
            raise DataError(f"{name} gave {len(said):,} values for {len(users):,} pairs; give one for each pair.")
        return said

    return Scores(answer, complete=True)


def _of_frame(frame: Any, log: RatingLog, name: str, column: str) -> Scores:
    found = columns_of(frame)
    for needed in ("user_id", "item_id", column):
        if needed not in found:
            raise missing_column(needed, list(found), name)
    users, items = log.user_ids.codes(found["user_id"]), log.item_ids.codes(found["item_id"])
    values = finite_vector(found[column].to_numpy(), f"column {column!r} of {name}")
    known = (users >= 0) & (items >= 0)
    strangers = int((~known).sum())
    note = f"{strangers:,} of {len(known):,} rows of {name} are of users or items that the log does not know."
    return _looked_up(users[known], items[known], values[known], log, name, (note,) if strangers else ())


def _of_rows(values: Any, log: RatingLog, name: str) -> Scores:
    column = finite_vector(values, name)
    if len(column) != len(log):
        raise DataError(f"there are {len(column):,} values in {name} for {len(log):,} ratings; give one for each row.")
    return _looked_up(log.users, log.items, column, log, name, ())


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
                f"({int(missing.sum()):,} of {len(wanted):,} pairs are missing); list them or leave them out of the "
                "log."
            )
        return np.asarray(values[place])

    return Scores(answer, complete=len(keys) == log.n_pairs, notes=notes)
