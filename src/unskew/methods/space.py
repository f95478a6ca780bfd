"""What a search may change about a method: settings and where to look, declared beside the method they belong to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from unskew.data.log import RatingLog
from unskew.training.rules import usual_l2


@dataclass(frozen=True)
class LogUniform:
    """Any number from `low` to `high`, every order of magnitude as likely as another.

    `when_none` is what a method's None amounts to here, so that a search knows where its defaults stand.
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

    def said(self, chosen: Any) -> str:
        return f"{chosen:.4g}"


@dataclass(frozen=True)
class L2Range(LogUniform):
    """An L2; without a number, unless `when_none` is one, it is what is usual for the log."""

    def at_rule(self, log: RatingLog) -> Any:
        return usual_l2(log) if self.when_none is None else self.when_none

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

    def said(self, chosen: Any) -> str:
        return str(chosen)


@dataclass(frozen=True)
class TimesDensity(Choice):
    """One of a few multiples of the log's density |O|/|D|, as a probability at most 1; the density itself is None."""

    when_none: float = 1.0

    def setting(self, chosen: Any, log: RatingLog) -> Any:
        return None if chosen == 1 else float(f"{min(1.0, chosen * len(log) / log.n_pairs):.4g}")

    def said(self, chosen: Any) -> str:
        return f"{chosen:g} x density"


Dimension = LogUniform | Choice
Space = dict[str, Dimension]  # by the name of the setting; net.n_factors is a setting inside another

CLIP = TimesDensity((0.1, 0.2, 0.5, 1.0, 2.0))
L2 = L2Range(0.01, 1.0)
N_FACTORS = Choice((8, 16, 32, 64))


def inside(part: str, space: Space) -> Space:
    """The space of a part, under the names its settings have in the whole."""
    return {f"{part}.{name}": dimension for name, dimension in space.items()}


def net_space(net: Any) -> Space:
    """The size of a net that has factors."""
    return {"net.n_factors": N_FACTORS} if hasattr(net, "n_factors") else {}


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
