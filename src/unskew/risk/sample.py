"""What a risk may ask of its data; anything with these methods can be trained on, evaluated or enumerated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from torch import Tensor


class Pairs(Protocol):
    """Some pairs, the errors on them, and how many cells of the matrix they stand for."""

    @property
    def ratings(self) -> Tensor: ...

    @property
    def seen(self) -> Tensor: ...

    def logit(self, role: str = "prediction") -> Tensor: ...

    def probability(self, role: str = "prediction") -> Tensor: ...

    def error(self, role: str = "prediction") -> Tensor: ...

    def imputed_error(self, role: str = "prediction", imputation: str = "imputation") -> Tensor: ...

    def stake(self, role: str = "prediction") -> Tensor: ...

    def propensity(self, role: str = "propensity") -> Tensor: ...

    def inverse_propensity(self, role: str = "propensity") -> Tensor: ...

    def total(self, values: Tensor) -> Tensor:
        """The sum over all the cells these pairs stand for."""

    @property
    def weight(self) -> float:
        """How many cells each of these pairs stands for."""

    def learn(self, role: str, slopes: Any) -> None:
        """Take d risk / d logit of these pairs for the role's next step."""


class Sample(Protocol):
    """`observed` stands for all seen pairs, `sampled` for all pairs; `n_pairs` is |D|."""

    @property
    def observed(self) -> Pairs: ...

    @property
    def sampled(self) -> Pairs: ...

    @property
    def n_pairs(self) -> float: ...

    @property
    def error_function(self) -> Callable[[Tensor, Tensor], Tensor]: ...

    @property
    def largest_logit(self) -> float:
        """Errors do not change beyond it."""
