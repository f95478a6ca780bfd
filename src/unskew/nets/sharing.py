"""Rows that several workers keep equal: what each has read of them is added up before anybody moves them."""

from __future__ import annotations

import torch
from torch import Tensor

from unskew.group import Group

SENT_WHOLE = 1 << 20  # numbers: up to this size a table is sent whole, of larger ones only rows that were read


def with_others(
    group: Group, n_rows: int, touched: Tensor, count: Tensor, gradient: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The rows that any worker has read, how often all did, and the sums of their gradients."""
    width = gradient.shape[1]
    if n_rows * (width + 1) <= SENT_WHOLE:
        whole = gradient.new_zeros((n_rows, width + 1))
        whole[touched, :-1], whole[touched, -1] = gradient, count.to(whole.dtype)
        group.add_up(whole)
        touched = whole[:, -1].nonzero()[:, 0]
        return touched, whole[touched, -1], whole[touched, :-1]
    counts = gradient.new_zeros(n_rows)
    counts[touched] = count.to(counts.dtype)
    group.add_up(counts)
    union = counts.nonzero()[:, 0]
    rows = gradient.new_zeros((len(union), width))
    rows[torch.searchsorted(union, touched)] = gradient
    group.add_up(rows)
    return union, counts[union], rows
