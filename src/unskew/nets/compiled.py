"""Factor nets on compiled kernels: the same numbers as the plain PyTorch net, several times faster on a CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unskew.nets import kernels
from unskew.nets.factors import FactorNet
from unskew.nets.table import Table


class CompiledFactorNet(FactorNet):
    """A factor net whose logits and steps are computed by `kernels`; `offset` is None for a net without biases.

    PyTorch differentiates the loss with respect to the logits only; what comes back is kept until `step`.
    """

    engine = "compiled"

    def __init__(self, users: Table, items: Table, offset: Table | None) -> None:
        super().__init__(users, items, offset)
        self._read: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]] = []

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        if not torch.is_grad_enabled():
            return self._logits(users, items)
        logits: Tensor = _Logits.apply(torch.empty(0, requires_grad=True), self, users, items)  # type: ignore[no-untyped-call]
        return logits

    def _logits(self, users: Tensor, items: Tensor) -> Tensor:
        if bool((users < 0).any()) or bool((items < 0).any()):
            return super().forward(users, items)  # the average row of somebody unknown: rare enough for plain PyTorch
        out = np.empty(len(users), np.float32)
        offset = np.float32(0.0) if self.offset is None else np.float32(self.offset.value[0, 0].item())
        tables = self.users.value.numpy(), self.items.value.numpy()
        work = len(users) * tables[0].shape[1]
        kernels.gather_dot(users.numpy(), items.numpy(), *tables, offset, int(self.offset is not None), out, work=work)
        return torch.from_numpy(out)

    def keep(self, users: Tensor, items: Tensor, slopes: Tensor) -> None:
        """Remember d loss / d logit of pairs that were read, for the next step."""
        self._read.append((users.numpy(), items.numpy(), slopes.numpy()))

    def step(self, learning_rate: float, l2: float) -> None:
        if not self._read:
            return
        users, items, slopes = (np.concatenate(parts) for parts in zip(*self._read, strict=True))
        self._read.clear()
        sides = ((self.users, users, self.items, items), (self.items, items, self.users, users))
        # Both gradients before either step: each reads the other side's rows as they were.
        gradients = [self._gradient(rows, other, others, slopes) for _, rows, other, others in sides]
        for side, (touched, starts, gradient) in zip(sides, gradients, strict=True):
            _move(side[0], touched, starts, gradient, learning_rate, l2)
        if self.offset is not None:
            total = np.full((1, 1), slopes.sum(dtype=np.float64), np.float32)
            _move(self.offset, np.zeros(1, np.int64), np.array([0, 1]), total, learning_rate, 0.0)

    def _gradient(self, rows: NDArray[Any], other: Table, others: NDArray[Any], slopes: NDArray[Any]) -> Any:
        order, touched, starts = kernels.group_by_row(rows)
        table = other.value.numpy()
        out = np.empty((len(touched), table.shape[1]), np.float32)
        biased = int(self.offset is not None)
        kernels.sum_by_row(order, starts, others, slopes, table, biased, out, work=len(rows) * table.shape[1])
        return touched, starts, out


def _move(
    table: Table, touched: NDArray[Any], starts: NDArray[Any], gradient: NDArray[Any], learning_rate: float, l2: float
) -> None:
    decay = np.zeros(gradient.shape[1], np.float32) if table.decay is None else table.decay.numpy()
    state = (part.numpy() for part in (table.value, table.first_moment, table.second_moment, table.steps))
    rate, work = np.float32(learning_rate), gradient.size * 8
    kernels.adam(touched, starts, gradient, decay, np.float32(l2), rate, *state, work=work)


class _Logits(torch.autograd.Function):
    """Logits whose gradient goes to the net; the empty anchor only tells PyTorch that there is something to learn."""

    @staticmethod
    def forward(ctx: Any, anchor: Tensor, net: CompiledFactorNet, users: Tensor, items: Tensor) -> Tensor:
        ctx.read = net, users, items
        return net._logits(users, items)

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[None, None, None, None]:
        net, users, items = ctx.read
        net.keep(users, items, slopes[0].contiguous())
        return None, None, None, None
