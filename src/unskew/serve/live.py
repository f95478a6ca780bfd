"""The model that answers, and the next one, taken up from its folder when that changes."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from unskew.errors import UnskewError
from unskew.model import Recommender
from unskew.store.atomic import PathLike, checked_path, standing
from unskew.store.model import JUDGE, MANIFEST, load

CHECKED_EVERY = 1.0  # seconds


class Loaded(NamedTuple):
    """A model with the name that answers and logs know it by, from its manifest, and since when it serves."""

    model: Recommender
    name: str
    since: float

    @classmethod
    def of(cls, path: PathLike) -> Loaded:
        """Load a model and ask it once: what cannot answer is refused, and what must be compiled is."""
        folder = checked_path(path)
        model = load(folder)
        name = hashlib.sha256((standing(folder) / MANIFEST).read_bytes()).hexdigest()[:12]
        log = model.log
        with suppress(UnskewError):  # not every model takes new users
            n = min(len(log), 1)
            columns = (["?"][:n], log.item_ids.arrow[:n], log.scale.from_unit(log.ratings[:n]))
            model.fold_in(pa.table(dict(zip((log.names.user, log.names.item, log.names.rating), columns, strict=True))))
        for by, explore in ((None, None), (model.part("prediction").orders[-1], 0.0)):
            rules: Any = {"by": by, "explore": explore, "exclude_seen": len(log) > 0, "library": "pyarrow"}
            model.recommend(log.user_ids.arrow[:1], 1, **rules)
        return cls(model, name, time.time())


class Live:
    """Hold the model that answers. Whoever asks takes `current` once: a request is answered by one model throughout.

    `refused` is why the folder as it stands is not served, None if it is. A symbolic link is followed anew each time.
    """

    def __init__(self, path: PathLike) -> None:
        self.path = Path(path).absolute()
        self._mark = self._marked()
        self.current = Loaded.of(self.path)
        self.refused: str | None = None
        self._stopped = threading.Event()

    def refresh(self) -> None:
        """Take the model of the folder up if its files have changed; a broken one is refused, and the old goes on."""
        mark = self._marked()
        if mark == self._mark:
            return
        try:
            loaded, refused = Loaded.of(self.path), None
        except Exception as error:  # whatever it is: the thread that watches goes on
            loaded, refused = self.current, str(error) or type(error).__name__
        if self._marked() == mark:  # else it is being written, and looked at again
            self._mark, self.current, self.refused = mark, loaded, refused

    def watch(self) -> None:
        """Refresh now and then until `stop` is called; for a thread of its own."""
        while not self._stopped.wait(CHECKED_EVERY):
            self.refresh()

    def stop(self) -> None:
        self._stopped.set()

    def _marked(self) -> tuple[tuple[str, int, int, int], ...]:
        """Mark the files of a folder, to tell whether any is written since; the judge's own is none of the model's."""
        try:
            folder = standing(checked_path(self.path))
            entries = [(entry.name, entry.stat()) for entry in os.scandir(folder) if entry.name != JUDGE]
        except OSError:
            return ()
        return tuple(sorted((name, stat.st_mtime_ns, stat.st_size, stat.st_ino) for name, stat in entries))
