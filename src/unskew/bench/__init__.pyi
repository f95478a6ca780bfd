from .protocol import Benchmark, Setup, benchmark
from .search import Tuned, Validation, tune

__all__ = ["Benchmark", "Setup", "Tuned", "Validation", "benchmark", "tune"]
