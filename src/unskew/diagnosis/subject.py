"""What is diagnosed: a log, or a model and its log, as the same few functions of pairs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unskew.data.log import RatingLog
from unskew.errors import DataError, ParameterError
from unskew.estimation.calibrated import OfPairs, calibrated_to_seen, platt_map
from unskew.estimation.scores import Values
from unskew.methods.weighting import Naive
from unskew.model import Recommender
from unskew.propensity.base import Propensity
from unskew.propensity.counted import Known
from unskew.propensity.factors import Factors
from unskew.training.crossfit import CrossFitted, cross_fit
from unskew.training.options import Training

FLOOR = 1e-9  # stands for a propensity of 0


@dataclass(frozen=True, eq=False)
class Nuisance:
    """A propensity or an imputation before and after calibration, both in [0, 1] by codes.

    Where a model calibrates, `after` is what it uses; elsewhere `after` is what a Platt map would make of it, and
    `used` says which of the two the model uses.
    """

    name: str
    before: OfPairs
    after: OfPairs
    used: str

    @property
    def as_used(self) -> OfPairs:
        return self.before if self.used == "before" else self.after


@dataclass(frozen=True, eq=False)
class Subject:
    """A log and what is believed about it.

    `naive` are cross-fitted predictions, which no pair's own rating has a part in. `prediction` is what is judged, on
    the rows `judged`, which it was not trained on. `seen_before` and `seen_after` are the propensities of the log's
    rows, given their ratings where the model can tell.
    """

    log: RatingLog
    name: str
    naive: CrossFitted
    propensity: Nuisance
    imputation: Nuisance
    prediction: OfPairs
    judged: NDArray[np.int64]
    seen_before: Values
    seen_after: Values
    clip: float
    fitted_here: bool  # whether the propensity was fitted for this diagnosis
    random_ratings: RatingLog | None
    seed: int

    @property
    def judging(self) -> RatingLog:
        return self.log.take(self.judged)

    @property
    def seen_used(self) -> Values:
        return self.seen_before if self.propensity.used == "before" else self.seen_after


def subject_of(
    source: RatingLog | Recommender,
    *,
    propensity: Propensity | None = None,
    random_ratings: RatingLog | None = None,
    n_folds: int = 5,
    seed: int = 0,
    training: Training | None = None,
    naive: Naive | None = None,
) -> Subject:
    """A log with a propensity (by default `Factors()`) and cross-fitted predictions, or a model with its own.

    `naive` is what is cross-fitted.
    """
    model = source if isinstance(source, Recommender) else None
    log = source.log if isinstance(source, Recommender) else source
    if not isinstance(log, RatingLog):
        raise ParameterError(f"diagnose takes a log or a fitted model, not a {type(source).__name__}.")
    if random_ratings is not None:
        _require_same_ids(log, random_ratings)
    fitted = cross_fit(naive or Naive(), log, n_folds=n_folds, seed=seed, training=training)
    common: dict[str, Any] = {"log": log, "naive": fitted, "random_ratings": random_ratings, "seed": seed}
    if model is not None and "propensity" in model.parts and propensity is None:
        part = _from_model(model)
    else:
        part = _fitted_here(propensity or Factors(), log, seed, training, random_ratings)
    judged = np.arange(len(log)) if model is None else model.split.holdout_rows
    weights = 1 / np.maximum(part["seen_after"], FLOOR)[judged]
    recipe = type(propensity or Factors()).__name__
    own = f"with propensities by {recipe}, fitted here" if part["fitted_here"] else "with its own propensities"
    if model is None:
        imputation = _calibrated_here("imputation", fitted, log.take(judged), weights)
        name = f"a log, {own}, and cross-fitted predictions"
        return Subject(**common, **part, name=name, imputation=imputation, prediction=fitted, judged=judged)
    imputation = _imputation(model, fitted, log.take(judged), weights)
    name = f"a model by {type(model.method).__name__}, {own}"
    return Subject(**common, **part, name=name, imputation=imputation, prediction=model.predict_codes, judged=judged)


def _from_model(model: Recommender) -> dict[str, Any]:
    log, raw = model.log, _uncalibrated(model)
    nuisance = _of_role(model, raw, "propensity")
    seen_before, seen_after = (one.scores("propensity", log.users, log.items, log.ratings) for one in (raw, model))
    if "propensity" not in model.parts.calibrators:
        if model.part("propensity").answers_unseen:
            platt = calibrated_to_seen(nuisance.before, log, seed=model.seed)
            nuisance = replace(nuisance, after=platt.after(nuisance.before))
            seen_after = _tilted(nuisance, seen_before, log)
        else:
            raise DataError(
                "The model's propensities are known of seen pairs only, so nothing can be said of overlap; pass "
                "propensity=."
            )
    clip = float(model.parts.clips.get("propensity", 0.0))
    return _part(nuisance, seen_before, seen_after, clip, fitted_here=False)


def _fitted_here(
    recipe: Propensity, log: RatingLog, seed: int, training: Training | None, random_ratings: RatingLog | None
) -> dict[str, Any]:
    fitted = recipe.fit(log, seed=seed, training=training, random_ratings=random_ratings)
    if not fitted.answers_unseen:
        raise DataError(
            "These propensities are known of seen pairs only, so nothing can be said of overlap; give a function."
        )
    # What is given, or knows ratings, would only be harmed by calibrating pairs.
    used = "before" if isinstance(recipe, Known) or fitted.knows_ratings else "after"
    platt = calibrated_to_seen(fitted.pair, log, seed=seed)
    nuisance = Nuisance("propensity", fitted.pair, platt.after(fitted.pair), used)
    seen_before = np.asarray(fitted.given_rating(log.users, log.items, log.ratings), np.float64)
    return _part(nuisance, seen_before, _tilted(nuisance, seen_before, log), 0.0, fitted_here=True)


def _tilted(nuisance: Nuisance, seen_before: Values, log: RatingLog) -> Values:
    """Calibrated propensities of the log's rows, as much above or below those of their pairs as they were before."""
    tilt = seen_before / np.maximum(nuisance.before(log.users, log.items), FLOOR)
    return np.minimum(nuisance.after(log.users, log.items) * tilt, 1.0)


