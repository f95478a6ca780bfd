"""Calibration experts: a few Platt maps and a small network that sends each user to one of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from unskew.calibration.platt import ONE, Calibrator, Examples, PlattMaps, Rng, one_map, scalar_platt, solve_platt
from unskew.data.pairs import pair_fold
from unskew.losses.columns import Array, sigmoid
from unskew.nets.base import Table
from unskew.settings import setting

F = np.float32
LAST_TEMPERATURE = 1e-3
MOST_EXAMPLES = 16_384  # that train the assignment
MOST_SOLVED = 131_072  # that the maps at rest are solved on
MOST = 1_000_000  # experts or steps that anybody can mean
INSIDE = 1e-7  # a probability nearer to 0 or 1 does not move


def temperature(planned: float) -> float:
    """tau = T0 (TQ / T0)^(q / Q), T0 = 1 and q/Q the share of the plan that is over."""
    return float(LAST_TEMPERATURE**planned)


def gumbel(rng: Rng, shape: tuple[int, int]) -> Array:
    """Draw g = -log E, E standard exponential: the largest of log alpha_k + g_k is k with probability alpha_k."""
    return np.asarray(-np.log(np.maximum(rng.standard_exponential(shape, F), F(1e-10))))


def assigned(inputs: Array, gate: Array, noise: Array, tau: float) -> Array:
    """beta_ku = softmax_k((W x_u + g_u) / tau), the constant of W being its last column.

    By einsum, as everywhere here: bits of matrix products depend on the number of threads.
    """
    scores = (np.einsum("kc,uc->ku", gate, inputs) + noise) / tau
    beta = np.exp(scores - scores.max(0))
    return np.asarray(beta / beta.sum(0))


def mixture_slopes(
    s: Array, y: Array, w: Array, users: Array, inputs: Array, beta: Array, maps: Array, tau: float
) -> tuple[Array, Array]:
    """d / d (log a_k, b_k) and d / d W of -sum w log-likelihood of y under m = sum_k beta_ku sigmoid(a_k s + b_k).

    Examples are in the order of users. d beta_ku / d score_lu = beta_ku ([k = l] - beta_lu) / tau.
    """
    a, b = np.exp(maps[:, :1]), maps[:, 1:]
    p, chosen = sigmoid(a * s + b), beta.take(users, axis=1)
    m = (chosen * p).sum(0)
    held = np.minimum(np.maximum(m, INSIDE), 1 - INSIDE)
    of_chosen = p * (w * (m - y) / (held * (1 - held)) * (m == held))
    of_z = of_chosen * chosen * (1 - p)
    of_beta = np.add.reduceat(of_chosen, np.searchsorted(users, np.arange(len(inputs))), axis=1)
    of_score = beta * (of_beta - (beta * of_beta).sum(0)) / tau
    return np.column_stack([a[:, 0] * (of_z * s).sum(1), of_z.sum(1)]), np.einsum("ku,uc->kc", of_score, inputs)


class Mixture(NamedTuple):
    """K maps (log a_k, b_k) and the gate W of alpha_u = softmax(W x_u), x_u the standardised user vector and a 1."""

    maps: Table
    gate: Table
    centre: Array
    deviation: Array

    @classmethod
    def start(cls, n_experts: int, common: tuple[float, float], vectors: Array, rng: Rng) -> Mixture:
        """Return all experts near the common map (a, b), apart enough to break their symmetry."""
        maps = [np.log(common[0]), common[1]] + 0.1 * rng.standard_normal((n_experts, 2), F)
        gate = 0.01 * rng.standard_normal((n_experts, vectors.shape[1] + 1), F)
        centre, deviation = (np.asarray(of(vectors, 0, dtype=np.float64), F) for of in (np.mean, np.std))
        deviation = np.where(deviation > 1e-8, deviation, F(np.inf))
        return cls(Table(maps, np.zeros(2)), Table(gate, np.zeros(gate.shape[1])), centre, deviation)

    def inputs(self, vectors: Array) -> Array:
        x = (vectors - self.centre) / self.deviation
        return np.hstack([x, np.ones((len(x), 1), F)])

    def descend(self, examples: Examples, common: tuple[float, float], steps: int, spec: ExpertPlatt, rng: Rng) -> None:
        """Take full-batch steps while the temperature falls from its first to its last, one Gumbel draw a user each.

        Shrinkage adds shrinkage / n times half the squared length of the gate and of the maps' distance from the common
        one, n the effective number of examples.
        """
        w, (listed, users) = examples.weights, np.unique(examples.users, return_inverse=True)
        s, y, shares = (x.astype(F) for x in (examples.logits, examples.labels, examples.shares))
        inputs, centre = self.inputs(examples.vectors[listed]), np.array([np.log(common[0]), common[1]], F)
        shrinkage = F(spec.shrinkage * (w**2).sum() / w.sum() ** 2)
        for tau in (temperature(step / steps) for step in range(1, steps + 1)):
            maps, gate = self.maps.value, self.gate.value
            beta = assigned(inputs, gate, gumbel(rng, (spec.n_experts, len(listed))), tau)
            of_maps, of_gate = mixture_slopes(s, y, shares, users, inputs, beta, maps, tau)
            self.maps.move(of_maps + shrinkage * (maps - centre), spec.learning_rate * tau**2)
            self.gate.move(of_gate + shrinkage * gate, spec.learning_rate * tau**2)

    def assignment(self, vectors: Array) -> Array:
        """alpha without noise: one row a user, one column an expert."""
        return assigned(self.inputs(vectors), self.gate.value, np.zeros((1, 1), F), 1.0).T


@dataclass(frozen=True, kw_only=True)
class ExpertPlatt(Calibrator):
    """K Platt experts with a learned assignment of users (DCE: Kweon & Yu, WWW 2024, section 3.2).

    Trained through a Gumbel-softmax whose temperature falls from 1 to 1e-3 within each fit: in `steps` full-batch steps
    if fitted once, in `steps_per_epoch` if fitted after each epoch of a net. The learning rate falls as the square of
    the temperature: the slopes of users who are near a tie grow as it falls, and at a constant rate rounding would end
    up choosing the experts. Users then have the expert of highest assignment without noise; "random" assigns them by
    chance, as a control. `shrinkage`, in examples, draws the assignment to an
    even one and the maps to the common one while they are trained; without it the network memorises the few held-out
    ratings. Experts are solved to convergence on their own users' examples, drawn towards the global map by a
    ridge of `ridge` examples. A common shift keeps the calibrated mean at that of the labels. One expert is
    `GlobalPlatt`.

    K experts on user vectors of width d have 2 K + K (d + 1) parameters. The paper's table counts K (d + 1) and leaves
    the maps out; its formula for both roles, (4 + 2 d) K, leaves the gate's constants out.
    """

    n_experts: int = setting(5, least=1, most=MOST)
    steps: int = setting(100, least=1, most=MOST)
    steps_per_epoch: int = setting(30, least=1, most=MOST)
    learning_rate: float = setting(0.3, above=0)
    shrinkage: float = setting(20.0, least=0)
    ridge: float = setting(1.0, least=0)
    assignment: Literal["hard", "random"] = "hard"

    def solve(self, examples: Examples, held_out: Examples | None, rng: Rng, once: bool) -> PlattMaps:
        if self.n_experts == 1:
            return one_map(*scalar_platt(examples), n_parameters=2)
        k, examples = self.n_experts, examples.of_some_users(MOST_SOLVED, rng)
        common, size = scalar_platt(examples), 2 * k
        if self.assignment == "random":
            users = np.append(np.arange(len(examples.vectors) - 1), -1)
            alpha = np.eye(k, dtype=F)[pair_fold(int(rng.integers(2**62)), users, np.zeros_like(users), k)]
        else:
            some = examples.of_some_users(MOST_EXAMPLES, rng)
            mixture = Mixture.start(k, common, some.vectors[np.unique(some.users)], rng)
            mixture.descend(some, common, self.steps if once else self.steps_per_epoch, self, rng)
            alpha, size = mixture.assignment(examples.vectors), size + mixture.gate.value.size
        chosen = alpha.argmax(1)
        of = chosen[examples.users]
        a, b = solve_platt(examples, of, k, ridge=self.ridge, centre=common)
        b += examples.shift(a[of] * examples.logits + b[of], examples.target_mean)
        return PlattMaps(ONE, a[chosen, None], b[chosen, None], size, *usage_of(alpha[np.unique(examples.users)]))


def usage_of(alpha: Array) -> tuple[Array, float]:
    """Find the share of users that each expert has, and the entropy of the mean assignment over its largest."""
    mean, k = alpha.mean(0), alpha.shape[1]
    entropy = -(mean * np.log(np.maximum(mean, 1e-30))).sum() / np.log(k)
    return np.bincount(alpha.argmax(1), minlength=k) / len(alpha), float(entropy)
