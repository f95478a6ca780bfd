from .scorer import Scorer, to_onnx
from .vectors import Vectors, to_parquet

__all__ = ["Scorer", "Vectors", "to_onnx", "to_parquet"]
