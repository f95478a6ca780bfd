from .run import Reproduced, reproduce
from .suite import TARGETS

__all__ = ["TARGETS", "Reproduced", "reproduce"]
