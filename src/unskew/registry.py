"""Names of methods and parts: those of the package, and those that users register."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, replace
from importlib import import_module
from importlib.metadata import entry_points
from inspect import getdoc
from typing import Any

from unskew.errors import ParameterError, nearest
from unskew.gone import refuse_gone_setting, sentence_about_method

KINDS = ("method", "net", "propensity", "imputation", "calibrator")
GROUPS = ("unskew.methods", "unskew.nets", "unskew.propensities", "unskew.calibrators")  # of entry points
BUILT_IN = "unskew.methods.names"  # registers what the package brings, when a name is first asked for


@dataclass(frozen=True)
class Entry:
    """A registered method or part: its name, its defaults (a class without any is its own), and a line on it."""

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
        """The method with these settings instead of its defaults; a wrapper hands on what is its base's."""
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


_entries: dict[str, Entry] = {}
_loaded: list[str] = []
_broken: dict[str, str] = {}
_distributions: dict[type, str] = {}  # of classes that installed packages bring


def settings_of(made: Any) -> dict[str, Any]:
    """The settings of a method or part with their values."""
    return {each.name: getattr(made, each.name) for each in fields(made)} if is_dataclass(made) else {}


def register(name: str, defaults: Any = None, *, note: str = "") -> Any:
    """Give a method or a part a name, by which commands, recipes and model folders know it.

    As a decorator, `@register("my-method")`, for a frozen dataclass; or `register("mine", MyMethod(weight=2))` for
    settings of one. A name that is taken by another module is refused.

    >>> ips = unskew.register("ips-additive", unskew.IPS(propensity=unskew.Additive()))
    >>> unskew.make("ips-additive") == ips
    True
    """

    def enter(made: Any) -> Any:
        cls = made if isinstance(made, type) else type(made)
        kind = getattr(cls, "kind", None)
        if kind not in KINDS:
            raise ParameterError(f"{cls.__name__} is no {', '.join(KINDS[:-1])} or {KINDS[-1]}: derive it from one.")
        for taken in _entries.values():
            if taken.name == name and (taken.cls.__module__, taken.kind) != (cls.__module__, kind):
                raise ParameterError(f"The name {name!r} is taken by {taken.cls.__module__}; choose another.")
            if taken.cls.__name__ == cls.__name__ and taken.cls.__module__ != cls.__module__:
                raise ParameterError(
                    f"There is a class {cls.__name__} in {taken.cls.__module__} already, and files tell classes by "
                    "their names: choose another."
                )
        _entries[name] = Entry(name, kind, made, note)
        return made

    return enter if defaults is None else enter(defaults)


def registered(kind: str = "method") -> tuple[Entry, ...]:
    """All that is registered of a kind, in the order of the comparison.

    >>> [entry.name for entry in unskew.registered()][:2]
    ['naive', 'ips']
    """
    if not _loaded:
        import_module(BUILT_IN)
        _loaded.append(BUILT_IN)
        _load_outside()
    return tuple(entry for entry in _entries.values() if entry.kind == kind)


def broken() -> dict[str, str]:
    """Entries of installed packages that could not be loaded, by name, with a sentence each."""
    registered()
    return dict(_broken)


def _load_outside() -> None:
    """Register what installed packages offer as entry points; one that is broken is noted, and the others work."""
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
    """The method registered under this name, with these settings instead of its defaults.

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
    """Every class that a recipe may name, by that name; nothing else is ever built from a file.

    Ours go by their bare names, as do those that a program registers itself; one of an installed package is called
    distribution:Class.
    """
    found = (entry.cls for kind in KINDS for entry in registered(kind))
    return {f"{_distributions[cls]}:{cls.__name__}" if cls in _distributions else cls.__name__: cls for cls in found}
