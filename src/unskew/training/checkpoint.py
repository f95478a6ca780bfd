"""A training run in a file: an interrupted one goes on from there and ends with the same bits."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes
from torch import nn

from unskew.data.log import RatingLog
from unskew.errors import ModelFileError, ParameterError
from unskew.files.arrays import Arrays, arrays_of, player_from, prefixed, under
from unskew.files.atomic import reason, replace_file
from unskew.files.lock import locked
from unskew.group import ALONE, Group
from unskew.nets.base import Net
from unskew.nets.table import Table

# States, runs inside the run, what was never finished.
OURS = re.compile(r"state-|\d+\.\d+\.|features-|member\.|trade-off-|naive$|\.unskew-")
FORMAT = "unskew checkpoint 1"
USUAL_STEPS, LARGEST_SHARE = 1000, 0.05  # between two states, and of the time that writing them may take
REMEMBERED = ("first_moment", "second_moment", "steps", "inherited")  # of a table, beside its values


@dataclass
class Place:
    """Where in its plan a run stands: what of the stage, of the epoch and of the turn is done.

    `totals` are the sums of the turn's losses so far, `losses` those of the epoch's turns that are over, and `feed` is
    the generator of batches as it was when the turn began: drawing again what is done brings it back to its place.
    """

    stage: int = 0
    begun: bool = False
    fits: int = 0
    epoch: int = 0
    turn: int = 0
    batch: int = 0
    totals: list[float] = field(default_factory=list)
    losses: dict[str, float] = field(default_factory=dict)
    feed: Any = None
    seconds: float = 0.0


class Checkpoint:
    """The states of one run in a folder, the last two in turn: a state is one safetensors file with JSON in its head.

    A state carries the identity of its run and a SHA-256 of all it holds. Runs inside the run, such as that of a
    propensity, have folders inside the folder. Each of several workers writes its own states, all at the same steps:
    nobody is more than one state ahead, so of the last two there is always one that all have.
    """

    _not_before: ClassVar[float] = 0.0  # in this process, where it is nobody's wish to have a state every so many steps

    def __init__(self, folder: str, every: int, identity: Mapping[str, str], group: Group = ALONE) -> None:
        self.folder, self.every, self.group = Path(folder), every or USUAL_STEPS, group
        self._sparing = every == 0 and group.alone  # several must save at the same steps, whatever the time
        self.identity = {"number of workers": str(group.size), **identity}
        self.number = 0  # of the last state
        self._steps = 0

    def due(self, steps: int) -> bool:
        """Count steps; whether it is time for a new state."""
        self._steps += steps
        return self._steps >= self.every and self.affordable

    @property
    def affordable(self) -> bool:
        """Whether a state may be written now: also runs inside runs, however short, add up to little time."""
        return not self._sparing or time.monotonic() >= Checkpoint._not_before

    def save(self, content: Mapping[str, Any], arrays: Arrays) -> None:
        began = time.monotonic()
        self.number, self._steps = self.number + 1, 0
        head = {"format": FORMAT, "number": self.number, "identity": self.identity, "content": content}
        text, solid = json.dumps(head), {name: np.asarray(array, order="C") for name, array in arrays.items()}
        data = to_bytes(solid, {"unskew": text, "sha256": _digest(text, solid)})
        try:
            replace_file(self._path(self.number), data)
        except OSError as error:
            raise ModelFileError(
                f"The checkpoint {self.folder} cannot be written: {reason(error)}; the one before is still there."
            ) from error
        ended = time.monotonic()
        Checkpoint._not_before = ended + (ended - began) / LARGEST_SHARE

    def load(self) -> tuple[dict[str, Any], Arrays] | None:
        """The last state of this very run; None if there is none yet, refused if it is another's or damaged."""
        found = [self._read(path) for path in (self._path(0), self._path(1)) if path.exists()]
        by_number = {head["number"]: (head, arrays) for head, arrays in found}
        for head, _ in found:
            self._refuse_another(head["identity"])
        common = -int(self.group.largest(-max(by_number, default=0)))
        if common == 0:
            return None
        if common not in by_number:
            raise ModelFileError(f"The checkpoint {self.folder} has parts of different runs: remove it to start anew.")
        self.number = common
        head, arrays = by_number[common]
        return head["content"], arrays

    def _path(self, number: int) -> Path:
        return self.folder / f"state-{self.group.rank}-{number % 2}.safetensors"

    def _read(self, path: Path) -> tuple[dict[str, Any], Arrays]:
        try:
            with safe_open(path, "numpy") as file:
                told = file.metadata() or {}
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (SafetensorError, OSError, ValueError):
            told, arrays = {}, {}
        text = told.get("unskew", "")
        if told.get("sha256") != _digest(text, arrays):
            raise ModelFileError(
                f"The checkpoint {path} is truncated, altered or none of unskew's: remove {self.folder} to start anew."
            )
        head: dict[str, Any] = json.loads(text)
        if head["format"] != FORMAT:
            raise ModelFileError(f"The checkpoint {path} is an {head['format']!r}, and this unskew reads {FORMAT!r}.")
        return head, arrays

    def _refuse_another(self, stated: Mapping[str, str]) -> None:
        for name, value in self.identity.items():
            if stated.get(name) != value:
                shown = len(value) < 64
                but = f": {stated.get(name)}, not {value}" if shown else ""
                raise ParameterError(
                    f"The checkpoint {self.folder} is of a run with another {name}{but}; "
                    "run that one again, remove the folder or choose another."
                )


