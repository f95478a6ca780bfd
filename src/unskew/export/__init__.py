"""Fitted models for other systems: a scorer as ONNX, vectors for a nearest-neighbour index as Parquet."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
