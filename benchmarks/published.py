"""What public code minimises where it departs from the papers: for reproducing published numbers, not for use.

Importing this module registers `drjl-published` and `dce-dr-published`. The departures are those of the released DCE
code and its relatives: the C-form of the doubly robust objective, the imputed error with its arguments swapped, sums
instead of means over all pairs, dense weight decay on nets without biases, propensities fitted by squared error, and a
stop by the training loss. Public code also holds out the last rows of each user, takes 128 ratings a batch on Coat and
plans 1,000 epochs: that belongs to the run, `Training(holdout_by="last", batch_size=128, max_epochs=1000)`.
"""

from __future__ import annotations

import zlib
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from unskew.calibration.experts import ExpertPlatt, Mixture, assigned, gumbel, temperature, usage_of
from unskew.calibration.platt import Examples, PlattMaps
from unskew.data.population import AllPairs, Folds
from unskew.losses.batch import Rows, View
from unskew.losses.columns import Column, sigmoid, square
from unskew.losses.weighting import ips
from unskew.methods.calibrated import DoublyCalibrated
from unskew.methods.robust import DRJL
from unskew.nets.base import NetContext, NetSpec, Part, State, Table
from unskew.nets.factors import MF, NCF, TableNet
from unskew.propensity.base import Propensity
from unskew.propensity.factors import CrossFitted, Factors
from unskew.registry import register
from unskew.settings import setting
from unskew.training.loop import train
from unskew.training.options import Patience
from unskew.training.plan import Given, Plan, Role

Array = NDArray[Any]
F = np.float32
FLAT_EPOCHS, FLAT_SHARE = 7, 1e-4
NOISE_STREAM = 0x67756D62


class Flatline(Patience):
    """Stop at the seventh epoch whose risk on the training rows fell by less than a share of itself; keep the last.

    The seven need not follow each other.
    """

    judged_on = "train"

    def __init__(self, patience: int) -> None:
        super().__init__(FLAT_EPOCHS)
        self.flat = 0

    def record(self, risk: float) -> bool:
        self.epoch += 1
        self.flat += self.epoch > 1 and self.best_risk - risk < FLAT_SHARE * abs(self.best_risk)
        self.best_risk = risk
        return False

    @property
    def exhausted(self) -> bool:
        return self.flat >= self.patience


class DenseTable(Table):
    """A table that takes Adam's step as a whole, with `l2` times the value added to the gradient.

    That is a framework's Adam with weight decay: rows that a batch does not read move too, by their momentum and by
    the decay, so the strength of the L2 depends on how many steps there are to a reading.
    """

    def step(self, rate: float, l2: float) -> None:
        if self.marks[3, -1]:
            self.learn(np.arange(len(self.value)), F(l2) * self.value)
            super().step(rate, 0.0)

    def rest(self) -> int:
        """All rows have moved; the unknown one is the average of them."""
        self.value[-1] = self.value[:-1].mean(0, dtype=np.float64)
        return 0


@register("dense")
@dataclass(frozen=True, kw_only=True)
class Dense(NetSpec):
    """A net whose tables take dense steps with weight decay on all of them, constants included.

    By default around the net of the literature: factors without biases that start normal, of variance 1. The cost of
    a step grows with the numbers of users and items.
    """

    net: NetSpec = field(default_factory=lambda: MF(n_factors=16, biases=False, init_std=1.0))

    def build(self, context: NetContext, rng: np.random.Generator, owner: Part | None = None) -> TableNet:
        return self.from_state(self.net.build(context, rng).state())

    def from_state(self, state: State, owner: Part | None = None) -> TableNet:
        net = self.net.from_state(state)
        assert isinstance(net, TableNet)
        return type(net)(**{name: DenseTable(table.value, table.decay) for name, table in net.tables.items()})


@register("published-factors")
@dataclass(frozen=True, kw_only=True)
class PublishedFactors(Factors):
    """p = sigmoid(a_u + b_i + c) by squared error with dense weight decay, read where it was trained.

    With the released decay of 0.252 all vectors go to 0 and p to one constant, where 2 (p - |O|/|D|) p (1 - p) and the
    pull of the decay on c are in balance: about 0.36 on Coat, of whose pairs 0.08 are seen. That is let pass here.
    """

    net: NetSpec = field(default_factory=lambda: Dense(net=NCF(n_factors=16, hidden=False, init_std=1.0)))
    n_folds: int | None = 1
    learning_rate: float = 0.0593
    l2: float = 0.252
    loss: Literal["likelihood", "squared"] = "squared"

    def plan(self) -> Plan:
        plan = super().plan()
        return Plan(plan.roles, (plan.stages[0]._replace(stopping=Flatline),), pairs_per_row=plan.pairs_per_row)

    def fit_in(self, given: Given) -> CrossFitted:
        """Nothing is refused: the collapse is part of what is reproduced."""
        trained = train(self.plan(), given.split, seed=given.seed, training=given.training)
        folds = Folds(1, given.seed, AllPairs(given.log.n_users, given.log.n_items))
        return CrossFitted(trained.parts["propensity"], folds, trained.history)


