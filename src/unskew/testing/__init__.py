"""Tools for those who write methods: `check_method` holds a method to the contract of all methods."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
