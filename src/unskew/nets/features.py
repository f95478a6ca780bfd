"""Features in a net: rows of ids to which what is known of each is added, as in LightFM (Kula, 2015).

The row of a user becomes v_u + sum_f x_uf a_f, that of an item likewise, where a_f is a row that everybody with
feature f shares. A factor net whose last column is the bias then has linear terms and factor terms in one:

    logit = c + b_u + b_i + a_u . x_u + a_i . x_i + <v_u + A x_u, w_i + B x_i>.

Shared rows start at nothing and take less L2 than those of ids, because many teach them: so features explain what they
can, and ids what they cannot. With `copies`, each copy of the ids has shared rows of its own.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.sparse import block_diag, csr_array, vstack
from torch import Tensor, nn

from unskew.group import Group
from unskew.nets.table import Table


class SharedRows(Table):
    """The rows of features; one that nobody has read contributes nothing, as from the start."""

    def settle(self) -> int:
        return 0


class Known:
    """What is known of each row, as the entries of a sparse matrix; behind the last row stands their average."""

    def __init__(self, matrix: csr_array) -> None:
        self.matrix = matrix
        average = csr_array(np.asarray(matrix.sum(axis=0), np.float32)[None] / max(matrix.shape[0], 1))
        whole = csr_array(vstack([matrix, average])).astype(np.float32)
        parts = whole.indptr.astype(np.int64), whole.indices.astype(np.int64), whole.data
        self.starts, self.places, self.amounts = map(torch.from_numpy, parts)

    def entries(self, index: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Each entry of the rows at `index`: to which of them it belongs, feature and amount; -1 is the average row."""
        if self.starts.device != index.device:
            self.starts, self.places, self.amounts = (
                part.to(index.device) for part in (self.starts, self.places, self.amounts)
            )
        row = torch.where(index < 0, len(self.starts) - 2, index)
        first, count = self.starts[row], self.starts[row + 1] - self.starts[row]
        owner = torch.repeat_interleave(torch.arange(len(row), device=row.device), count)
        within = torch.arange(len(owner), device=row.device) - (count.cumsum(0) - count)[owner]
        entry = first[owner] + within
        return owner, self.places[entry], self.amounts[entry]


class DescribedTable(nn.Module):
    """A table whose rows have what is known of them added."""

    def __init__(self, ids: Table, shared: SharedRows, known: Known) -> None:
        super().__init__()
        self.ids, self.shared, self.known = ids, shared, known

    @classmethod
    def over(cls, ids: Table, matrix: csr_array, copies: int, decay: Tensor) -> DescribedTable:
        """With rows for the features that are the columns of a matrix, which take `decay` of the L2."""
        if copies > 1:
            matrix = csr_array(block_diag([matrix] * copies, "csr"))
        return cls(ids, SharedRows(torch.zeros(matrix.shape[1], ids.value.shape[1]), decay), Known(matrix))

    def rows(self, index: Tensor) -> Tensor:
        """The rows at `index`; the index -1 reads the average row."""
        ids = self.ids.rows(index)
        owner, places, amounts = self.known.entries(index)
        return ids.index_add(0, owner, self.shared.rows(places) * amounts.unsqueeze(1))

    @property
    def by_user(self) -> bool:
        return self.ids.by_user

    def whole(self) -> Tensor:
        """All rows as they answer."""
        return self.ids.value + self.described()

    def know_last(self, rows: Tensor) -> None:
        """Let the last rows answer as these, whatever is known of them."""
        self.ids.know_last(rows - self.described()[-len(rows) :])

    def described(self) -> Tensor:
        """What features add to the rows."""
        added = self.known.matrix @ self.shared.value.numpy(force=True)
        return torch.from_numpy(np.asarray(added, np.float32)).to(self.ids.value)

    def joined_by(self, count: int, n_fitted: int, encoded: csr_array | None = None) -> DescribedTable:
        """The same table with so many rows more, average ones beside what is known of each.

        Of whom nothing is known, the row answers as the average one: the average of features is then part of it.
        """
        width = self.known.matrix.shape[1]
        new = csr_array((count, width), dtype=np.float32) if encoded is None else encoded
        ids = self.ids.joined_by(count, n_fitted)
        unknown = torch.from_numpy(np.diff(new.indptr) == 0)
        ids.value[-count:][unknown] += self.described()[:n_fitted].mean(0)
        return DescribedTable(ids, self.shared, Known(csr_array(vstack([self.known.matrix, new], "csr"))))

    def gather(self, group: Group) -> None:
        """Let the first worker know what is known of the users of all; their rows are gathered by themselves."""
        if not self.ids.by_user:
            return
        matrix = self.known.matrix
        parts = [group.to_first(part) for part in (np.diff(matrix.indptr), matrix.indices, matrix.data)]
        counts, places, amounts = parts
        if counts is None or places is None or amounts is None:
            return
        matrices = [
            csr_array((amount, place, np.append(0, np.cumsum(count))), shape=(len(count), matrix.shape[1]))
            for count, place, amount in zip(counts, places, amounts, strict=True)
        ]
        order = np.empty(sum(map(len, counts)), np.int64)
        first = 0
        for rank, count in enumerate(counts):
            order[rank :: group.size] = first + np.arange(len(count))
            first += len(count)
        self.known = Known(csr_array(vstack(matrices))[order])
