"""The whole state of a loop as plain data and arrays, and the loop put back into it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from unskew.errors import ParameterError
from unskew.files.arrays import Arrays, prefixed, under
from unskew.files.plain import Plain
from unskew.nets.base import Net
from unskew.training.checkpoint import Place, fitted_from, put_back, state_of
from unskew.training.history import Epoch, History
from unskew.training.stopping import Patience

if TYPE_CHECKING:
    from unskew.training.loop import Loop

_PLAIN = Plain({}, (History, Epoch), {})
Content = dict[str, Any]


def state_of_loop(loop: Loop) -> tuple[Content, Arrays]:
    """Roles with their moments, what is known of users, the best state so far, generators, history and place."""
    arrays: Arrays = {}
    for role, player in loop.players.items():
        arrays |= prefixed(f"player/{role}", _state(loop, role, player) or {})
    for name, tables in loop.cast.known.items():
        arrays |= prefixed(f"known/{name}", {str(number): table for number, table in enumerate(tables)})
    content: Content = {
        "place": asdict(loop.place),
        "generator": loop.generator.bit_generator.state,
        "history": _PLAIN.write(loop.history),
        "roles": list(loop.players),
        "known": {name: len(tables) for name, tables in loop.cast.known.items()},
        "again": loop.fitted_again,
        "patience": None,
    }
    if loop.patience is not None:
        kept = loop.patience
        content["patience"] = {"risk": _PLAIN.write(kept.best_risk), "best": kept.best_epoch, "epoch": kept.epoch}
        content["patience"]["roles"] = list(kept.best)
        for role, best in kept.best.items():
            held = {of: value.numpy(force=True) for of, value in best.items()} if isinstance(best, dict) else None
            arrays |= prefixed(f"best/{role}", held or _state(loop, role, best) or {})
    return content, arrays


def put_back_loop(loop: Loop, content: Content, arrays: Arrays) -> None:
    """The reverse of `state_of_loop`, on a loop of the same run that has just been built."""
    for role in content["roles"]:
        state = under(f"player/{role}", arrays)
        if role in content["again"]:
            loop.players[role] = _fitted_again(loop, role, content["again"][role])
        elif isinstance(loop.players.get(role), Net):
            put_back(loop.players[role], state)
        else:
            loop.players[role] = _fitted(loop, role, state)
    for name, count in content["known"].items():
        tables = under(f"known/{name}", arrays)
        loop.cast.known[name] = tuple(tables[str(number)] for number in range(count))
    loop.generator.bit_generator.state = content["generator"]
    loop.history = _PLAIN.read(History, content["history"])
    loop.place, loop.fitted_again = Place(**content["place"]), content["again"]
    if content["patience"] is not None:
        loop.patience = _patience(loop, content["patience"], arrays)


def _state(loop: Loop, role: str, player: Any) -> Arrays | None:
    state = state_of(player, loop.plan.roles[role].net)
    if state is None and role not in loop.fitted_again:
        raise ParameterError(
            f"The {role} cannot be kept in a checkpoint: {type(player).__name__} does not say what it stores."
        )
    return state


def _fitted(loop: Loop, role: str, state: Arrays) -> Any:
    """A role that fitted itself, as one of the same workers."""
    player = fitted_from(loop.plan.roles[role].net, state, loop.split.log)
    if hasattr(player, "group"):
        player.group = loop.group
    return player


def _fitted_again(loop: Loop, role: str, generator: Any) -> Any:
    """A role that is a function and no data, made once more from the generator as it was."""
    own = np.random.default_rng()
    own.bit_generator.state = generator
    recipe: Any = loop.plan.roles[role].net
    return recipe.fit_on(loop.occasion(own, planned=0.0), None)


def _patience(loop: Loop, told: Content, arrays: Arrays) -> Patience:
    patience = loop.plan.stages[loop.place.stage].stopping(loop.training.patience)
    patience.best_risk, patience.best_epoch = _PLAIN.read(float, told["risk"]), told["best"]
    patience.epoch = told["epoch"]
    for role in told["roles"]:
        state = under(f"best/{role}", arrays)
        if isinstance(loop.players[role], Net):
            patience.best[role] = {name: torch.from_numpy(array) for name, array in state.items()}
        else:
            patience.best[role] = _fitted(loop, role, state)
    return patience
