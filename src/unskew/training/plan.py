"""A method as data: who takes part (roles), who learns from what (updates), in which order (stages)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from unskew.errors import PlanError
from unskew.nets.base import NetRecipe
from unskew.training.fitted import Fits
from unskew.training.view import ErrorFunction, View

Loss = Callable[[View], Tensor]


@dataclass(frozen=True)
class Role:
    """A job in a method: the net that does it and how that net learns.

    `clip` is the smallest propensity a role may speak of, None for the log's density; `calibrator` names the role that
    calibrates this one while it rests; `starts_at` is the rate a fresh net predicts.
    """

    net: NetRecipe | Fits
    learning_rate: float = 0.01
    l2: float = 0.0
    clip: float | None = 0.0
    calibrator: str | None = None
    starts_at: Literal["rating", "seen"] = "rating"


@dataclass(frozen=True)
class Update:
    """One gradient step a batch: the named roles learn, everyone else is frozen."""

    trains: tuple[str, ...]
    loss: Loss


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
    """Updates repeated over epochs until the validation risk stops falling; without updates, only fits."""

    name: str
    updates: tuple[Update, ...] = ()
    fits: tuple[Fit, ...] = ()
    validate: Loss | None = None

    @property
    def steps(self) -> tuple[Update | Fit, ...]:
        return (*self.updates, *self.fits)

    @property
    def moves(self) -> frozenset[str]:
        """The roles that change while this stage runs its epochs."""
        once = {fit for fit in self.fits if fit.per == "stage"}
        return frozenset(role for step in self.steps if step not in once for role in step.trains)


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
        for stage in self.stages:
            for step in stage.steps:
                for role in step.trains:
                    self._check_known(role, f"stage {stage.name!r} trains")
                    self._check_way_of_learning(role, by_gradient=isinstance(step, Update))
        for name, held in self.roles.items():
            if held.calibrator:
                self._check_known(held.calibrator, f"role {name!r} is calibrated by")
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
