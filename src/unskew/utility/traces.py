"""The two traces that selection on utility leaves in a log: which pairs were seen, and how often each item was."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import ndtri

from unskew.utility.law import largest_slope, roughly_population_logit
from unskew.utility.population import Elements, Population
from unskew.utility.rates import fit_margins, scores_of_groups

Values = NDArray[np.float64]

NORMAL_95 = float(ndtri(0.975))


class Profile(NamedTuple):
    """The slope of highest likelihood, where the likelihood has fallen by 1.92, and its gain over slope 0."""

    slope: float
    low: float
    high: float
    gain: float
    error: float  # standard error, from the width of the interval
    above_half: float  # share of pairs with a chance above 1/2, where rates are no longer chances
    gamma: float  # by how much the log rate rises, beyond liking, with one deviation of what features explain


class InteractionTrace:
    """The likelihood of which pairs were seen, given how many each user and each item has in each fold.

    For a slope, every element's rate is a_g b_i exp(slope z), z = m_t^{-1}(score - threshold); activity and exposure
    are fitted to the fold's margins, so only the interaction between users and items speaks; of that, not what
    features explain, if they are known (see `utility.exposure`). It is the average over all dealings of the pairs
    into folds.
    """

    def __init__(self, population: Population, threshold: float, unexplained: float) -> None:
        self.population, self.threshold, self.unexplained = population, threshold, unexplained
        self._margins = [_Margins(elements, population.sampled) for elements in population.folds]

    def log_likelihood(self, slope: float) -> float:
        t = self.unexplained * slope
        total = sum(fold.log_likelihood(slope, self.threshold, t) for fold in self._margins)
        return total / self.population.n_repeats

    def highest(self, near: float | None = None) -> float:
        """The slope of highest likelihood, anywhere or within 0.1 of where it is known to be."""
        bound = largest_slope(self.unexplained)
        ends = (-bound, bound) if near is None else tuple(np.clip((near - 0.1, near + 0.1), -bound, bound))
        found = minimize_scalar(lambda slope: -self.log_likelihood(slope), bounds=ends, options={"xatol": 1e-3})
        return float(found.x)

    def profile(self) -> Profile:
        bound, slope = largest_slope(self.unexplained), self.highest()
        top = self.log_likelihood(slope)
        gain = top - self.log_likelihood(0.0)
        if gain < 0:  # flat: nothing is better than nothing
            slope, top, gain = 0.0, top - gain, 0.0
        self.log_likelihood(slope)
        above = float(np.mean([fold.above_half for fold in self._margins]))
        gamma = float(np.mean([fold.gamma[0] for fold in self._margins]))
        low, high = (self._end(slope, top, side, bound) for side in (-1, 1))
        return Profile(slope, low, high, gain, (high - low) / (2 * NORMAL_95), above, gamma)

    def _end(self, slope: float, top: float, side: int, bound: float) -> float:
        """Where the root of twice the loss reaches 1.96: nearly a line, so the secant finds it in a few steps."""

        def root(at: float) -> float:
            return float(np.sqrt(max(2 * (top - self.log_likelihood(at)), 0.0)))

        inner, reached, step = slope, 0.0, 0.05
        for _ in range(20):
            outer = float(np.clip(inner + side * step, -bound, bound))
            value = root(outer)
            at_bound = abs(outer) == bound and value < NORMAL_95
            if abs(value - NORMAL_95) < 0.01 or at_bound or outer == inner:
                return outer
            rise = (value - reached) / (side * (outer - inner))
            inner, reached = outer, value
            step = float(np.clip((NORMAL_95 - value) / max(rise, 1e-3), -0.2, 0.2))
        return inner

    def user_scores(self, slope: float, n_users: int) -> tuple[Values, Values]:
        """Score and information about each user's own slope at the common one, averaged over all dealings."""
        t = self.unexplained * slope
        total = np.zeros((n_users, 2))
        for fold in self._margins:
            np.add.at(total, fold.elements.user, fold.scores(slope, self.threshold, t))
        return total[:, 0] / self.population.n_repeats, total[:, 1] / self.population.n_repeats


class _Margins:
    """The margins of one fold, which go on from where the last slope left them."""

    def __init__(self, elements: Elements, rare: bool) -> None:
        self.elements, self.rare = elements, rare
        self.cases = elements.cases_of_group, elements.cases_of_item
        self.a = (self.cases[0] > 0).astype(np.float64)
        self.b = self.cases[1] / max(self.cases[1].sum(), 1.0)
        self.gamma = np.zeros(1)
        self.above_half = 0.0

    def _utility(self, slope: float, threshold: float, t: float) -> tuple[Values, Values]:
        """z and the weight exp(slope z) of every element."""
        utility = roughly_population_logit(self.elements.score - threshold, t)
        return utility, np.exp(slope * utility + self.elements.log_weight)

    def scores(self, slope: float, threshold: float, t: float) -> Values:
        """Score and information of every group, with margins that fit the slope."""
        self.log_likelihood(slope, threshold, t)
        e, (utility, weight) = self.elements, self._utility(slope, threshold, t)
        if len(e.control):
            weight *= np.exp(self.gamma * e.control)
        out = np.empty((len(self.a), 2))
        scores_of_groups(e.start, e.item, weight, e.case, utility, self.a, self.b, self.rare, out)
        return out

    def log_likelihood(self, slope: float, threshold: float, t: float) -> float:
        e, (_, weight) = self.elements, self._utility(slope, threshold, t)
        margins = e.start, e.item, weight, e.case, *self.cases, self.a, self.b
        likelihood, self.above_half = fit_margins(*margins, self.rare, e.control, self.gamma)
        return float(likelihood)


class ItemTrace(NamedTuple):
    """The slope of log(item count) on an item's mean utility, and its standard error."""

    slope: float
    error: float


def item_trace(counts: Values, utility: Values, variance: Values) -> ItemTrace:
    """The slope of x = log(count + 1/2) on z, where z is known only with noise of a given variance.

    Regressing x on a noisy z would flatten the slope, and a z shrunk towards the average forgets that items with few
    ratings may have few because they are bad. So z, weighted by how well it is known, is regressed on x instead, and
    turned round: slope = cov(x, z) / var(z), where cov(x, z) = gamma var(x), var(z) = gamma^2 var(x) + what is left.
    Right if exposure has nothing to do with quality.
    """
    x, known = np.log(counts + 0.5), np.isfinite(variance)
    if known.sum() < 3 or np.ptp(x[known]) == 0:
        return ItemTrace(0.0, float("inf"))
    z, v, at = utility[known], variance[known], x[known]
    left = float(np.var(z))
    for _ in range(100):
        weight = 1 / (v + left)
        centred = at - np.average(at, weights=weight)
        gamma = float((weight * centred) @ z / (weight @ centred**2))
        residual = z - np.average(z, weights=weight) - gamma * centred
        left = max(float(weight**2 @ (residual**2 - v) / (weight**2).sum()), 1e-4)
    turned = np.var(x) / (gamma**2 * np.var(x) + left)
    return ItemTrace(gamma * float(turned), float(turned / np.sqrt(weight @ centred**2)))
