"""Suites: what a table or figure of the paper compares, and what the paper says of it, as TOML files of the package."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from importlib.resources import files
from typing import Any, get_args

from unskew.errors import ParameterError, nearest
from unskew.methods.base import Method
from unskew.methods.calibrated import DoublyCalibrated
from unskew.metrics.ranking import EmptyUsers
from unskew.recipe import from_plain
from unskew.registry import make, registered, settings_of
from unskew.training.options import Training

TARGETS = ("table1", "table2", "table3", "figure1", "figure2", "figure3")
Numbers = Mapping[str, Sequence[float]]  # of each dataset, in the order of a suite's quantities


@dataclass(frozen=True, kw_only=True)
class DatasetFacts:
    """How a dataset is tested, what the paper counts in it, and how public code trains on it."""

    name: str
    title: str
    cutoffs: tuple[int, int]
    empty_users: EmptyUsers
    paper: Mapping[str, float] = field(default_factory=dict)
    published_training: Mapping[str, Any] = field(default_factory=dict)
    beside_mse: tuple[str, ...] = ()

    def quantities(self, suite: Suite) -> list[str]:
        """What the suite shows of this dataset; where it shows the MSE, also what is known of this dataset alone."""
        return [*map(self.quantity, suite.quantities), *(self.beside_mse if "mse" in suite.quantities else ())]

    def quantity(self, name: str) -> str:
        """The name with a cut-off of this dataset for the first and the second one."""
        return name.replace("@first", f"@{self.cutoffs[0]}").replace("@second", f"@{self.cutoffs[1]}")

    def training(self, as_published: bool) -> Training:
        return Training(**self.published_training) if as_published else Training()


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A line of a table or a point of a figure: a registered method with some settings, and the paper's numbers.

    `published` is what it becomes as published, on the datasets named in `published_on` something of their own;
    `place` tells a picture where to draw it.
    """

    name: str
    method: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    published: Mapping[str, Any] = field(default_factory=dict)
    published_on: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    paper: Numbers = field(default_factory=dict)
    paper_sd: Numbers = field(default_factory=dict)
    released: Numbers = field(default_factory=dict)
    place: Mapping[str, Any] = field(default_factory=dict)

    def recipe(self, dataset: str, common: Mapping[str, Any] | None) -> tuple[str, Method]:
        """A key by which equal recipes of several suites are one, and the method.

        `common`, given as published, are settings for every method that has them and no published form of its own.
        """
        name, settings = self.method, dict(self.settings)
        if common is not None and (self.published or self.published_on):
            chosen = {**self.published, **self.published_on.get(dataset, {})}
            name = chosen.get("method", name)
            own = settings_of(make(name))
            usual = {} if "method" in chosen else {key: value for key, value in common.items() if key in own}
            settings = usual | settings | dict(chosen.get("settings", {}))
        key = f"{name} {json.dumps(settings, sort_keys=True)}" if settings else name
        return key, as_the_paper_calibrates(
            make(name, **{setting: _part(value) for setting, value in settings.items()})
        )


def as_the_paper_calibrates(method: Method) -> Method:
    """The method whose calibrators stand as they are fitted, and never step back."""
    if not isinstance(method, DoublyCalibrated):
        return method
    propensity, imputation = (
        each and replace(each, step_back=False) for each in (method.propensity, method.imputation)
    )
    return replace(method, propensity=propensity, imputation=imputation)


def _part(value: Any) -> Any:
    """A setting as Python has it: a recipe for a table with a kind, and None, which TOML lacks."""
    if isinstance(value, dict):
        return from_plain(value)
    return None if value == "none" else value


@dataclass(frozen=True, kw_only=True)
class Suite:
    """A table or a figure: its entries, the quantities that are shown, and how it is drawn.

    `panels` are pairs of quantities, or of a place and a quantity, for pictures that have axes of their own; `tested`
    says whether differences between entries are; `published` are settings that all methods share as published.
    """

    target: str
    title: str
    number: str
    quantities: tuple[str, ...]
    picture: str
    panels: tuple[tuple[str, str], ...] = ()
    tested: bool = False
    published: Mapping[str, Any] = field(default_factory=dict)
    entries: tuple[Entry, ...] = ()

    def limited(self, only: Sequence[str]) -> Suite:
        """The suite with these entries alone, or with all if none is named."""
        known = {entry.name: entry for entry in self.entries}
        for name in only:
            if name not in known:
                raise ParameterError(f"{self.number} has no entry {name!r}{nearest(name, known)}")
        return replace(self, entries=tuple(known[name] for name in known if name in only)) if only else self

    def recipes(self, dataset: str, as_published: bool) -> dict[str, tuple[str, Method]]:
        """Of each entry its key and its method."""
        if as_published:
            register_published()
        common = self.published if as_published else None
        return {entry.name: entry.recipe(dataset, common) for entry in self.entries}


def register_published() -> None:
    """Register the variants of public code, which the package does not bring."""
    if any(entry.name == "drjl-published" for entry in registered()):
        return
    try:
        import_module("benchmarks.published")
    except ModuleNotFoundError as error:
        raise ParameterError(
            "What is as published needs the repository's benchmarks/published.py: give the command in a checkout, "
            "as `python -m unskew reproduce`."
        ) from error


def suite(target: str) -> Suite:
    if target not in TARGETS:
        raise ParameterError(f"There is no target {target!r}{nearest(target, TARGETS)}")
    data = _read(target)
    entries = tuple(Entry(**entry) for entry in data.pop("entries", ()))
    panels = tuple((x, y) for x, y in data.pop("panels", ()))
    quantities = tuple(data.pop("quantities"))
    return Suite(target=target, entries=entries, panels=panels, quantities=quantities, **data)


def dataset_facts(name: str) -> DatasetFacts:
    data = _read("datasets")
    if name not in data:
        raise ParameterError(f"There is no dataset {name!r} in the suites{nearest(name, data)}")
    facts: Any = {key: tuple(value) if isinstance(value, list) else value for key, value in data[name].items()}
    assert facts["empty_users"] in get_args(EmptyUsers)
    return DatasetFacts(name=name, **facts)


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads(_text(name))


@cache
def _text(name: str) -> str:
    return (files("unskew") / "suites" / f"{name}.toml").read_text(encoding="utf-8")
