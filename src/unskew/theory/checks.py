"""What every function of the theory asks of its arguments: one number a pair, or one for all pairs."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unskew.errors import DataError
from unskew.metrics.checks import finite_vector, refuse_rows, require_unit_interval

Values = NDArray[np.float64]


def columns(**named: ArrayLike) -> tuple[Values, ...]:
    """The arguments as finite float64 columns of one length; a single number stands for every pair."""
    vectors = {name: finite_vector(np.atleast_1d(np.asarray(values)), name) for name, values in named.items()}
    length = max(vector.size for vector in vectors.values())
    for name, vector in vectors.items():
        if vector.size not in (1, length):
            raise DataError(f"{name} has {vector.size} values for {length} pairs; give one a pair or one for all.")
    return tuple(np.broadcast_to(vector, length) for vector in vectors.values())


def require_probabilities(**named: Values) -> None:
    """Refuse values outside [0, 1]."""
    for name, values in named.items():
        require_unit_interval(values, name)


def require_propensity(p_hat: Values) -> None:
    """Refuse an estimated propensity by which nothing can be divided."""
    refuse_rows((p_hat <= 0) | (p_hat > 1), p_hat, "p_hat", "does not lie above 0 and up to 1")
