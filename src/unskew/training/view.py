"""What a loss may see of a batch: a role in training speaks raw, a role at rest calibrated and without gradient."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unskew.data.rows import Batch, Rows
from unskew.group import ALONE, Group

ErrorFunction = Callable[[Tensor, Tensor], Tensor]
LARGEST_LOGIT = 13.8  # probabilities stay within 1e-6 of 0 and 1


@dataclass(frozen=True, eq=False)
class Cast:
    """The roles of a plan as they are now: what plays each, its clip, who calibrates it, the error they share.

    `known` holds, for calibrators, the maps of all users, for as long as neither they nor their roles are to be
    looked at anew. `group` are the workers who have a part of the rows each.
    """

    players: Mapping[str, Any]
    clips: Mapping[str, float]
    calibrators: Mapping[str, str]
    error: ErrorFunction
    known: dict[str, Any] = field(default_factory=dict)
    group: Group = ALONE

    @property
    def uncalibrated(self) -> Cast:
        """The same roles, all speaking raw."""
        return Cast(self.players, self.clips, {}, self.error)


@dataclass(frozen=True, eq=False)
class View:
    """A batch seen through the roles; `learning` are the roles in training, `still` those that no update moves."""

    cast: Cast
    batch: Batch
    learning: frozenset[str] = frozenset()
    still: frozenset[str] = frozenset()

    @property
    def n_pairs(self) -> float:
        return self.batch.n_pairs

    @property
    def error_function(self) -> ErrorFunction:
        return self.cast.error

    @property
    def largest_logit(self) -> float:
        return LARGEST_LOGIT

    @cached_property
    def observed(self) -> RowsView:
        return RowsView(self.batch.observed, self.cast, self.learning, self.still)

    @cached_property
    def sampled(self) -> RowsView:
        return RowsView(self.batch.sampled, self.cast, self.learning, self.still)


class RowsView:
    """Some pairs and what every role says about them.

    It does not know the view that it is part of: the two would hold one another, and whole stretches of a log with
    them, until Python looks for such circles.
    """

    def __init__(self, rows: Rows, cast: Cast, learning: frozenset[str], still: frozenset[str]) -> None:
        self._rows, self._cast, self._learning, self._still = rows, cast, learning, still
        self._logits: dict[str, Tensor] = {}

    @property
    def users(self) -> Tensor:
        return self._rows.users

    @property
    def items(self) -> Tensor:
        return self._rows.items

    @property
    def ratings(self) -> Tensor:
        return self._rows.ratings

    @property
    def seen(self) -> Tensor:
        return self._rows.seen

    @property
    def weight(self) -> float:
        """How many cells each of these rows stands for."""
        return self._rows.weight

    def total(self, values: Tensor) -> Tensor:
        """The sum over all the cells these rows stand for, and those of all other workers."""
        return self._summed(self._rows.weight * values.sum())

    def sum(self, values: Tensor) -> Tensor:
        """The sum over the rows themselves, and those of all other workers, whatever they stand for."""
        return self._summed(values.sum())

    def _summed(self, value: Tensor) -> Tensor:
        total: Tensor = self._cast.group.summed(value)
        return total

    def logit(self, role: str = "prediction") -> Tensor:
        """What the role's net says, uncalibrated; with gradient only if the role is learning."""
        if role not in self._logits:
            player = self._cast.players[role]
            if role in self._learning or not torch.is_grad_enabled():
                self._logits[role] = player(self.users, self.items)
            else:
                with torch.no_grad():
                    self._logits[role] = player(self.users, self.items)
        return self._logits[role]

    def learn(self, role: str, slopes: NDArray[np.float32]) -> None:
        """Hand the role d loss / d logit of these pairs, for its next step."""
        self._cast.players[role].keep(self.users, self.items, torch.from_numpy(slopes))

    def probability(self, role: str = "prediction") -> Tensor:
        """What the role says: raw while it learns, calibrated while it rests."""
        if role in self._learning:
            return torch.sigmoid(self.logit(role))
        return self._at_rest(role)

    def whatever_the_rating(self, role: str) -> Tensor:
        """What a resting role says of these pairs where it does not look at their ratings."""
        return speak_at_rest(self._cast, role, self._rows, tilted=False)

    def error(self, role: str = "prediction") -> Tensor:
        """e: the error of the prediction against the rating."""
        return self._cast.error(_bounded(self.logit(role)), self.ratings)

    def imputed_error(self, role: str = "prediction", imputation: str = "imputation") -> Tensor:
        """e-hat: the error of the prediction against the imputed rating."""
        return self._cast.error(_bounded(self.logit(role)), self.probability(imputation))

    def stake(self, role: str = "prediction") -> Tensor:
        """e1 - e0: how much the error of the prediction depends on the label."""
        logit = _bounded(self.logit(role))
        one, zero = torch.ones_like(logit), torch.zeros_like(logit)
        return self._cast.error(logit, one) - self._cast.error(logit, zero)

    def propensity(self, role: str = "propensity") -> Tensor:
        """p: probability of having been seen, never below the clip, then given the rating where the model can tell."""
        return self._clipped(role, self.probability(role))

    def inverse_propensity(self, role: str = "propensity") -> Tensor:
        """1/p, found once for all rows of the block while nobody moves p."""
        if not self._stays(role):
            return 1 / self.propensity(role)
        cast = self._cast
        return self._rows.column(f"1/{role}", lambda rows: 1 / self._clipped(role, speak_at_rest(cast, role, rows)))

    def _clipped(self, role: str, said: Tensor) -> Tensor:
        return said if self.is_tilted(role) else said.clamp(min=self._cast.clips.get(role, 0.0))

    def is_tilted(self, role: str) -> bool:
        """Whether the role speaks of these rows' own ratings: then it has been clipped before that."""
        rests = role not in self._learning and self._rows.known_ratings is not None
        return rests and getattr(self._cast.players[role], "tilt", None) is not None

    def _at_rest(self, role: str) -> Tensor:
        cast = self._cast
        if self._stays(role):
            return self._rows.column(role, lambda rows: speak_at_rest(cast, role, rows))
        return speak_at_rest(cast, role, self._rows)

    def _stays(self, role: str) -> bool:
        """Whether nothing that is under way moves what the role says at rest."""
        calibrator, still = self._cast.calibrators.get(role), self._still
        return role in still and (calibrator is None or calibrator in still)


