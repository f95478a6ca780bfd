"""How to run a fit: what belongs to the run and not to the recipe."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from unskew.errors import ParameterError
from unskew.nets.base import Engine

SMALLEST_BATCH, LARGEST_BATCH = 64, 16_384


@dataclass(frozen=True, kw_only=True)
class Training:
    """Options of the loop.

    `batch_size=None` grows with the square root of the log: the power of two nearest to 8 sqrt(n), between 64 and
    16,384. Training stops when the validation risk has not fallen for `patience` epochs, and the best state is
    restored. `holdout` is the share of the log kept for validation and calibration, drawn over the whole log or,
    with `holdout_by="user"`, from each user. `engine="torch"` computes factor nets in plain PyTorch instead of compiled
    kernels. `progress=None` shows a bar only on a terminal.
    """

    max_epochs: int = 200
    patience: int = 6
    batch_size: int | None = None
    holdout: float = 0.1
    holdout_by: Literal["global", "user"] = "global"
    engine: Engine = "compiled"
    progress: bool | None = None

    def __post_init__(self) -> None:
        for name in ("max_epochs", "patience"):
            if getattr(self, name) < 1:
                raise ParameterError(f"{name} must be at least 1, not {getattr(self, name)}.")
        if self.batch_size is not None and self.batch_size < 1:
            raise ParameterError(f"batch_size must be at least 1 or None, not {self.batch_size}.")
        if not 0 < self.holdout < 1:
            raise ParameterError(f"holdout must lie between 0 and 1, not {self.holdout}.")
        if self.engine not in {"compiled", "torch"}:
            raise ParameterError(f"engine must be 'compiled' or 'torch', not {self.engine!r}.")
        if self.holdout_by not in {"global", "user"}:
            raise ParameterError(f"holdout_by must be 'global' or 'user', not {self.holdout_by!r}.")

    def batch_size_for(self, n_rows: int) -> int:
        if self.batch_size is not None:
            return self.batch_size
        nearest = 1 << round(math.log2(8 * math.sqrt(max(n_rows, 1))))
        return min(max(nearest, SMALLEST_BATCH), LARGEST_BATCH)
