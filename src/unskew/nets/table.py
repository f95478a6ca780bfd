"""Rows that learn one by one: the only kind of trainable parameter in unskew."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from unskew.group import ALONE, Group, interleaved
from unskew.nets.sharing import with_others

FIRST_DECAY, SECOND_DECAY, EPSILON = 0.9, 0.999, 1e-8
ROWS_AT_ONCE = 1 << 16


class Read(NamedTuple):
    """The rows read since the last step: which, how often each, its gradient, and how many readings there were."""

    touched: Tensor
    counts: Tensor
    gradient: Tensor
    readings: float


class Table(nn.Module):
    """A matrix of which a step touches only the rows that were read.

    Reading rows while gradients are on hands out a fresh leaf and remembers it; `step` sums the gradients of
    each touched row and moves that row by Adam (Kingma & Ba 2015) with moments and step count of its own, so
    the cost of a step depends on the batch and not on the number of users or items.

    L2 is counted per reading: it adds `l2 / 2 * mean(|row|^2)` over the rows read since the last step, so its
    strength does not depend on the batch size. `decay` says what share of it each column takes; None is none.

    A table `by_user` has a row for each user. Where several workers train together, each has the rows of its own users;
    all other tables are the same on all of them, and a step adds up what all have read.
    """

    value: Tensor
    first_moment: Tensor
    second_moment: Tensor
    steps: Tensor
    inherited: Tensor
    decay: Tensor | None

    def __init__(self, value: Tensor, decay: Tensor | None = None, *, by_user: bool = False) -> None:
        super().__init__()
        self.by_user, self.group = by_user, ALONE
        self.register_buffer("value", value)
        self.register_buffer("decay", decay, persistent=False)
        self.register_buffer("first_moment", unwritten_zeros(value), persistent=False)
        self.register_buffer("second_moment", unwritten_zeros(value), persistent=False)
        steps = torch.zeros(len(value), dtype=torch.float64, device=value.device)
        self.register_buffer("steps", steps, persistent=False)
        inherited = torch.zeros(len(value), dtype=torch.bool, device=value.device)
        self.register_buffer("inherited", inherited, persistent=False)
        self._read: list[tuple[Tensor, Tensor]] = []

    def rows(self, index: Tensor) -> Tensor:
        """The rows at `index`; the index -1 reads the average row, which stands for somebody unknown."""
        rows = self.value[index]
        if torch.is_grad_enabled():
            rows.requires_grad_()
            self._read.append((index, rows))
        elif bool((index < 0).any()):
            rows = torch.where((index < 0).unsqueeze(1), self.value.mean(0), rows)
        return rows

    def every(self) -> Tensor:
        """All rows: how small dense layers read their weights."""
        return self.rows(torch.arange(len(self.value), device=self.value.device))

    @property
    def whole(self) -> Tensor:
        """All rows as they are read."""
        return self.value

    def take_last(self, rows: Tensor) -> None:
        """Let the last rows be read as these."""
        self.value[-len(rows) :] = rows

    @property
    def learned(self) -> Tensor:
        """Which rows have learned anything, here or in a net whose state was taken over."""
        return (self.steps > 0) | self.inherited

    def settle(self) -> int:
        """Give rows that never learned anything the average of those that did, instead of their random start.

        Says how many there were. Small tables whose rows are all read at once have none.
        """
        learned = self.learned
        everybody = self.group if self.by_user else ALONE
        missing, known = map(int, everybody.total([int((~learned).sum()), int(learned.sum())]))
        total = everybody.total(self._sum(learned))
        if missing and known:
            self.value[~learned] = torch.from_numpy(total / known).to(self.value)
        return missing

    def _sum(self, learned: Tensor) -> NDArray[np.float64]:
        """Of the learned rows, without a copy of them all."""
        parts = zip(torch.split(self.value, ROWS_AT_ONCE), torch.split(learned, ROWS_AT_ONCE), strict=True)
        return np.asarray(
            np.sum([rows[which].double().sum(0).numpy(force=True) for rows, which in parts], axis=0), np.float64
        )

    def gather(self, group: Group) -> None:
        """Let the first worker have the rows of all users, to answer and no longer to learn."""
        parts = group.to_first(self.value.numpy(force=True)) if self.by_user else None
        if parts is not None:
            self.value = torch.from_numpy(interleaved(parts)).to(self.value)
            self.steps = self.steps.new_zeros(len(self.value))
            self.inherited = self.inherited.new_zeros(len(self.value))
            self.rest()

    @property
    def state(self) -> tuple[NDArray[Any], ...]:
        """(value, first moment, second moment, steps) as arrays that share memory with the table."""
        return tuple(part.numpy() for part in (self.value, self.first_moment, self.second_moment, self.steps))

    def again(self) -> Table:
        """The same table in memory of its own, to learn on from here."""
        twin = Table(self.value.clone(), self.decay, by_user=self.by_user)
        twin.first_moment, twin.second_moment = self.first_moment.clone(), self.second_moment.clone()
        twin.steps, twin.inherited, twin.group = self.steps.clone(), self.inherited.clone(), self.group
        return twin

    def rest(self) -> None:
        """Let go of what only learning needs; whoever learns again starts Adam anew."""
        self.inherited, self.steps = self.learned, torch.zeros_like(self.steps)
        self.first_moment, self.second_moment = unwritten_zeros(self.value), unwritten_zeros(self.value)

    def joined_by(self, count: int) -> Table:
        """The same table with so many average rows more."""
        newcomers = self.value.mean(0, keepdim=True).expand(count, -1)
        return Table(torch.cat([self.value, newcomers]), self.decay, by_user=self.by_user)

    def step(self, learning_rate: float, l2: float) -> None:
        """Move the rows read since the last step against their gradient, then forget them."""
        if (read := self.read()) is None:
            return
        touched, gradient, row = read.touched, read.gradient, self.value[read.touched]
        if self.decay is not None and l2:
            gradient += self.decay * row * (l2 * read.counts / read.readings).unsqueeze(1)
        self.value[touched] = row - learning_rate * self._direction(touched, gradient)

    def read(self) -> Read | None:
        """What was read since the last step, by all workers, and is forgotten now; None if nothing was."""
        read = [(index, rows.grad) for index, rows in self._read if rows.grad is not None]
        self._read.clear()
        if not read:
            return None
        index = torch.cat([index for index, _ in read])
        touched, place, count = torch.unique(index, return_inverse=True, return_counts=True)
        gradient = self.value.new_zeros((len(touched), self.value.shape[1]))
        gradient.index_add_(0, place, torch.cat([grad for _, grad in read if grad is not None]))
        readings: float = len(index)
        if not self.group.alone:
            readings = float(self.group.total(float(readings)))
            if not self.by_user:
                touched, count, gradient = with_others(self.group, len(self.value), touched, count, gradient)
        return Read(touched, count, gradient, readings)

    def move(self, gradient: Tensor, learning_rate: float) -> None:
        """Move all rows against a gradient that is known already."""
        self.first_moment.lerp_(gradient, 1 - FIRST_DECAY)
        self.second_moment.lerp_(gradient.square(), 1 - SECOND_DECAY)
        self.steps += 1
        step = float(self.steps[0])
        scale = math.sqrt(1 - SECOND_DECAY**step)
        stride = learning_rate * scale / (1 - FIRST_DECAY**step)
        self.value.addcdiv_(self.first_moment, self.second_moment.sqrt().add_(EPSILON * scale), value=-stride)

    def _direction(self, touched: Tensor, gradient: Tensor) -> Tensor:
        first = self.first_moment[touched].lerp_(gradient, 1 - FIRST_DECAY)
        second = self.second_moment[touched].lerp_(gradient.square(), 1 - SECOND_DECAY)
        steps = self.steps[touched] + 1
        self.first_moment[touched], self.second_moment[touched], self.steps[touched] = first, second, steps
        first_scale, second_scale = (
            (1 - decay**steps).to(gradient.dtype).unsqueeze(1) for decay in (FIRST_DECAY, SECOND_DECAY)
        )
        return (first / first_scale) / ((second / second_scale).sqrt() + EPSILON)


def unwritten_zeros(like: Tensor) -> Tensor:
    """Zeros of the same shape that, on a CPU, take no memory before something is written to them."""
    return torch.from_numpy(np.zeros(like.shape, np.float32)).to(like)