def _bounded(logit: Tensor) -> Tensor:
    """Doubly robust risks are unbounded below in the logit; this is where they end."""
    return logit.clamp(-LARGEST_LOGIT, LARGEST_LOGIT)


@torch.no_grad()
def speak_at_rest(cast: Cast, role: str, pairs: Rows, *, tilted: bool = True) -> Tensor:
    """What a resting role says about pairs: calibrated if its calibrator is fitted, and without gradient.

    A propensity that can tell how much more often a pair is seen for its own rating says so by its `tilt`,
    P(seen given the rating) / P(seen), which applies where the rating is known. The clip comes before the tilt: it
    bounds for how many pairs a rating may stand because of where it was found, not what the rating itself tells.
    """
    player, name = cast.players[role], cast.calibrators.get(role, "")
    users, items = pairs.users, pairs.items
    logits, calibrator = player(users, items), cast.players.get(name)
    if calibrator is None:
        said: Tensor = torch.sigmoid(logits)
    elif name in cast.known:
        said = calibrator.looked_up(logits, users, cast.known[name])
    else:
        said = calibrator.calibrated(logits, users, player)
    ratings, tilt = pairs.known_ratings, getattr(player, "tilt", None)
    if tilt is None or ratings is None or not tilted:
        return said
    given: Tensor = said.clamp(min=cast.clips.get(role, 0.0)) * tilt(users, items, ratings)
    return given.clamp(max=1.0)
