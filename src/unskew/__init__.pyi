"""The public names; `__init__.py` loads each from here when it is first used."""

from . import bench, calibration, datasets, export, methods, metrics, nets, propensity, testing
from ._version import __version__
from .calibration.experts import ExpertPlatt
from .calibration.platt import Calibrator, GlobalPlatt, UserPlatt
from .data.log import RatingLog
from .data.read import read_log
from .data.split import Split, holdout_split
from .datasets.world import World, simulate
from .diagnosis.diagnose import diagnose
from .errors import (
    DataError,
    DivergedError,
    ModelFileError,
    ParameterError,
    PlanError,
    UnskewError,
)
from .evaluation.compare import Comparison, compare
from .evaluation.estimators import Risk, estimate_risk
from .evaluation.evaluate import Evaluation, evaluate
from .findings import Finding, Findings
from .methods.base import Method, fit
from .methods.bayesian import Bayes, DCEBayes
from .methods.calibrated import DoublyCalibrated
from .methods.multitask import ESCM2DR, MultiDR
from .methods.robust import BRDDR, DR, DRJL, DRMSE, MR, MRDR, TDR, TMRDR, StableDR
from .methods.weighting import AT, CVIB, EIB, IPS, SNIPS, Naive
from .model import Recommender
from .nets.factors import MF, NCF
from .posterior.factors import BayesianFactors
from .propensity.additive import Additive
from .propensity.base import Propensity
from .propensity.counted import Known, NaiveBayes, Popularity, Uniform
from .propensity.factors import Factors
from .propensity.logistic import Logistic
from .registry import make, register, registered
from .selection.random_ratings import RandomRatings
from .store.model import load
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
    "Bayes",
    "BayesianFactors",
    "Calibrator",
    "Comparison",
    "DCEBayes",
    "DataError",
    "DivergedError",
    "DoublyCalibrated",
    "Evaluation",
    "ExpertPlatt",
    "Factors",
    "Finding",
    "Findings",
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
    "RandomRatings",
    "RatingLog",
    "Recommender",
    "Risk",
    "Split",
    "StableDR",
    "Training",
    "Uniform",
    "UnskewError",
    "UserPlatt",
    "World",
    "__version__",
    "bench",
    "calibration",
    "compare",
    "datasets",
    "diagnose",
    "estimate_risk",
    "evaluate",
    "export",
    "fit",
    "holdout_split",
    "load",
    "make",
    "methods",
    "metrics",
    "nets",
    "propensity",
    "read_log",
    "register",
    "registered",
    "simulate",
    "testing",
]
