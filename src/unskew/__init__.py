"""unskew: honest recommenders from dishonest data.

The public names stand in `__init__.pyi` and are imported when first used, so that `import unskew` and
`unskew --help` start at once.
"""

from typing import Any

import lazy_loader

from unskew.gone import about

_loaded, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    gone = about("name", name)
    if gone is not None:
        raise AttributeError(gone)
    return _loaded(name)
