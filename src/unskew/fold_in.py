"""A fitted model that learns new users from their few ratings, everything else held fixed."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from unskew.asked import OnUnknown
from unskew.data.guess import frame_columns
from unskew.data.ids import Vocabulary, encoded
from unskew.data.log import RatingLog
from unskew.data.rows import as_times, refuse_duplicates
from unskew.data.scale import as_ratings
from unskew.errors import DataError, ParameterError
from unskew.losses.elementwise import ERRORS
from unskew.model import Recommender
from unskew.neighbours import mean_and_root
from unskew.nets.base import Linear, Net, Part
from unskew.special import expit

Values = NDArray[np.float64]
ROLES = ("user", "item", "rating")
MAX_STEPS = 50
LEAST_GAIN = 1e-12  # a step that would gain less than half of this is not taken
SMALLEST_STEP = 1e-8


def fold_in(model: Recommender, source: Any, *, on_unknown: OnUnknown = "raise", shrinkage: float = 1.0) -> Recommender:
    """See `Recommender.fold_in`."""
    if not shrinkage > 0:
        raise ParameterError(f"shrinkage must be a number above 0, not {shrinkage}.")
    new, n_left_out = _new_ratings(model.log, source, leave_out=on_unknown == "fallback")
    counts = np.bincount(new.users, minlength=new.n_users)
    starts, order = np.concatenate([[0], np.cumsum(counts)]), np.argsort(new.users, kind="stable")
    stars = new.ratings if new.stars is None or model.log.stars is None else new.stars
    own = model.part("prediction").folded(starts, new.items[order].astype(np.int64), stars[order])
    form = _form(model.part("prediction")) if own is None else None
    roles, parts, found = model.method.plan().roles, copy(model.parts), dict[str, Part]()
    for name, part in model.parts.parts.items():
        found[name] = part.extended(counts, found.get(roles[name].shares_with))
    parts.parts = found if own is None else {**found, "prediction": own}
    note = f"{new.n_users:,} new users were folded in from {len(new):,} ratings"
    if n_left_out:
        note += f"; {n_left_out:,} ratings were left out, as their items are unknown"
    if empty := int((counts == 0).sum()):
        note += f"; {empty:,} of them have no rating and are answered for as the average user"
    history = replace(model.history, notes=[*model.history.notes, f"{note}."])
    joined = replace(model, log=_joined(model.log, new), parts=parts, history=history, n_fitted_users=model.n_fitted)
    if form is not None and len(new):
        weights, squared = _weights(model, joined), model.parts.error is ERRORS["squared"]
        mean, root = mean_and_root(form.users[: model.n_fitted])
        rows = np.tile(mean, (new.n_users, 1))
        for user in np.flatnonzero(counts):
            mine = order[starts[user] : starts[user + 1]]
            x, offsets = (side[new.items[mine]].astype(np.float64) for side in (form.items, form.offsets))
            given = new.ratings[mine].astype(np.float64), weights[mine]
            rows[user] += root @ _most_likely(x @ root, offsets + x @ mean, *given, shrinkage, squared)
        cast(Net, joined.part("prediction")).know_users(rows.astype(np.float32))
    return joined


class Given(NamedTuple):
    """Ratings that come to a model after its fit, in codes and ids of their own, on the scale of its log."""

    users: NDArray[np.int32]
    items: NDArray[np.int32]
    ratings: NDArray[np.float32]
    stars: NDArray[np.float32] | None
    times: NDArray[np.float64] | None
    user_ids: Vocabulary
    item_ids: Vocabulary


def given_ratings(log: RatingLog, source: Any) -> Given:
    """Read ratings as the log was read, from a log or a frame; there may be a single user, and ratings all alike."""
    if isinstance(source, RatingLog):
        own, other = log.scale, source.scale
        if own != other and not (own.binary and own.positive == other.positive):
            raise ParameterError(
                f"The new ratings are on the scale {other}, and the model learned {own}: read them in the same way."
            )
        return Given(*(getattr(source, name) for name in Given._fields))
    roles = (*ROLES, "time") if log.times is not None else ROLES
    columns, found, _ = frame_columns(source, dict.fromkeys(roles), like=log.names._asdict(), optional=("time",))
    where = {role: f"column {name!r}" for role, name in found.items()}
    (users, ids), (items, item_ids) = (encoded(columns[found[role]], where[role]) for role in ROLES[:2])
    given = as_ratings(columns[found["rating"]], where["rating"])
    if not len(given):
        raise DataError("there are no ratings: the data has no rows.")
    log.scale.refuse_strays(given, where["rating"])
    times = as_times(columns[found["time"]], where["time"]) if "time" in found else None
    return Given(users, items, log.scale.to_unit(given), given.astype(np.float32), times, ids, item_ids)


def _new_ratings(log: RatingLog, source: Any, *, leave_out: bool) -> tuple[RatingLog, int]:
    """Return ratings of the log's items by new users, in codes of their own, and how many others were left out."""
    users, items, ratings, stars, _, ids, item_ids = given_ratings(log, source)
    if (twice := log.user_ids.codes(ids.arrow) >= 0).any():
        raise DataError(
            f"The user {ids[int(twice.argmax())]!r} is in the log already ({int(twice.sum())} of {len(ids)} are); "
            "only new users can be folded in: leave the others out, or fit again to learn from what is new of them."
        )
    codes = log.item_ids.codes(item_ids.arrow)[items]
    kept = codes >= 0
    if not (leave_out or kept.all()):
        raise DataError(
            f"The item {item_ids[int(items[kept.argmin()])]!r} is not in the log ({int((~kept).sum())} of {len(codes)} "
            "ratings are of such items); pass on_unknown='fallback' to leave them out."
        )
    refuse_duplicates(users[kept], codes[kept], ids, log.item_ids)
    fields = {"users": users[kept], "items": codes[kept], "ratings": ratings[kept], "user_ids": ids}
    fields |= {"stars": None if stars is None else stars[kept], "times": None, "user_features": None}
    fields |= {"cells": None, "chances": None, "context": None}
    return RatingLog.proved(**log.__dict__ | fields), int((~kept).sum())


