"""The commonest turns of training, each in one compiled call."""

from unskew.express.turns import in_one_call

__all__ = ["in_one_call"]
