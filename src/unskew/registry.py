"""Names of methods, their parts, metrics and data sets: those of the package, and those that others register."""

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from functools import cached_property, partial
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from inspect import getdoc
from typing import Any

from unskew.errors import ParameterError, chosen, nearest
from unskew.gone import refuse_gone

KINDS = {  # with the group of entry points by which installed packages offer such things
    "method": "unskew.methods",
    "net": "unskew.nets",
    "propensity": "unskew.propensities",
    "imputation": "unskew.imputations",
    "calibrator": "unskew.calibrators",
    "metric": "unskew.metrics",
    "dataset": "unskew.datasets",
}
WRAPPED = ("base", "factors")  # settings that hold what a wrapper wraps
IN_RECIPES = tuple(KINDS)[:5]  # kinds of classes that recipes name
BUILT_IN = "unskew.methods.names"  # registers what the package brings, when a name is first asked for


@dataclass(frozen=True)
class Entry:
    """A name of a method or part, a metric or a data set; what an installed package offers is imported when used."""

    name: str
    kind: str
    load: Callable[[], Any]
    module: str
    note: str = ""
    distribution: str = ""  # the installed package that offers it

    @cached_property
    def defaults(self) -> Any:
        """What has the name: a method or part with its settings, or a class if it has none but its own."""
        return self.load()

    @property
    def problem(self) -> str:
        """Why it cannot be used, in a sentence; nothing if it can."""
        try:
            return "" if self.defaults is not None else f"{self.name} is None."
        except ParameterError as error:
            return str(error)

    @property
    def cls(self) -> type:
        return self.defaults if isinstance(self.defaults, type) else type(self.defaults)

    @property
    def summary(self) -> str:
        return self.note or (getdoc(self.cls) or "").split("\n")[0]

    def build(self, **settings: Any) -> Any:
        """Return the method with these settings instead of its defaults."""
        made = self.defaults() if isinstance(self.defaults, type) else self.defaults
        return with_settings(made, settings, f"The {self.kind} {self.name!r}")


_entries: dict[tuple[str, str], Entry] = {}  # by kind and name
_loaded: list[str] = []
_ours: set[tuple[str, str]] = set()
_taken: dict[str, str] = {}  # sentences about entries whose names others have


def settings_of(made: Any) -> dict[str, Any]:
    """Return the settings of a method or part with their values."""
    return {each.name: getattr(made, each.name) for each in fields(made) if each.init} if is_dataclass(made) else {}


def with_settings(made: Any, settings: Mapping[str, Any], called: str = "", others: Iterable[str] = ()) -> Any:
    """Return a method or part with other settings, also inside its parts ("net.n_factors"), and parts by their names.

    A wrapper hands on what is its base's; the text "none" is None where that may be. `others` are names besides, one of
    which may be meant by an unknown one.
    """
    own, inner, changed = settings_of(made), dict[str, dict[str, Any]](), dict[str, Any]()
    wrapped_by, known = next((name for name in WRAPPED if name in own), ""), own
    while held := next((known[name] for name in WRAPPED if name in known), None):
        known = {name: value for name, value in known.items() if name not in WRAPPED} | settings_of(held)
    empty = {each.name for each in fields(made) if "None" in str(each.type)} if own else set()
    for name, value in settings.items():
        first, _, rest = name.partition(".")
        refuse_gone("setting", first)
        if first not in own | known:
            listed = f": it has {', '.join(known)}."
            called = called or type(made).__name__
            raise ParameterError(
                f"{called} has no setting {first!r}{nearest(first, [*known, *others], otherwise=listed)}"
            )
        if first not in own:
            inner.setdefault(wrapped_by, {})[name] = value
        elif rest and not is_dataclass(own[first]):
            raise ParameterError(f"{first} is {own[first]!r}, which has no settings of its own.")
        elif rest:
            inner.setdefault(first, {})[rest] = value
        elif isinstance(value, str) and value == "none" and first in empty:
            changed[first] = None
        else:
            changed[first] = _part(value) if isinstance(value, str) and is_dataclass(own[first]) else value
    changed |= {name: with_settings(changed.get(name, own[name]), given) for name, given in inner.items()}
    return replace(made, **changed) if changed else made


def _part(name: str) -> Any:
    """Return the part whose class has this name, in any case, with its usual settings."""
    known = classes() | classes(outside=True)
    folded = {each.casefold().rpartition(":")[2]: each for each in reversed(known)} | {e.casefold(): e for e in known}
    if name.casefold() not in folded:
        raise ParameterError(f"There is no part {name!r}{nearest(name, known)}")
    found = known[folded[name.casefold()]]
    if needed := unset(found):
        raise ParameterError(f"{found.__name__} needs the setting {needed[0]!r}: make it in Python, or in a recipe.")
    return found()


