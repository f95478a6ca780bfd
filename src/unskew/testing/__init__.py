"""Tools for those who write methods and parts: `check_method` holds yours to the contract of all."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
