"""Errors of a prediction against a label, both linear in the label so that a soft label means its expectation."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import softplus


def log_error(logit: Tensor, label: Tensor) -> Tensor:
    """Cross-entropy e = -y log r - (1 - y) log(1 - r) with r = sigmoid(s), written as softplus(s) - y s."""
    return softplus(logit) - label * logit


def squared_error(logit: Tensor, label: Tensor) -> Tensor:
    """Squared error in its *expected* form, e = y (1 - r)^2 + (1 - y) r^2 = (r - y)^2 + y (1 - y).

    Only this form is linear in the label. The plug-in (r - y)^2 with a soft label y leaves y (1 - y) out and makes
    doubly robust risks biased even under perfect imputation. For a graded rating the two differ by a constant.
    """
    r = torch.sigmoid(logit)
    return r.square() + label * (1 - 2 * r)


ERRORS = {"log": log_error, "squared": squared_error}
