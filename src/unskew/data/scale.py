"""How external ratings map to [0, 1] and back."""

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from unskew.data.ids import as_arrow, as_text, first_unread, is_number, is_text, plain
from unskew.errors import DataError, ParameterError
from unskew.settings import LARGEST


@dataclass(frozen=True)
class Scale:
    """Binary: a rating of at least `positive` is 1, any other 0, and an answer is the probability of a 1.

    Graded (`positive=None`): r -> (r - low) / (high - low), and an answer is a rating from low to high.
    Ratings outside low to high are refused; a binary scale may leave both ends open.
    """

    positive: float | None
    low: float = -math.inf
    high: float = math.inf

    def __post_init__(self) -> None:
        if self.positive is None and math.isinf(self.low) and math.isinf(self.high):
            raise ParameterError("positive=None keeps graded ratings and needs rating_scale=(low, high).")
        if not self.low < self.high:
            raise ParameterError(f"rating_scale must rise from low to high, but is {self._range}.")
        if self.positive is None:
            if not math.isfinite(self.high - self.low):
                raise ParameterError(f"rating_scale must be finite for graded ratings, but is {self._range}.")
        elif not math.isfinite(self.positive):
            raise ParameterError(f"positive must be a finite rating, but is {self.positive}.")
        elif not self.low < self.positive <= self.high:
            raise ParameterError(
                f"positive={self.positive:g} puts every rating of the scale {self._range} in one class: "
                "choose a threshold above its low end and up to its high end."
            )

    @classmethod
    def of(cls, positive: float | None = 3, rating_scale: tuple[float, float] | None = None) -> Self:
        """Return the scale that the two settings of a log ask for."""
        threshold = None if positive is None else _number(positive, "positive")
        if rating_scale is None:
            return cls(threshold)
        try:
            low, high = rating_scale
        except (TypeError, ValueError):
            raise ParameterError(f"rating_scale must be a pair (low, high), but is {rating_scale!r}.") from None
        return cls(threshold, _number(low, "rating_scale"), _number(high, "rating_scale"))

    @property
    def binary(self) -> bool:
        return self.positive is not None

    @property
    def _range(self) -> str:
        return f"({self.low:g}, {self.high:g})"

    def to_unit(self, ratings: ArrayLike) -> NDArray[np.float32]:
        """External ratings in [0, 1]."""
        external = np.asarray(ratings, dtype=np.float64)
        if self.positive is not None:
            return (external >= self.positive).astype(np.float32)
        return ((external - self.low) / (self.high - self.low)).astype(np.float32)

    def from_unit(self, values: ArrayLike) -> NDArray[Any]:
        """Answers in [0, 1] as users read them: probabilities if binary, else ratings."""
        unit = np.asarray(values)
        return unit if self.binary else self.low + unit * (self.high - self.low)

    def refuse_strays(self, ratings: NDArray[np.float64], where: str) -> None:
        """Raise a DataError for the first rating that is missing, too large for 32 bits or outside the scale."""
        low, high = max(self.low, -LARGEST), min(self.high, LARGEST)
        if low <= ratings.min(initial=high) and ratings.max(initial=low) <= high:  # false if one is NaN
            return
        good = (ratings >= low) & (ratings <= high)
        at = int(good.argmin())
        row, value = f"row {at + 1} of {where}", float(ratings[at])
        if math.isnan(value):
            raise DataError(f"{row} has no rating (missing or NaN): give it a number or remove the row.")
        if math.isinf(value):
            raise DataError(f"{row} holds the infinite rating {value}: give it a finite number or remove the row.")
        if abs(value) > LARGEST:
            raise DataError(f"{row} holds the rating {value:g}, too large for 32-bit floats: correct or remove it.")
        raise DataError(
            f"{row} holds the rating {value:g}, which is outside the scale {self._range}: "
            "correct the row, or read what is learned from with a wider rating_scale=."
        )

    def refuse_one_class(self, low: float, high: float) -> None:
        """Raise a DataError if ratings from low to high, each of which occurs, are all the same in [0, 1]."""
        if self.to_unit(low) < self.to_unit(high):
            return
        if low == high:
            clicks = "" if not self.positive or low < self.positive else "; for clicks alone give target='implicit'"
            raise DataError(f"all ratings are equal ({low:g}): a log needs at least two different ratings{clicks}.")
        positive = self.positive or 0.0  # what differs and is graded differs in [0, 1]
        side = f"positive (at least {positive:g})" if low >= positive else f"negative (below {positive:g})"
        raise DataError(
            f"every rating is {side}, as the ratings range from {low:g} to {high:g}: "
            "set positive= to a threshold above the lowest rating and up to the highest."
        )


def as_ratings(values: Any, where: str) -> NDArray[np.float64]:
    """Return ratings as floats, missing ones as NaN, or a DataError naming the first row that holds no number."""
    ratings = plain(as_arrow(values, where))
    if is_text(ratings.type):
        text = pc.utf8_trim_whitespace(as_text(ratings, where))
        ratings = pc.if_else(pc.equal(text, ""), None, text)
    elif not is_number(ratings.type):
        raise DataError(f"{where} is of type {ratings.type}: ratings must be numbers.")
    try:
        numbers: NDArray[np.float64] = ratings.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        at = first_unread(ratings, lambda part: part.cast(pa.float64(), safe=False))
        raise DataError(
            f"row {at + 1} of {where} holds {ratings[at].as_py()!r}, which is not a number: correct or remove the row."
        ) from None
    return numbers


def _number(value: object, name: str) -> float:
    if isinstance(value, (bool, np.bool_, np.timedelta64)) or not isinstance(value, (Real, np.integer, np.floating)):
        raise ParameterError(f"{name} must be made of numbers, but holds {value!r}.")
    return float(value)
