"""Rank by choice: what a user would pick and like.

The columns log n, sqrt z, log z (exposure), log P(liked) and log z of a ridge on liked pairs alone are weighed by the
conditional likelihood of held-out liked pairs among the unseen ones of their user. Models with a posterior and an
exposure offer it; the plain product P(seen) P(liked) is what propensity and explanation use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from unskew.propensity.conditional import Calibration, FittedExposure, Float, Int, Scorer, calibrate
from unskew.propensity.ridge import PENALTIES, Gram, Ridge, RidgeScorer, best_of

Probability = Callable[[Int, Int], Float]


@dataclass(frozen=True)
class ChoiceScorer:
    """Join the columns of an exposure, a posterior and, where a ridge is affordable, a ridge on liked pairs."""

    exposure: Scorer
    liked: Probability
    ridge: RidgeScorer | None

    def columns(self, users: Int, items: Int) -> Float:
        """Return exposure's columns, log P(liked), log z of liked pairs."""
        columns = [self.exposure.columns(users, items), np.log(np.maximum(self.liked(users, items), 1e-12))[:, None]]
        if self.ridge is not None:
            columns.append(np.log(np.maximum(self.ridge.scores(users, items), 0) + 0.01)[:, None])
        return np.concatenate(columns, axis=1)


@dataclass(frozen=True)
class Choice:
    """Hold the ranking: scores are log-chances up to a number a user."""

    scorer: ChoiceScorer
    calibration: Calibration

    def scores(self, users: Int, items: Int) -> Float:
        """Return what to rank by."""
        result: Float = self.scorer.columns(users, items) @ self.calibration.coefficients
        return result


def fit_choice(
    users: Int, items: Int, liked: Int, n_users: int, n_items: int, fold: Int, exposure: FittedExposure,
    by_fold: Mapping[int, Probability], whole: Probability, rng: np.random.Generator,
) -> Choice:  # fmt: skip
    """Weigh the columns on held-out liked pairs; `by_fold[k]` answers P(liked) without having seen fold k.

    Where a ridge is affordable, lists rest on one without weights of items, and on another one of liked pairs, its
    penalty by held-out likelihood; elsewhere on the exposure given, which was fitted with the same folds.
    """
    events, n_folds = liked == 1, int(fold.max()) + 1
    if not Ridge.affordable(n_users, n_items):
        without = partial(_joined, exposure.without, by_fold, None)
        fitted = calibrate(users, items, n_users, n_items, fold, without, rng, events=events)
        return Choice(ChoiceScorer(exposure.scorer, whole, None), fitted)
    share = 1 - 1 / n_folds
    penalty, seen_without, _ = Ridge(power=0.0).by_folds(users, items, n_users, n_items, fold)
    grams = []
    for k in range(n_folds):
        rows = events & (fold != k)
        grams.append(Gram(users[rows], items[rows], n_users, n_items))

    def fitted_with(liked_penalty: float, folds: int | None = None) -> Calibration:
        without = partial(_joined, seen_without, by_fold, lambda k: grams[k].scorer(liked_penalty, share))
        draws = np.random.default_rng(9)  # penalties are compared on the same pairs
        return calibrate(users, items, n_users, n_items, fold, without, draws, events=events, folds=folds)

    liked_penalty = best_of(PENALTIES, lambda p: fitted_with(p, min(2, n_folds)).log_likelihood)
    scorer = ChoiceScorer(
        Gram(users, items, n_users, n_items).scorer(penalty),
        whole,
        Gram(users[events], items[events], n_users, n_items).scorer(liked_penalty),
    )
    return Choice(scorer, fitted_with(liked_penalty))


def _joined(
    exposure: Callable[[int], Scorer], by_fold: Mapping[int, Probability],
    ridge: Callable[[int], RidgeScorer] | None, k: int,
) -> ChoiceScorer:  # fmt: skip
    """Return the columns of one fold."""
    return ChoiceScorer(exposure(k), by_fold[k], None if ridge is None else ridge(k))
