"""The naive model beside a model: the same settings, the same ratings, the same hold-out, and no eye for the bias."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from unskew.methods.weighting import Naive
from unskew.model import Recommender
from unskew.training.options import Training


def naive_like(method: Any) -> Naive:
    """Naive with all settings that it shares with a method."""
    while hasattr(method, "base"):
        method = method.base
    return Naive(**{one.name: getattr(method, one.name) for one in fields(Naive) if hasattr(method, one.name)})


def naive_beside(model: Recommender, progress: bool | None = None) -> Recommender:
    """Fitted as the model was, so that nothing but the debiasing makes them differ.

    A cross-fitted one, which learns from fewer ratings, would lose to the model for that reason alone.
    """
    training = replace(model.training or Training(), progress=progress)
    return naive_like(model.method).fit(model.log, seed=model.seed, training=training)
