"""A small world whose every rating, propensity and metric is known, and a model of it."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import expit

import unskew
from unskew.metrics.accuracy import roc_auc


def judged_world(seed: int = 3, n_users: int = 120, n_items: int = 60, **settings: object) -> SimpleNamespace:
    """`score(users, items)` is a middling model, `imputation` a wrong one, `truth` the metrics over all pairs."""
    known = {"density": 0.25, "selection": "taste", "strength": 0.4, "n_factors": 4, **settings}
    world = unskew.simulate(n_users, n_items, seed=seed, **known)  # type: ignore[arg-type]
    users, items = np.divmod(np.arange(world.n_pairs), n_items)
    noise = np.random.default_rng(0).normal(0, 0.7, world.n_pairs)
    table = expit(0.8 * world.logit(users, items) + 0.3 + noise)
    ratings = world.rating(users, items).astype(float)
    best = np.argsort(-table.reshape(n_users, n_items), 1, kind="stable")[:, :5]
    liked = np.take_along_axis(ratings.reshape(n_users, n_items), best, 1)
    discount = 1 / np.log2(np.arange(5) + 2)
    return SimpleNamespace(
        world=world,
        score=lambda u, i: table[np.asarray(u) * n_items + np.asarray(i)],
        imputation=lambda u, i: expit(0.5 * world.logit(np.asarray(u), np.asarray(i)) - 0.2),
        propensity=lambda u, i: world.propensity(np.asarray(u), np.asarray(i)),
        truth={
            "mse": ((table - ratings) ** 2).mean(),
            "mae": np.abs(table - ratings).mean(),
            "log_loss": -(ratings * np.log(table) + (1 - ratings) * np.log1p(-table)).mean(),
            "auc": roc_auc(ratings, table),
            "ndcg@5": (liked @ discount).mean() / discount.sum(),
            "precision@5": liked.mean(),
            "recall@5": liked.sum() / ratings.sum(),
        },
    )


@pytest.fixture(scope="session")
def known() -> SimpleNamespace:
    return judged_world()
