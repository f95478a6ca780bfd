"""Every registered method, net, propensity and calibrator keeps the contract that `unskew.testing` holds any to."""

import os
import subprocess
import sys

import numpy as np
import pytest

from unskew import IPS, Additive, DoublyCalibrated, ExpertPlatt, Factors, Logistic, Naive, make, registered
from unskew.calibration.platt import GlobalPlatt, UserPlatt
from unskew.methods.robust import DRJL, MeanRating
from unskew.nets.factors import MF, NCF, Tower
from unskew.propensity.clicks import Clicks
from unskew.propensity.counted import Known, NaiveBayes, Popularity, Uniform
from unskew.propensity.exposure import Ridge, Spectral
from unskew.testing.check import check_fit, check_logs, check_saving

METHODS = [entry.name for entry in registered()]
CLASSES = {(entry.cls, type(getattr(entry.defaults, "base", None))): entry.name for entry in reversed(registered())}
FEW = {"bayes": {"sweeps": 8}, "dce-bayes": {"sweeps": 8}}  # bits and refusals need no long chains
NETS = [MF(n_factors=3, biases=False, init_std=1.0), NCF(n_factors=4), NCF(n_factors=4, hidden=False)]
PROPENSITIES = [
    Uniform(),
    Popularity(),
    Popularity(relative=True),
    Known(lambda users, items: 0.1 + 0.01 * (np.asarray(items) % 7)),
    Additive(),
    Factors(n_folds=1, loss="squared"),
    Factors(net=NCF(n_factors=4)),
    Logistic(),
    NaiveBayes(),
    Spectral(directions=4),
    Ridge(penalty=10.0),
]
CALIBRATORS = [
    GlobalPlatt(step_back=False),
    GlobalPlatt(step_back=False, slope=False),
    UserPlatt(step_back=False),
    *(ExpertPlatt(step_back=False, assignment=assignment) for assignment in ("hard", "random")),
]
ANY_NET = [make(name, net=NCF(n_factors=4)) for name in ("tdr-jl", "mr", "brd-dr", "at", "stable-dr")]
ANY_IMPUTATION = [
    make(name, propensity=Uniform(), imputation=MeanRating()) for name in ("dr-jl", "tdr-jl", "mr", "brd-dr")
]
PARTS = [
    *(*ANY_NET, *ANY_IMPUTATION),
    *(Naive(net=net) for net in NETS),
    *(IPS(propensity=propensity) for propensity in PROPENSITIES),
    *(DoublyCalibrated(DRJL(propensity=Additive()), each, each) for each in CALIBRATORS),
]


def check_fit_and_saving(method, **options):
    check_saving(method, check_fit(method, **options))


@pytest.mark.parametrize("name", METHODS)
def test_every_method(name):
    check_fit_and_saving(make(name, **FEW.get(name, {})))


@pytest.mark.parametrize("name", CLASSES.values())
def test_every_class_of_methods_learns_from_awkward_logs_or_refuses_them(name):
    check_logs(make(name, **FEW.get(name, {})))


@pytest.mark.parametrize("method", PARTS, ids=lambda method: repr(method).split(" at ")[0][-60:])
def test_every_part_in_a_method(method):
    check_fit_and_saving(method, random_ratings="NaiveBayes" in repr(method))


def test_no_registered_class_is_left_out():
    # Inside methods; Clicks reads impressions: tests/methods/test_funnel.py.
    elsewhere = (Tower(), Factors(), MF(), Clicks())
    used = {type(spec) for spec in (*NETS, *PROPENSITIES, *CALIBRATORS, *elsewhere)}
    assert {entry.cls for kind in ("net", "propensity", "calibrator") for entry in registered(kind)} <= used


FITS = """
import hashlib
import numpy as np
from unskew.nets.factors import NCF
from unskew.registry import make
from unskew.testing.check import SHORT
from unskew.testing.worlds import ordinary
log = ordinary()[0]
pairs = np.divmod(np.arange(log.n_pairs), log.n_items)
methods = [make("naive", net=NCF(n_factors=64)), *map(make, ("dr-jl", "dce-tdr", "escm2-dr", "mr", "stable-dr"))]
for method in methods:
    print(hashlib.sha256(method.fit(log, seed=5, training=SHORT).predict_codes(*pairs).tobytes()).hexdigest())
"""


def test_bits_depend_neither_on_threads_nor_on_cached_kernels(tmp_path):
    found = []
    for threads in ("1", "2"):  # the second process finds the kernels of the first
        names = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        environment = os.environ | dict.fromkeys(names, threads) | {"NUMBA_CACHE_DIR": str(tmp_path)}
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
        done = subprocess.run([sys.executable, "-c", FITS], env=environment, capture_output=True, text=True, check=True)
        found.append(done.stdout.split())
    assert list(tmp_path.rglob("*.nbc")), "nothing was compiled, so nothing was compared"
    assert len(set(found[0])) == 6
    assert found[0] == found[1]
