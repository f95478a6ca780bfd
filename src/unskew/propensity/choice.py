"""Rank by choice: what a user would pick and like.

The columns of an exposure, log P(liked) and log z of a ridge on liked pairs alone are weighed by the conditional
likelihood of held-out liked pairs among the unseen ones of their user. The plain product P(seen) P(liked) is what
propensity and explanation use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from unskew.posterior.draws import Float, Int
from unskew.posterior.exposure import Pairs
from unskew.propensity.conditional import Folded, Scorer, calibrate
from unskew.propensity.ridge import Gram, affordable, ridge_scorers
from unskew.propensity.scorers import RidgeScorer

Probability = Callable[[Int, Int], Float]


@dataclass(frozen=True)
class Choice:
    """Hold the weights of the columns and, where a ridge is affordable, the ridge on liked pairs."""

    coefficients: Float
    ridge: RidgeScorer | None

    def scores(self, exposure: Scorer, liked: Probability, users: Int, items: Int) -> Float:
        """Return what to rank by: a log-chance up to a number a user."""
        result: Float = columns(exposure, liked, self.ridge, users, items) @ self.coefficients
        return result


def columns(exposure: Scorer, liked: Probability, ridge: RidgeScorer | None, users: Int, items: Int) -> Float:
    """Join exposure's columns, log P(liked), log z of liked pairs."""
    found = [exposure.columns(users, items), np.log(np.maximum(liked(users, items), 1e-12))[:, None]]
    if ridge is not None:
        found.append(np.log(np.maximum(ridge.scores(users, items), 0) + 0.01)[:, None])
    return np.concatenate(found, axis=1)


def fit_choice(
    log: Pairs, liked: Int, fold: Int, exposure: Folded, by_fold: Mapping[int, Probability], rng: np.random.Generator
) -> Choice:
    """Weigh the columns on held-out liked pairs; `by_fold[k]` answers P(liked) without having seen fold k."""
    events, ridge = liked == 1, None
    without: Callable[[int], RidgeScorer | None] = lambda k: None  # noqa: E731
    if affordable(log):
        penalty, without = ridge_scorers(log.rows(events), fold[events])
        ridge = Gram(log.rows(events)).scorer(penalty)

    @dataclass(frozen=True)
    class Left:
        """The columns of one fold."""

        k: int

        def columns(self, users: Int, items: Int) -> Float:
            return columns(exposure.without(self.k), by_fold[self.k], without(self.k), users, items)

    return Choice(calibrate(log, fold, Left, rng, events=events).coefficients, ridge)
