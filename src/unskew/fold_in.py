"""A fitted model that learns new users from their few ratings, everything else held fixed."""

from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple, cast, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.asked import OnUnknown
from unskew.data.guess import columns_of, find_columns, named_as, samples_of
from unskew.data.ids import Vocabulary, encoded
from unskew.data.impressions import CLICKS, refuse_clicks
from unskew.data.log import RatingLog
from unskew.data.rows import as_times, refuse_duplicates
from unskew.data.scale import as_ratings
from unskew.errors import DataError, ParameterError, chosen
from unskew.losses.columns import ERRORS
from unskew.model import Recommender
from unskew.nets.base import Linear, Net, Part
from unskew.special import expit
from unskew.topk import mean_and_root

Values = NDArray[np.float64]
ROLES = ("user", "item", "rating")
MAX_STEPS = 50
LEAST_GAIN = 1e-12  # a step that would gain less than half of this is not taken
SMALLEST_STEP = 1e-8


def fold_in(model: Recommender, source: Any, *, on_unknown: OnUnknown = "raise") -> Recommender:
    """See `Recommender.fold_in`."""
    chosen(on_unknown, "on_unknown", get_args(OnUnknown))
    log, prediction = model.with_log("what its ratings weigh"), model.part("prediction")
    new, n_left_out = _of_new_users(log, given_ratings(log, source), leave_out=on_unknown == "fallback")
    n_new = len(new.user_ids) - log.n_users
    counts = np.bincount(new.users - log.n_users, minlength=n_new)
    starts, order = np.concatenate([[0], np.cumsum(counts)]), np.argsort(new.users, kind="stable")
    stars = new.ratings if new.stars is None or log.stars is None else new.stars
    own = prediction.folded(starts, new.items[order].astype(np.int64), stars[order])
    form = _form(prediction) if own is None else None
    roles, parts, found = model.method.plan().roles, copy(model.parts), dict[str, Part]()
    for name, part in model.parts.parts.items():
        found[name] = part.extended(counts, found.get(roles[name].shares_with))
    parts.parts = found if own is None else {**found, "prediction": own}
    note = f"{n_new:,} new users were folded in from {len(new.users):,} ratings"
    if n_left_out:
        note += f"; {n_left_out:,} ratings were left out, as their items are unknown"
    if empty := int((counts == 0).sum()):
        note += f"; {empty:,} of them have no rating and are answered for as the average user"
    history = replace(model.history, notes=[*model.history.notes, f"{note}."])
    folded = replace(model, log=joined(log, new), parts=parts, history=history, n_fitted_users=model.n_fitted)
    if form is not None and len(new.users):
        weights, squared = _weights(model, folded), model.parts.error is ERRORS["squared"]
        mean, root = mean_and_root(form.users[: model.n_fitted])
        rows = np.tile(mean, (n_new, 1))
        for user in np.flatnonzero(counts):
            mine = order[starts[user] : starts[user + 1]]
            x, offsets = (side[new.items[mine]].astype(np.float64) for side in (form.items, form.offsets))
            given = new.ratings[mine].astype(np.float64), weights[mine]
            rows[user] += root @ _most_likely(x @ root, offsets + x @ mean, *given, squared)
        cast(Net, folded.part("prediction")).know_users(rows.astype(np.float32))
    return folded


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
        if source.impressions:
            raise DataError(CLICKS)
        own, other = log.scale, source.scale
        if own != other and not (own.binary and own.positive == other.positive):
            raise ParameterError(
                f"The new ratings are on the scale {other}, and the model learned {own}: read them in the same way."
            )
        return Given(*(getattr(source, name) for name in Given._fields))
    roles = (*ROLES, "time") if log.times is not None else ROLES
    columns = columns_of(source)
    refuse_clicks(columns, log.names.rating)
    named = named_as(dict.fromkeys(roles), columns, log.names)
    found, _ = find_columns(samples_of(columns), named, "the frame", ("time",))
    where = {role: f"column {name!r}" for role, name in found.items()}
    (users, ids), (items, item_ids) = (encoded(columns[found[role]], where[role]) for role in ROLES[:2])
    given = as_ratings(columns[found["rating"]], where["rating"])
    if not len(given):
        raise DataError("there are no ratings: the data has no rows.")
    log.scale.refuse_strays(given, where["rating"])
    times = as_times(columns[found["time"]], where["time"]) if "time" in found else None
    return Given(users, items, log.scale.to_unit(given), given.astype(np.float32), times, ids, item_ids)