def unset(cls: type) -> list[str]:
    """Return the settings of a class that have no default."""
    return [each.name for each in fields(cls) if each.default is MISSING and each.default_factory is MISSING]


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
        if not isinstance(name, str) or not name.strip():
            raise ParameterError(f"A name is a word, such as 'my-method', not {name!r}.")
        cls, kind = _class_and_kind(made)
        for key, taken in _entries.items():
            inside = cls.__module__.partition(".")[0] == taken.module.partition(".")[0]
            same = cls.__module__ == taken.module or (bool(taken.distribution) and inside)
            if taken.name == name and (not same or key in _ours):
                raise ParameterError(f"The name {name!r} is taken by {taken.module}; choose another.")
            if not (same or taken.distribution) and taken.cls.__name__ == cls.__name__:
                raise ParameterError(
                    f"There is a class {cls.__name__} in {taken.module} already, and files tell classes by "
                    "their names: choose another."
                )
        known = _entries.get((kind, name))
        offered_by = "" if known is None else known.distribution
        _entries[kind, name] = Entry(name, kind, lambda: made, cls.__module__, note, offered_by)
        return made

    return enter if defaults is None else enter(defaults)


def registered(kind: str = "method") -> tuple[Entry, ...]:
    """Return all that is registered of a kind, in the order of the comparison.

    Examples:
        >>> unskew.registered()[0].name
        'naive'
    """
    _load()
    return tuple(entry for entry in _entries.values() if entry.kind == chosen(kind, "kind", KINDS))


def named(kind: str) -> dict[str, Any]:
    """Return all that can be used of a kind by its name; what cannot is warned of."""
    found = registered(kind)
    for entry in found:
        if entry.problem:
            warnings.warn(entry.problem, stacklevel=2)
    return {entry.name: entry.defaults for entry in found if not entry.problem}


def broken() -> dict[str, str]:
    """Return entries of installed packages that cannot be used, by name, with a sentence each."""
    _load()
    return _taken | {entry.name: entry.problem for entry in _entries.values() if entry.problem}


def _class_and_kind(made: Any) -> tuple[type, str]:
    cls = made if isinstance(made, type) else type(made)
    kind = getattr(cls, "kind", None)
    if kind not in KINDS:
        *first, last = KINDS
        raise ParameterError(f"{cls.__name__} is no {', '.join(first)} or {last}: derive it from one.")
    return cls, kind


def _load() -> None:
    """Register, once, what the package brings, and the names of what installed packages offer as entry points."""
    if _loaded:
        return
    _loaded.append(BUILT_IN)
    import_module(BUILT_IN)
    _ours.update(_entries)
    offered = entry_points()  # once: all installed packages are looked at
    for kind, group in KINDS.items():
        for point in offered.select(group=group):
            taken = next((entry for entry in _entries.values() if entry.name == point.name), None)
            if taken is None:
                package = "" if point.dist is None else point.dist.name
                load = partial(_imported, point, kind)
                _entries[kind, point.name] = Entry(point.name, kind, load, point.module, distribution=package)
            else:
                error = ParameterError(f"The name {point.name!r} is taken by {taken.module}; choose another.")
                _taken[point.name] = _unusable(point, error)


def _imported(point: EntryPoint, kind: str) -> Any:
    """Import what a package offers; whatever that raises becomes one sentence."""
    try:
        made = point.load()
        cls, found = _class_and_kind(made)
        if found != kind:
            raise ParameterError(f"{cls.__name__} is a {found}: offer it in the group {KINDS[found]}.")
    except Exception as error:  # a door
        raise ParameterError(_unusable(point, error)) from error
    return made


def _unusable(point: EntryPoint, error: Exception) -> str:
    of = "" if point.dist is None else f" of {point.dist.name}"
    words = " ".join(str(error).split()).rstrip(".")
    return f"{point.name}{of} cannot be used: {type(error).__name__}: {words}."


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
    if name in _taken:
        raise ParameterError(_taken[name])
    refuse_gone("method", name)
    raise ParameterError(f"There is no method {name!r}{nearest(name, known, otherwise='; `unskew list` lists them.')}")


def as_method(given: Any) -> Any:
    """Return a method, or the one that has this name."""
    if isinstance(given, str):
        return make(given)
    if isinstance(given, type) or getattr(given, "kind", None) != "method":
        raise ParameterError(f"method must be a method or the name of one, not {given!r:.80}.")
    return given


def classes(outside: bool = False) -> dict[str, type]:
    """Return every class that a recipe may name, by that name; nothing else is ever built from a file.

    Ours go by their bare names, as do those that a program registers itself. With `outside` there are also those of
    installed packages, called distribution:Class, for which these are imported.
    """
    found = [entry for kind in IN_RECIPES for entry in registered(kind) if outside or not entry.distribution]
    usable = [entry for entry in found if not entry.problem]
    return {":".join(filter(None, (entry.distribution, entry.cls.__name__))): entry.cls for entry in usable}
