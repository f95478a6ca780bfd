"""A group of several processes, started by torchrun: gloo between CPUs, NCCL between GPUs."""

from __future__ import annotations

import atexit
import os
import time
import uuid
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.distributed.rendezvous import rendezvous

from unskew.errors import ParameterError
from unskew.group import ALONE, Group

PAUSE = 0.01  # seconds
NEEDED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def started_by_torchrun() -> bool:
    return all(name in os.environ for name in NEEDED)


@cache
def workers(device: str = "cpu") -> Group:
    """The group that this process belongs to; it joins the others when first asked."""
    if not dist.is_available() or not (dist.is_initialized() or started_by_torchrun()):
        raise ParameterError(
            "spread=True is for processes that torchrun has started: torchrun --nproc_per_node 2 -m unskew fit ..."
        )
    if not dist.is_initialized():
        if device != "cpu":
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
        store, rank, size = next(rendezvous("env://"))
        meeting = dist.PrefixStore(_agreed(store, rank, size), store)  # type: ignore[attr-defined]
        dist.init_process_group("gloo" if device == "cpu" else "nccl", store=meeting, rank=rank, world_size=size)
        atexit.register(dist.destroy_process_group)
        _share_the_cores()
    return ALONE if dist.get_world_size() == 1 else Workers(device)


def _agreed(store: Any, rank: int, size: int) -> str:
    """A name for this start of all workers, which none before has had.

    torchrun keeps its store when it starts workers again, with the addresses of the dead in it; looked up by mistake,
    they let the living wait for ever. So the first worker asks everybody in a word of its own, everybody answers with
    that word and one of theirs, and goes on only when their own comes back.
    """
    own = uuid.uuid4().hex
    if rank == 0:
        store.set("unskew/question", own)
        answers = [_heard(store, f"unskew/answer/{other}", own) for other in range(1, size)]
        store.set("unskew/agreed", " ".join([own, *(answer.split()[1] for answer in answers)]))
        return own
    while True:
        question = store.get("unskew/question").decode()
        store.set(f"unskew/answer/{rank}", f"{question} {own}")
        if store.check(["unskew/agreed"]) and own in (agreed := store.get("unskew/agreed").decode()):
            return str(agreed.split()[0])
        time.sleep(PAUSE)


def _heard(store: Any, name: str, word: str) -> str:
    """What is said under a name, once it begins with a word."""
    while not (said := store.get(name).decode()).startswith(word):
        time.sleep(PAUSE)
    return str(said)


def _share_the_cores() -> None:
    """Compiled kernels take all cores of a machine; the workers of one machine take a share each."""
    import numba

    here = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    numba.set_num_threads(max(numba.get_num_threads() // here, 1))


class Workers(Group):
    """One of several workers; all call the same methods in the same order."""

    def __init__(self, device: str) -> None:
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self._device = torch.device(device)

    def total(self, values: ArrayLike) -> NDArray[Any]:
        return self._reduced(values, dist.ReduceOp.SUM)

    def largest(self, values: ArrayLike) -> NDArray[Any]:
        return self._reduced(values, dist.ReduceOp.MAX)

    def _reduced(self, values: ArrayLike, how: Any) -> NDArray[Any]:
        given = np.array(values)  # a copy: sums are made in place
        tensor = torch.from_numpy(given.reshape(-1)).to(self._device)
        dist.all_reduce(tensor, how)
        return tensor.numpy(force=True).reshape(given.shape)

    def gathered(self, array: NDArray[Any]) -> list[NDArray[Any]]:
        lengths = self._lengths(array)
        padded = np.zeros((max(lengths.max(), 1), *array.shape[1:]), array.dtype)
        padded[: len(array)] = array
        own = torch.from_numpy(padded).to(self._device)
        parts = [torch.empty_like(own) for _ in range(self.size)]
        dist.all_gather(parts, own)
        return [part.numpy(force=True)[:length] for part, length in zip(parts, lengths, strict=True)]

    def to_first(self, array: NDArray[Any]) -> list[NDArray[Any]] | None:
        lengths = self._lengths(array)
        own = torch.from_numpy(np.ascontiguousarray(array)).to(self._device)
        if self.rank > 0:
            dist.send(own, 0)
            return None
        parts = [own]
        for rank in range(1, self.size):
            parts.append(own.new_empty((int(lengths[rank]), *array.shape[1:])))
            dist.recv(parts[-1], rank)
        return [part.numpy(force=True) for part in parts]

    def _lengths(self, array: NDArray[Any]) -> NDArray[Any]:
        return self.total(np.where(np.arange(self.size) == self.rank, len(array), 0))

    def summed(self, value: Tensor) -> Tensor:
        if value.requires_grad:
            total: Tensor = _Sum.apply(value, self)  # type: ignore[no-untyped-call]
        else:
            total = value.clone()
            self.add_up(total)
        return total

    def add_up(self, tensor: Tensor) -> None:
        dist.all_reduce(tensor)

    def add_up_later(self, tensor: Tensor) -> Callable[[], Any]:
        wait: Callable[[], Any] = dist.all_reduce(tensor, async_op=True).wait
        return wait


class _Sum(torch.autograd.Function):
    """A sum over workers. All of them derive the same loss from it, so each one's own part has the loss's slope."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, group: Workers) -> Tensor:
        total = value.detach().clone()
        group.add_up(total)
        return total

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, None]:
        return slopes[0], None
