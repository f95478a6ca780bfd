from .check import check_calibrator, check_method, check_net, check_propensity

__all__ = ["check_calibrator", "check_method", "check_net", "check_propensity"]