def _of_new_users(log: RatingLog, given: Given, *, leave_out: bool) -> tuple[Given, int]:
    """Return ratings by new users of the log's items, in its codes, and how many of other items were left out."""
    ids, item_ids = given.user_ids, given.item_ids
    if (twice := log.user_ids.codes(ids.arrow) >= 0).any():
        raise DataError(
            f"The user {ids[int(twice.argmax())]!r} is in the log already ({int(twice.sum())} of {len(ids)} are); "
            "only new users can be folded in: leave the others out, or fit again to learn from what is new of them."
        )
    codes = log.item_ids.codes(item_ids.arrow)[given.items]
    kept = codes >= 0
    if not (leave_out or kept.all()):
        raise DataError(
            f"The item {item_ids[int(given.items[kept.argmin()])]!r} is not in the log ({int((~kept).sum())} of "
            f"{len(codes)} ratings are of such items); pass on_unknown='fallback' to leave them out."
        )
    refuse_duplicates(given.users[kept], codes[kept], ids, log.item_ids)
    stars, users = None if given.stars is None else given.stars[kept], given.users[kept] + np.int32(log.n_users)
    coded = Given(users, codes[kept], given.ratings[kept], stars, None, log.user_ids.extended(ids), log.item_ids)
    return coded, int((~kept).sum())


def joined(log: RatingLog, new: Given) -> RatingLog:
    """Return the log with later ratings, one pair each, in codes that go on from its own; of chances none are known."""
    columns: dict[str, Any] = {}
    for name in ("users", "items", "ratings", "stars", "times"):
        known = getattr(log, name), getattr(new, name)
        columns[name] = None if known[0] is None or known[1] is None else np.concatenate(known)
    columns["cells"] = None if log.cells is None else np.append(log.cells, np.ones(len(new.users), np.float32))
    columns |= dict.fromkeys(("chances", "context"))
    for column in columns.values():
        if column is not None:
            column.flags.writeable = False
    more = len(new.user_ids) - log.n_users, len(new.item_ids) - log.n_items
    described = [None if held is None else held.with_unknown(n) for held, n in zip(log.features, more, strict=True)]
    sides: dict[str, Any] = {"user_ids": new.user_ids, "item_ids": new.item_ids}
    sides |= {"user_features": described[0], "item_features": described[1]}
    if log.titles is not None:
        sides["titles"] = pa.concat_arrays([log.titles, pa.nulls(more[1], log.titles.type)])
    return RatingLog.proved(**log.__dict__ | columns | sides)


def _form(part: Part) -> Linear:
    form = part.linear() if isinstance(part, Net) else None
    if form is None:
        raise ParameterError(
            f"New users cannot be folded into a {type(part).__name__}, which is not linear in what it knows of a "
            "user: fit again with their ratings, or use a net such as MF()."
        )
    return form


def _weights(model: Recommender, folded: Recommender) -> Values:
    """1 / p of every new rating, in multiples of what a fitted rating weighs on average; 1 without propensity."""
    n_known = len(model.log)
    if "propensity" not in model.method.plan().roles:
        return np.ones(len(folded.log) - n_known)
    if "propensity" not in model.parts:
        raise ParameterError(
            "The propensity of this model is not in its file, as its history says, so that nothing tells what the new "
            "users' ratings stand for: fit again with their ratings."
        )
    fitted, own = model.log.take(model.log.users < model.n_fitted), folded.log.take(np.arange(n_known, len(folded.log)))
    w, base = (
        np.asarray(one.parts.weights("propensity", log.users, log.items, log.ratings), np.float64)
        for one, log in ((folded, own), (model, fitted))
    )
    return np.asarray(w / base.mean())


def _most_likely(x: Values, offsets: Values, ratings: Values, weights: Values, squared: bool) -> Values:
    """Return the maximum a posteriori of what is known of one user, in units of the prior's root.

    minimise  sum_i w_i e(x_i . beta + c_i, r_i) + |beta|^2 / 2

    by Newton steps, Gauss and Newton's for squared errors, halved until they lower it. With theta = mean + root beta
    this is the penalty (theta - mean)' covariance^-1 (theta - mean), for singular covariances too: directions in which
    known users do not differ stay as they are.
    """

    def objective(beta: Values) -> float:
        z = offsets + x @ beta
        error = (expit(z) - ratings) ** 2 if squared else np.logaddexp(0, z) - ratings * z
        return float(weights @ error + beta @ beta / 2)

    if len(x) < x.shape[1]:  # beta is a sum of the rows of x, as whatever is orthogonal to them only costs
        basis = np.linalg.qr(x.T)[0]
        return np.asarray(basis @ _most_likely(x @ basis, offsets, ratings, weights, squared))
    beta, size = np.zeros(x.shape[1]), 1.0
    for _ in range(MAX_STEPS):
        p = expit(offsets + x @ beta)
        slope, curvature = p - ratings, p * (1 - p)
        if squared:
            slope, curvature = 2 * slope * curvature, 2 * curvature**2
        gradient = x.T @ (weights * slope) + beta
        step = np.linalg.solve((x.T * (weights * curvature)) @ x + np.eye(len(beta)), gradient)
        if step @ gradient <= LEAST_GAIN:
            break
        size, value = 1.0, objective(beta)
        while objective(beta - size * step) >= value and size >= SMALLEST_STEP:
            size /= 2
        if size < SMALLEST_STEP:
            break
        beta = beta - size * step
    return beta
