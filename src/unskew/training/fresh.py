"""The nets of a plan before they have learned anything."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from unskew.data.split import Split
from unskew.nets.base import Catalogue, NetRecipe
from unskew.training.plan import Plan


def fresh_nets(plan: Plan, split: Split, copies: int, start: np.random.Generator) -> dict[str, Any]:
    """A net for each role that learns by gradient, seeded by its place among the roles, where it will compute."""
    facts, group = split.facts, split.group
    rates = {"rating": facts.train_mean, "seen": facts.density}
    players: dict[str, Any] = {}
    for name, role in plan.roles.items():
        generator = torch.Generator().manual_seed(int(start.integers(2**63)))
        if isinstance(role.net, NetRecipe):
            rate = rates[role.starts_at]
            catalogue = Catalogue(facts.n_users, facts.n_items, rate, "compiled", group, copies)
            trunk = None if role.on is None else players[role.on]
            net = role.net.build(catalogue, generator) if trunk is None else role.net.on(trunk, catalogue)
            net.join(group)
            players[name] = net
    return players
