"""By a test or by the log alone: how good are the answers of a model, and which of two is better."""

from unskew.evaluation.evaluate import Evaluation, evaluate, positive_from

__all__ = ["Evaluation", "evaluate", "positive_from"]
