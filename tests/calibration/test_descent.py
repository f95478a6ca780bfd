"""Compiled steps of the experts: the same bits from the compiler and out of the cache, and Adam as tables have it."""

import os
import subprocess
import sys

import numpy as np
import torch

from unskew.calibration.descent import move
from unskew.nets.table import Table

EXPERTS = """
import hashlib
import numpy as np
from unskew.calibration.experts import ExpertPlatt
from unskew.calibration.platt import Examples

rng = np.random.default_rng(0)
logits, users, vectors = rng.normal(size=997), rng.integers(0, 53, 997), rng.normal(size=(53, 7)).astype(np.float32)
labels = (rng.random(997) < 0.3).astype(float)
examples = Examples(logits, labels, np.ones(997), users, vectors, np.arange(53))
fitted = ExpertPlatt(n_experts=5).fit(examples, generator=rng)
print(hashlib.sha256(b"".join(value.tobytes() for value in fitted.arrays().values())).hexdigest())
"""


def test_experts_have_the_same_bits_from_the_compiler_and_out_of_its_cache(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    said = []
    for padding in ("", "x" * 5000):  # things in memory lie elsewhere the second time
        run = subprocess.run(
            [sys.executable, "-c", EXPERTS],
            env={**environment, "PADDING": padding},
            check=True,
            capture_output=True,
            text=True,
        )
        said.append(run.stdout)
    assert list(tmp_path.rglob("*.nbc")), "nothing was compiled, so nothing was compared"
    assert said[0] == said[1]


def test_a_compiled_move_is_that_of_tables():
    rng = np.random.default_rng(1)
    value = rng.normal(size=(4, 9)).astype(np.float32)
    table = Table(torch.from_numpy(value.copy()))
    state = value.copy(), np.zeros_like(value), np.zeros_like(value), np.zeros(4)
    for _ in range(20):
        gradient = rng.normal(size=value.shape).astype(np.float32)
        table.move(torch.from_numpy(gradient), 0.05)
        move(gradient, 0.05, *state)
    for ours, theirs in zip(state, table.state, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=1e-7)
