"""Factor nets on compiled kernels: the same numbers as the plain PyTorch net, several times faster on a CPU."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unskew.group import Group
from unskew.nets import kernels
from unskew.nets.factors import FactorNet
from unskew.nets.sharing import SENT_WHOLE
from unskew.nets.table import Table

State = tuple[NDArray[Any], ...]


class ToldNet(FactorNet):
    """A factor net that is told d loss / d logit of the pairs it was read at, and keeps that until `step`.

    PyTorch differentiates the loss with respect to the logits only.
    """

    engine = "compiled"

    def __init__(self, users: Table, items: Table, offset: Table | None) -> None:
        super().__init__(users, items, offset)
        self._read: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]] = []

    @abstractmethod
    def logits(self, users: Tensor, items: Tensor) -> Tensor:
        """What the net says, without gradient."""

    @abstractmethod
    def learn(
        self,
        users: NDArray[np.int64],
        items: NDArray[np.int64],
        slopes: NDArray[np.float32],
        l2: np.float32,
        learning_rate: np.float32,
    ) -> None:
        """One step from d loss / d logit of all pairs read since the last."""

    def __call__(self, users: Tensor, items: Tensor) -> Tensor:
        """Without PyTorch's hooks, which would take as long as the logits of a small batch."""
        return self.forward(users, items)

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        if not torch.is_grad_enabled():
            return self.logits(users, items)
        logits: Tensor = _Logits.apply(torch.empty(0, requires_grad=True), self, users, items)  # type: ignore[no-untyped-call]
        return logits

    def keep(self, users: Tensor, items: Tensor, slopes: Tensor) -> None:
        """Remember d loss / d logit of pairs that were read, for the next step."""
        self._read.append((users.numpy(), items.numpy(), slopes.numpy()))

    def step(self, learning_rate: float, l2: float) -> None:
        if not self._read:
            return
        users, items, slopes = (
            np.concatenate(parts) if len(parts) > 1 else parts[0] for parts in zip(*self._read, strict=True)
        )
        self._read.clear()
        self.learn(users, items, slopes, np.float32(l2), np.float32(learning_rate))


class CompiledFactorNet(ToldNet):
    """A factor net whose logits and steps are computed by `kernels`; `offset` is None for a net without biases."""

    def __init__(self, users: Table, items: Table, offset: Table | None) -> None:
        super().__init__(users, items, offset)
        self._biased = int(offset is not None)

    @property
    def _states(self) -> tuple[State, State, State]:
        """Users', items' and the offset's numbers as arrays that share memory with the tables.

        Found once: tables change in place, and looking through PyTorch for them would take longer than a small step.
        """
        found: tuple[State, State, State] | None = self.__dict__.get("_found")
        if found is None:
            offset = self.users if self.offset is None else self.offset
            found = self.__dict__["_found"] = (state_of(self.users), state_of(self.items), state_of(offset))
        return found

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_found", "_buffer")}

    def logits(self, users: Tensor, items: Tensor) -> Tensor:
        of_users, of_items, of_offset = self._states
        offset = of_offset[0][0, 0] if self._biased else np.float32(0.0)
        out = np.empty(len(users), np.float32)
        kernel = kernels.for_work(len(out) * of_users[0].shape[1])
        if kernel.gather_dot(users.numpy(), items.numpy(), of_users[0], of_items[0], offset, self._biased, out):
            return FactorNet.forward(self, users, items)  # rare enough for plain PyTorch
        return torch.from_numpy(out)

    def for_kernels(self, l2: np.float32, learning_rate: np.float32) -> tuple[Any, ...]:
        """The net, and how it learns, as compiled turns take it (`express`)."""
        return *self._states, self._biased, l2, learning_rate

    def gather(self, group: Group) -> None:
        super().gather(group)
        self.__dict__.pop("_found", None)

    def rest(self) -> None:
        super().rest()
        self.__dict__.pop("_found", None)

    def learn(
        self,
        users: NDArray[np.int64],
        items: NDArray[np.int64],
        slopes: NDArray[np.float32],
        l2: np.float32,
        learning_rate: np.float32,
    ) -> None:
        states, group = self._states, self.items.group
        kernel = kernels.for_work(4 * len(slopes) * states[0][0].shape[1])
        settings = self._biased, l2, learning_rate
        if group.alone:
            kernel.learn(users, items, slopes, *settings, *states)
            return
        shared = self._shared
        kernel.item_side(users, items, slopes, self._biased, states[0][0], shared)
        wait = self._begin_to_share(group, shared)
        own = kernel.user_side(users, items, slopes, self._biased, states[1][0])
        wait()
        kernel.learn_together(shared, *own, *settings, *states)

    @property
    def _shared(self) -> NDArray[np.float32]:
        """Where the items' side of a step is put together, each time in the same place."""
        n_items, width = self.items.value.shape
        found: NDArray[np.float32] | None = self.__dict__.get("_buffer")
        if found is None:
            found = self.__dict__["_buffer"] = np.empty(n_items * (width + 1) + 2, np.float32)
        return found

    def _begin_to_share(self, group: Group, shared: NDArray[np.float32]) -> Callable[[], Any]:
        """Add up the items' side over all workers; of a large table only the rows that anybody has read."""
        if shared.size <= SENT_WHOLE:
            return group.add_up_later(torch.from_numpy(shared))
        n_items, width = self.items.value.shape
        gradient, counts = shared[: n_items * width].reshape(n_items, width), shared[n_items * width :]
        group.add_up(torch.from_numpy(counts))
        rows = np.flatnonzero(counts[:-2])
        part = torch.from_numpy(gradient[rows])
        group.add_up(part)
        gradient[rows] = part.numpy()
        return lambda: None


def state_of(table: Table) -> State:
    """(value, first moment, second moment, steps, decay)."""
    decay = np.zeros(table.value.shape[1], np.float32) if table.decay is None else table.decay.numpy()
    return *table.state, decay


class _Logits(torch.autograd.Function):
    """Logits whose gradient goes to the net; the empty anchor only tells PyTorch that there is something to learn."""

    @staticmethod
    def forward(ctx: Any, anchor: Tensor, net: ToldNet, users: Tensor, items: Tensor) -> Tensor:
        ctx.read = net, users, items
        return net.logits(users, items)

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[None, None, None, None]:
        net, users, items = ctx.read
        net.keep(users, items, slopes[0].contiguous())
        return None, None, None, None
