"""Anybody's scores as a function of the log's codes: a frame, a file, a function or a model."""

import hashlib
import os
from collections.abc import Callable
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from unskew.data.guess import columns_of, missing_column
from unskew.data.log import RatingLog
from unskew.data.pairs import SeenPairs, pair_keys
from unskew.data.read import read_frame
from unskew.errors import DataError, UnskewError
from unskew.evaluation.fits import Answers, Codes, Values, by_fold
from unskew.evaluation.judge import Evidence
from unskew.evaluation.kept import Arrays, fingerprint, kept
from unskew.metrics.checks import finite_vector, refuse_rows
from unskew.model import Recommender
from unskew.runtime import say
from unskew.store.model import log_digest

CHUNK = 1 << 18


def judged(source: Any, evidence: Evidence, name: str) -> Values:
    """Return what is judged on the rows: of an unskew model of this log its method without each fold; else scores."""
    log, fold = evidence.log, evidence.fold_of_ratings
    if is_of(source, log):
        rows = len(evidence.fold), hashlib.sha256(fold.tobytes()).hexdigest(), log_digest(source.log)
        facts = ("answers", *rows, repr(source.method), repr(source.training), source.seed)

        def fitted() -> Arrays:
            return {"scores": evidence.scores(by_fold(source, fold, name)).astype(np.float32)}

        return kept(facts, fitted, source.folder)["scores"].astype(np.float64)
    scores = scores_of(source, log, name)
    if isinstance(source, Recommender):
        users, items = _codes(source, log)
        if known := int(SeenPairs(source.trained_on)(users[log.users], items[log.items]).sum()):
            raise DataError(
                f"{name} was trained on {known:,} of the log's {len(log):,} ratings: give ratings that it has not "
                "seen, or no log, so that its method is fitted again without what judges it."
            )
    return scores(evidence.users, evidence.items)


def is_of(source: Any, log: RatingLog) -> TypeGuard[Recommender]:
    """Return whether a source is an unskew model of this log, which must be fitted again to be judged by it."""
    return isinstance(source, Recommender) and fingerprint(source.log) == fingerprint(log)


def scores_of(source: Any, log: RatingLog, name: str = "the scores") -> Answers:
    """Return what `source` answers for pairs of codes, on the unit scale.

    A frame or a file with columns user_id, item_id and score; an object with `predict(users, items)` or a function
    of (users, items), both of external ids; or an unskew model.
    """
    if isinstance(source, Recommender):
        answer = _of_model(source, log)
    elif isinstance(source, str | os.PathLike):
        answer = _of_frame(read_frame(source), log, os.fspath(source))
    elif hasattr(source, "predict") or callable(source):
        given = by_ids(getattr(source, "predict", source), log, name)

        def answer(users: Codes, items: Codes) -> Values:
            return _unit(given(users, items), log)

    elif hasattr(source, "columns") or hasattr(source, "column_names"):
        answer = _of_frame(source, log, name)
    else:
        raise DataError(
            f"{name} must be a model, a function of users and items, a frame or a file, not {source!r:.80}."
        )

    def in_chunks(users: Codes, items: Codes) -> Values:
        parts = [answer(users[at : at + CHUNK], items[at : at + CHUNK]) for at in range(0, len(users), CHUNK)]
        return np.concatenate(parts) if parts else np.empty(0)

    return in_chunks


def _of_model(model: Recommender, log: RatingLog) -> Answers:
    if model.log.binary != log.binary:
        raise DataError(
            f"the model answers with {'probabilities' if model.log.binary else 'graded ratings'} and the log is "
            f"{'binary' if log.binary else 'graded'}; read the log on the model's scale."
        )
    users, items = _codes(model, log)
    for side, codes, ids in (("user", users, log.user_ids), ("item", items, log.item_ids)):
        if (codes < 0).any():
            raise DataError(
                f"The model does not know {int((codes < 0).sum())} of the log's {len(codes)} {side}s, among them "
                f"{ids[int(np.argmax(codes < 0))]!r}; leave their ratings out, or pass lambda users, items: "
                "model.predict(users, items, on_unknown='fallback')."
            )
    return lambda u, i: model.predict_codes(users[u], items[i])