@contextmanager
def reserved(folder: str, group: Group = ALONE) -> Iterator[None]:
    """A folder for the states of one run, which nobody else writes to while the block runs; "" is no folder."""
    if not folder:
        yield
        return
    place = Path(folder)
    refuse_foreign(place)
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ParameterError(f"The checkpoint folder {folder} cannot be made: {reason(error)}.") from error
    with locked(place, place / f".unskew-{group.rank}.lock"):
        yield


def refuse_foreign(folder: Path) -> None:
    """Refuse a folder that holds anything but checkpoints: it may be removed when the run is over."""
    foreign = [] if not folder.is_dir() else [path.name for path in folder.iterdir() if not OURS.match(path.name)]
    if foreign:
        raise ParameterError(
            f"{folder} holds {min(foreign)!r}, which is no part of a checkpoint: give another folder for checkpoints."
        )


def _digest(text: str, arrays: Arrays) -> str:
    sha = hashlib.sha256(text.encode())
    for name, array in sorted(arrays.items()):
        sha.update(f"{name} {array.dtype} {array.shape}".encode())
        sha.update(np.ascontiguousarray(array).data)
    return sha.hexdigest()


def state_of(player: Any, recipe: Any) -> Arrays | None:
    """All that a player has learned and remembers of its steps; None if it does not say what it stores."""
    if isinstance(player, Net):
        return {name: buffer.numpy(force=True).copy() for name, buffer in player.named_buffers()}
    arrays = arrays_of(player, recipe)
    return None if arrays is None else arrays | _remembered(player)


def put_back(net: Net, arrays: Arrays) -> None:
    """Give a net the state that `state_of` found."""
    for name, buffer in net.named_buffers():
        buffer.copy_(torch.from_numpy(arrays[name]))


def fitted_from(recipe: Any, arrays: Arrays, log: RatingLog) -> Any:
    """The role that fitted itself, as it was when `state_of` found these arrays."""
    learned = {name: array for name, array in arrays.items() if not name.startswith("remembered/")}
    player = player_from(recipe, learned, log)
    for place, table in _tables(player):
        for name, array in under(f"remembered/{place}", arrays).items():
            getattr(table, name).copy_(torch.from_numpy(array))
    return player


def _remembered(player: Any) -> Arrays:
    arrays: Arrays = {}
    for place, table in _tables(player):
        if bool(table.steps.any()):
            held = {name: getattr(table, name).numpy(force=True).copy() for name in REMEMBERED}
            arrays |= prefixed(f"remembered/{place}", held)
    return arrays


def _tables(player: Any) -> Iterator[tuple[str, Table]]:
    """The tables of all modules that a fitted role holds, each with a name for its place."""
    for name, value in vars(player).items():
        for number, module in enumerate(value if isinstance(value, list) else [value]):
            if isinstance(module, nn.Module):
                for inner, table in module.named_modules():
                    if isinstance(table, Table):
                        yield f"{name}.{number}.{inner}", table
