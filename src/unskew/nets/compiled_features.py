"""Factor nets with features on compiled kernels."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unskew.group import Group
from unskew.nets import feature_kernels
from unskew.nets.compiled import State, ToldNet, state_of
from unskew.nets.factors import FactorNet
from unskew.nets.features import DescribedTable
from unskew.nets.table import Table

Array = NDArray[Any]


class Workspace(NamedTuple):
    """A net as kernels see it: arrays that share memory with its tables, and room for rows that are put together.

    `sides` are those of users and items as in `feature_kernels`, `states` those of the tables of users, items, the
    offset, and the features of users and of items; `values` are the tables' numbers, whose versions tell of changes.
    """

    sides: tuple[tuple[Array, ...], ...]
    states: tuple[State, ...]
    values: tuple[Tensor, ...]

    @classmethod
    def of(cls, users: DescribedTable, items: DescribedTable, offset: Table) -> Workspace:
        tables = users, items, offset, users.shared, items.shared
        return cls((_side(users), _side(items)), tuple(map(state_of, tables)), tuple(table.value for table in tables))


def _side(table: DescribedTable) -> tuple[Array, ...]:
    rows, shared = table.value.numpy(), table.shared.value.numpy()
    entries = (part.numpy() for part in table.entries)
    return rows, shared, *entries, np.full(len(rows), -1), np.empty_like(rows)


class CompiledFeatureNet(ToldNet):
    """A factor net on described tables, computed by `feature_kernels`.

    Rows that were put together serve until the net changes: by a step, or by what PyTorch has done to a table.
    """

    users: DescribedTable
    items: DescribedTable
    offset: Table

    def __init__(self, users: DescribedTable, items: DescribedTable, offset: Table) -> None:
        super().__init__(users, items, offset)
        self._clock = np.zeros(1, np.int64)  # tells another time whenever the net has changed
        self._versions: tuple[int, ...] = ()

    @property
    def _workspace(self) -> Workspace:
        found: Workspace | None = self.__dict__.get("_found")
        if found is None:
            found = self.__dict__["_found"] = Workspace.of(self.users, self.items, self.offset)
        return found

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_found"}

    def gather(self, group: Group) -> None:
        super().gather(group)
        self.__dict__.pop("_found", None)

    def rest(self) -> None:
        super().rest()
        self.__dict__.pop("_found", None)

    def _moment(self, workspace: Workspace) -> int:
        """What the clock tells."""
        versions = tuple(value._version for value in workspace.values)
        if versions != self._versions:
            self._clock += 1
            self._versions = versions
        return int(self._clock[0])

    def for_kernels(self, l2: np.float32, learning_rate: np.float32) -> tuple[Any, ...]:
        """The net, and how it learns, as compiled turns take it (`express`)."""
        space = self._workspace
        self._moment(space)
        return *space.sides, space.states, self._clock, l2, learning_rate

    def logits(self, users: Tensor, items: Tensor) -> Tensor:
        space, out = self._workspace, np.empty(len(users), np.float32)
        width, offset = space.sides[0][0].shape[1], space.states[2][0][0, 0]
        kernel = feature_kernels.for_work(len(out) * width)
        if kernel.described_dot(users.numpy(), items.numpy(), offset, self._moment(space), *space.sides, out):
            return FactorNet.forward(self, users, items)  # the average row of somebody unknown
        return torch.from_numpy(out)

    def learn(self, users: Array, items: Array, slopes: Array, l2: np.float32, learning_rate: np.float32) -> None:
        space = self._workspace
        kernel = feature_kernels.for_work(4 * len(slopes) * space.sides[0][0].shape[1])
        kernel.learn_described(
            users, items, slopes, l2, learning_rate, self._moment(space), *space.sides, *space.states
        )
        self._clock += 1
