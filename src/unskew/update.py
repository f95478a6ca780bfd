"""A Bayesian model that takes in more ratings: its chain goes on from where it stands, on the longer log.

The posterior is that of all ratings together, by fewer sweeps than a fit begins with, because the chain starts where it
was and not far off. Averages begin anew, so nothing old is carried from update to update. Who saw what is counted anew,
and with it propensities and what lists by choice rest on, those of new users and items too. Weights that only fits to
folds tell (which columns enter, correction, shift, weights of seeing) stand as they were fitted, until the next fit.
"""

from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unskew.data.impressions import NAMED, chances_shown, shares
from unskew.data.log import RatingLog
from unskew.data.pairs import pair_keys
from unskew.data.population import ListedRows
from unskew.data.read import in_read_log, is_path, read_frame, read_log
from unskew.data.rows import refuse_duplicates
from unskew.errors import DataError, ParameterError, whole
from unskew.fold_in import Given, given_ratings, joined
from unskew.model import MOST_SWEEPS, Recommender
from unskew.posterior import defaults
from unskew.posterior.answers import Posterior
from unskew.topk import seen_pairs

SHARE = 0.6  # of the sweeps that a fit begins with, which an update runs
BURN = 15
GROWN = 0.5  # of the ratings of the last fit, by which a log may grow before a new fit is advised
SINCE = "Since the fit"
STANDS = "the weights of columns, correction and shift stand as fitted"


def sizes(log: RatingLog) -> NDArray[np.int64]:
    """Ratings, users and items of a log."""
    return np.array([len(log), log.n_users, log.n_items])


def update(model: Recommender, source: Any, *, sweeps: int | None = None) -> Recommender:
    """See `Recommender.update`."""
    part = model.part("prediction")
    if not isinstance(part, Posterior) or not part.chain:
        raise ParameterError(
            f"{type(model.method).__name__} is not sampled in sweeps and cannot go on with more ratings: fit again "
            "with all of them, or use the method 'dce-bayes'."
        )
    if model.n_fitted_users is not None:
        raise ParameterError(
            "Users were folded into this model: update the model without them by all of their ratings."
        )
    log = with_more(model.with_log("what an update goes on with: fit again"), source)
    if sweeps is None:
        sweeps = BURN + int(SHARE * defaults.least_sweeps(len(log)))
    sampled = part.continued(log, whole(sweeps, "sweeps", BURN + 6, MOST_SWEEPS), BURN)
    fitted = part.chain.get("fitted", sizes(model.log))  # which updates hand on
    ratings, users, items = (sizes(log) - fitted).tolist()
    taken = f"{SINCE} {ratings:,} {log.wording.rows} were taken in, with {users:,} new users and {items:,} new items"
    taken += f"; {STANDS}{': fit anew' if ratings > GROWN * fitted[0] else ''}."
    notes = [note for note in model.history.notes if note not in part.notes and not note.startswith(SINCE)]
    notes += [*sampled.notes, taken]
    parts = copy(model.parts)
    parts.parts = {**model.parts.parts, "prediction": replace(sampled, chain=sampled.chain | {"fitted": fitted})}
    for name, role in model.method.plan().roles.items():
        if role.shares_with == "prediction":
            parts.parts[name] = role.part.from_state({}, parts.parts["prediction"])
    return replace(model, log=log, parts=parts, history=replace(model.history, notes=notes), folder=None)


