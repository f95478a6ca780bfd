"""A method as data: what fills each role, what learns from which loss, and in which order."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Literal, NamedTuple

import numpy as np

from unskew.data.log import RatingLog
from unskew.data.split import Split
from unskew.errors import DataError, PlanError
from unskew.losses.batch import Loss, View
from unskew.nets.base import NetSpec, Part, PartSpec
from unskew.settings import check_settings, setting
from unskew.training.options import Patience, Training

MOST_PAIRS_PER_ROW = 1_000  # the most that published code takes is some ten


@dataclass(frozen=True, eq=False)
class Given:
    """What a part may look at that fits itself to the log alone, as a propensity does."""

    split: Split
    training: Training
    seed: int
    random_ratings: RatingLog | None = None

    @property
    def log(self) -> RatingLog:
        return self.split.log

    @property
    def rng(self) -> np.random.Generator:
        """A random stream that is the same at every fit of the role."""
        return np.random.default_rng(self.seed)


@dataclass(frozen=True, eq=False, kw_only=True)
class FitContext(Given):
    """All that a part which fits itself may look at.

    `view` shows every role on the rows that calibrators fit (held-out ones, or those of training if the role that is
    calibrated answers out of fold), `holdout` on those that judge, `train` on the training rows; `calibrates` is the
    role that this one calibrates, if it does; `planned` is the share of the planned epochs that is over, 1 where it is
    fitted once; `previous` is what filled this role before.
    """

    view: View
    holdout: View
    train: View
    calibrates: str = ""
    planned: float = 1.0
    previous: Part | None = None


def refuse_listed(part: PartSpec, log: RatingLog) -> None:
    """Refuse a part that counts over all pairs where answers are wanted over the rows of a file."""
    if part.needs_all_pairs and log.listed is not None:
        raise DataError(
            f"{type(part).__name__} counts over all users and items, and this log lists the rows that could be seen: "
            "take Factors() or Uniform(), or leave seen= out."
        )


class FitSpec(PartSpec):
    """Settings of a part that fits itself in one go: a propensity, a calibrator, a Bayesian model."""

    @abstractmethod
    def fit_in(self, context: FitContext) -> Part:
        """Return the fitted part."""


class Role(NamedTuple):
    """A job in a method: what fills it and how that learns.

    `l2` is the weight of l2/2 |row|^2, None for `l2_factor` times what the rule gives for the log; `clip` is the
    smallest propensity that weights are made of, None for the log's density; `calibrated_by` names the role that
    calibrates this one at rest; `starts_at` is the rate that a new net predicts; `shares_with` names the role that owns
    the vectors of this one's net.
    """

    part: PartSpec
    rate: float = 0.01
    l2: float | None = 0.0
    clip: float | None = 0.0
    calibrated_by: str = ""
    starts_at: Literal["rating", "seen"] = "rating"
    shares_with: str = ""
    l2_factor: float = 1.0


class Update(NamedTuple):
    """The named roles learn from a loss, times a weight; all others are at rest."""

    trains: tuple[str, ...]
    loss: Loss
    weight: float = 1.0


Step = tuple[Update, ...]  # all read the same logits, then all that they train move once


def turns(**losses: Loss) -> tuple[Step, ...]:
    """Return a step for each role, which learns in it from a loss of its own."""
    return tuple((Update((role,), loss),) for role, loss in losses.items())


class Stage(NamedTuple):
    """Steps on every batch, repeated over epochs until the validation risk stops falling.

    A stage without steps fits its `fits` once, one with steps after each epoch. Of the two nets of each of its `copies`
    the second is given what the first has learned when the stage begins. With `own_batches` each step draws
    batches of its own instead of all taking turns on the same one. `stopping` makes the rule by which it ends.
    """

    name: str
    steps: tuple[Step, ...] = ()
    fits: tuple[str, ...] = ()
    copies: tuple[tuple[str, str], ...] = ()
    validate: Loss | None = None
    own_batches: bool = False
    stopping: Callable[[int], Patience] = Patience

    @property
    def updates(self) -> Iterator[Update]:
        return (update for step in self.steps for update in step)

    @property
    def trains(self) -> tuple[str, ...]:
        """The roles that learn by steps, in order."""
        return tuple(dict.fromkeys(role for update in self.updates for role in update.trains))

    def moves(self, roles: Mapping[str, Role]) -> frozenset[str]:
        """Name roles that change while its epochs run: trained, sharing vectors with those, or fitted after each."""
        owners = {roles[role].shares_with or role for role in self.trains}
        sharing = {name for name, role in roles.items() if (role.shares_with or name) in owners}
        return frozenset(sharing | set(self.fits if self.steps else ()))


@dataclass(frozen=True)
class Plan:
    """Roles and stages, checked to fit together; `error` names e, `pairs_per_row` pairs are sampled for each rating.

    Losses that read no sampled pairs need none, and their plan says 0.

    A part that fits itself and that no stage fits has a stage of its own, before the first that would train it or
    before all others: updates that train nothing else are left out, and `notes` says so.
    """

    roles: Mapping[str, Role]
    stages: tuple[Stage, ...]
    error: str = "log"
    pairs_per_row: float = setting(1.0, least=0, most=MOST_PAIRS_PER_ROW)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_settings(self)
        used = [(f"stage {each.name!r} uses", {*each.trains, *each.fits, *chain(*each.copies)}) for each in self.stages]
        for name, role in self.roles.items():
            used.append((f"role {name!r} is calibrated by", {role.calibrated_by or name}))
            used.append((f"role {name!r} shares vectors with", {role.shares_with or name}))
        for what, roles in used:
            if unknown := sorted(roles - self.roles.keys()):
                raise PlanError(f"The plan's {what} {unknown[0]!r}, but it has only the roles {sorted(self.roles)}.")
        self._fit_before()
        for stage in self.stages:
            for wanted, verb, names in ((NetSpec, "trains", stage.trains), (FitSpec, "fits", stage.fits)):
                for name in names:
                    if not isinstance(self.roles[name].part, wanted):
                        held = type(self.roles[name].part).__name__
                        raise PlanError(f"Stage {stage.name!r} {verb} the role {name!r}, which {held} does not allow.")
        busy = {role for stage in self.stages for role in (*stage.trains, *stage.fits)}
        busy |= {role.shares_with for role in self.roles.values()}
        if idle := sorted(set(self.roles) - busy):
            raise PlanError(f"No stage trains or fits {idle}; remove the role or add an update for it.")

    def _fit_before(self) -> None:
        """Give parts that fit themselves, and that no stage fits, a stage of their own."""
        alone = [name for name, role in self.roles.items() if isinstance(role.part, FitSpec)]
        fitted = {name for stage in self.stages for name in stage.fits}
        trained = {name for stage in self.stages for name in stage.trains}
        others = fitted | trained | {role.calibrated_by for role in self.roles.values()}
        stages = [Stage(name, fits=(name,)) for name in alone if name not in others]
        notes = list(self.notes)
        for stage in self.stages:
            ready = sorted(set(alone) & set(stage.trains))
            stages += [Stage(name, fits=(name,)) for name in ready if name not in fitted]
            notes += [f"The {name} is fitted before stage {stage.name!r} and does not learn in it." for name in ready]
            fitted |= set(ready)
            steps = (tuple(update for update in step if not {*update.trains} <= {*ready}) for step in stage.steps)
            stages.append(stage._replace(steps=tuple(filter(None, steps))))
        object.__setattr__(self, "stages", tuple(stages))
        object.__setattr__(self, "notes", tuple(notes))