class NoisyExperts(PlattMaps):
    """Experts that go on drawing Gumbel noise, for every pair anew, whenever they are asked.

    What is drawn follows from what is asked, so that the same question gets the same answer.
    """

    def __init__(self, *tables: Any, tau: Any = 1.0, mixture: Mixture | None = None, **known: Any) -> None:
        super().__init__(*tables, **known)
        self.tau, self.mixture = float(tau), mixture

    def calibrated(self, logits: Array, users: Array) -> Array:
        weights, slopes, intercepts = self.tables
        logits = np.ascontiguousarray(logits, F)
        rng = np.random.default_rng([NOISE_STREAM, zlib.crc32(logits.tobytes())])
        beta = softmax((np.log(weights[users] + F(1e-10)) + gumbel(rng, (len(users), slopes.size))) / F(self.tau), 1)
        return PlattMaps(beta, slopes, intercepts, 0).calibrated(logits, np.arange(len(users)))

    def state(self) -> dict[str, Array]:
        return super().state() | {"tau": np.array(self.tau)}


@register("published-experts")
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

    objective: Literal["contrast", "likelihood"] = "contrast"
    step_back: bool = False
    steps: int = 200
    steps_per_epoch: int = 10
    learning_rate: float = 0.0636
    l2: float = setting(7.3e-4, least=0)
    batch_size: int | None = 1024

    def fit(
        self,
        examples: Examples,
        held_out: Examples | None = None,
        *,
        rng: np.random.Generator,
        planned: float = 1.0,
        previous: Part | None = None,
    ) -> NoisyExperts:
        before = previous.mixture if isinstance(previous, NoisyExperts) else None
        mixture = self._start(examples.vectors, rng) if before is None else deepcopy(before)
        once, size = previous is None and planned == 1, self.batch_size or len(examples)
        plan = np.arange(1, self.steps + 1) / self.steps if once else np.full(self.steps_per_epoch, planned)
        s, y, w = (column.astype(F) for column in (examples.logits, examples.labels, examples.weights))
        x, maps, gate = mixture.inputs(examples.vectors)[examples.users], mixture.maps, mixture.gate
        for tau in map(temperature, plan):
            for first in range(0, len(examples), size):
                rows = slice(first, first + size)
                of_maps, of_gate = self.slopes(maps.value, gate.value, s[rows], y[rows], w[rows], x[rows], tau, rng)
                of_gate = of_gate + F(self.l2) * gate.value
                of_gate[:, -1] = 0  # the released code does not hand the constants to its optimiser
                maps.move(of_maps + F(self.l2) * maps.value, self.learning_rate)
                gate.move(of_gate, self.learning_rate)
        alpha, size = mixture.assignment(examples.vectors), int(maps.value.size + gate.value.size)
        usage, entropy = usage_of(alpha[:-1])
        tables, known = (alpha, *maps.value.copy().T[:, None]), {"usage": usage, "entropy": entropy}
        return NoisyExperts(*tables, n_parameters=size, **known, tau=temperature(plan[-1]), mixture=mixture)

    def _start(self, vectors: Array, rng: np.random.Generator) -> Mixture:
        """a = 1 and b = -1, as they are; an assignment drawn as linear layers are, on vectors as they are."""
        d = vectors.shape[1]
        gate = rng.uniform(-(d**-0.5), d**-0.5, (self.n_experts, d + 1)).astype(F)
        maps = np.tile(np.array([1, -1], F), (self.n_experts, 1))
        return Mixture(Table(maps, np.zeros(2)), Table(gate, np.zeros(d + 1)), np.zeros(d, F), np.ones(d, F))

    def slopes(
        self, maps: Array, gate: Array, s: Array, y: Array, w: Array, x: Array, tau: float, rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """d loss / d (a, b) and d loss / d W, where m = sum_k beta_k c_k, c_k = sigmoid(a_k s + b_k).

        beta = softmax((W x + g) / tau); for a softmax d beta_k / d z_l = beta_k ([k = l] - beta_l).
        """
        beta = assigned(x, gate, gumbel(rng, (len(maps), len(x))), tau)
        c = sigmoid(maps[:, :1] * s + maps[:, 1:])
        of_m = self._loss_slope((beta * c).sum(0), y, w)
        of_z = of_m * beta * c * (1 - c)
        of_score = beta * (of_m * c - (beta * of_m * c).sum(0)) / F(tau)
        return np.column_stack([of_z @ s, of_z.sum(1)]), of_score @ x

    def _loss_slope(self, m: Array, y: Array, w: Array) -> Array:
        if self.objective == "contrast":
            return np.asarray(y.sum() * softmax(m) - y)
        held = np.clip(m, 1e-7, 1 - 1e-7)
        return np.asarray(w * (m - y) / (held * (1 - held)) * (held == m))

    def from_state(self, state: State, owner: Part | None = None) -> NoisyExperts:
        return NoisyExperts(**state)


def summed(rows: Rows, column: Any) -> Any:
    """The sum over the rows themselves, whatever they stand for."""
    return rows.total(column) / rows.cells


def swapped_error(rows: Rows) -> Column:
    """The cross-entropy of the imputation against the *prediction*, softplus(s) - r s, its logits not bounded."""
    s, r = rows.logits("imputation"), sigmoid(rows.logits("prediction"))
    learns = "imputation" in rows.parts.learning
    return Column(np.logaddexp(F(0), s) - r * s, {"imputation": sigmoid(s) - r} if learns else None)


@register("drjl-published")
@dataclass(frozen=True, kw_only=True)
class DRJLPublished(DRJL):
    """DR-JL as public code has it: e/p - e_imputed on seen pairs, swapped arguments in the imputation loss.

    Prediction: (1/B) [sum_O (e/p - e_imputed) + sum_sampled e_imputed] for a batch of B ratings: not doubly robust.
    Imputation: sum_O (e - e'_imputed)^2 / p with e'_imputed = cross-entropy of r_imputed against the *prediction*,
    which pulls the imputation towards the prediction. It learns after the prediction, and training stops when
    sum_O e/p falls no longer on the training ratings. `l2` is the weight decay of a dense Adam. The defaults are the
    values that public code has for Coat.
    """

    net: NetSpec = field(default_factory=lambda: Dense(net=MF(n_factors=8, biases=False, init_std=1.0)))
    propensity: Propensity = field(default_factory=lambda: PublishedFactors(learning_rate=0.01, l2=0.1))
    l2: float | None = setting(1e-3, least=0)
    imputation_learning_rate: float | None = setting(None, above=0)
    clip: float | None = setting(0.05, least=0, most=1)
    pairs_per_row: float = setting(1.0, above=0)

    def prediction_loss(self, v: View) -> Any:
        o, d = v.observed, v.sampled
        on_seen = summed(o, o.error() * o.inverse_propensity() - o.imputed_error())
        return (on_seen + summed(d, d.imputed_error())) / len(o)

    def imputation_loss(self, v: View) -> Any:
        o = v.observed
        return summed(o, o.inverse_propensity() * square(o.error() - swapped_error(o)))

    def imputation_role(self) -> Role:
        rate = self.imputation_learning_rate
        return super().imputation_role()._replace(rate=self.learning_rate if rate is None else rate)

    def plan(self) -> Plan:
        plan = super().plan()
        first, learning = plan.stages
        learning = learning._replace(steps=learning.steps[::-1], validate=ips, stopping=Flatline)
        return Plan(plan.roles, (first, learning), plan.error, plan.pairs_per_row)


def released_dce_dr() -> DoublyCalibrated:
    """DCE-DR with the settings that its authors released for Coat."""
    base = DRJLPublished(
        net=Dense(),
        propensity=PublishedFactors(),
        learning_rate=0.0216,
        l2=4.9e-3,
        imputation_learning_rate=0.0908,
        imputation_l2=0.34,
        clip=0.0903,
        pairs_per_row=2.0,
    )
    imputation = PublishedExperts(objective="likelihood", learning_rate=0.0422, l2=6.1e-4, batch_size=None)
    return DoublyCalibrated(base, propensity=PublishedExperts(), imputation=imputation)


register("dce-dr-published", released_dce_dr(), note="DCE-DR as its authors released it, with their settings for Coat.")