def _joined(log: RatingLog, new: RatingLog) -> RatingLog:
    """Return the log and the new users: their codes and their ratings come last."""
    columns: dict[str, Any] = {"users": np.concatenate([log.users, new.users + np.int32(log.n_users)])}
    for name in ("items", "ratings", "stars"):
        known = [getattr(one, name) for one in (log, new)]
        columns[name] = None if known[0] is None or known[1] is None else np.concatenate(known)
    columns |= log.joined_weights(len(new))
    for column in columns.values():
        if column is not None:
            column.flags.writeable = False
    described = None if log.user_features is None else log.user_features.with_unknown(new.n_users)
    sides = {"user_ids": log.user_ids.extended(new.user_ids), "user_features": described, "times": None}
    return RatingLog.proved(**log.__dict__ | columns | sides)


def _form(part: Part) -> Linear:
    form = part.linear() if isinstance(part, Net) else None
    if form is None:
        raise ParameterError(
            f"New users cannot be folded into a {type(part).__name__}, which is not linear in what it knows of a "
            "user: fit again with their ratings, or use a net such as MF()."
        )
    return form


def _weights(model: Recommender, joined: Recommender) -> Values:
    """1 / p of every new rating, in multiples of what a fitted rating weighs on average; 1 without propensity."""
    n_known = len(model.log)
    if "propensity" not in model.method.plan().roles:
        return np.ones(len(joined.log) - n_known)
    if "propensity" not in model.parts:
        raise ParameterError(
            "The propensity of this model is a function, which is not in its file, so that nothing tells what the new "
            "users' ratings stand for: fit again with their ratings."
        )
    fitted, own = model.log.take(model.log.users < model.n_fitted), joined.log.take(np.arange(n_known, len(joined.log)))
    w, base = (
        np.asarray(one.parts.inverse("propensity", log.users, log.items, log.ratings), np.float64)
        for one, log in ((joined, own), (model, fitted))
    )
    return np.asarray(w / base.mean())


def _most_likely(
    x: Values, offsets: Values, ratings: Values, weights: Values, shrinkage: float, squared: bool
) -> Values:
    """Return the maximum a posteriori of what is known of one user, in units of the prior's root.

    minimise  sum_i w_i e(x_i . beta + c_i, r_i) + shrinkage / 2 |beta|^2

    by Newton steps, Gauss and Newton's for squared errors, halved until they lower it. With theta = mean + root beta
    this is the penalty (theta - mean)' covariance^-1 (theta - mean), for singular covariances too: directions in which
    known users do not differ stay as they are.
    """

    def objective(beta: Values) -> float:
        z = offsets + x @ beta
        error = (expit(z) - ratings) ** 2 if squared else np.logaddexp(0, z) - ratings * z
        return float(weights @ error + shrinkage / 2 * beta @ beta)

    if len(x) < x.shape[1]:  # beta is a sum of the rows of x, as whatever is orthogonal to them only costs
        basis = np.linalg.qr(x.T)[0]
        return np.asarray(basis @ _most_likely(x @ basis, offsets, ratings, weights, shrinkage, squared))
    beta, size = np.zeros(x.shape[1]), 1.0
    for _ in range(MAX_STEPS):
        p = expit(offsets + x @ beta)
        slope, curvature = p - ratings, p * (1 - p)
        if squared:
            slope, curvature = 2 * slope * curvature, 2 * curvature**2
        gradient = x.T @ (weights * slope) + shrinkage * beta
        step = np.linalg.solve((x.T * (weights * curvature)) @ x + shrinkage * np.eye(len(beta)), gradient)
        if step @ gradient <= LEAST_GAIN:
            break
        size, value = 1.0, objective(beta)
        while objective(beta - size * step) >= value and size >= SMALLEST_STEP:
            size /= 2
        if size < SMALLEST_STEP:
            break
        beta = beta - size * step
    return beta
