"""Published data sets and simulated worlds."""

from unskew.datasets.published import Dataset, Source, available, load, open_bandit

__all__ = ["Dataset", "Source", "available", "load", "open_bandit"]
