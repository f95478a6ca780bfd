"""A Bayesian model that takes in more ratings: its chain goes on from where it stands, on the longer log.

The posterior is that of all ratings together, by fewer sweeps than a fit begins with, because the chain starts where it
was and not far off. Averages begin anew, so nothing old is carried from update to update. Who saw what is counted anew,
and with it propensities and what lists by choice rest on, those of new users and items too. Weights that only fits to
folds tell (which columns enter, correction, shift, weights of seeing) stand as they were fitted, until the next fit.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unskew.data.log import RatingLog
from unskew.data.read import is_path, read_frame
from unskew.data.rows import refuse_duplicates
from unskew.errors import DataError, ParameterError, whole
from unskew.fold_in import given_ratings, joined
from unskew.model import MOST_SWEEPS, Recommender
from unskew.posterior import defaults
from unskew.posterior.answers import Posterior
from unskew.topk import seen_pairs

SHARE = 0.9  # of the sweeps that a fit begins with, which an update runs
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
    if not len(model.log):
        raise ParameterError("The model was saved without its log, which an update goes on with: fit again.")
    log = with_more(model.log, read_frame(source) if is_path(source) else source)
    if sweeps is None:
        sweeps = BURN + int(SHARE * defaults.least_sweeps(len(log)))
    sampled = part.continued(log, whole(sweeps, "sweeps", BURN + 6, MOST_SWEEPS), BURN)
    fitted = part.chain.get("fitted", sizes(model.log))  # which updates hand on
    ratings, users, items = (sizes(log) - fitted).tolist()
    taken = f"{SINCE} {ratings:,} ratings were taken in, with {users:,} new users and {items:,} new items"
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
    """Join a log and later ratings, new users and items last; other columns, older ratings, known pairs are refused."""
    if log.listed is not None:
        raise ParameterError(
            "The log lists what was shown, which new ratings alone do not tell: fit again with all of it."
        )
    new = given_ratings(log, source)
    if (log.stars is None) != (new.stars is None) and not log.binary:
        raise DataError("The new ratings are known in another form than those of the log: read them in the same way.")
    ids = log.user_ids.extended(new.user_ids), log.item_ids.extended(new.item_ids)
    users, items = (each.codes(held.arrow)[codes] for each, held, codes in zip(
        ids, (new.user_ids, new.item_ids), (new.users, new.items), strict=True))  # fmt: skip
    refuse_duplicates(users, items, *ids)
    old = (users < log.n_users) & (items < log.n_items)
    old[old] = seen_pairs(log)(users[old], items[old])
    if old.any():
        first = int(old.argmax())
        raise DataError(
            f"User {ids[0][int(users[first])]!r} has rated item {ids[1][int(items[first])]!r} in the log already "
            f"({int(old.sum()):,} of {len(old):,} new ratings are such): leave these out, or fit again."
        )
    if log.times is not None:
        if new.times is None:
            raise DataError(
                f"The new ratings have no times, and those of the log do: add the column {log.names.time!r}."
            )
        if new.times.min() < log.times.max():
            older, last = int((new.times < log.times.max()).sum()), log.times.max()
            raise DataError(
                f"{older:,} of {len(new.times):,} new ratings are older than the log's last, at {last:.15g}: leave "
                "them out, or fit again with all of them."
            )
    return joined(log, new._replace(users=users, items=items, user_ids=ids[0], item_ids=ids[1]))
