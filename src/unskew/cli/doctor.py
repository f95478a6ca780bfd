"""unskew doctor"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from unskew._version import __version__
from unskew.cli.output import Answer

EXAMPLE = "unskew doctor"
SICK = 1  # the exit code if a check has failed
NOT_FOR_USERS = ("dev", "docs", "peers")  # extras


class Check(NamedTuple):
    """What was found about one thing, in a line; "optional" is what may be missing."""

    name: str
    state: Literal["ok", "optional", "warning", "failed"]
    text: str


def command() -> Answer:
    """Check that unskew can work here: versions, compile cache, and a tiny fit.

    Every check is one line. The exit code is 1 if one has failed, and 0 if not; warnings and what is optional do not
    count.
    """
    found = list(checks())
    lines = [f"{check.state:<8}  {check.name}: {check.text}" for check in found]
    failed, warned = (sum(check.state == state for check in found) for state in ("failed", "warning"))
    lines.append(f"{failed} of {len(found)} checks failed, {warned} warn")
    facts = {"checks": [check._asdict() for check in found], "failed": failed}
    return Answer("\n".join(lines), facts, SICK if failed else 0)


def checks() -> Iterator[Check]:
    """Yield all checks, one after the other; an error in one of them is what it found."""
    for check in (_python, _packages, _compile_cache, _fit):
        try:
            yield from check()
        except Exception as error:
            words = " ".join(str(error).split())
            yield Check(check.__name__.strip("_").replace("_", " "), "failed", f"{type(error).__name__}: {words}")


def _python() -> Iterator[Check]:
    yield Check("python", "ok", f"unskew {__version__} on Python {platform.python_version()}, {platform.platform()}")


def _packages() -> Iterator[Check]:
    """Look up what the package and its extras need; `pip check` compares versions."""
    groups: dict[str, list[str]] = {"": []}
    for requirement in importlib.metadata.requires("unskew") or []:
        marker = re.search(r"extra == ['\"](\w+)['\"]", requirement)
        groups.setdefault(marker[1] if marker else "", []).append(re.split(r"[^\w.-]", requirement)[0])
    for extra, names in groups.items():
        if extra in NOT_FOR_USERS:
            continue
        what, how = "packages", "install unskew again by pip"
        if extra:
            what, how = f"extra {extra}", f"pip install 'unskew[{extra}]' brings it"
        found = {name: _version(name) for name in names}
        if missing := [name for name, version in found.items() if version is None]:
            yield Check(what, "optional" if extra else "failed", f"{', '.join(missing)} is not installed: {how}")
        else:
            yield Check(what, "ok", ", ".join(f"{name} {version}" for name, version in found.items()))


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _compile_cache() -> Iterator[Check]:
    from unskew.compiled import cache_folder
    from unskew.nets import kernels

    folder = cache_folder(kernels.adam)
    there = next(place for place in (folder, *folder.parents) if place.exists())
    if os.access(there, os.W_OK):
        yield Check("compile cache", "ok", f"compiled kernels are kept in {folder}")
    else:
        text = f"{folder} cannot be written, so kernels are compiled anew in every process"
        yield Check("compile cache", "warning", f"{text}: set NUMBA_CACHE_DIR to a folder that can")


def _fit() -> Iterator[Check]:
    """Go the whole way in little: simulate, fit, save, load, predict."""
    import unskew

    began = time.perf_counter()
    world = unskew.simulate(n_users=40, n_items=30, density=0.3, seed=0)
    with tempfile.TemporaryDirectory() as folder:
        method = unskew.IPS(propensity=unskew.Additive(), net=unskew.MF(n_factors=2))
        model = method.fit(world.log, training=unskew.Training(max_epochs=2, progress=False))
        model.save(Path(folder) / "model")
        loaded = unskew.load(Path(folder) / "model")
        same = (loaded.predict([1, 2], [3, 4]) == model.predict([1, 2], [3, 4])).all()
    text = f"a tiny model was fitted, saved and loaded in {time.perf_counter() - began:.1f} s"
    yield Check("fit", "ok" if same else "failed", text if same else f"{text}, but it answers differently")
