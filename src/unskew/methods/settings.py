"""Settings of methods: default, range and search space of each in one line."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from unskew.data.log import RatingLog
from unskew.data.split import scarcity
from unskew.registry import settings_of
from unskew.training.checks import check_choice, check_number
from unskew.training.loop import L2_PER_SCARCITY


@dataclass(frozen=True)
class LogUniform:
    """Any number from `low` to `high`, every order of magnitude as likely as another.

    `when_none` is what a method's None amounts to, so that a search knows where its defaults stand.
    """

    low: float
    high: float
    when_none: float | None = None

    def holds(self, chosen: Any) -> bool:
        return chosen is not None and self.low <= chosen <= self.high

    def at_rule(self, log: RatingLog) -> Any:
        """What a setting that is left to its rule amounts to for a log."""
        return self.when_none

    def setting(self, chosen: Any, log: RatingLog) -> Any:
        """What the method is given for what was chosen: four digits, as more would only clutter recipes."""
        return float(f"{chosen:.4g}")

    def shown(self, chosen: Any) -> str:
        return f"{chosen:.4g}"


@dataclass(frozen=True)
class L2Range(LogUniform):
    """An L2; without a number, unless `when_none` is one, it is what the rule gives for the log."""

    def at_rule(self, log: RatingLog) -> Any:
        return L2_PER_SCARCITY * scarcity(log) if self.when_none is None else self.when_none

    def setting(self, chosen: Any, log: RatingLog) -> Any:
        return None if chosen == self.at_rule(log) else super().setting(chosen, log)


@dataclass(frozen=True)
class Choice:
    """One of a few values."""

    values: tuple[Any, ...]
    when_none: Any = None

    def holds(self, chosen: Any) -> bool:
        return chosen in self.values

    def at_rule(self, log: RatingLog) -> Any:
        return self.when_none

    def setting(self, chosen: Any, log: RatingLog) -> Any:
        return chosen

    def shown(self, chosen: Any) -> str:
        return str(chosen)


@dataclass(frozen=True)
class TimesDensity(Choice):
    """One of a few multiples of the log's density |O|/|D|, as a probability at most 1; the density itself is None."""

    when_none: float = 1.0

    def setting(self, chosen: Any, log: RatingLog) -> Any:
        return None if chosen == 1 else float(f"{min(1.0, chosen * len(log) / log.n_pairs):.4g}")

    def shown(self, chosen: Any) -> str:
        return f"{chosen:g} x density"


Dimension = LogUniform | Choice
Space = dict[str, Dimension]  # by the name of the setting; net.n_factors is a setting inside another

CLIP = TimesDensity((0.1, 0.2, 0.5, 1.0, 2.0))
L2 = L2Range(0.01, 1.0)
N_FACTORS = Choice((8, 16, 32, 64))


def setting(
    default: Any = None,
    *,
    factory: Callable[[], Any] | None = None,
    above: float | None = None,
    least: float | None = None,
    most: float | None = None,
    choices: Collection[str] | None = None,
    search: Dimension | None = None,
) -> Any:
    """A setting: its default, the range that is checked, and where a search looks, if it does."""
    bounds = {name: bound for name, bound in (("above", above), ("least", least), ("most", most)) if bound is not None}
    metadata = {"bounds": bounds, "choices": choices, "search": search}
    return field(default_factory=factory, metadata=metadata) if factory else field(default=default, metadata=metadata)


def check_settings(method: Any) -> None:
    """Refuse settings outside their ranges; None, where it is the default, means the rule."""
    for each in fields(method):
        if each.metadata.get("choices"):
            check_choice(method, each.name, each.metadata["choices"])
        if each.metadata.get("bounds") and not (each.default is None and getattr(method, each.name) is None):
            check_number(method, each.name, **each.metadata["bounds"])


def searched(method: Any) -> Space:
    """The search space that a method's settings declare, with the size of its net."""
    own = {each.name: each.metadata["search"] for each in fields(method) if each.metadata.get("search")}
    return own | ({"net.n_factors": N_FACTORS} if "n_factors" in settings_of(getattr(method, "net", None)) else {})


def defaults_of(method: Any, space: Space, log: RatingLog) -> dict[str, Any] | None:
    """Where in the space the method stands as it is, for a log; None if it stands outside."""
    chosen = {}
    for name, dimension in space.items():
        value = method
        for part in name.split("."):
            value = getattr(value, part)
        chosen[name] = dimension.at_rule(log) if value is None else value
    return chosen if all(space[name].holds(value) for name, value in chosen.items()) else None


def with_chosen(method: Any, space: Space, chosen: Mapping[str, Any], log: RatingLog) -> Any:
    """The method with the settings that were chosen from its space for a log."""
    for name, value in chosen.items():
        method = changed(method, name.split("."), space[name].setting(value, log))
    return method


def changed(part: Any, path: list[str], value: Any) -> Any:
    """The part with another value for a setting, which may be inside another."""
    first, *rest = path
    return replace(part, **{first: changed(getattr(part, first), rest, value) if rest else value})
