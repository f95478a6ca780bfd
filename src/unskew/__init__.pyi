"""The public names; `__init__.py` loads each from here when it is first used."""

from . import bench, datasets, export, theory
from ._version import __version__
from .calibration.base import Calibrator
from .calibration.chance import RandomPlatt
from .calibration.experts import ExpertPlatt
from .calibration.maps import GlobalPlatt, UserPlatt
from .calibration.published import PublishedExperts
from .data.log import RatingLog
from .data.read import read_log
from .data.split import Split, folds, holdout_split
from .data.world import World, simulate
from .diagnosis.diagnosis import Diagnosis, diagnose
from .errors import (
    CacheWarning,
    DataError,
    DivergedError,
    ModelFileError,
    ParameterError,
    PlanError,
    UnskewError,
)
from .estimation.compare import Comparison, compare
from .estimation.risk import estimate_risk
from .evaluation import Evaluation, evaluate
from .files.model import load
from .methods.base import Method
from .methods.bounded import BRDDR
from .methods.calibrated import DoublyCalibrated
from .methods.entropy import CVIB
from .methods.joint import ESCM2DR, MultiDR
from .methods.multiple import MR
from .methods.published import DRJLPublished
from .methods.registry import make, methods
from .methods.robust import DR, DRJL, MRDR, TDR, TMRDR
from .methods.stable import StableDR
from .methods.tradeoff import DRMSE
from .methods.tritraining import AT
from .methods.weighting import EIB, IPS, SNIPS, Naive
from .metrics.calibration import (
    debiased_calibration_error,
    expected_calibration_error,
    maximum_calibration_error,
    reliability_bins,
)
from .metrics.summary import CalibrationSummary, calibration_summary
from .nets.dense import Dense
from .nets.factors import MF, NCF
from .nets.towers import Trunk
from .propensity.additive import Additive
from .propensity.base import Propensity
from .propensity.bayes import NaiveBayes
from .propensity.factors import Factors
from .propensity.logistic import Logistic
from .propensity.published import PublishedFactors
from .propensity.tables import Known, Popularity, Uniform
from .recommender import Recommender
from .report.report import write_report
from .selection.random_ratings import RandomRatings
from .training.options import Training

__all__ = [
    "AT",
    "BRDDR",
    "CVIB",
    "DR",
    "DRJL",
    "DRMSE",
    "EIB",
    "ESCM2DR",
    "IPS",
    "MF",
    "MR",
    "MRDR",
    "NCF",
    "SNIPS",
    "TDR",
    "TMRDR",
    "Additive",
    "CacheWarning",
    "CalibrationSummary",
    "Calibrator",
    "Comparison",
    "DRJLPublished",
    "DataError",
    "Dense",
    "Diagnosis",
    "DivergedError",
    "DoublyCalibrated",
    "Evaluation",
    "ExpertPlatt",
    "Factors",
    "GlobalPlatt",
    "Known",
    "Logistic",
    "Method",
    "ModelFileError",
    "MultiDR",
    "Naive",
    "NaiveBayes",
    "ParameterError",
    "PlanError",
    "Popularity",
    "Propensity",
    "PublishedExperts",
    "PublishedFactors",
    "RandomPlatt",
    "RandomRatings",
    "RatingLog",
    "Recommender",
    "Split",
    "StableDR",
    "Training",
    "Trunk",
    "Uniform",
    "UnskewError",
    "UserPlatt",
    "World",
    "__version__",
    "bench",
    "calibration_summary",
    "compare",
    "datasets",
    "debiased_calibration_error",
    "diagnose",
    "estimate_risk",
    "evaluate",
    "expected_calibration_error",
    "export",
    "folds",
    "holdout_split",
    "load",
    "make",
    "maximum_calibration_error",
    "methods",
    "read_log",
    "reliability_bins",
    "simulate",
    "theory",
    "write_report",
]
