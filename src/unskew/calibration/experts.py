"""Calibration experts: a few Platt maps and a small network that sends each user to one of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from unskew.calibration.base import USERS_AT_ONCE, Calibrator, FittedCalibrator, user_vectors
from unskew.calibration.descent import descend
from unskew.calibration.platt import Examples, Values, solve_platt
from unskew.nets.table import Table
from unskew.training.checks import check_choice, check_number

FIRST_TEMPERATURE, LAST_TEMPERATURE = 1.0, 1e-3
AT_REST = ("slopes", "intercepts", "hard", "usage", "entropy")
MOST_EXAMPLES = 16_384  # that train the assignment
MOST_SOLVED = 131_072  # that the maps at rest are solved on
STEPS_AT_ONCE = 10
MOST = 1_000_000  # experts or steps that anybody can mean
HARD_BELOW = 0.1  # colder than this the experts were trained as a choice, warmer as a mixture


def temperature(planned: float) -> float:
    """tau = T0 (TQ / T0)^(q / Q), q/Q the share of the planned epochs behind us."""
    return float(FIRST_TEMPERATURE * (LAST_TEMPERATURE / FIRST_TEMPERATURE) ** planned)


class Mixture(nn.Module):
    """K maps (log a_k, b_k) and the assignment alpha_u = softmax(W x_u + c), x_u the standardised user vector."""

    centre: Tensor
    spread: Tensor

    def __init__(self, maps: Tensor, gate: Tensor, centre: Tensor, spread: Tensor) -> None:
        super().__init__()
        self.maps, self.gate = Table(maps), Table(gate)
        self.register_buffer("centre", centre)
        self.register_buffer("spread", spread)

    @classmethod
    def start(cls, n_experts: int, a: float, b: float, vectors: Tensor, generator: np.random.Generator) -> Mixture:
        """All experts near the scalar solution (a, b), apart enough to break their symmetry."""
        shapes = (n_experts, 2), (n_experts, vectors.shape[1] + 1)
        noise, gate = (torch.from_numpy(generator.standard_normal(shape, np.float32)) for shape in shapes)
        noise, gate = 0.1 * noise, 0.01 * gate
        spread = vectors.std(0, correction=0)
        maps = torch.tensor([np.log(a), b], dtype=torch.float32) + noise
        return cls(maps, gate, vectors.mean(0), torch.where(spread > 1e-8, spread, 1.0))

    def inputs(self, vectors: Tensor) -> Tensor:
        """x_u, and a one for the constant."""
        x = (vectors - self.centre) / self.spread
        return torch.cat([x, torch.ones(len(x), 1)], 1)

    def log_assignment(self, vectors: Tensor) -> Tensor:
        parts = torch.split(vectors, USERS_AT_ONCE)
        return torch.cat([torch.log_softmax(self.inputs(part) @ self.gate.value.T, 1) for part in parts])

    def descend(
        self, batch: ExpertBatch, temperatures: list[float], recipe: ExpertPlatt, generator: np.random.Generator
    ) -> None:
        """A full-batch step on the weighted cross-entropy for each temperature, with one Gumbel draw a user.

        beta_u = softmax((W x_u + c + g_u) / tau): the normalising term of log alpha_u is the same for all experts and
        drops out. Shrinkage adds shrinkage / n times half the squared length of the gate and of the maps' way from the
        common one, n the effective number of examples.
        """
        inputs, shrinkage = self.inputs(batch.vectors).numpy(), np.float32(recipe.shrinkage / batch.effective_size)
        for first in range(0, len(temperatures), STEPS_AT_ONCE):
            taus = np.array(temperatures[first : first + STEPS_AT_ONCE], np.float32)
            noise = generator.standard_exponential((len(taus), len(inputs), recipe.n_experts), dtype=np.float32)
            tables = self.maps.state, self.gate.state
            descend(batch.columns, inputs, noise, taus, *tables, batch.common, shrinkage, recipe.learning_rate)

    def again(self) -> Mixture:
        """The same, to go on from."""
        twin = Mixture(self.maps.value, self.gate.value, self.centre, self.spread)
        twin.maps, twin.gate = self.maps.again(), self.gate.again()
        return twin


@dataclass(frozen=True, eq=False)
class ExpertBatch:
    """The examples in single precision, their weights adding up to 1, beside the common map (log a, b)."""

    logits: NDArray[np.float32]
    labels: NDArray[np.float32]
    weights: NDArray[np.float32]
    users: NDArray[np.int64]
    vectors: Tensor
    common: NDArray[np.float32]
    effective_size: float

    @property
    def columns(self) -> tuple[NDArray[Any], ...]:
        return self.logits, self.labels, self.weights, self.users

    @classmethod
    def of(cls, examples: Examples, common: tuple[float, float]) -> ExpertBatch:
        w = examples.weights
        return cls(
            examples.bounded_logits.astype(np.float32),
            examples.labels.astype(np.float32),
            (w / w.sum()).astype(np.float32),
            examples.users,
            torch.from_numpy(examples.vectors),
            np.array([np.log(common[0]), common[1]], np.float32),
            float(w.sum() ** 2 / (w**2).sum()),
        )


class FittedExperts(FittedCalibrator):
    """The experts after training: no noise, one expert a user (`hard`) or the mixture by alpha.

    `usage` is the share of the listed users that each expert has, `entropy` that of the mean assignment as a share
    of its largest value log K.
    """

    def __init__(
        self, mixture: Mixture, slopes: Values, intercepts: Values, hard: bool, usage: Values, entropy: float
    ) -> None:
        self.mixture, self.slopes, self.intercepts, self.hard = mixture, slopes, intercepts, hard
        self.usage, self.entropy = usage, entropy
        if self.collapsed:
            share = f"{self.usage.max():.1%}"
            self.notes = (f"The experts' assignment has collapsed: {share} of the users share one expert.",)

    @classmethod
    def at_rest(
        cls, mixture: Mixture, slopes: Values, intercepts: Values, hard: bool, alpha: NDArray[np.float32]
    ) -> Self:
        """With usage and entropy over the users assigned by alpha."""
        mean, k = alpha.mean(0), alpha.shape[1]
        usage = np.bincount(alpha.argmax(1), minlength=k) / len(alpha)
        entropy = float(-(mean * np.log(np.maximum(mean, 1e-30))).sum() / np.log(k)) if k > 1 else 1.0
        return cls(mixture, slopes, intercepts, hard, usage, entropy)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What a file keeps: all numbers at rest, and the assignment network."""
        network = {f"mixture.{name}": value.numpy() for name, value in self.mixture.state_dict().items()}
        return network | {name: np.asarray(getattr(self, name)) for name in AT_REST}

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]], recipe: Any, log: Any) -> Self:
        names = ("maps.value", "gate.value", "centre", "spread")
        mixture = Mixture(*(torch.from_numpy(arrays[f"mixture.{name}"]) for name in names))
        slopes, intercepts, hard, usage, entropy = (arrays[name] for name in AT_REST)
        return cls(mixture, slopes, intercepts, bool(hard), usage, float(entropy))

    @property
    def collapsed(self) -> bool:
        """More than one expert, and all users but one in a hundred with the same."""
        return len(self.slopes) > 1 and bool(self.usage.max() > 0.99)

    @torch.no_grad()
    def assignment(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """alpha: one row a user, one column an expert."""
        return self.mixture.log_assignment(torch.from_numpy(vectors)).exp().numpy()

    def expert_of(self, users: NDArray[np.int64], of: Any) -> NDArray[np.int64]:
        """The expert that each of these users is assigned to most; their vectors are those of the role `of`."""
        chosen: NDArray[np.int64] = self.assignment(user_vectors(of, users)).argmax(1)
        return chosen

    def maps(self, users: NDArray[np.int64], vectors: NDArray[np.float32]) -> tuple[Any, Any, Any]:
        return self.maps_of(self.assignment(vectors))

    def maps_of(self, alpha: NDArray[np.float32]) -> tuple[Any, Any, Any]:
        """The same of users whose assignment is known."""
        if not self.hard:
            return alpha, self.slopes[None], self.intercepts[None]
        chosen = alpha.argmax(1)
        return np.ones((1, 1)), self.slopes[chosen, None], self.intercepts[chosen, None]


@dataclass(frozen=True, kw_only=True)
class ExpertPlatt(Calibrator):
    """K Platt experts with a learned assignment of users (DCE: Kweon & Yu, WWW 2024, section 3.2).

    Trained through a Gumbel-softmax whose temperature falls from 1 to 1e-3 over the planned epochs: `steps` full-batch
    steps if fitted once, `steps_per_epoch` after each epoch if fitted alongside a net. Without noise, users then have
    the expert of highest assignment ("hard") or the mixture ("expected"); "auto" is hard once the temperature ended
    below 0.1. `shrinkage`, in examples, draws the assignment to an even one and the maps to the common one while they
    are trained; without it the network learns the few held-out ratings by heart.
    Hard experts are solved to convergence on their own users' examples, drawn towards the global map by a ridge of
    `ridge` examples. A common shift keeps the calibrated mean at that of the labels. One expert is `GlobalPlatt`.
    """

    fitted = FittedExperts

    n_experts: int = 5
    steps: int = 200
    steps_per_epoch: int = 10
    learning_rate: float = 0.05
    shrinkage: float = 20.0
    ridge: float = 1.0
    assignment: Literal["auto", "hard", "expected"] = "auto"

    def __post_init__(self) -> None:
        for name in ("n_experts", "steps", "steps_per_epoch"):
            check_number(self, name, least=1, most=MOST)
        check_number(self, "learning_rate", above=0)
        check_number(self, "shrinkage", least=0)
        check_number(self, "ridge", least=0)
        check_choice(self, "assignment", ("auto", "hard", "expected"))

    def fit(
        self,
        examples: Examples,
        *,
        generator: np.random.Generator,
        planned: float = 1.0,
        previous: FittedCalibrator | None = None,
    ) -> FittedCalibrator:
        examples = examples.of_some_users(MOST_SOLVED, generator)
        common = self.start(examples)
        batch = ExpertBatch.of(examples.of_some_users(MOST_EXAMPLES, generator), common)
        if isinstance(previous, FittedExperts):
            mixture = previous.mixture.again()
        else:
            mixture = Mixture.start(self.n_experts, *common, batch.vectors, generator)
        mixture.descend(batch, self._temperatures(planned, goes_on=previous is not None), self, generator)
        hard = self.assignment == "hard" or (self.assignment == "auto" and temperature(planned) < HARD_BELOW)
        return self.at_rest(mixture, examples, torch.from_numpy(examples.vectors), common, hard)

    def start(self, examples: Examples) -> tuple[float, float]:
        """The map all experts start from, and are drawn towards: the scalar solution."""
        a, b = solve_platt(examples)
        return float(a[0]), float(b[0])

    def _temperatures(self, planned: float, goes_on: bool) -> list[float]:
        if goes_on or planned < 1:
            return [temperature(planned)] * self.steps_per_epoch
        return [temperature(step / self.steps) for step in range(1, self.steps + 1)]

    @torch.no_grad()
    def at_rest(
        self, mixture: Mixture, examples: Examples, vectors: Tensor, common: tuple[float, float], hard: bool
    ) -> FittedExperts:
        """The experts as they answer after training: solved if hard, and shifted to the mean of the labels."""
        alpha = mixture.log_assignment(vectors).exp().numpy()
        if hard:
            slopes, intercepts = solve_experts(examples, alpha.argmax(1), self.n_experts, self.ridge, common)
        else:
            maps = mixture.maps.value.double().numpy()
            slopes, intercepts = np.exp(maps[:, 0]), maps[:, 1].copy()
        fitted = FittedExperts.at_rest(mixture, slopes, intercepts, hard, alpha)
        fitted.intercepts += examples.shift(*fitted.maps_of(alpha))
        return fitted


def solve_experts(
    examples: Examples, expert_of_user: NDArray[np.integer], n_experts: int, ridge: float, common: tuple[float, float]
) -> tuple[Values, Values]:
    """The experts' maps when everybody's expert is known; with one expert the ridge has nothing to draw towards."""
    if n_experts == 1:
        return np.array([common[0]]), np.array([common[1]])
    return solve_platt(examples, expert_of_user[examples.users], n_experts, ridge=ridge, centre=common)
