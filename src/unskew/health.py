"""Whether unskew can work here: one check for each thing that it needs or can use."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

from unskew._version import __version__

State = Literal["ok", "optional", "warning", "failed"]

OLDEST_PYTHON = (3, 11)
LITTLE_DISK, LITTLE_MEMORY = 1e9, 1e9  # bytes
THREAD_VARIABLES = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS")


class Check(NamedTuple):
    """What was found about one thing, in a line; "optional" is what may be missing."""

    name: str
    state: State
    text: str


def checks() -> Iterator[Check]:
    """All checks, one after the other; an error in one of them is what it found."""
    for check in (_python, _packages, _extras, _threads, _compile_cache, _memory, _disk, _fit):
        try:
            yield from check()
        except Exception as error:
            said = " ".join(str(error).split())
            yield Check(check.__name__.strip("_").replace("_", " "), "failed", f"{type(error).__name__}: {said}")


def _python() -> Iterator[Check]:
    fine = sys.version_info >= OLDEST_PYTHON
    text = f"unskew {__version__} on Python {platform.python_version()}, {platform.platform()}"
    yield Check("python", "ok" if fine else "failed", text if fine else f"{text}: it needs Python 3.11 or newer")


def _packages() -> Iterator[Check]:
    needed, _ = _requirements()
    found = [_installed(requirement) for requirement in needed]
    if wrong := [what for what, fine in found if not fine]:
        yield Check("packages", "failed", f"{'; '.join(wrong)}: install unskew again by pip")
    else:
        yield Check("packages", "ok", ", ".join(what for what, _ in found))


def _extras() -> Iterator[Check]:
    _, extras = _requirements()
    for extra, requirements in extras.items():
        if extra == "dev":
            continue
        found = [_installed(requirement) for requirement in requirements]
        there, words = all(fine for _, fine in found), ", ".join(what for what, _ in found)
        more = "" if there else f": pip install 'unskew[{extra}]' brings it"
        yield Check(f"extra {extra}", "ok" if there else "optional", words + more)


def _threads() -> Iterator[Check]:
    import numba

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    text = f"{cores} cores, {numba.get_num_threads()} threads for kernels"
    text += "".join(f", {name}={os.environ[name]}" for name in THREAD_VARIABLES if name in os.environ)
    crowded = numba.get_num_threads() > cores
    yield Check("threads", "warning" if crowded else "ok", text + (": more threads than cores" if crowded else ""))


def _compile_cache() -> Iterator[Check]:
    from unskew.nets import kernels

    stats: Any = kernels.adam.stats
    folder = Path(stats.cache_path)
    there = next(place for place in (folder, *folder.parents) if place.exists())
    if os.access(there, os.W_OK):
        yield Check("compile cache", "ok", f"compiled kernels are kept in {folder}")
    else:
        text = f"{folder} cannot be written, so kernels are compiled anew in every process"
        yield Check("compile cache", "warning", f"{text}: set NUMBA_CACHE_DIR to a folder that can")


def _memory() -> Iterator[Check]:
    available = available_memory()
    if available is None:
        yield Check("memory", "ok", "this system does not tell how much is available")
        return
    little = available < LITTLE_MEMORY
    text = f"{available / 1e9:.1f} GB available"
    yield Check("memory", "warning" if little else "ok", text)


def _disk() -> Iterator[Check]:
    places = {"the current folder": Path.cwd(), "the folder for temporary files": Path(tempfile.gettempdir())}
    for what, place in places.items():
        free, writable = shutil.disk_usage(place).free, os.access(place, os.W_OK)
        text = f"{free / 1e9:.1f} GB free in {what}, {place}" + ("" if writable else ", which cannot be written")
        yield Check("disk", "ok" if writable and free >= LITTLE_DISK else "warning", text)


def _fit() -> Iterator[Check]:
    """The whole way in little: simulate, fit, save, load, predict."""
    import unskew

    began = time.perf_counter()
    world = unskew.simulate(n_users=40, n_items=30, density=0.3, seed=0)
    with _Compilations() as compiled, tempfile.TemporaryDirectory() as folder:
        method = unskew.IPS(propensity=unskew.Additive(), net=unskew.MF(n_factors=2))
        model = method.fit(world.log, training=unskew.Training(max_epochs=2, progress=False))
        model.save(Path(folder) / "model")
        loaded = unskew.load(Path(folder) / "model")
        same = (loaded.predict([1, 2], [3, 4]) == model.predict([1, 2], [3, 4])).all()
    how = f"{compiled.count} kernels had to be compiled" if compiled.count else "no kernel had to be compiled"
    text = f"a tiny model was fitted, saved and loaded in {time.perf_counter() - began:.1f} s, {how}"
    yield Check("fit", "ok" if same else "failed", text if same else f"{text}, but it answers differently")


class _Compilations:
    """How many functions are compiled inside the block because no cache holds them."""

    def __enter__(self) -> _Compilations:
        from numba.core import event

        self._recorded = event.install_recorder("numba:compile")
        self._events: Any = self._recorded.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._recorded.__exit__(*error)

    @property
    def count(self) -> int:
        return sum(1 for _, event in self._events.buffer if event.is_start)


def available_memory() -> int | None:
    """Bytes that can still be used, by the system and by the limit of a container; None if nobody tells."""
    limits = []
    told = _read("/proc/meminfo")
    if "MemAvailable:" in told:
        limits.append(1024 * int(told.partition("MemAvailable:")[2].split()[0]))
    most, used = _read("/sys/fs/cgroup/memory.max").strip(), _read("/sys/fs/cgroup/memory.current").strip()
    if most.isdigit() and used.isdigit():
        limits.append(max(0, int(most) - int(used)))
    return min(limits, default=None)


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def _requirements() -> tuple[list[Any], dict[str, list[Any]]]:
    """What the package needs, and what its extras need, as it says itself or, run from its source, its project file."""
    from packaging.requirements import Requirement

    try:
        told = [Requirement(text) for text in importlib.metadata.requires("unskew") or []]
        names = importlib.metadata.metadata("unskew").get_all("Provides-Extra") or []
        extras = {name: [r for r in told if r.marker and r.marker.evaluate({"extra": name})] for name in names}
        return [r for r in told if r.marker is None or r.marker.evaluate({"extra": ""})], extras
    except importlib.metadata.PackageNotFoundError:
        project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
        optional = project["optional-dependencies"].items()
        read: Callable[[list[str]], list[Any]] = lambda texts: [Requirement(text) for text in texts]  # noqa: E731
        return read(project["dependencies"]), {name: read(texts) for name, texts in optional}


def _installed(requirement: Any) -> tuple[str, bool]:
    """A package and its version, and whether that is what is required."""
    try:
        version = importlib.metadata.version(requirement.name)
    except importlib.metadata.PackageNotFoundError:
        return f"{requirement.name} is not installed", False
    if not requirement.specifier.contains(version, prereleases=True):
        return f"{requirement.name} {version} is installed, but {requirement.specifier} is needed", False
    return f"{requirement.name} {version}", True
