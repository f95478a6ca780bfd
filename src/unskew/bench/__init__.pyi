from .exam import Exam
from .judge import Judging
from .protocol import Result, benchmark
from .search import Tuned, tune

__all__ = ["Exam", "Judging", "Result", "Tuned", "benchmark", "tune"]
