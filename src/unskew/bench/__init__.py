"""Fair comparisons and searches for settings that may be stopped at any time and go on where they ended."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