def with_more(log: RatingLog, source: Any) -> RatingLog:
    """Join a log and later rows, new users and items last; what is no more of the same is refused.

    Of ratings these are known pairs too; impressions are rows, in which pairs come again.
    """
    if log.target == "implicit":
        raise ParameterError("A model of positive rows alone is not continued: fit it again.")
    new: Any
    if log.impressions:
        alike: Any = {"like": log, "target": log.target}
        if log.target is None and not isinstance(source, RatingLog):
            raise ParameterError(
                "The log lists what was shown, and which column tells what was seen is not kept: read the new rows "
                "with seen=."
            )
        with in_read_log():
            new, what = source if isinstance(source, RatingLog) else read_log(source, **alike), "rows"
        refuse_others(log, new)
    else:
        with in_read_log():
            new, what = given_ratings(log, read_frame(source) if is_path(source) else source), "ratings"
    if (log.stars is None) != (new.stars is None) and not log.binary:
        raise DataError("The new ratings are known in another form than those of the log: read them in the same way.")
    ids = log.user_ids.extended(new.user_ids), log.item_ids.extended(new.item_ids)
    codes = [each.codes(held.arrow) for each, held in zip(ids, (new.user_ids, new.item_ids), strict=True)]

    def coded(rows: Any) -> Given:
        known = rows.ratings, rows.stars, rows.times
        return Given(codes[0][rows.users], codes[1][rows.items], *known, *ids)

    more = coded(new)
    if not log.impressions:
        refuse_known(log, more)
    if (known := times_of(log)) is not None:
        if (times := times_of(new)) is None:
            raise DataError(
                f"The new {what} have no times, and those of the log do: add the column {log.names.time!r}."
            )
        if (older := int((times < known.max()).sum())) > 0:
            raise DataError(
                f"{older:,} of {len(times):,} new {what} are older than the log's last, at {known.max():.15g}: leave "
                "them out, or fit again with all of them."
            )
    found = joined(log, more)
    if log.listed is not None:
        late = new.listed.arrays()
        late |= {"users": codes[0][late["users"]], "items": codes[1][late["items"]]}
        listed = ListedRows.of(stacked(log.listed.arrays(), late))
        return replace(found, listed=listed, cells=None if listed.cells is None else listed.cells[listed.seen])
    if not log.impressions:
        return found
    keys = pair_keys(found.users, found.items, found.n_items)
    context, part = stacked({**(log.context or {})}, {**(new.context or {})}), shares(keys)
    cells = (np.append(log.rows_each, new.rows_each) * (1 if part is None else part)).astype(np.float32)
    several = len(np.unique(context.get("policy", [0]))) > 1
    chances = None
    if log.chances is not None and new.chances is not None and not several:
        chances = chances_shown(found.users, found.items, context["pscore"], found.n_items)
    random = None
    if log.random is not None or new.random is not None:
        old, late = (each.take(keys[:0]) if each.random is None else each.random for each in (log, new))
        random = replace(joined(old, coded(late)), cells=None)
    return replace(found, context=context or None, cells=cells, chances=chances, random=random)


def refuse_known(log: RatingLog, new: Given) -> None:
    """Raise a DataError if new ratings hold a pair twice, or one that the log has."""
    users, items, ids = new.users, new.items, (new.user_ids, new.item_ids)
    refuse_duplicates(users, items, *ids)
    old = (users < log.n_users) & (items < log.n_items)
    old[old] = seen_pairs(log)(users[old], items[old])
    if old.any():
        first = int(old.argmax())
        raise DataError(
            f"User {ids[0][int(users[first])]!r} has rated item {ids[1][int(items[first])]!r} in the log already "
            f"({int(old.sum()):,} of {len(old):,} new ratings are such): leave these out, or fit again."
        )


def refuse_others(log: RatingLog, new: RatingLog) -> None:
    """Raise an error if impressions are read for something else, or are without what is known of the log's rows."""
    if (new.target, new.listed is None) != (log.target, log.listed is None):
        target = f"target={log.target!r}" if log.target else "the columns of what was seen and what came of it"
        raise ParameterError(
            f"The new rows are read for something else than those of the log: read them with {target}."
        )
    known, more = ((each.context if each.listed is None else each.listed.columns) or {} for each in (log, new))
    if own := next((name for name in known if name.startswith(NAMED)), None):
        raise ParameterError(f"Levels of {own.removeprefix(NAMED)!r} are not kept by name: fit again with all rows.")
    if lost := sorted(known.keys() - more.keys() - {"is_random", "time"}):
        raise DataError(f"The new rows have no {' and no '.join(lost)}, which those of the log have: add the columns.")


def times_of(rows: Any) -> NDArray[np.float64] | None:
    """Return the times of all rows, seen or not."""
    listed = getattr(rows, "listed", None)
    found: NDArray[np.float64] | None = rows.times if listed is None else listed.times
    return found


def stacked(old: dict[str, Any], new: dict[str, Any]) -> dict[str, NDArray[Any]]:
    """Return columns of rows and of later ones, whose requests are others; what only new rows have is left out."""
    n = [len(next(iter(each.values()), ())) for each in (old, new)]
    if "cells" in old.keys() | new.keys():
        old, new = ({"cells": np.ones(k, np.float32)} | each for k, each in zip(n, (old, new), strict=True))
    if "request" in old:
        new = new | {"request": np.where(new["request"] < 0, -1, new["request"] + old["request"].max() + 1)}
    nothing = np.zeros(n[1], np.bool_)  # no row is random where no column says so
    return {name: np.append(held, new.get(name, nothing)).astype(held.dtype) for name, held in old.items()}
