"""One process may fit, and one model be read, for as long and by as many as anybody likes."""

from __future__ import annotations

import gc
import hashlib
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import unskew

pytestmark = pytest.mark.long
FITS, THREADS, PROCESSES = 200, 8, 20
RECIPES = (("naive", {}), ("dr-jl", {}), ("dce-dr", {}), ("bayes", {"sweeps": 20}), ("dce-bayes", {"sweeps": 20}))
READER = """
import hashlib, sys
import numpy as np
import unskew
model = unskew.load(sys.argv[1])
print(hashlib.sha256(model.predict(np.arange(60), np.arange(60) % 40).tobytes()).hexdigest())
"""


def megabytes():
    """Return what this process holds in memory."""
    return int(Path("/proc/self/status").read_text().partition("VmRSS:")[2].split()[0]) / 1024


@pytest.fixture(scope="module")
def log():
    return unskew.simulate(60, 40, density=0.3, seed=0).log


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux's account of memory")
def test_two_hundred_fits_leave_no_memory_and_no_threads(log):
    training = unskew.Training(max_epochs=3, progress=False)

    def fit(number):
        name, settings = RECIPES[number % len(RECIPES)]
        unskew.make(name, **settings).fit(log, seed=number, training=training).recommend(k=3)

    def standing():
        gc.collect()
        return megabytes(), threading.active_count(), len(list(Path("/proc/self/task").iterdir()))

    for number in range(20):
        fit(number)
    before = standing()
    for number in range(20, FITS):
        fit(number)
    after = standing()
    print(f"{FITS} fits: {before[0]:.0f} MB after 20 of them, {after[0]:.0f} MB at the end, {after[2]} threads")
    assert after[0] < before[0] + 30
    assert after[1:] == before[1:]


@pytest.mark.parametrize("name", ["naive", "dce-bayes"])
def test_threads_and_processes_read_one_model_alike(name, log, tmp_path):
    settings = {"sweeps": 20} if name == "dce-bayes" else {}
    unskew.make(name, **settings).fit(log, training=unskew.Training(max_epochs=3, progress=False)).save(tmp_path / "m")
    model = unskew.load(tmp_path / "m")
    users, items = np.arange(60), np.arange(60) % 40
    alone, lists = model.predict(users, items), model.recommend(k=5)
    with ThreadPoolExecutor(THREADS) as pool:
        for answers, others in pool.map(lambda _: (model.predict(users, items), model.recommend(k=5)), range(80)):
            assert answers.tobytes() == alone.tobytes()
            assert others.equals(lists)
    words = [sys.executable, "-c", READER, str(tmp_path / "m")]
    children = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(PROCESSES)]
    digests = {child.communicate()[0].strip() for child in children}
    assert digests == {hashlib.sha256(alone.tobytes()).hexdigest()}