def _part(nuisance: Nuisance, before: Values, after: Values, clip: float, *, fitted_here: bool) -> dict[str, Any]:
    return {
        "propensity": nuisance,
        "seen_before": before,
        "seen_after": after,
        "clip": clip,
        "fitted_here": fitted_here,
    }


def _imputation(model: Recommender, naive: CrossFitted, held_out: RatingLog, weights: Values) -> Nuisance:
    if "imputation" not in model.parts:
        return _calibrated_here("imputation", naive, held_out, weights)
    nuisance = _of_role(model, _uncalibrated(model), "imputation")
    if "imputation" in model.parts.calibrators:
        return nuisance
    return _calibrated_here("imputation", nuisance.before, held_out, weights)


def _calibrated_here(name: str, before: OfPairs, held_out: RatingLog, weights: Values) -> Nuisance:
    said = before(held_out.users, held_out.items)
    platt = platt_map(said, held_out.ratings.astype(np.float64), weights)
    return Nuisance(name, before, platt.after(before), used="before")


def _of_role(model: Recommender, raw: Recommender, role: str) -> Nuisance:
    used = "after" if role in model.parts.calibrators else "before"
    return Nuisance(
        role,
        lambda users, items: raw.scores(role, users, items),
        lambda users, items: model.scores(role, users, items),
        used,
    )


def _uncalibrated(model: Recommender) -> Recommender:
    return replace(model, parts=model.parts.uncalibrated)


def _require_same_ids(log: RatingLog, random: RatingLog) -> None:
    same = log.user_ids.arrow.equals(random.user_ids.arrow) and log.item_ids.arrow.equals(random.item_ids.arrow)
    if not same:
        raise DataError(
            "The random ratings have other users or items than the log; read them with user_ids=log.user_ids and "
            "item_ids=log.item_ids."
        )
