"""Nets as the literature trains them: every step moves every row."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from torch import nn

from unskew.nets.base import Catalogue, Net, NetRecipe
from unskew.nets.factors import MF
from unskew.nets.table import Table


class DenseTable(Table):
    """A table that takes Adam's step as a whole, with `l2` times the value added to the gradient.

    That is a framework's Adam with weight decay: rows that a batch does not read move too, by their momentum and by
    the decay, so the strength of the L2 depends on how many steps there are to a reading.
    """

    def step(self, learning_rate: float, l2: float) -> None:
        if (read := self.read()) is None:
            return
        gradient = l2 * self.value
        gradient.index_add_(0, read.touched, read.gradient)
        self.move(gradient, learning_rate)


@dataclass(frozen=True, kw_only=True)
class Dense(NetRecipe):
    """A net whose tables take dense steps with weight decay on all of them, constants included.

    By default around the net of the literature: factors without biases that start normal, of variance 1. The cost of
    a step grows with the numbers of users and items: this is for reproducing published numbers.
    """

    net: NetRecipe = field(default_factory=lambda: MF(n_factors=16, biases=False, spread=1.0))

    def build(self, catalogue: Catalogue, generator: torch.Generator) -> Net:
        net = self.net.build(replace(catalogue, engine="torch"), generator)
        parts: list[tuple[str, nn.Module]] = list(net.named_children())
        for name, table in parts:
            if isinstance(table, Table):
                setattr(net, name, DenseTable(table.value, table.decay, by_user=table.by_user))
        return net
