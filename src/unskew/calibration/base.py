"""What a calibrator is: a recipe that fits itself on examples, and a fitted map of logits to probabilities."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unskew.calibration.mixing import mixed
from unskew.calibration.platt import Examples
from unskew.group import ALONE, Group
from unskew.training.fitted import Occasion
from unskew.training.view import RowsView, View

Target = Literal["propensity", "imputation"]
Tables = tuple[NDArray[np.float32], ...]

USERS_AT_ONCE = 1 << 16


class FittedCalibrator(ABC):
    """sigmoid(a s + b) with a map, or a mixture of maps, for each user."""

    stored: ClassVar[tuple[str, ...] | None] = None  # which arguments of the constructor a file keeps
    notes: tuple[str, ...] = ()
    group: Group = ALONE  # the workers of whom each answers for its own users

    @abstractmethod
    def maps(self, users: NDArray[np.int64], vectors: NDArray[np.float32]) -> tuple[Any, Any, Any]:
        """(weights, slopes, intercepts), each with one row a user and one column a map mixed for that user."""

    def calibrated(self, logits: Tensor, users: Tensor, of: Any) -> Tensor:
        """Calibrated probabilities of what the role `of` has said."""
        met, place = np.unique(users.numpy(force=True), return_inverse=True)
        return self.looked_up(logits, torch.from_numpy(place), self.tables(of, met))

    def tables(self, of: Any, users: NDArray[np.int64]) -> Tables:
        """The maps of these users, whose vectors are those of the role `of`; one row a user, or one for all."""
        starts = range(0, len(users), USERS_AT_ONCE)
        parts = [self._tables(of, users[start : start + USERS_AT_ONCE]) for start in starts]
        return tuple(np.concatenate(tables) if len(tables[0]) > 1 else tables[0] for tables in zip(*parts, strict=True))

    def _tables(self, of: Any, users: NDArray[np.int64]) -> Tables:
        maps = self.maps(self.group.codes(users), user_vectors(of, users))
        return tuple(np.ascontiguousarray(table, np.float32) for table in maps)

    def looked_up(self, logits: Tensor, rows: Tensor, tables: Tables) -> Tensor:
        """Calibrated probabilities by the rows of tables."""
        said = mixed(logits.numpy(force=True), rows.numpy(force=True), *tables)
        return torch.from_numpy(said).to(logits.device)

    def joined_by(self, counts: NDArray[np.int64]) -> FittedCalibrator:
        """The same beside new users: whom it has not met it tells by their vectors, or treats as everybody."""
        return self

    def gather(self, group: Group) -> None:
        """Let the first worker's answer for the users of all: all workers know the maps of all."""
        self.group = ALONE


class Calibrator(ABC):
    """A recipe of a calibrator; `planned` is the share of the planned epochs that is behind us, 1 for a single fit."""

    fitted: ClassVar[type[FittedCalibrator]]  # what `fit` gives

    @abstractmethod
    def fit(
        self,
        examples: Examples,
        *,
        generator: np.random.Generator,
        planned: float = 1.0,
        previous: FittedCalibrator | None = None,
    ) -> FittedCalibrator:
        """The map that fits the examples best; `previous` is where to go on from."""


@dataclass(frozen=True)
class Calibrates:
    """The role of a calibrator in a plan: which role it calibrates, and how."""

    target: Target
    calibrator: Calibrator
    once: bool

    @property
    def fitted(self) -> type[FittedCalibrator]:
        return self.calibrator.fitted

    def fit_on(self, occasion: Occasion, previous: Any) -> FittedCalibrator:
        planned = 1.0 if self.once else occasion.planned
        examples = examples_for(self.target, occasion.view)
        fitted = self.calibrator.fit(examples, generator=occasion.generator, planned=planned, previous=previous)
        fitted.group = occasion.split.group
        return fitted


@torch.no_grad()
def examples_for(target: Target, view: View) -> Examples:
    """Examples from the hold-out, weighted to stand for all pairs.

    Propensity: held-out seen pairs against sampled unseen ones, each for as many cells as it stands for, so that
    the calibrated mean is the true base rate |O|/|D| (as printed, the target would be the hold-out's own rate,
    ten times too small). Imputation: held-out ratings, each weighted by 1 / p. Of several workers all have the
    examples of all.
    """
    if target == "imputation":
        o = view.observed
        return _examples(target, view, [(o, o.ratings, o.inverse_propensity())])
    o, d = view.observed, view.sampled
    seen = torch.full((len(o.users),), o.weight), torch.ones(len(o.users))
    unseen = (1 - d.seen) * d.weight, torch.zeros(len(d.users))
    return _examples(target, view, [(o, seen[1], seen[0]), (d, unseen[1], unseen[0])])


def _examples(target: Target, view: View, parts: list[tuple[RowsView, Tensor, Tensor]]) -> Examples:
    group = view.cast.group
    logits, labels, weights, users = (
        np.concatenate([column.numpy(force=True) for column in columns])
        for columns in zip(*((p.logit(target), y, w, p.users) for p, y, w in parts), strict=True)
    )
    used = weights > 0
    rows = np.unique(users[used])
    vectors = user_vectors(view.cast.players[target], rows)
    columns: tuple[NDArray[Any], ...]
    columns = logits[used], labels[used], weights[used], group.codes(users[used]), vectors, group.codes(rows)
    if not group.alone:
        columns = tuple(np.concatenate(group.gathered(column)) for column in columns)
        order = np.argsort(columns[-1])
        columns = *columns[:-2], columns[-2][order], columns[-1][order]
    logits, labels, weights, users, vectors, codes = columns
    return Examples(
        logits.astype(np.float64),
        labels.astype(np.float64),
        weights.astype(np.float64),
        np.searchsorted(codes, users),
        vectors,
        codes,
    )


def user_vectors(player: Any, users: NDArray[np.int64]) -> NDArray[np.float32]:
    """What tells these users apart, in the player's own words."""
    device = next((value.device for value in player.buffers()), None) if isinstance(player, torch.nn.Module) else None
    vectors: Tensor = player.user_vectors(torch.from_numpy(users).to(device or "cpu"))
    return vectors.numpy(force=True)
