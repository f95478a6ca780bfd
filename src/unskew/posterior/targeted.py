"""Correct an imputation by all left-out ratings: a targeted map of its logit and of log p, with experts by user group.

logit r = a + b logit q + c log p + deviations of a and b of the user's expert, fitted to left-out ratings weighted by
1 / p (in the sense of targeted learning: van der Laan and Rubin, Int. J. Biostatistics 2(1), 2006). With weights 1 / p
its residuals sum to 0 over all pairs, so the mean is right if p is, or if the imputation is. Deviations are shrunk by
empirical Bayes. The map is applied only if it lowers the cross-fitted weighted log-loss by two standard errors. Without
p, weights and experts it is Platt's. Neither reverses an order: one that left-out ratings contradict becomes flat.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unskew.calibration.platt import SMALLEST_SLOPE
from unskew.metrics.intervals import effective_sample_size, two_way_error
from unskew.nets.near import Near
from unskew.posterior import defaults
from unskew.posterior.kernels import Float, Int
from unskew.special import expit

EXPERTS = 5
TENTHS = 10
FEWEST = 30
"""Ratings of equal weight that left-out ones must be worth: one that outweighs all others has no error to be seen."""


@dataclass(frozen=True)
class Targeted:
    """Hold the map, whether its gate opened, and the residuals that it was asked to remove."""

    coefficients: Float
    """a, b, c."""
    deviations: Float
    """A row an expert: of a and of b."""
    experts: Int
    """The expert of every user."""
    applied: bool
    gain: float
    error: float
    residuals: Float
    """Weighted mean of rating minus imputation, its standard error, ratings: by tenth of p, then by expert."""

    def logits(self, logit_q: Float, log_p: Float, users: Int) -> Float:
        """Return the corrected logits; those given, to the bit, if the gate is shut."""
        if not self.applied:
            return logit_q
        (a, b, c), own = self.coefficients, self.deviations[self.experts[users]].T
        return np.asarray(a + own[0] + (b + own[1]) * logit_q + c * log_p)

    def near(self, logit_q: Near, users: Int) -> Near:
        """Return the same of users and all items at once, without what log p adds."""
        (a, b, _), own = self.coefficients, self.deviations[self.experts[users]]
        return logit_q.line(a + own[:, :1], b + own[:, 1])

    def with_new(self, n_users: int) -> Targeted:
        """Return the same with more users, whose expert deviates in nothing."""
        experts = np.append(self.experts, np.full(n_users, len(self.deviations)))
        return replace(self, deviations=np.vstack([self.deviations, np.zeros((1, 2))]), experts=experts)

    def sentence(self, what: str, loss: str, rows: str) -> str:
        """Say whether the map, called `what`, acts, by the gain of left-out `rows`."""
        figure = f"left-out {rows} gain {self.gain:.4f} +- {self.error:.4f} in {loss}"
        if self.applied:
            a, b, c = self.coefficients
            return f"{what} acts: {figure} (a {a:.2f}, b {b:.2f}, c {c:.2f})."
        few = (
            f", worth fewer than {FEWEST} of equal weight" if self.gain > defaults.STANDARD_ERRORS * self.error else ""
        )
        return f"{what} does not act, the imputation stands: {figure}{few}."


def target(
    liked: Int, logit_q: Float, log_p: Float, users: Int, items: Int, experts: Int, fold: Int, weights: Float
) -> Targeted:
    """Fit the map to left-out ratings and ask, by folds, whether it helps.

    Every argument but `experts` has one number a rating: its imputation and p come from a fit without its fold.
    """
    n_experts, group = int(experts.max()) + 1, experts[users]
    weights = weights * len(weights) / weights.sum()
    centre = float(np.average(log_p, weights=weights))
    x = np.stack([np.ones(len(liked)), logit_q, log_p - centre], axis=1)
    # n ratings of unequal weight tell as much as fewer of equal weight: only those stand against the prior
    equal = effective_sample_size(weights)
    tempered = weights * equal / len(weights)

    def fit(rows: Any) -> tuple[Float, Float]:
        return shrunk_logistic(x[rows], liked[rows], tempered[rows], group[rows], n_experts)

    difference = log_loss(liked, logit_q)
    for k in np.unique(fold):
        beta, deviations = fit(fold != k)
        held = fold == k
        own = deviations[group[held]]
        difference[held] -= log_loss(liked[held], x[held] @ beta + own[:, 0] + own[:, 1] * logit_q[held])
    gain = float(np.average(difference, weights=weights))
    error = two_way_error(users, items, weights * (difference - gain)) / float(weights.sum())
    beta, deviations = fit(slice(None))
    beta[0] -= beta[2] * centre
    tenth = np.searchsorted(np.quantile(log_p, np.arange(1, TENTHS) / TENTHS), log_p, side="right")
    residual = liked - expit(logit_q)
    table = [means_by_group(residual, weights, *by) for by in ((tenth, TENTHS), (group, n_experts))]
    applied = gain > defaults.STANDARD_ERRORS * error and equal >= min(FEWEST, len(liked))
    return Targeted(beta, deviations, experts, applied, gain, error, np.concatenate(table))


def log_loss(liked: Int, logits: Float) -> Float:
    """Return -log P(what was found) of each rating."""
    return np.asarray(np.logaddexp(0.0, np.where(liked == 1, -logits, logits)))


def shrunk_logistic(x: Float, y: Int, weights: Float, group: Int, n_groups: int) -> tuple[Float, Float]:
    """Fit a logistic map with deviations by group, their variances those of the highest marginal likelihood.

    variance = sum of deviations^2 / (groups - sum of their posterior variances / variance), in turns until it stands
    still (MacKay, Neural Computation 4, 1992): far fewer turns than expectation-maximisation takes.
    """
    c, variance = x.shape[1], np.array([0.1, 0.1])
    indicator = np.eye(n_groups)[group]
    design = np.concatenate([x, indicator, indicator * x[:, 1:2]], axis=1)
    centre = np.eye(design.shape[1])[1]  # weakly held to the identity (a 0, b 1, c 0): ten ratings' worth at most
    beta = centre
    for _ in range(50):
        penalty = np.concatenate([np.full(c, 0.1), np.repeat(1 / variance, n_groups)])
        beta, information = ridge_logistic(design, y, weights, penalty, centre, beta)
        deviations, spread = (each[c:].reshape(2, n_groups) for each in (beta, np.diag(np.linalg.inv(information))))
        known = np.maximum(n_groups - spread.sum(axis=1) / variance, 1e-6)  # deviations that ratings determine
        old, variance = variance, np.maximum((deviations**2).sum(axis=1) / known, 1e-4)
        if np.abs(np.log(variance / old)).max() < 0.01:
            break
    slopes = np.arange(c + n_groups, design.shape[1])
    contradicted = slopes[beta[1] + beta[slopes] < SMALLEST_SLOPE]
    if len(contradicted) or beta[1] < SMALLEST_SLOPE:  # an order that they do not bear out tells nothing: no reverse
        penalty[1] = penalty[contradicted] = 1e12
        centre[1] = max(beta[1], SMALLEST_SLOPE)
        centre[contradicted] = SMALLEST_SLOPE - centre[1]
        beta, _ = ridge_logistic(design, y, weights, penalty, centre, centre)
        beta[slopes] = np.maximum(beta[slopes], SMALLEST_SLOPE - beta[1])
    return beta[:c], beta[c:].reshape(2, n_groups).T.copy()


def ridge_logistic(x: Any, y: Any, weights: Float, penalty: Float, centre: Float, start: Float) -> tuple[Float, Float]:
    """Fit P(y) = sigmoid(x b) with penalty / 2 (b - centre)^2 by Newton's steps; b and the curvature there.

    `x` may be sparse. A step moves nothing by more than 2.
    """
    b = start
    for _ in range(50):
        p = expit(x @ b)
        slope = x.T @ (weights * (y - p)) - penalty * (b - centre)
        products = (x * (weights * p * (1 - p))[:, None]).T @ x
        information = (products if isinstance(x, np.ndarray) else products.toarray()) + np.diag(penalty)
        step = np.linalg.solve(information, slope)
        b = b + step / max(1.0, float(np.abs(step).max()) / 2)
        if np.abs(step).max() < 1e-8:
            break
    return b, information


def means_by_group(values: Float, weights: Float, group: Int, n: int) -> Float:
    """Return weighted means by group, their standard errors, and how many there are, a row a group."""
    total = np.maximum(np.bincount(group, weights, n), 1e-12)
    means = np.bincount(group, weights * values, n) / total
    errors = np.sqrt(np.bincount(group, (weights * (values - means[group])) ** 2, n)) / total
    return np.stack([means, errors, np.bincount(group, minlength=n)], axis=1)


def group_users(vectors: Float, rng: np.random.Generator, n_groups: int = EXPERTS) -> Int:
    """Group users by their vectors, once, at least 20 to a group: k-means with spread-out starts."""
    from scipy.cluster.vq import kmeans2

    n_groups = min(n_groups, len(vectors) // 20)
    if n_groups < 2 or vectors.shape[1] == 0:
        return np.zeros(len(vectors), np.int64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a group may end up empty
        group = kmeans2(vectors, n_groups, iter=25, minit="++", seed=rng)[1]
    return np.asarray(np.unique(group, return_inverse=True)[1], np.int64)
