"""Calibration experts: a few Platt maps and a small network that sends each user to one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from unskew.calibration.platt import Array, Calibrator, Examples, GlobalPlatt, PlattMaps, scalar_platt, solve_platt
from unskew.data.pairs import pair_fold
from unskew.losses.elementwise import ONE, ZERO, F, exp, kernel
from unskew.nets.base import Part, State, Table
from unskew.training.checks import check_choice, check_number

FIRST_TEMPERATURE, LAST_TEMPERATURE = 1.0, 1e-3
MOST_EXAMPLES = 16_384  # that train the assignment
MOST_SOLVED = 131_072  # that the maps at rest are solved on
MOST = 1_000_000  # experts or steps that anybody can mean
_INSIDE, _NOTHING = F(1e-7), F(-40)  # exp of less than -40 is lost in a sum with 1


def temperature(planned: float) -> float:
    """tau = T0 (TQ / T0)^(q / Q), q/Q the share of the plan that is over."""
    return float(FIRST_TEMPERATURE * (LAST_TEMPERATURE / FIRST_TEMPERATURE) ** planned)


@kernel
def assigned(inputs: Any, gate: Any, noise: Any, tau: Any) -> Any:
    """beta_u = softmax((W x_u + g_u) / tau), the constant of W being its last column."""
    beta = np.empty_like(noise)
    for u in range(len(inputs)):
        largest, total = F(-np.inf), ZERO
        for k in range(len(gate)):
            score = noise[u, k]
            for c in range(inputs.shape[1]):
                score += inputs[u, c] * gate[k, c]
            beta[u, k] = score / tau
            largest = max(largest, beta[u, k])
        for k in range(len(gate)):
            beta[u, k] = exp(beta[u, k] - largest) if beta[u, k] - largest > _NOTHING else ZERO
            total += beta[u, k]
        for k in range(len(gate)):
            beta[u, k] /= total
    return beta


@kernel
def _mixture_slopes(
    s: Any, y: Any, w: Any, users: Any, inputs: Any, beta: Any, maps: Any, tau: Any,
    of_maps: Any, of_gate: Any, of_beta: Any, p: Any, m: Any,
) -> None:  # fmt: skip
    """d / d (log a_k, b_k) and d / d W of -sum w log-likelihood of y under m = sum_k beta_uk sigmoid(a_k s + b_k).

    d beta_uk / d score_ul = beta_uk ([k = l] - beta_ul) / tau; m is held away from 0 and 1, where it does not move.
    """
    K, N = len(maps), len(s)
    for k in range(K):
        a, b = np.exp(maps[k, 0]), maps[k, 1]
        for n in range(N):
            p[k, n] = ONE / (ONE + exp(-(a * s[n] + b)))
        for n in range(N):
            m[n] += beta[users[n], k] * p[k, n]
    for n in range(N):
        m[n] = w[n] * (m[n] - y[n]) / (m[n] * (ONE - m[n])) if _INSIDE <= m[n] <= ONE - _INSIDE else ZERO
    for k in range(K):
        a, of_a, of_b = np.exp(maps[k, 0]), ZERO, ZERO
        for n in range(N):
            slope = m[n] * beta[users[n], k] * p[k, n] * (ONE - p[k, n])
            of_a += slope * s[n]
            of_b += slope
        of_maps[k, 0], of_maps[k, 1] = a * of_a, of_b
        for n in range(N):
            of_beta[users[n], k] += m[n] * p[k, n]
    for u in range(len(inputs)):
        mean = ZERO
        for k in range(K):
            mean += beta[u, k] * of_beta[u, k]
        for k in range(K):
            of_score = beta[u, k] * (of_beta[u, k] - mean) / tau
            for c in range(inputs.shape[1]):
                of_gate[k, c] += of_score * inputs[u, c]


def mixture_slopes(
    s: Array, y: Array, w: Array, users: Array, inputs: Array, beta: Array, maps: Array, tau: Any
) -> tuple[Array, Array]:
    """What the kernel adds up, in memory that costs it no time to compile."""
    of_maps, of_gate, of_beta = (
        np.zeros(shape, s.dtype) for shape in (maps.shape, (len(maps), inputs.shape[1]), beta.shape)
    )
    p = np.empty((len(maps), len(s)), s.dtype)
    _mixture_slopes(s, y, w, users, inputs, beta, maps, tau, of_maps, of_gate, of_beta, p, 0 * s)
    return of_maps, of_gate


class Mixture(NamedTuple):
    """K maps (log a_k, b_k) and the gate W of alpha_u = softmax(W x_u), x_u the standardised user vector and a 1."""

    maps: Table
    gate: Table
    centre: Array
    deviation: Array

    @classmethod
    def start(cls, n_experts: int, common: tuple[float, float], vectors: Array, rng: np.random.Generator) -> Mixture:
        """All experts near the common map (a, b), apart enough to break their symmetry."""
        maps = [np.log(common[0]), common[1]] + 0.1 * rng.standard_normal((n_experts, 2), F)
        gate = 0.01 * rng.standard_normal((n_experts, vectors.shape[1] + 1), F)
        centre, deviation = (of(vectors, 0, dtype=np.float64) for of in (np.mean, np.std))
        deviation = np.where(deviation > 1e-8, deviation, 1.0)
        maps_table, gate_table = Table(maps, np.zeros(2)), Table(gate, np.zeros(gate.shape[1]))
        return cls(maps_table, gate_table, np.asarray(centre, F), np.asarray(deviation, F))

    def inputs(self, vectors: Array) -> Array:
        x = (vectors - self.centre) / self.deviation
        return np.hstack([x, np.ones((len(x), 1), F)])

    def descend(
        self, examples: Examples, common: tuple[float, float], steps: int, spec: ExpertPlatt, rng: np.random.Generator
    ) -> None:
        """Take full-batch steps while the temperature falls from its first to its last, one Gumbel draw a user each.

        Shrinkage adds shrinkage / n times half the squared length of the gate and of the maps' distance from the common
        one, n the effective number of examples.
        """
        w, (listed, users) = examples.weights, np.unique(examples.users, return_inverse=True)
        s, y, shares = (x.astype(F) for x in (examples.logits, examples.labels, examples.shares))
        inputs, centre = self.inputs(examples.vectors[listed]), np.array([np.log(common[0]), common[1]], F)
        shrinkage = F(spec.shrinkage * (w**2).sum() / w.sum() ** 2)
        for tau in (F(temperature(step / steps)) for step in range(1, steps + 1)):
            rate = spec.learning_rate * float(tau) ** 2
            exponential = rng.standard_exponential((len(listed), spec.n_experts), F)
            noise = -np.log(np.maximum(exponential, F(1e-10)))
            maps, gate = self.maps.value, self.gate.value
            beta = assigned(inputs, gate, noise, tau)
            of_maps, of_gate = mixture_slopes(s, y, shares, users, inputs, beta, maps, tau)
            self.maps.move(of_maps + shrinkage * (maps - centre), rate)
            self.gate.move(of_gate + shrinkage * gate, rate)

    def assignment(self, vectors: Array) -> Array:
        """alpha without noise: one row a user, one column an expert."""
        gate = self.gate.value / np.append(self.deviation, ONE)
        constant = gate[:, -1] - np.einsum("kc,c->k", gate[:, :-1], self.centre)
        scores = np.einsum("uc,kc->uk", vectors, gate[:, :-1]) + constant
        alpha = np.exp(scores - scores.max(1, keepdims=True))
        return np.asarray(alpha / alpha.sum(1, keepdims=True))


class Experts(PlattMaps):
    """The maps of experts at rest: no noise, one expert a user or the mixture by alpha.

    `usage` is the share of the users with examples that each expert has, `entropy` that of the mean assignment as a
    share of its largest value log K.
    """

    def __init__(self, tables: Sequence[Any], n_parameters: int, usage: Array, entropy: float) -> None:
        weights, slopes, intercepts = tables
        super().__init__(weights, slopes, intercepts, n_parameters)
        self.usage, self.entropy = np.asarray(usage), float(entropy)
        if self.collapsed:
            share = f"{self.usage.max():.1%}"
            self.notes = (f"The experts' assignment has collapsed: {share} of the users share one expert.",)

    @property
    def collapsed(self) -> bool:
        """More than one expert, and all users but one in a hundred with the same."""
        return len(self.usage) > 1 and bool(self.usage.max() > 0.99)

    def state(self) -> dict[str, Array]:
        return super().state() | {"usage": self.usage, "entropy": np.array(self.entropy)}


@dataclass(frozen=True, kw_only=True)
class ExpertPlatt(Calibrator):
    """K Platt experts with a learned assignment of users (DCE: Kweon & Yu, WWW 2024, section 3.2).

    Trained through a Gumbel-softmax whose temperature falls from 1 to 1e-3 within each fit: in `steps` full-batch steps
    if fitted once, in `steps_per_epoch` if fitted after each epoch of a net. The learning rate falls as the square of
    the temperature: the slopes of users who are near a tie grow as it falls, and at a constant rate rounding would end
    up choosing the experts. Without noise, users then have the expert of highest assignment ("hard") or the mixture
    ("expected"); "random" assigns users by chance, as a control. `shrinkage`, in examples, draws the assignment to an
    even one and the maps to the common one while they are trained; without it the network memorises the few held-out
    ratings. Hard experts are solved to convergence on their own users' examples, drawn towards the global map by a
    ridge of `ridge` examples. A common shift keeps the calibrated mean at that of the labels. One expert is
    `GlobalPlatt`.

    K experts on user vectors of width d have 2 K + K (d + 1) parameters. The paper's table counts K (d + 1) and leaves
    the maps out; its formula for both roles, (4 + 2 d) K, leaves the gate's constants out.
    """

    n_experts: int = 5
    steps: int = 100
    steps_per_epoch: int = 30
    learning_rate: float = 0.3
    shrinkage: float = 20.0
    ridge: float = 1.0
    assignment: Literal["hard", "expected", "random"] = "hard"

    def __post_init__(self) -> None:
        for name in ("n_experts", "steps", "steps_per_epoch"):
            check_number(self, name, least=1, most=MOST)
        check_number(self, "learning_rate", above=0)
        check_number(self, "shrinkage", least=0)
        check_number(self, "ridge", least=0)
        check_choice(self, "assignment", ("hard", "expected", "random"))

    def solve(self, examples: Examples, seed: int, once: bool) -> PlattMaps:
        if self.n_experts == 1:
            return GlobalPlatt().solve(examples, seed, once)
        rng = np.random.default_rng(seed)
        examples = examples.of_some_users(MOST_SOLVED, rng)
        common = scalar_platt(examples)
        if self.assignment == "random":
            users = np.append(np.arange(len(examples.vectors) - 1), -1)
            alpha = np.eye(self.n_experts, dtype=F)[pair_fold(seed, users, np.zeros_like(users), self.n_experts)]
            return self._at_rest(alpha, None, examples, common)
        some = examples.of_some_users(MOST_EXAMPLES, rng)
        mixture = Mixture.start(self.n_experts, common, some.vectors[np.unique(some.users)], rng)
        mixture.descend(some, common, self.steps if once else self.steps_per_epoch, self, rng)
        maps = mixture.maps.value.astype(np.float64) if self.assignment == "expected" else None
        return self._at_rest(mixture.assignment(examples.vectors), maps, examples, common)

    def _at_rest(self, alpha: Array, mixed: Array | None, examples: Examples, common: tuple[float, float]) -> Experts:
        """The experts of a mixture, or each solved on its own users; shifted to the mean of the labels."""
        chosen, k, one = alpha.argmax(1), self.n_experts, np.ones((1, 1))
        if mixed is not None:
            tables = alpha, np.exp(mixed[:, 0])[None], mixed[:, 1][None]
        else:
            a, b = solve_platt(examples, chosen[examples.users], k, ridge=self.ridge, centre=common)
            tables = one, a[chosen, None], b[chosen, None]
        listed = alpha[np.unique(examples.users)]
        mean, usage = listed.mean(0), np.bincount(listed.argmax(1), minlength=k) / len(listed)
        entropy = float(-(mean * np.log(np.maximum(mean, 1e-30))).sum() / np.log(k))
        size = 2 * k + (k * (examples.vectors.shape[1] + 1) if self.assignment != "random" else 0)
        return Experts((*tables[:2], tables[2] + examples.shift(*tables)), size, usage, entropy)

    def from_state(self, state: State, owner: Part | None = None) -> PlattMaps:
        if "usage" not in state:  # one expert, or a shift in its place
            return super().from_state(state)
        tables = [state[name] for name in ("weights", "slopes", "intercepts")]
        return Experts(tables, int(state["n_parameters"]), state["usage"], float(state["entropy"]))