def _codes(model: Recommender, log: RatingLog) -> tuple[Codes, Codes]:
    """Return the model's codes of the log's users and items, -1 where it has none."""
    return model.log.user_ids.codes(log.user_ids.arrow), model.log.item_ids.codes(log.item_ids.arrow)


def by_ids(function: Callable[[Any, Any], Any], log: RatingLog, name: str) -> Answers:
    """Return a function of (users, items) by their ids as one of codes."""
    user_ids, item_ids = np.asarray(log.user_ids), np.asarray(log.item_ids)

    def answer(users: Codes, items: Codes) -> Values:
        found = finite_vector(asked(function, user_ids[users], item_ids[items], name), name)
        if len(found) != len(users):
            raise DataError(f"{name} gave {len(found):,} values for {len(users):,} pairs; give one for each pair.")
        return found

    return answer


def known_propensity(source: Any, log: RatingLog) -> Values | None:
    """Return known chances of being seen, one a rating or a row that was shown, from a function or an array."""
    if source is None:
        return None
    rows, called = (log, "ratings") if log.listed is None else (log.listed, "rows")
    found = by_ids(source, log, "the propensity")(rows.users, rows.items) if callable(source) else source
    found = finite_vector(found, "the propensity")
    if len(found) != len(rows):
        raise DataError(f"there are {len(found):,} propensities for {len(rows):,} {called}; give one for each.")
    refuse_rows((found <= 0) | (found > 1), found, "the propensity", "is none of what was seen: above 0 and at most 1")
    return found


def asked(function: Callable[[Any, Any], Any], users: Any, items: Any, name: str) -> Any:
    """Return what a function of somebody else's answers; what it complains of, in a sentence."""
    try:
        return function(users, items)
    except UnskewError:
        raise
    except Exception as error:
        raise DataError(f"{name} cannot be asked for pairs, as {type(error).__name__} came back: {error}.") from error


def _unit(values: Values, log: RatingLog) -> Values:
    """Return values on the scale of the judge, from that of the log's own answers."""
    return values if log.binary else (values - log.scale.low) / (log.scale.high - log.scale.low)


def _of_frame(frame: Any, log: RatingLog, name: str) -> Answers:
    """Look scores up that are listed pair by pair; a pair that is not listed is refused with its ids."""
    found = columns_of(frame)
    for needed in ("user_id", "item_id", "score"):
        if needed not in found:
            raise missing_column(needed, list(found), name)
    users, items = log.user_ids.codes(found["user_id"]), log.item_ids.codes(found["item_id"])
    values = finite_vector(found["score"].to_numpy(), f"column 'score' of {name}")
    known = (users >= 0) & (items >= 0)
    if unknown := int((~known).sum()):
        say(f"{unknown:,} of {len(known):,} rows of {name} are of users or items that the log does not know.")
    keys = pair_keys(users[known], items[known], log.n_items)
    order = np.argsort(keys, kind="stable")
    keys, values = keys[order], _unit(values[known][order], log)
    if (twice := keys[1:] == keys[:-1]).any():
        raise DataError(f"{name} lists {_pair(keys[1:][twice], log)} twice; keep one row.")

    def answer(asked_users: Codes, asked_items: Codes) -> Values:
        wanted = pair_keys(asked_users, asked_items, log.n_items)
        place, there = places(keys, wanted)
        if (missing := ~there).any():
            raise DataError(
                f"{name} has no value for {_pair(wanted[missing], log)} ({int(missing.sum()):,} of {len(wanted):,} "
                "pairs are missing); the judge asks for pairs that nobody rated too: list all pairs, or give a "
                "function or a model."
            )
        return np.asarray(values[place])

    return answer


def places(keys: Codes, wanted: Codes) -> tuple[Codes, NDArray[np.bool_]]:
    """Return where keys stand among sorted ones, and which are there."""
    if not len(keys):
        return np.zeros(len(wanted), np.int64), np.zeros(len(wanted), np.bool_)
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return place, keys[place] == wanted


def _pair(keys: Codes, log: RatingLog) -> str:
    user, item = divmod(int(keys[0]), log.n_items)
    return f"user {log.user_ids[user]!r} and item {log.item_ids[item]!r}"
