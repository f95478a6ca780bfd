from .check import check_method

__all__ = ["check_method"]
