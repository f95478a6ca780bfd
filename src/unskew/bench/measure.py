"""A fit and what it costs: seconds, memory, and the size of the model."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import cache
from pathlib import Path

from unskew.bench.records import Values
from unskew.data.log import RatingLog
from unskew.data.world import simulate
from unskew.methods.base import Method
from unskew.methods.robust import DRJL
from unskew.model import Recommender
from unskew.propensity.additive import Additive
from unskew.training.options import Training


def measured_fit(method: Method, log: RatingLog, seed: int, training: Training) -> tuple[Recommender, Values]:
    """The fitted model, and wall-clock seconds, peak memory of the process in megabytes and parameter count."""
    warm_up()
    Memory.forget_peak()
    began = time.perf_counter()
    model = method.fit(log, seed=seed, training=quiet(training))
    seconds = time.perf_counter() - began
    costs = {
        "seconds": round(seconds, 3),
        "peak_megabytes": round(Memory.peak() / 1e6, 1),
        "parameters": n_parameters(model),
    }
    return model, costs


def quiet(training: Training) -> Training:
    """Without bars of its own, as there is one over all fits."""
    return replace(training, progress=False)


@cache
def warm_up() -> None:
    """Load what is compiled, once a process, so that the first fit's seconds do not include it."""
    tiny = simulate(n_users=80, n_items=50, density=0.15)
    DRJL(propensity=Additive()).fit(tiny.log, training=Training(max_epochs=1, progress=False))


def n_parameters(model: Recommender) -> int:
    """How many real numbers the model holds: those of the prediction and of every role that helped it learn."""
    held = (part.state() for part in model.parts.parts.values())
    return sum(array.size for arrays in held for array in arrays.values() if array.dtype.kind == "f")


class Memory:
    """The most memory this process has had resident, everything included that it had loaded before."""

    STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")

    @classmethod
    def forget_peak(cls) -> None:
        """Start anew, where the system can (Linux); elsewhere the peak is that of the whole process so far."""
        try:
            cls.RESET.write_text("5")
        except OSError:
            return

    @classmethod
    def peak(cls) -> float:
        """In bytes; 0 if the system does not tell."""
        try:
            line = next(line for line in cls.STATUS.read_text().splitlines() if line.startswith("VmHWM:"))
            return 1024 * float(line.split()[1])
        except (OSError, StopIteration):
            return cls._reported_peak()

    @staticmethod
    def _reported_peak() -> float:
        try:
            import resource
        except ImportError:  # Windows
            return 0.0
        return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)  # in bytes on macOS, where we get here
