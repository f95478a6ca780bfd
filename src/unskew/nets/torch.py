"""Any PyTorch module as a net: `pip install 'unskew[torch]'`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from unskew.errors import ParameterError
from unskew.losses.columns import Array
from unskew.nets.base import Net, NetContext, NetSpec, Part, State

try:
    import torch
except ImportError as error:
    raise ParameterError("Nets of PyTorch need torch, which is not installed: pip install 'unskew[torch]'.") from error

AVERAGED = 32  # known codes whose logits are averaged for an unknown one


@contextmanager
def reproducible(rng: np.random.Generator | None = None) -> Iterator[None]:
    """Use one thread and, given a stream, its random numbers: bits depend on the seed alone. All is put back after."""
    threads = torch.get_num_threads()
    with torch.random.fork_rng(devices=[], enabled=rng is not None):
        if rng is not None:
            torch.default_generator.manual_seed(int(rng.integers(2**63)))
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(threads)


class TorchNet(Net):
    """A module that scores pairs, module(users, items) -> logits, moved by Adam with weight decay `l2`.

    It answers in evaluation mode and learns in training mode. Unknown users and items and, at rest, those without a
    training row are answered for by the mean logit of 32 known ones at even distances. What the module's own
    `user_vectors(users)` gives, if it has one, tells users apart.
    """

    def __init__(self, module: torch.nn.Module, context: NetContext, rng: np.random.Generator) -> None:
        self.module, self.context, self.rng = module.eval(), context, rng
        self.optimizer = torch.optim.Adam(module.parameters())
        self.known = [np.ones(n, np.bool_) for n in context[:2]]

    def _tensor(self, codes: Array) -> torch.Tensor:
        return torch.from_numpy(codes.astype(np.int64)).to(next(self.module.parameters()).device)

    def logits(self, users: Array, items: Array) -> Array:
        sides, unknown, some = (users, items), [], []
        for codes, known in zip(sides, self.known, strict=True):
            unknown.append((codes < 0) | ~known[codes])
            some.append(np.flatnonzero(known)[np.linspace(0, known.sum() - 1, AVERAGED).astype(np.int64)])

        def scored(rows: Any, number: int) -> Array:
            pairs = (np.where(unknown[s][rows], some[s][number], sides[s][rows]) for s in (0, 1))
            with torch.no_grad(), reproducible():
                return np.asarray(self.module(*map(self._tensor, pairs)).numpy(force=True), np.float32)

        logits = scored(slice(None), 0).copy()
        if len(rows := np.flatnonzero(unknown[0] | unknown[1])):
            logits[rows] = np.mean([scored(rows, number) for number in range(AVERAGED)], 0)
        return logits

    def learn(self, users: Array, items: Array, slopes: Array) -> None:
        with reproducible(self.rng):
            scores = self.module.train()(self._tensor(users), self._tensor(items))
            scores.backward(torch.from_numpy(slopes).to(scores))
        self.module.eval()

    def step(self, rate: float, l2: float) -> None:
        self.optimizer.param_groups[0].update(lr=rate, weight_decay=l2)
        with reproducible():
            self.optimizer.step()
        self.optimizer.zero_grad()

    def user_vectors(self, users: Array) -> Array:
        given = getattr(self.module, "user_vectors", None)
        if given is None:
            return super().user_vectors(users)
        with torch.no_grad(), reproducible():
            vectors: Array = given(self._tensor(np.arange(self.context.n_users))).numpy(force=True)
        average = vectors[self.known[0]].mean(0)
        return np.vstack([np.where(self.known[0][:, None], vectors, average), average])[users].astype(np.float32)

    def state(self) -> dict[str, Array]:
        n_users, n_items, base_rate, (users, items) = self.context
        context = {"sizes": np.array([n_users, n_items]), "base_rate": np.array(base_rate)}
        module = {f"module.{name}": value.numpy(force=True).copy() for name, value in self.module.state_dict().items()}
        return context | {"users": users, "items": items} | module

    def restore(self, state: State) -> None:
        values = {name: torch.from_numpy(np.array(state[f"module.{name}"])) for name in self.module.state_dict()}
        self.module.load_state_dict(values)

    def rest(self) -> int:
        counts = (np.bincount(codes, minlength=n) for codes, n in zip(self.context[3], self.context[:2], strict=True))
        self.known = [count > 0 for count in counts]
        return sum(int((~side).sum()) for side in self.known)

    def extended(self, counts: Array, owner: Part | None = None) -> Part:
        raise ParameterError("New users cannot be added to a module of PyTorch: fit again with their ratings.")


@dataclass(frozen=True)
class Module(NetSpec):
    """A net by any function that makes one: `Naive(net=Module(LightGCN))`; what it draws from PyTorch is seeded."""

    factory: Callable[[NetContext], torch.nn.Module]

    def build(self, context: NetContext, rng: np.random.Generator, owner: Part | None = None) -> TorchNet:
        with reproducible(rng):
            return TorchNet(self.factory(context), context, rng)

    def from_state(self, state: State, owner: Part | None = None) -> TorchNet:
        n_users, n_items = (int(size) for size in state["sizes"])
        context = NetContext(n_users, n_items, float(state["base_rate"]), (state["users"], state["items"]))
        net = self.build(context, np.random.default_rng(0))
        net.restore(state)
        net.rest()
        return net
