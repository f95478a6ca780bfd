"""Published data sets and simulated worlds."""

from unskew.datasets.funnel import Funnel, simulate_funnel
from unskew.datasets.loop import simulate_loop
from unskew.datasets.published import Dataset, Source, available, load, open_bandit

__all__ = ["Dataset", "Funnel", "Source", "available", "load", "open_bandit", "simulate_funnel", "simulate_loop"]
