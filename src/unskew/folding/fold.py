"""A fitted model that learns new users from their few ratings, everything else held fixed."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from unskew.data.log import RatingLog
from unskew.errors import ParameterError
from unskew.folding.newcomers import Newcomers, newcomers_to
from unskew.folding.solve import Rated, solved_users
from unskew.losses.elementwise import ERRORS
from unskew.model import OnUnknown, Recommender
from unskew.nets.base import Linear, Net, Part
from unskew.training.history import History

WEIGH = ("propensity",)


def fold_in(
    model: Recommender,
    source: Any,
    *,
    on_unknown: OnUnknown = "raise",
    shrinkage: float = 1.0,
) -> Recommender:
    """See `Recommender.fold_in`."""
    if not shrinkage > 0:
        raise ParameterError(f"shrinkage must be a number above 0, not {shrinkage}.")
    new = newcomers_to(model.log, source, leave_out=on_unknown == "fallback")
    log = new.joined(model.log)
    return _folded(model, new, log, shrinkage)


def _folded(model: Recommender, new: Newcomers, log: RatingLog, shrinkage: float) -> Recommender:
    """The model on the joined log with the new users, whose rows the net that predicts takes over."""
    own, parts = _own_way(model, new), copy(model.parts)
    form = _form(model.part("prediction")) if own is None else None
    parts.parts = _joined(model, new.counts)
    if own is not None:
        parts.parts = {**parts.parts, "prediction": own}
    joined = replace(
        model,
        log=log,
        parts=parts,
        history=_told(model.history, new),
        n_fitted_users=model.n_fitted,
    )
    if form is not None and len(new.ratings):
        rated = _by_user(new, _weights(model, joined, new))
        squared = model.parts.error is ERRORS["squared"]
        rows = solved_users(form, model.n_fitted, rated, shrinkage=shrinkage, squared=squared)
        cast(Net, joined.part("prediction")).know_users(rows.astype(np.float32))
    return joined


def _own_way(model: Recommender, new: Newcomers) -> Part | None:
    """The prediction with the new users, by its own way of learning them from ratings as they stood."""
    order = np.argsort(new.users, kind="stable")
    starts = np.concatenate([[0], np.cumsum(new.counts)])
    stars = new.ratings if new.stars is None or model.log.stars is None else new.stars
    return model.part("prediction").folded(starts, new.items[order].astype(np.int64), stars[order])


def _form(part: Part) -> Linear:
    form = part.linear() if isinstance(part, Net) else None
    if form is None:
        raise ParameterError(
            f"New users cannot be folded into a {type(part).__name__}, which is not linear in what it knows of a "
            "user: fit again with their ratings, or use a net such as MF()."
        )
    return form


def _joined(model: Recommender, counts: NDArray[np.int64]) -> dict[str, Part]:
    """All parts with the new users, which they tell apart by their numbers of ratings at most."""
    roles, parts = model.method.plan().roles, dict[str, Part]()
    for name, part in model.parts.parts.items():
        parts[name] = part.extended(counts, 0, parts.get(roles[name].shares_with))
    return parts


def _weights(model: Recommender, joined: Recommender, new: Newcomers) -> NDArray[np.float64]:
    """1 / p of every new rating, in multiples of what a fitted rating weighs on average; 1 without propensity."""
    role = next((role for role in WEIGH if role in model.method.plan().roles), None)
    if role is None:
        return np.ones(len(new.ratings))
    if role not in model.parts:
        raise ParameterError(
            f"The {role} of this model is a function, which is not in its file, so that nothing tells what the new "
            "users' ratings stand for: fit again with their ratings."
        )
    fitted = _inverse(model, role, model.log.take(model.log.users < model.n_fitted))
    own = _inverse(joined, role, joined.log.take(np.arange(len(model.log), len(joined.log))))
    return np.asarray(own / fitted.mean())


def _inverse(model: Recommender, role: str, log: RatingLog) -> NDArray[np.float64]:
    """What training weighs these ratings by."""
    return np.asarray(model.parts.inverse(role, log.users, log.items, log.ratings), np.float64)


def _by_user(new: Newcomers, weights: NDArray[np.float64]) -> Rated:
    order = np.argsort(new.users, kind="stable")
    starts = np.concatenate([[0], np.cumsum(new.counts)])
    return Rated(starts, new.items[order].astype(np.int64), new.ratings[order].astype(np.float64), weights[order])


def _told(history: History, new: Newcomers) -> History:
    note = f"{len(new.ids):,} new users were folded in from {len(new.ratings):,} ratings"
    if new.left_out:
        note += f"; {new.left_out:,} ratings were left out, as their items are unknown"
    if empty := int((new.counts == 0).sum()):
        note += f"; {empty:,} of them have no rating and are answered for as the average user"
    return replace(history, notes=[*history.notes, f"{note}."])
