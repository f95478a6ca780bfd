"""Theory that can be checked: bias, variance and every bound as functions of what is true and what is estimated."""

from unskew.theory.bounds import Bound, corollary_3, theorem_2, theorem_4
from unskew.theory.counterexamples import COUNTER_EXAMPLES, CounterExample
from unskew.theory.lemma import (
    bias,
    eib_bias,
    expected_residual,
    label_errors,
    label_variance,
    naive_bias,
    rating_driven_bias,
    variance,
)
from unskew.theory.sensitivity import overturning_factor, weighted_range

__all__ = [
    "COUNTER_EXAMPLES",
    "Bound",
    "CounterExample",
    "bias",
    "corollary_3",
    "eib_bias",
    "expected_residual",
    "label_errors",
    "label_variance",
    "naive_bias",
    "overturning_factor",
    "rating_driven_bias",
    "theorem_2",
    "theorem_4",
    "variance",
    "weighted_range",
]
