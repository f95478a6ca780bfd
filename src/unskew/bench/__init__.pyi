from .measure import Setup
from .protocol import Benchmark, benchmark
from .search import Tuned, Validation, tune

__all__ = ["Benchmark", "Setup", "Tuned", "Validation", "benchmark", "tune"]
