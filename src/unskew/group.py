"""The workers that train one model together; by itself, a process is a group of one.

Users are dealt to workers by their code: user c belongs to worker c modulo size and has row c // size there. What a
worker learns of its users stays with it; sums over rows, rows of items and small nets are common to all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


class Group:
    """One worker's way to the others; here, the only one."""

    rank = 0
    size = 1

    def __deepcopy__(self, _: Any) -> Group:
        return self

    @property
    def alone(self) -> bool:
        return self.size == 1

    # Whose users.
    def mine(self, codes: NDArray[Any]) -> NDArray[np.bool_]:
        """Which of these users are this worker's."""
        return np.asarray(codes % self.size == self.rank)

    def rows(self, codes: NDArray[Any]) -> NDArray[Any]:
        """The rows here of users of this worker."""
        return codes if self.alone else codes // self.size

    def codes(self, rows: NDArray[Any]) -> NDArray[Any]:
        """The users in these rows, as everybody calls them."""
        return rows if self.alone else rows * self.size + self.rank

    # What all have together.
    def total(self, values: ArrayLike) -> NDArray[Any]:
        """The sums over all workers, the same bits on each."""
        return np.asarray(values)

    def largest(self, values: ArrayLike) -> NDArray[Any]:
        return np.asarray(values)

    def gathered(self, array: NDArray[Any]) -> list[NDArray[Any]]:
        """The array of every worker, by rank; they may differ in length."""
        return [array]

    def to_first(self, array: NDArray[Any]) -> list[NDArray[Any]] | None:
        """The array of every worker for the first one, None for the others."""
        return [array]

    # For tensors.
    def summed(self, value: Any) -> Any:
        """The sum of a tensor over all workers; whoever differentiates it finds the slope of their own part."""
        return value

    def add_up(self, tensor: Any) -> None:
        """Put the sum over all workers in the place of a tensor."""

    def add_up_later(self, tensor: Any) -> Callable[[], Any]:
        """Begin to add up; call what is returned to wait for the end."""
        return _nothing


def _nothing() -> None:
    pass


ALONE = Group()


def interleaved(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """Rows of all users in the order of their codes, from those of every worker."""
    whole = np.empty((sum(map(len, parts)), *parts[0].shape[1:]), parts[0].dtype)
    for rank, part in enumerate(parts):
        whole[rank :: len(parts)] = part
    return whole
