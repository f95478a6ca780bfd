"""Tiny worlds in which an expectation is a finite sum: every pattern of seen pairs with its probability."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import product

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from unskew.data.rows import Batch, Pairs, Rows
from unskew.nets.base import Net
from unskew.nets.table import Table
from unskew.training.view import Cast, ErrorFunction, View


def patterns(propensities: ArrayLike) -> Iterator[tuple[float, NDArray[np.bool_]]]:
    """All 2^n ways n independent pairs can be seen or not, each with its probability."""
    p = np.asarray(propensities, np.float64)
    for pattern in product((False, True), repeat=len(p)):
        seen = np.array(pattern)
        yield float(np.where(seen, p, 1 - p).prod()), seen


def expectation(propensities: ArrayLike, value: Callable[[NDArray[np.bool_]], float]) -> float:
    """E[value(seen)] over all patterns."""
    return sum(probability * value(seen) for probability, seen in patterns(propensities))


class Listed(Net):
    """A net that knows one logit for each of a few pairs: pair n is (user n, item 0)."""

    def __init__(self, logits: ArrayLike) -> None:
        super().__init__()
        self.table = Table(torch.as_tensor(np.asarray(logits, np.float64)).unsqueeze(1))

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        return self.table.rows(users)[:, 0]

    def user_vectors(self, users: Tensor) -> Tensor:
        return self.table.value[users]


def listed_view(
    seen: NDArray[np.bool_],
    ratings: ArrayLike,
    probabilities: Mapping[str, ArrayLike],
    error: ErrorFunction,
    learning: frozenset[str] = frozenset(),
) -> View:
    """A view of n listed pairs, every seen pair and every pair standing for itself.

    `probabilities` are what each role says of the n pairs: prediction, imputation, propensity, ...
    """
    n = len(seen)
    pairs = torch.arange(n), torch.zeros(n, dtype=torch.long)
    block = Pairs(*pairs, torch.as_tensor(np.asarray(ratings, np.float64)))
    everything = Pairs(*pairs, seen=lambda *_: torch.from_numpy(seen.astype(np.float64)))
    batch = Batch(
        observed=Rows(block, np.flatnonzero(seen), 1.0),
        sampled=Rows(everything, slice(0, n), 1.0),
        n_pairs=n,
    )
    players = {role: Listed(_logit(p)) for role, p in probabilities.items()}
    return View(Cast(players, {}, {}, error), batch, learning)


def _logit(probabilities: ArrayLike) -> NDArray[np.float64]:
    p = np.asarray(probabilities, np.float64)
    return np.asarray(np.log(p) - np.log1p(-p))
