"""What unskew is, has and needs: unskew demo, list and doctor."""

import os
import platform
import re
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, is_dataclass, replace
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from shutil import get_terminal_size
from textwrap import fill
from typing import Annotated, Any

import unskew
from unskew._version import __version__
from unskew.cli import options
from unskew.cli.options import option
from unskew.cli.output import Answer, check_place
from unskew.runtime import say

USE = "A setting is given as: unskew fit LOG --method ips --set propensity=additive --set net.n_factors=32"
SICK = 1  # the exit code if a check has failed


def demo(out: Annotated[Path | None, option("Write the picture, as .svg.")] = None, seed: options.Seed = 0) -> Answer:
    """Show in a simulated world what ignoring selection costs.

    People mostly rate what they like. Methods that ignore this and methods that correct for it learn from such a log;
    what they believe stands next to what is true of the whole world, and so does the decision that the log alone
    allows.

    Example:
        unskew demo --out demo.svg
    """
    check_place(out, ".svg")
    from unskew.bench.demo import run

    found = run(seed)
    if out is not None:
        found.chart().save(out)
    return Answer(found.text() + ("" if out is None else f"\n\nwrote {out}"), found.to_dict())


def listed() -> Answer:
    """List methods, parts, settings, metrics and published datasets.

    Example:
        unskew list --json
    """
    from unskew.registry import broken, unset

    problems = broken()

    def usable(*kinds: str) -> list[Any]:
        return [entry for kind in kinds for entry in unskew.registered(kind) if entry.name not in problems]

    methods = [_described(entry.name, entry) for entry in unskew.registered()]
    parts = usable("net", "propensity", "calibrator")
    parts = [_described(entry.cls.__name__.lower(), entry) for entry in parts if not unset(entry.cls)]
    sources = [entry.defaults for entry in usable("dataset")]
    metrics = [{"name": each.name, "summary": each.defaults.meaning, "settings": {}} for each in usable("metric")]
    for sentence in problems.values():
        say(f"warning: {sentence}")
    lines = [_text(row) for row in methods] + ["", "Parts, by the names that --set takes", ""]
    lines += [_text(row) for row in parts] + ["", USE, "", "Metrics", ""]
    lines += [_text(row) for row in metrics]
    for source in sources:
        lines.append(f"\n{source.name}: {source.title}")
        facts = {"where": source.where, "terms": source.terms, "files": ", ".join(source.files)}
        facts["cite"] = source.citation
        facts["liked"] = f"a rating of at least {source.positive:g}, unless --positive gives another"
        facts["use"] = f"unskew fit {source.name}:FOLDER --out MODEL"
        lines += [f"  {title:<6} {text}" for title, text in facts.items()]
    datasets = [asdict(replace(source, read=None)) for source in sources]
    return Answer(
        "\n".join(lines),
        {"methods": methods, "parts": parts, "metrics": metrics, "datasets": datasets, "broken": problems},
    )


def _described(name: str, entry: Any) -> dict[str, Any]:
    """Return name, summary and settings with defaults; a part among them is a name as well."""
    from unskew.registry import settings_of

    made = {} if entry.problem else settings_of(entry.build())
    settings = {of: type(held).__name__.lower() if is_dataclass(held) else held for of, held in made.items()}
    return {"name": name, "summary": entry.problem or entry.summary, "settings": settings}


def _text(row: dict[str, Any]) -> str:
    settings = ", ".join(f"{setting}={value}" for setting, value in row["settings"].items())
    width, indent = max(60, get_terminal_size((120, 24)).columns), " " * 24
    return "\n".join(
        fill(text, width, initial_indent=f"{first:<24}", subsequent_indent=indent, break_long_words=False)
        for first, text in ((f"{row['name']} ", row["summary"]), ("", settings))
        if text
    )


def doctor() -> Answer:
    """Check that unskew can work here.

    Versions, the compile cache and a tiny fit: every check is one line. The exit code is 1 if one has failed, and 0 if
    not; warnings do not count.

    Example:
        unskew doctor
    """
    checks: dict[str, Callable[[], tuple[str, str]]] = {"packages": packages, "compile cache": cache, "fit": fit}
    found = [("python", "ok", f"unskew {__version__} on Python {platform.python_version()}, {platform.platform()}")]
    for name, check in checks.items():
        try:
            found.append((name, *check()))
        except Exception as error:  # whatever it is, it is what the check has found
            found.append((name, "failed", f"{type(error).__name__}: {' '.join(str(error).split())}"))
    failed, warned = (sum(state == bad for _, state, _ in found) for bad in ("failed", "warning"))
    lines = [f"{state:<8}  {name}: {text}" for name, state, text in found]
    lines.append(f"{failed} of {len(found)} checks failed, {warned} warn")
    facts = [dict(zip(("name", "state", "text"), each, strict=True)) for each in found]
    return Answer("\n".join(lines), {"checks": facts, "failed": failed}, SICK if failed else 0)


def packages() -> tuple[str, str]:
    """Return the versions of what unskew needs; of what extras bring, those that are installed."""
    needed, found, missing = requires("unskew") or [], list[str](), list[str]()
    for requirement in needed:
        name = re.split(r"[^\w.-]", requirement)[0]
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            missing += [] if "extra ==" in requirement else [name]
    if missing:
        return "failed", f"{', '.join(missing)} is not installed: install unskew again by pip"
    return "ok", ", ".join(dict.fromkeys(found))


def cache() -> tuple[str, str]:
    """Return where compiled kernels are kept."""
    from unskew.compiled import cache_folder
    from unskew.nets import kernels

    folder = cache_folder(kernels.adam)
    there = next(place for place in (folder, *folder.parents) if place.exists())
    if os.access(there, os.W_OK):
        return "ok", f"compiled kernels are kept in {folder}"
    text = f"{folder} cannot be written, so kernels are compiled anew in every process"
    return "warning", f"{text}: set NUMBA_CACHE_DIR to a folder that can"


def fit() -> tuple[str, str]:
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
    return ("ok", text) if same else ("failed", f"{text}, but it answers differently")
