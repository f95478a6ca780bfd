"""unskew: honest recommenders from dishonest data.

The public names stand in `__init__.pyi` and are imported when first used, so that `import unskew` and
`unskew --help` do not wait for PyTorch.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
