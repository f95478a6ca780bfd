"""Where a search looks for the settings of a method."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any

from unskew.data.log import RatingLog
from unskew.data.split import scarcity
from unskew.registry import settings_of, with_settings
from unskew.training.loop import L2_PER_SCARCITY


@dataclass(frozen=True)
class Dimension:
    """What a search may choose for a setting; `when_none` is what a method's None amounts to."""

    when_none: Any = field(default=None, kw_only=True)

    def at_rule(self, log: RatingLog) -> Any:
        """Return what a setting that is left to its rule amounts to for a log."""
        return self.when_none

    def setting(self, chosen: Any, log: RatingLog) -> Any:
        """Return what the method is given for what was chosen."""
        return chosen

    def shown(self, chosen: Any) -> str:
        return str(chosen)


@dataclass(frozen=True)
class LogUniform(Dimension):
    """Any number from `low` to `high`, every order of magnitude as likely as another."""

    low: float
    high: float

    def __contains__(self, chosen: Any) -> bool:
        return chosen is not None and self.low <= chosen <= self.high

    def setting(self, chosen: Any, log: RatingLog) -> Any:
        """Round to four digits, as more would only clutter recipes."""
        return float(self.shown(chosen))

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
class Choice(Dimension):
    """One of a few values."""

    values: tuple[Any, ...]

    def __contains__(self, chosen: Any) -> bool:
        return chosen in self.values


@dataclass(frozen=True)
class TimesDensity(Choice):
    """One of a few multiples of the log's density |O|/|D|, as a probability at most 1; the density itself is None."""

    when_none: Any = field(default=1.0, kw_only=True)

    def setting(self, chosen: Any, log: RatingLog) -> Any:
        return None if chosen == 1 else float(f"{min(1.0, chosen * log.density):.4g}")

    def shown(self, chosen: Any) -> str:
        return f"{chosen:g} x density"


Space = dict[str, LogUniform | Choice]  # by the name of the setting; net.n_factors is a setting inside another

CLIP = TimesDensity((0.1, 0.2, 0.5, 1.0, 2.0))
L2 = L2Range(0.01, 1.0)
N_FACTORS = Choice((8, 16, 32, 64))


def searched(method: Any) -> Space:
    """Return the search space that a method's settings declare, with the size of its net."""
    own = {each.name: each.metadata["search"] for each in fields(method) if each.metadata.get("search")}
    return own | ({"net.n_factors": N_FACTORS} if "n_factors" in settings_of(getattr(method, "net", None)) else {})


def defaults_of(method: Any, space: Space, log: RatingLog) -> dict[str, Any] | None:
    """Return where in the space the method stands as it is, for a log; None if it stands outside."""
    held = {name: attrgetter(name)(method) for name in space}
    chosen = {name: space[name].at_rule(log) if value is None else value for name, value in held.items()}
    return chosen if all(value in space[name] for name, value in chosen.items()) else None


def with_chosen(method: Any, space: Space, chosen: Mapping[str, Any], log: RatingLog) -> Any:
    """Return the method with the settings that were chosen from its space for a log."""
    return with_settings(method, {name: space[name].setting(value, log) for name, value in chosen.items()})
