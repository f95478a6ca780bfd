from .curve import Curve, unbiased_curve
from .exam import Exam
from .judge import Judging
from .protocol import Result, benchmark
from .search import Tuned, tune

__all__ = ["Curve", "Exam", "Judging", "Result", "Tuned", "benchmark", "tune", "unbiased_curve"]
