"""Watches a plan while the loop carries it out: which roles move, and by whose update."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from unskew.nets.base import Net
from unskew.training.plan import Fit, Loss, Plan, Stage, Update
from unskew.training.view import View

NOBODY: frozenset[str] = frozenset()
Players = Mapping[str, Any]


class Look(NamedTuple):
    """A moment at which all roles were looked at: just after the loss of an update, or a validation risk."""

    stage: int = -1
    update: int | None = None


class Watch:
    """Looks at all roles before and after every loss and every validation risk of `plan`, the plan to carry out.

    What moves inside a loss, or after it without being named by its update, is refused at once; `finish` refuses
    an update that never moved a role it names. What the loop does between two losses it may do: fits and copies
    move their roles at the turn of an epoch or stage, and the best state of a stage is restored.
    """

    def __init__(self, owner: str, plan: Plan) -> None:
        self.plan = replace(plan, stages=tuple(self._watched(n, stage) for n, stage in enumerate(plan.stages)))
        self._owner, self._stages = owner, plan.stages
        self._states: dict[str, State] = {}
        self._last = Look()
        self._idle = {
            (Look(n, k), role)
            for n, stage in enumerate(plan.stages)
            for k, update in enumerate(stage.updates)
            for role in update.trains
        }

    def _watched(self, number: int, stage: Stage) -> Stage:
        updates = (replace(u, loss=self._spy(Look(number, k), u.loss)) for k, u in enumerate(stage.updates))
        validate = None if stage.validate is None else self._spy(Look(number), stage.validate)
        return replace(stage, updates=tuple(updates), validate=validate)

    def _spy(self, look: Look, loss: Loss) -> Loss:
        def spy(view: View) -> Tensor:
            self._settle(view.cast.players, look.stage)
            value = loss(view)
            self._last = look
            self._refuse_moves(view.cast.players, allowed=NOBODY)
            return value

        return spy

    def finish(self, players: Players) -> None:
        """The last look, when training is over and all have let go of what only learning needs."""
        rested = {role: state_of(players[role]).remembered for role in self._states}
        self._states = {role: State(state.learned, rested[role]) for role, state in self._states.items()}
        self._settle(players, len(self._stages))
        for look, role in sorted(self._idle):
            raise AssertionError(
                f"{self._owner}: an update moves every role it names, but {self._named(look)} never moved {role!r}."
            )

    def _settle(self, players: Players, stage: int) -> None:
        """Judge what has moved since the last look, by the update of that look or by the loop on its way here."""
        trained = frozenset(self._trains(self._last))
        for role in self._states.keys() - trained:
            if isinstance(players[role], Net):
                players[role].step(0.0, 0.0)  # shows a gradient left behind, which the role's next step would take in
        self._refuse_moves(players, allowed=trained | self._moved_by_the_loop(stage))
        states = {role: state_of(player) for role, player in players.items()}
        moved = {role for role in trained if states[role].learned != self._states[role].learned}
        self._idle -= {(self._last, role) for role in moved}
        self._states = states

    def _moved_by_the_loop(self, stage: int) -> frozenset[str]:
        if stage == self._last.stage:
            steps = self._stages[stage].steps
            return _roles(step for step in steps if isinstance(step, Fit) and step.per == "epoch")
        restored = self._stages[self._last.stage].moves if self._states else NOBODY
        passed = (step for later in self._stages[self._last.stage + 1 : stage + 1] for step in later.steps)
        return restored | _roles(step for step in passed if not isinstance(step, Update))

    def _refuse_moves(self, players: Players, allowed: frozenset[str]) -> None:
        for role, state in self._states.items():
            if role not in allowed and state_of(players[role]) != state:
                raise AssertionError(
                    f"{self._owner}: an update moves only the roles it names, but {self._named(self._last)} moved "
                    f"{role!r} or left it a gradient."
                )

    def _trains(self, look: Look) -> tuple[str, ...]:
        return () if look.update is None else self._stages[look.stage].updates[look.update].trains

    def _named(self, look: Look) -> str:
        roles = " and ".join(map(repr, self._trains(look)))
        what = f"the update of {roles}" if roles else "the validation risk"
        return f"{what} in stage {self._stages[look.stage].name!r}"


class State(NamedTuple):
    """All numbers that a player holds, as hashes: what it has learned, and what it remembers of its steps."""

    learned: bytes
    remembered: bytes


def state_of(player: Any) -> State:
    """The state of a net, or of a role that fits itself: its arrays, numbers and nets."""
    held = [player] if isinstance(player, torch.nn.Module) else _flat(vars(player).values())
    learned, remembered = hashlib.blake2b(), hashlib.blake2b()
    for value in held:
        if isinstance(value, torch.nn.Module):
            for tensor in value.state_dict().values():
                learned.update(tensor.numpy().tobytes())
            for tensor in value.buffers():
                remembered.update(tensor.numpy().tobytes())
        elif isinstance(value, (np.ndarray, Tensor, float, int)):
            learned.update(np.asarray(value).tobytes())
    return State(learned.digest(), remembered.digest())


def _flat(values: Iterable[Any]) -> list[Any]:
    return [inner for value in values for inner in (value if isinstance(value, (list, tuple)) else (value,))]


def _roles(steps: Iterable[Any]) -> frozenset[str]:
    return frozenset(role for step in steps for role in step.trains)
