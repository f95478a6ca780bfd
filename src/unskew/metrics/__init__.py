"""Metrics of answers, of lists and of probabilities; `table.METRICS` names them all."""

from unskew.metrics.calibration import ReliabilityCurve, calibration_error, calibration_interval, reliability_curve
from unskew.metrics.ranking import TopLists, UserLists
from unskew.metrics.table import METRICS, Metric, find, roc_auc

__all__ = ["METRICS", "Metric", "ReliabilityCurve", "TopLists", "UserLists", "calibration_error"]
__all__ += ["calibration_interval", "find", "reliability_curve", "roc_auc"]
