"""One call from ratings to a model."""

from __future__ import annotations

from os import PathLike
from typing import Any

from unskew.data.log import RatingLog
from unskew.data.read import read_log
from unskew.model import Recommender
from unskew.registry import make
from unskew.training.options import Training

DEFAULT = "dce-bayes"


def fit(
    log: RatingLog | str | PathLike[str],
    method: str = DEFAULT,
    *,
    seed: int = 0,
    training: Training | None = None,
    random_ratings: RatingLog | None = None,
    **settings: Any,
) -> Recommender:
    """Fit the method of this name, with these settings, to a log or to the file of one.

    >>> import unskew
    >>> world = unskew.simulate(n_users=60, n_items=40, density=0.2, seed=0)
    >>> model = unskew.fit(world.log, sweeps=20)
    >>> model.recommend(k=1).num_rows
    60
    """
    ratings = log if isinstance(log, RatingLog) else read_log(log)
    model: Recommender = make(method, **settings).fit(
        ratings, seed=seed, training=training, random_ratings=random_ratings
    )
    return model
