"""Calibration experts as the released DCE code fits and uses them: for reproducing published numbers only."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unskew.calibration.base import FittedCalibrator, Tables
from unskew.calibration.experts import FIRST_TEMPERATURE, ExpertPlatt, FittedExperts, Mixture
from unskew.calibration.platt import Examples
from unskew.training.checks import check_choice, check_number

NOISE_STREAM = 0x67756D62


class NoisyExperts(FittedExperts):
    """Experts that go on drawing Gumbel noise, for every pair anew, for as long as training looks them up.

    Whoever asks afterwards is answered by the mixture without noise. What is drawn follows from what is asked, so that
    a run that was stopped goes on with the same bits.
    """

    tau: float = FIRST_TEMPERATURE

    def looked_up(self, logits: Tensor, rows: Tensor, tables: Tables) -> Tensor:
        said = logits.numpy(force=True)
        generator = np.random.default_rng([NOISE_STREAM, zlib.crc32(said.tobytes())])
        beta = noisy(torch.from_numpy(tables[0])[rows], self.tau, generator)
        return super().looked_up(logits, torch.arange(len(said)), (beta.numpy(), *tables[1:]))

    def calibrated(self, logits: Tensor, users: Tensor, of: Any) -> Tensor:
        met, place = np.unique(users.numpy(force=True), return_inverse=True)
        return super().looked_up(logits, torch.from_numpy(place), self.tables(of, met))

    def arrays(self) -> dict[str, NDArray[Any]]:
        return super().arrays() | {"tau": np.asarray(self.tau)}

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]], recipe: Any, log: Any) -> Self:
        fitted = super().from_arrays(arrays, recipe, log)
        fitted.tau = float(arrays["tau"])
        return fitted


@dataclass(frozen=True, kw_only=True)
class PublishedExperts(ExpertPlatt):
    """K Platt experts by mini-batches of Adam with weight decay `l2`, with noise for every pair and at use.

    All start at a = 1, b = -1; the constants of the assignment stay as they were drawn; neither is anything solved nor
    shifted. `objective="contrast"` is the propensity's: the released code hands probabilities to a multi-class loss,
    -sum over seen pairs of log softmax(p over the batch). A constant added to every p changes nothing, so nothing draws
    their mean to the base rate, and noise makes p vary, which the loss punishes: the experts flee to p = 0, where they
    agree. "likelihood" is the imputation's, the cross-entropy weighted by 1/p.
    `batch_size=None` takes all examples at once.
    """

    fitted = NoisyExperts

    objective: Literal["contrast", "likelihood"] = "contrast"
    learning_rate: float = 0.0636
    l2: float = 7.3e-4
    batch_size: int | None = 1024

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self, "objective", ("contrast", "likelihood"))
        check_number(self, "l2", least=0)
        if self.batch_size is not None:
            check_number(self, "batch_size", least=1)

    def fit(
        self,
        examples: Examples,
        *,
        generator: np.random.Generator,
        planned: float = 1.0,
        previous: FittedCalibrator | None = None,
    ) -> FittedCalibrator:
        vectors = torch.from_numpy(examples.vectors)
        mixture = previous.mixture.again() if isinstance(previous, NoisyExperts) else self._fresh(vectors, generator)
        temperatures = self._temperatures(planned, goes_on=previous is not None)
        columns = examples.bounded_logits, examples.labels, examples.weights
        whole = *(torch.from_numpy(column.astype(np.float32)) for column in columns), torch.from_numpy(examples.users)
        batches = list(zip(*(torch.split(column, self.batch_size or len(examples)) for column in whole), strict=True))
        for tau in temperatures:
            for batch in batches:
                self._step(mixture, vectors, batch, tau, generator)
        maps = mixture.maps.value.double().numpy()
        alpha = mixture.log_assignment(vectors).exp().numpy()
        fitted = NoisyExperts.at_rest(mixture, maps[:, 0].copy(), maps[:, 1].copy(), False, alpha)
        fitted.tau = temperatures[-1]
        return fitted

    def _fresh(self, vectors: Tensor, generator: np.random.Generator) -> Mixture:
        """a = 1 and b = -1, as they are; an assignment drawn as linear layers are, on vectors as they are."""
        d = vectors.shape[1]
        bound = d**-0.5
        gate = generator.uniform(-bound, bound, (self.n_experts, d + 1)).astype(np.float32)
        maps = torch.tensor([1.0, -1.0]).repeat(self.n_experts, 1)
        return Mixture(maps, torch.from_numpy(gate), torch.zeros(d), torch.ones(d))

    def _step(
        self, mixture: Mixture, vectors: Tensor, batch: tuple[Tensor, ...], tau: float, generator: np.random.Generator
    ) -> None:
        logits, labels, weights, users = batch
        maps, gate = (table.value.clone().requires_grad_() for table in (mixture.maps, mixture.gate))
        alpha = torch.softmax(mixture.inputs(vectors) @ gate.T, 1)[users]
        said = torch.sigmoid(logits[:, None] * maps[:, 0] + maps[:, 1])
        mixed = (noisy(alpha, tau, generator) * said).sum(1)
        of_maps, of_gate = torch.autograd.grad(self._loss(mixed, labels, weights), (maps, gate))
        of_gate = of_gate + self.l2 * gate.detach()
        of_gate[:, -1] = 0.0  # the released code does not hand the constants to its optimiser
        mixture.maps.move(of_maps + self.l2 * maps.detach(), self.learning_rate)
        mixture.gate.move(of_gate, self.learning_rate)

    def _loss(self, mixed: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
        if self.objective == "contrast":
            return -(labels * torch.log_softmax(mixed, 0)).sum()
        inside = mixed.clamp(1e-7, 1 - 1e-7)
        return -(weights * (labels * inside.log() + (1 - labels) * (1 - inside).log())).sum()


def noisy(alpha: Tensor, tau: float, generator: np.random.Generator) -> Tensor:
    """beta = softmax((log alpha + g) / tau) with Gumbel noise g, a row for every pair."""
    uniform = torch.from_numpy(generator.random(tuple(alpha.shape), dtype=np.float32)).clamp(1e-10, 1 - 1e-7)
    return torch.softmax(((alpha + 1e-10).log() - (-uniform.log()).log()) / tau, 1)
