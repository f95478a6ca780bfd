"""Slopes by expert: users differ in how much liking drives them, and a small network says who is like whom."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from unskew.calibration.descent import noisy_assignment
from unskew.calibration.experts import Mixture, temperature
from unskew.nets.table import Table
from unskew.utility.law import largest_slope

Values = NDArray[np.float64]

STEPS, LEARNING_RATE = 200, 0.05
SHRINKAGE = 20.0  # draws the assignment to an even one, as that of calibration experts
PRIOR_SPREAD = 0.5  # of the experts' slopes around the common one, as a share of it


@dataclass(frozen=True, eq=False)
class UserScores:
    """d log-likelihood / d slope of each user at the common slope, and the information about it; users by code."""

    score: Values
    information: Values
    vectors: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class SlopeExperts:
    """The slope of each expert and the expert of each user; `gain` is that of log-likelihood over the common slope."""

    slopes: Values
    expert: NDArray[np.int64]
    gain: float


def fit_experts(
    users: UserScores, slope: float, unexplained: float, n_experts: int, generator: np.random.Generator
) -> SlopeExperts:
    """Experts by the assignment network of the calibration experts (DCE: Kweon & Yu, WWW 2024, section 3.2).

    To second order, user u gains q_u(d) = score d - information d^2 / 2 from a slope d above the common one. Gate and
    deviations d_k maximise sum_u sum_k beta_uk q_u(d_k) through a Gumbel-softmax of falling temperature; then everybody
    has one expert, whose deviation is solved for, shrunk to 0 as by a normal prior.
    """
    prior = 1 / (PRIOR_SPREAD * slope) ** 2
    vectors = torch.from_numpy(users.vectors)
    mixture = Mixture.start(n_experts, 1.0, 0.0, vectors, generator)
    deviations = Table(torch.from_numpy(generator.normal(0, PRIOR_SPREAD * abs(slope), (n_experts, 1))).float())
    inputs, g, h = mixture.inputs(vectors), users.score[:, None], users.information[:, None]
    for step in range(1, STEPS + 1):
        tau = np.float32(temperature(step / STEPS))
        noise = generator.standard_exponential((len(inputs), n_experts), dtype=np.float32)
        beta = noisy_assignment((inputs @ mixture.gate.value.T).numpy(), noise, tau)
        d = deviations.value[:, 0].double().numpy()
        gain = g * d - h * d**2 / 2
        of_scores = -beta * (gain - (beta * gain).sum(1, keepdims=True)) / tau
        of_slopes = prior * d - (beta * (g - h * d)).sum(0)
        of_gate = torch.from_numpy(of_scores.astype(np.float32)).T @ inputs + SHRINKAGE * mixture.gate.value
        mixture.gate.move(of_gate, LEARNING_RATE)
        deviations.move(torch.from_numpy(of_slopes.astype(np.float32))[:, None], LEARNING_RATE * abs(slope))
    expert = mixture.log_assignment(vectors).argmax(1).numpy()
    score, information = (
        np.bincount(expert, weights=part, minlength=n_experts) for part in (users.score, users.information)
    )
    solved = score / (information + prior)
    bound = largest_slope(unexplained)
    gain = float(score @ solved - (information * solved**2).sum() / 2)
    return SlopeExperts(np.clip(slope + solved, -bound, bound), expert.astype(np.int64), gain)
