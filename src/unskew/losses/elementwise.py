"""Functions of single numbers: the sigmoid, a root, and the errors of predictions with their slopes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from unskew.losses.columns import Array

LARGEST_LOGIT = 13.8  # of logits inside errors: doubly robust risks are unbounded below in the logit


def sigmoid(s: Any) -> Array:
    """1 / (1 + e^-s), in the precision of s and without overflow; SciPy's takes a quarter of a second to import."""
    e = np.exp(np.minimum(s, 80))
    return np.asarray(e / (1 + e))


def root(f: Callable[[float], tuple[float, float]], low: float, high: float) -> float:
    """Find where an increasing function crosses 0, or the nearest end of the interval; f gives value and slope.

    Newton's steps, halving where they leave what may hold the root; SciPy's solvers take long to import.
    """
    at = (low + high) / 2
    for _ in range(200):
        value, slope = f(at)
        low, high = (at, high) if value < 0 else (low, at)
        step = value / slope if slope > 0 else math.inf
        if abs(step) < 1e-13 or high - low < 1e-13:
            break
        at = at - step if low < at - step < high else (low + high) / 2
    return at


class Terms(NamedTuple):
    """What an error of logits is made of, whatever the label y in [0, 1]: e = zero + y effect.

    Linear in the label, so a soft label is an expectation. d e / d logit = scale (r - y), r = sigmoid(logit). Logits
    enter within 13.8 of 0, and beyond they do not move: there the scale is 0.
    """

    zero: Array
    effect: Array
    r: Array
    scale: Array


def log_error(s: Array) -> Terms:
    """Cross-entropy, softplus(s) - y s."""
    t = np.minimum(np.maximum(s, -LARGEST_LOGIT), LARGEST_LOGIT)
    e = np.exp(t)
    above = 1 + e
    return Terms(np.log(above), -t, e / above, (t == s).astype(s.dtype))


def squared_error(s: Array) -> Terms:
    """Squared error in its expected form, y (1 - r)^2 + (1 - y) r^2 = (r - y)^2 + y (1 - y).

    The plug-in (r - y)^2 leaves y (1 - y) out and makes doubly robust risks biased even under perfect imputation.
    """
    t = np.minimum(np.maximum(s, -LARGEST_LOGIT), LARGEST_LOGIT)
    r = sigmoid(t)
    return Terms(r * r, 1 - 2 * r, r, 2 * r * (1 - r) * (t == s))


ERRORS = {"log": log_error, "squared": squared_error}
