"""What every metric asks of its rows and settings; whatever falls short is refused in one sentence."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unskew.errors import DataError

Values = NDArray[np.float64]


class Columns(NamedTuple):
    """Labels, predictions and weights that have passed `checked_columns`."""

    labels: Values
    predictions: Values
    weights: Values


def finite_vector(values: ArrayLike, name: str) -> Values:
    """`values` as one-dimensional float64, refused when empty, not numeric or not finite."""
    try:
        vector = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as reason:
        raise DataError(f"{name} must be a sequence of numbers, but could not be read as one ({reason}).") from None
    if vector.ndim != 1:
        raise DataError(f"{name} must be one-dimensional, got shape {vector.shape}; pass one value per row.")
    if vector.size == 0:
        raise DataError(f"{name} is empty; a metric needs at least one row.")
    refuse_rows(~np.isfinite(vector), vector, name, "is not a finite number")
    return vector


def checked_columns(
    y_true: ArrayLike, y_pred: ArrayLike, sample_weight: ArrayLike | None = None, unit: bool = False
) -> Columns:
    """Return the three columns as finite float64 of equal length; without `sample_weight` every row weighs one.

    With `unit` labels and predictions must lie in [0, 1].
    """
    labels, predictions = finite_vector(y_true, "y_true"), finite_vector(y_pred, "y_pred")
    weights = np.ones(labels.size) if sample_weight is None else finite_vector(sample_weight, "sample_weight")
    for name, column in (("y_pred", predictions), ("sample_weight", weights)):
        if column.size != labels.size:
            raise DataError(f"{name} has {column.size} rows but y_true has {labels.size}; pass one value for each row.")
    for name, column in (("y_true", labels), ("y_pred", predictions)) if unit else ():
        require_unit_interval(column, name)
    refuse_rows(weights < 0, weights, "sample_weight", "is negative")
    with np.errstate(over="ignore"):
        total = weights.sum()
    if not 0 < total < np.inf:
        raise DataError(f"sample_weight sums to {total}; the sum must be positive and finite.")
    return Columns(labels, predictions, weights)


def require_unit_interval(values: Values, name: str) -> None:
    """Refuse values outside [0, 1]."""
    refuse_rows((values < 0) | (values > 1), values, name, "lies outside [0, 1]")


def ratio(above: NDArray[Any], below: NDArray[Any]) -> Values:
    """above / below, NaN where below is zero."""
    return np.asarray(np.divide(above, below, out=np.full(above.shape, np.nan), where=below > 0))


def refuse_rows(bad: NDArray[np.bool_], values: Values, name: str, fault: str) -> None:
    """Name the first bad row, its value and how many there are."""
    if bad.any():
        row = int(bad.argmax())
        raise DataError(f"{name}[{row}] = {values[row]} {fault} ({int(bad.sum())} such rows); correct or remove it.")
