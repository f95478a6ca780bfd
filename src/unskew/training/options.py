"""How to run a fit: what belongs to the run and not to the recipe."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, fields, replace
from typing import Any, get_args

from unskew.data.log import RatingLog
from unskew.data.split import HoldoutBy, Split, holdout_split
from unskew.errors import ParameterError
from unskew.group import ALONE, Group
from unskew.nets.base import Engine

SMALLEST_BATCH, LARGEST_BATCH = 64, 16_384
OF_THE_RUN = ("progress", "checkpoint", "checkpoint_every")  # options that do not change what is learned


def check_device(device: str, engine: str) -> None:
    """Refuse a device that is not there, or on which the engine cannot compute."""
    if device == "cpu":
        return
    if engine == "compiled":
        raise ParameterError(f"engine='compiled' computes on the CPU: give engine='torch' with device={device!r}.")
    import torch

    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        said = str(error).splitlines()[0].rstrip(".")
        raise ParameterError(f"device={device!r} cannot be used here ({said}): give device='cpu'.") from error


@dataclass(frozen=True, kw_only=True)
class Training:
    """Options of the loop.

    `batch_size=None` grows with the square root of the log: the power of two nearest to 4 sqrt(n), between 64 and
    16,384. Training stops when the validation risk has not fallen for `patience` epochs, and the best state is
    restored. `holdout` is the share of the log kept for validation and calibration, drawn over the whole log or, with
    `holdout_by="user"`, from each user; with "last" it is the last ratings of each user in the order of the log.
    `engine="torch"` computes factor nets in plain PyTorch instead of compiled kernels. `progress=None` shows a bar only
    on a terminal.

    `checkpoint` names a folder that the state of the run is written to every `checkpoint_every` steps and after every
    fit and stage, "" for none: the same fit, started again, goes on from there and ends with the same bits. With
    0, states are written as often as takes no more than a twentieth of the time.

    `spread=True` trains one model on all processes that torchrun has started, each with the users that are its own.
    `device` is where plain PyTorch nets compute, such as "cuda".
    """

    max_epochs: int = 200
    patience: int = 6
    batch_size: int | None = None
    holdout: float = 0.1
    holdout_by: HoldoutBy = "global"
    engine: Engine = "compiled"
    progress: bool | None = None
    checkpoint: str = ""
    checkpoint_every: int = 1000
    spread: bool = False
    device: str = "cpu"

    def __post_init__(self) -> None:
        object.__setattr__(self, "checkpoint", os.fspath(self.checkpoint))
        least = {"max_epochs": 1, "patience": 1, "checkpoint_every": 0}
        for name, smallest in least.items():
            if getattr(self, name) < smallest:
                raise ParameterError(f"{name} must be at least {smallest}, not {getattr(self, name)}.")
        if self.batch_size is not None and not 1 <= self.batch_size < 2**31:
            raise ParameterError(f"batch_size must be at least 1 and less than 2^31, or None, not {self.batch_size}.")
        if not 0 < self.holdout < 1:
            raise ParameterError(f"holdout must lie between 0 and 1, not {self.holdout}.")
        if self.engine not in {"compiled", "torch"}:
            raise ParameterError(f"engine must be 'compiled' or 'torch', not {self.engine!r}.")
        check_device(self.device, self.engine)
        if self.holdout_by not in get_args(HoldoutBy):
            raise ParameterError(f"holdout_by must be 'global', 'user' or 'last', not {self.holdout_by!r}.")

    @property
    def group(self) -> Group:
        """The workers that train together."""
        if not self.spread:
            return ALONE
        from unskew.workers import workers

        return workers(self.device)

    @property
    def lasting(self) -> Training:
        """The same options but for those that change nothing of what is learned, which are the usual ones."""
        usual: dict[str, Any] = {setting.name: setting.default for setting in fields(self)}
        return replace(self, **{name: usual[name] for name in OF_THE_RUN})

    def split(self, log: RatingLog, seed: int) -> Split:
        """Which rows of the log are trained on and which are held out."""
        return holdout_split(log, self.holdout, by=self.holdout_by, seed=seed)

    def inside(self, name: str) -> Training:
        """The same options for a run inside this one, with a folder of its own for its checkpoints."""
        return replace(self, checkpoint=os.path.join(self.checkpoint, name)) if self.checkpoint else self

    def batch_size_for(self, n_rows: int) -> int:
        if self.batch_size is not None:
            return self.batch_size
        nearest = 1 << round(math.log2(4 * math.sqrt(max(n_rows, 1))))
        return min(max(nearest, SMALLEST_BATCH), LARGEST_BATCH)
