"""What a role has learned as named arrays, and the role built from them again.

A fitted role takes part by declaration. Its class names in `stored` those arguments of its constructor that it keeps
under the same names: arrays, numbers, a list of nets of the architecture `recipe.net`, a role fitted by the recipe's
setting of that name, or something whose class it `holds`, with `arrays()` and `from_arrays(arrays)`. The recipe that
fits it names the class as its `fitted`. A class that must keep something else has `arrays()`, which may answer None for
what is not data, and the class method `from_arrays(arrays, recipe, log)`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from unskew.data.log import RatingLog
from unskew.errors import ParameterError
from unskew.nets.base import Catalogue, Engine, Net, NetRecipe

Arrays = dict[str, NDArray[Any]]


def arrays_of(player: Any, recipe: Any) -> Arrays | None:
    """All that a player has learned; None if its recipe could not build it again from arrays."""
    if isinstance(player, Net):
        return _net_arrays(player)
    if getattr(recipe, "fitted", None) is not type(player):
        return None
    if hasattr(player, "arrays"):
        own: Arrays | None = player.arrays()
        return own
    return None if getattr(player, "stored", None) is None else _stored(player, recipe)


def player_from(recipe: Any, arrays: Arrays, log: RatingLog, trunk: Any = None) -> Any:
    """The player that `recipe` had become on `log` when these were its arrays; `trunk` is the net it stands on."""
    if isinstance(recipe, NetRecipe):
        return _net(recipe, arrays, log, trunk)
    cls = recipe.fitted
    if hasattr(cls, "from_arrays"):
        return cls.from_arrays(arrays, recipe, log)
    _check_names({name.split("/")[0] for name in arrays}, cls.stored, cls.__name__)
    return cls(**{name: _argument(name, arrays, recipe, log, cls) for name in cls.stored})


def prefixed(prefix: str, arrays: Mapping[str, NDArray[Any]]) -> Arrays:
    """The same arrays, called prefix/name."""
    return {f"{prefix}/{name}": array for name, array in arrays.items()}


def under(prefix: str, arrays: Mapping[str, NDArray[Any]]) -> Arrays:
    """The arrays called prefix/name, by name: the reverse of `prefixed`."""
    start = f"{prefix}/"
    return {name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)}


def _stored(player: Any, recipe: Any) -> Arrays | None:
    arrays: Arrays = {}
    for name in player.stored:
        value = getattr(player, name)
        if isinstance(value, list):
            for number, net in enumerate(value):
                arrays |= prefixed(f"{name}/{number}", _net_arrays(net))
        elif name in getattr(player, "holds", ()):
            arrays |= prefixed(name, value.arrays())
        elif hasattr(part := getattr(recipe, name, None), "fitted"):
            inner = arrays_of(value, part)
            if inner is None:
                return None
            arrays |= prefixed(name, inner)
        else:
            arrays[name] = np.asarray(value)
    return arrays


def _argument(name: str, arrays: Arrays, recipe: Any, log: RatingLog, cls: Any) -> Any:
    if name in arrays:
        return arrays[name] if arrays[name].ndim else arrays[name].item()
    inside = under(name, arrays)
    if name in getattr(cls, "holds", ()):
        return cls.holds[name].from_arrays(inside)
    if hasattr(part := getattr(recipe, name, None), "fitted"):
        return player_from(part, inside, log)
    numbers = sorted({int(key.split("/")[0]) for key in inside})
    return [_net(recipe.net, under(str(number), inside), log) for number in numbers]


def _net_arrays(net: Net) -> Arrays:
    """What a net has learned, and by which engine it speaks, because another one rounds differently."""
    learned = {name: value.numpy() for name, value in net.state_dict().items()}
    return {**learned, "compiled": np.asarray(getattr(net, "engine", "compiled") == "compiled")}


def _net(recipe: NetRecipe, arrays: Arrays, log: RatingLog, trunk: Any = None) -> Net:
    """A net of this architecture that has learned these arrays; its starting values are overwritten."""
    engine: Engine = "compiled" if arrays.get("compiled", True) else "torch"
    catalogue = Catalogue(log.n_users, log.n_items, engine=engine)
    net = recipe.build(catalogue, torch.Generator()) if trunk is None else recipe.on(trunk, catalogue)
    wanted, owner = _net_arrays(net), type(net).__name__
    _check_names(arrays, wanted, owner)
    for name, array in sorted(arrays.items()):
        kind, right = (array.dtype, array.shape), (wanted[name].dtype, wanted[name].shape)
        if kind != right:
            raise ParameterError(
                f"{name} of {owner} must be {right[0]} of shape {right[1]}, not {kind[0]} of shape {kind[1]}."
            )
    net.load_state_dict({name: torch.from_numpy(arrays[name]) for name in net.state_dict()})
    return net


def _check_names(given: Collection[str], wanted: Collection[str], owner: str) -> None:
    if set(given) != set(wanted):
        raise ParameterError(f"{owner} consists of the arrays {sorted(wanted)}, not {sorted(given)}.")
