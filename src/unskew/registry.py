"""Names of methods, their parts, metrics and data sets: those of the package, and those that others register."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, replace
from importlib import import_module
from importlib.metadata import entry_points
from inspect import getdoc
from typing import Any

from unskew.errors import ParameterError, nearest
from unskew.gone import refuse_gone_setting, sentence_about_method

PARTS = ("method", "net", "propensity", "imputation", "calibrator")  # kinds of classes that recipes name
KINDS = (*PARTS, "metric", "dataset")
GROUPS = tuple(f"unskew.{kind}" for kind in ("methods", "nets", "propensities", "calibrators", "metrics", "datasets"))
BUILT_IN = "unskew.methods.names"  # registers what the package brings, when a name is first asked for


@dataclass(frozen=True)
class Entry:
    """What is registered: a method or part with its defaults (a class without any is its own), a metric, a data set."""

    name: str
    kind: str
    defaults: Any
    note: str = ""

    @property
    def cls(self) -> type:
        return self.defaults if isinstance(self.defaults, type) else type(self.defaults)

    @property
    def summary(self) -> str:
        return self.note or (getdoc(self.cls) or "").split("\n")[0]

    def build(self, **settings: Any) -> Any:
        """Return the method with these settings instead of its defaults; a wrapper hands on what is its base's."""
        made = self.defaults() if isinstance(self.defaults, type) else self.defaults
        own = settings_of(made)
        wrapped_by = next((name for name in ("base", "factors") if name in own), "")
        inner = own.get(wrapped_by)
        of_base = settings_of(inner) if inner is not None else {}
        for name in settings:
            refuse_gone_setting(name)
            if name not in own | of_base:
                raise ParameterError(
                    f"The {self.kind} {self.name!r} has no setting {name!r}{nearest(name, own | of_base)}"
                )
        mine = {name: value for name, value in settings.items() if name in own}
        if base := {name: value for name, value in settings.items() if name not in own}:
            wrapped: Any = mine.get(wrapped_by, inner)
            mine[wrapped_by] = replace(wrapped, **base)
        return replace(made, **mine)


_entries: dict[tuple[str, str], Entry] = {}  # by kind and name
_loaded: list[str] = []
_ours: set[tuple[str, str]] = set()
_broken: dict[str, str] = {}
_distributions: dict[type, str] = {}  # of classes that installed packages bring


def settings_of(made: Any) -> dict[str, Any]:
    """Return the settings of a method or part with their values."""
    return {each.name: getattr(made, each.name) for each in fields(made)} if is_dataclass(made) else {}


def register(name: str, defaults: Any = None, *, note: str = "") -> Any:
    """Give a method, a part, a metric or a data set a name, by which commands, recipes and model folders know it.

    As a decorator, `@register("my-method")`, for a frozen dataclass; or `register("mine", MyMethod(weight=2))` for
    settings of one, `register("mine", Metric(...))`, `register("mine", Source(...))`. A name that is taken by the
    package or by another module is refused.

    Examples:
        >>> ips = unskew.register("ips-additive", unskew.IPS(propensity=unskew.Additive()))
        >>> unskew.make("ips-additive") == ips
        True
    """

    def enter(made: Any) -> Any:
        _load()
        cls = made if isinstance(made, type) else type(made)
        kind = getattr(cls, "kind", None)
        if kind not in KINDS:
            raise ParameterError(f"{cls.__name__} is no {', '.join(KINDS[:-1])} or {KINDS[-1]}: derive it from one.")
        for taken in _entries.values():
            if taken.name == name and (taken.cls.__module__ != cls.__module__ or (taken.kind, name) in _ours):
                raise ParameterError(f"The name {name!r} is taken by {taken.cls.__module__}; choose another.")
            if taken.cls.__name__ == cls.__name__ and taken.cls.__module__ != cls.__module__:
                raise ParameterError(
                    f"There is a class {cls.__name__} in {taken.cls.__module__} already, and files tell classes by "
                    "their names: choose another."
                )
        _entries[kind, name] = Entry(name, kind, made, note)
        return made

    return enter if defaults is None else enter(defaults)


def registered(kind: str = "method") -> tuple[Entry, ...]:
    """Return all that is registered of a kind, in the order of the comparison.

    Examples:
        >>> unskew.registered()[0].name
        'naive'
    """
    _load()
    return tuple(entry for entry in _entries.values() if entry.kind == kind)


def named(kind: str) -> dict[str, Any]:
    """Return all that is registered of a kind by its name."""
    return {entry.name: entry.defaults for entry in registered(kind)}


def broken() -> dict[str, str]:
    """Return entries of installed packages that could not be loaded, by name, with a sentence each."""
    _load()
    return dict(_broken)


def _load() -> None:
    """Register, once, what the package brings, and then what installed packages offer as entry points.

    One that is broken is noted, and the others work.
    """
    if _loaded:
        return
    _loaded.append(BUILT_IN)
    import_module(BUILT_IN)
    _ours.update(_entries)
    for group in GROUPS:
        for point in entry_points(group=group):
            try:
                made = point.load()
                register(point.name, made)
                if point.dist is not None:
                    _distributions[made if isinstance(made, type) else type(made)] = point.dist.name
            except Exception as error:  # a door: whatever the import of somebody's package raises
                of = "" if point.dist is None else f" of {point.dist.name}"
                words = " ".join(str(error).split()).rstrip(".")
                _broken[point.name] = f"{point.name}{of} cannot be used: {type(error).__name__}: {words}."


def make(name: str, **settings: Any) -> Any:
    """Return the method registered under this name, with these settings instead of its defaults.

    Examples:
        >>> unskew.make("ips", clip=0.02).clip
        0.02
    """
    known = {entry.name: entry for entry in registered()}
    if not isinstance(name, str):
        raise ParameterError(f"A method goes by its name, such as 'dce-bayes', not {name!r}.")
    if name in known:
        return known[name].build(**settings)
    if name in _broken:
        raise ParameterError(_broken[name])
    if (sentence := sentence_about_method(name)) is not None:
        raise ParameterError(sentence)
    raise ParameterError(f"There is no method {name!r}{nearest(name, known, otherwise='; `unskew list` lists them.')}")


def classes() -> dict[str, type]:
    """Return every class that a recipe may name, by that name; nothing else is ever built from a file.

    Ours go by their bare names, as do those that a program registers itself; one of an installed package is called
    distribution:Class.
    """
    found = (entry.cls for kind in PARTS for entry in registered(kind))
    return {f"{_distributions[cls]}:{cls.__name__}" if cls in _distributions else cls.__name__: cls for cls in found}
