"""One call from ratings to a model."""

from __future__ import annotations

from typing import Any

from unskew.data.read import as_log
from unskew.model import Recommender
from unskew.registry import make
from unskew.training.options import Training

DEFAULT = "dce-bayes"


def fit(
    source: Any,
    method: str = DEFAULT,
    *,
    seed: int = 0,
    training: Training | None = None,
    random_ratings: Any = None,
    **settings: Any,
) -> Recommender:
    """Fit the method of this name, with these settings, to a log or whatever `unskew.read_log` makes one of:
    the path of a file or folder, a pandas, polars or Arrow frame, a SciPy sparse matrix, or three arrays.

    >>> import unskew
    >>> world = unskew.simulate(n_users=60, n_items=40, density=0.2, seed=0)
    >>> model = unskew.fit(world.log, sweeps=20)
    >>> model.recommend(k=1).num_rows
    60
    """
    log = as_log(source)
    model: Recommender = make(method, **settings).fit(log, seed=seed, training=training, random_ratings=random_ratings)
    return model
