"""A method as data: who takes part (roles), who learns from what (updates), in which order (stages)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from unskew.errors import PlanError
from unskew.nets.base import NetRecipe
from unskew.training.checks import MOST_PAIRS_PER_ROW, check_number
from unskew.training.fitted import Fits
from unskew.training.stopping import Flatline, Patience
from unskew.training.view import ErrorFunction, View

Loss = Callable[[View], Tensor]


@dataclass(frozen=True)
class Role:
    """A job in a method: the net that does it and how that net learns.

    `l2` is the weight of l2/2 |row|^2 a reading, None for `l2_factor` times what is usual for the log (see `rules`);
    `clip` is the smallest propensity a role may speak of, None for the log's density; `calibrator` names the role that
    calibrates this one while it rests; `starts_at` is the rate a fresh net predicts; `on` names the role whose tables
    this one's net shares (see `nets.towers`).
    """

    net: NetRecipe | Fits
    learning_rate: float = 0.01
    l2: float | None = 0.0
    clip: float | None = 0.0
    calibrator: str | None = None
    starts_at: Literal["rating", "seen"] = "rating"
    on: str | None = None
    l2_factor: float = 1.0


@dataclass(frozen=True)
class Update:
    """One gradient step a batch: the named roles learn, everyone else is frozen.

    `own_batch` gives the update batches of its own instead of those the others share.
    """

    trains: tuple[str, ...]
    loss: Loss
    own_batch: bool = False


@dataclass(frozen=True)
class Copy:
    """What one role has learned is given to another when the stage begins."""

    source: str
    target: str

    @property
    def trains(self) -> tuple[str, ...]:
        return (self.target,)


@dataclass(frozen=True)
class Fit:
    """A role that fits itself in one go (a propensity, a calibrator): once in the stage, or after every epoch."""

    role: str
    per: Literal["stage", "epoch"] = "stage"

    @property
    def trains(self) -> tuple[str, ...]:
        return (self.role,)


@dataclass(frozen=True)
class Stage:
    """Updates repeated over epochs until the validation risk stops falling; without updates, only copies and fits.

    With a `tolerance` the stage stops as public code does: `validate` is measured on the training rows, and the stage
    ends at the seventh epoch in which it fell by less than this share of itself, as it is then.
    """

    name: str
    updates: tuple[Update, ...] = ()
    fits: tuple[Fit, ...] = ()
    copies: tuple[Copy, ...] = ()
    validate: Loss | None = None
    tolerance: float | None = None

    def stopping(self, patience: int) -> Patience:
        """When to give up, for a run of this patience."""
        return Patience(patience, self.moves) if self.tolerance is None else Flatline(self.tolerance, self.moves)

    @property
    def steps(self) -> tuple[Update | Fit | Copy, ...]:
        return (*self.copies, *self.updates, *self.fits)

    @property
    def moves(self) -> frozenset[str]:
        """The roles that change while this stage runs its epochs."""
        fits = {fit.role for fit in self.fits if fit.per == "epoch"}
        return frozenset(fits | {role for update in self.updates for role in update.trains})


@dataclass(frozen=True)
class Plan:
    """Roles and stages, checked to fit together.

    `error` is e(logit, label), `pairs_per_row` how many pairs are sampled for each rating of a batch.
    """

    roles: Mapping[str, Role]
    stages: tuple[Stage, ...]
    error: ErrorFunction
    pairs_per_row: float = 1.0

    def __post_init__(self) -> None:
        check_number(self, "pairs_per_row", above=0, most=MOST_PAIRS_PER_ROW)
        for stage in self.stages:
            for step in stage.steps:
                for role in step.trains:
                    self._check_known(role, f"stage {stage.name!r} trains")
                    if not isinstance(step, Copy):
                        self._check_way_of_learning(role, by_gradient=isinstance(step, Update))
            for copy in stage.copies:
                self._check_known(copy.source, f"stage {stage.name!r} copies")
        for name, held in self.roles.items():
            for other, what in ((held.calibrator, "is calibrated by"), (held.on, "stands on")):
                if other:
                    self._check_known(other, f"role {name!r} {what}")
        idle = set(self.roles) - {role for stage in self.stages for step in stage.steps for role in step.trains}
        if idle:
            raise PlanError(f"No stage trains or fits {sorted(idle)}; remove the role or add an update for it.")

    def _check_known(self, role: str, what: str) -> None:
        if role not in self.roles:
            raise PlanError(f"The plan's {what} {role!r}, but it has only the roles {sorted(self.roles)}.")

    def _check_way_of_learning(self, role: str, by_gradient: bool) -> None:
        if isinstance(self.roles[role].net, NetRecipe) != by_gradient:
            wanted, held = ("a net", "fits itself") if by_gradient else ("a role that fits itself", "is a net")
            raise PlanError(f"The plan asks for {wanted}, but the role {role!r} {held}.")
