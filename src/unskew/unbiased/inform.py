"""A model and random ratings: everything they can be used for, in one place."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from unskew.data.log import RatingLog
from unskew.unbiased.correction import OF_RATINGS, Correction
from unskew.unbiased.learn import FEWEST_FOR_EXPERTS, Said, learn
from unskew.unbiased.report import Slice, Use
from unskew.unbiased.sample import sample_of

if TYPE_CHECKING:
    from unskew.recommender import Recommender


def informed(model: Recommender, unbiased: RatingLog, *, in_training: bool = False) -> Recommender:
    """The model with a correction for each role that speaks of ratings, and a report of all uses of the slice.

    `in_training` says that parts of the method have been fitted by the same slice.
    """
    sample = sample_of(model.log, unbiased)
    uses = _of_parts(model) if in_training else []
    corrections: dict[str, Correction] = {}
    for role in OF_RATINGS:
        if role in model.cast.players:
            said = _said(model, role, sample.log)
            lines, found = learn(role, said, model.seed)
            corrections[role] = Correction(said.family, lines)
            uses += found
    report = Slice(len(sample.log), sample.n_unknown, sample.n_in_log, sample.log.positive_rate, tuple(uses))
    return replace(model, slice=report, corrections=corrections)


def _said(model: Recommender, role: str, sample: RatingLog) -> Said:
    family = model.law_of(role)
    means = model.uncorrected(role, sample.users, sample.items)
    enough = len(sample) >= FEWEST_FOR_EXPERTS
    vectors = _vectors(model.player(role), model.log.n_users) if enough else None
    return Said(family, family.natural(means), sample.ratings.astype(np.float64), sample.users, vectors)


def _vectors(player: Any, n_users: int) -> NDArray[np.float32] | None:
    """What tells all users apart, in the player's own words, if it has any."""
    if not hasattr(player, "user_vectors"):
        return None
    with torch.no_grad():
        vectors: torch.Tensor = player.user_vectors(torch.arange(n_users))
    return vectors.numpy(force=True)


def _of_parts(model: Recommender) -> list[Use]:
    """What parts of the method have learned from the slice while they were fitted."""
    return [use for player in model.cast.players.values() for use in getattr(player, "uses", ())]
