"""Features in a net: to the rows of ids what is known of them is added, as in LightFM (Kula, 2015).

The row of a user becomes v_u + sum_f x_uf a_f, that of an item likewise, where a_f is a row that everybody with
feature f shares. A factor net whose last column is the bias then has linear terms and factor terms in one:

    logit = c + b_u + b_i + a_u . x_u + a_i . x_i + <v_u + A x_u, w_i + B x_i>.

Shared rows start at nothing and take less L2 than those of ids, because many teach them: so features explain what they
can, and ids what they cannot.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import block_diag, csr_array, vstack
from torch import Tensor

from unskew.group import Group, interleaved
from unskew.nets.table import Table

Entries = tuple[Tensor, Tensor, Tensor]


class SharedRows(Table):
    """The rows of features; one that nobody has read contributes nothing, as from the start."""

    def settle(self) -> int:
        return 0


class DescribedTable(Table):
    """A table to whose rows those of their features are added; `known` has a row for each, and a column a feature."""

    known: csr_array
    entries: Entries

    def __init__(
        self,
        value: Tensor,
        known: csr_array,
        decay: Tensor | None,
        shared_decay: Tensor | None,
        *,
        by_user: bool = False,
    ) -> None:
        super().__init__(value, decay, by_user=by_user)
        self.shared = SharedRows(value.new_zeros(known.shape[1], value.shape[1]), shared_decay)
        self.describe(known)

    def describe(self, known: csr_array) -> None:
        """Let this be what is known of the rows."""
        average = csr_array(np.asarray(known.mean(axis=0), np.float32)[None])  # which is that of the index -1
        self.known, self.entries = known, _entries(csr_array(vstack([known, average])))

    def rows(self, index: Tensor) -> Tensor:
        """The rows at `index`; the index -1 reads the average row."""
        owner, features, amounts = self.entries_of(index)
        return super().rows(index).index_add(0, owner, self.shared.rows(features) * amounts.unsqueeze(1))

    def entries_of(self, index: Tensor) -> Entries:
        """The place in `index` that each entry belongs to, its feature and its amount."""
        starts, features, amounts = self.entries = _on(index.device, self.entries)
        row = torch.where(index < 0, len(starts) - 2, index)
        first, count = starts[row], starts[row + 1] - starts[row]
        owner = torch.repeat_interleave(torch.arange(len(row), device=row.device), count)
        within = torch.arange(len(owner), device=row.device) - (count.cumsum(0) - count)[owner]
        entry = first[owner] + within
        return owner, features[entry], amounts[entry]

    @property
    def told(self) -> Tensor:
        return torch.from_numpy(self.known @ self.shared.value.numpy(force=True)).to(self.value)

    @property
    def whole(self) -> Tensor:
        return self.value + self.told

    def take_last(self, rows: Tensor) -> None:
        told = self.known[-len(rows) :] @ self.shared.value.numpy(force=True)
        self.value[-len(rows) :] = rows - torch.from_numpy(told).to(rows)

    def joined_by(self, count: int) -> DescribedTable:
        """The same table with so many average rows more, of which nothing else is known."""
        newcomers = self.whole.mean(0, keepdim=True).expand(count, -1)
        known = csr_array(vstack([self.known, csr_array((count, self.known.shape[1]), dtype=np.float32)]))
        value = torch.cat([self.value, newcomers])
        table = DescribedTable(value, known, self.decay, self.shared.decay, by_user=self.by_user)
        table.shared = self.shared
        return table

    def describe_last(self, known: csr_array) -> None:
        """Let this be known of the last rows, until now average ones: where it is anything, it replaces the average."""
        count = known.shape[0]
        before = self.known[:-count]
        average = torch.from_numpy(before.mean(axis=0) @ self.shared.value.numpy(force=True)).to(self.value)
        described = torch.from_numpy(np.diff(known.indptr) > 0).to(self.value.device)
        self.value[-count:] -= described.unsqueeze(1) * average
        self.describe(csr_array(vstack([before, known])))

    def gather(self, group: Group) -> None:
        """Let the first worker know the users of all, and what is known of them."""
        super().gather(group)
        if self.by_user:
            known = self.known
            parts = (group.to_first(part) for part in (np.diff(known.indptr), known.indices, known.data))
            counts, features, amounts = (part or [] for part in parts)
            if counts:
                self.describe(_of_all(counts, features, amounts, known.shape[1]))


def repeated(known: csr_array, copies: int) -> csr_array:
    """For so many copies of the ids, each with shared rows of its own."""
    return known if copies == 1 else csr_array(block_diag([known] * copies, "csr"))


def are_described(names: Any) -> bool:
    """Whether the arrays of these names are those of a net with features."""
    return any(".shared." in name for name in names)


def _entries(matrix: csr_array) -> Entries:
    parts = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64), matrix.data.astype(np.float32)
    starts, features, amounts = map(torch.from_numpy, parts)
    return starts, features, amounts


def _on(device: torch.device, entries: Entries) -> Entries:
    starts, features, amounts = entries
    return entries if starts.device == device else (starts.to(device), features.to(device), amounts.to(device))


def _of_all(
    counts: list[NDArray[Any]], features: list[NDArray[Any]], amounts: list[NDArray[Any]], width: int
) -> csr_array:
    """What all workers know of their users, in the order of the users' codes."""
    matrices = [
        csr_array((amount, feature, np.append(0, np.cumsum(count))), shape=(len(count), width))
        for count, feature, amount in zip(counts, features, amounts, strict=True)
    ]
    places = np.split(np.arange(sum(map(len, counts))), np.cumsum([len(count) for count in counts])[:-1])
    return csr_array(vstack(matrices))[interleaved(places)]
