"""The bits of a fit do not depend on the number of threads or on the process."""

import os
import subprocess
import sys

FIT = """
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


def fitted(threads):
    names = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    environment = os.environ | dict.fromkeys(names, str(threads))
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run([sys.executable, "-c", FIT], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_bits_are_the_same_at_any_number_of_threads():
    one, two = fitted(1), fitted(2)
    assert len(set(one)) == 6
    assert one == two
