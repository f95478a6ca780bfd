"""The tables and figures of the DCE paper (Kweon & Yu, WWW 2024), made anew from suites of recipes."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
