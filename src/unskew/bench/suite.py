"""What the tables and figures of the DCE paper compare, as TOML files of `unskew/suites`.

Entries have a method, its settings, the paper's numbers and, in `published`, what public code does instead.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from importlib.resources import files
from typing import Any

from unskew.errors import ParameterError, nearest
from unskew.methods.base import Method
from unskew.methods.calibrated import DoublyCalibrated
from unskew.metrics.ranking import EmptyUsers
from unskew.registry import make, registered, settings_of
from unskew.store.recipe import from_plain

TARGETS = ("table1", "table2", "table3", "figure1", "figure2", "figure3")


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """How a dataset is tested, what the paper counts in it, and how public code trains on it, by method."""

    name: str
    title: str
    cutoffs: tuple[int, int]
    empty_users: EmptyUsers
    paper: Mapping[str, float] = field(default_factory=dict)
    published_training: Mapping[str, Any] = field(default_factory=dict)
    published: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def figure(self, of_suite: str) -> str:
        """Return the name with a cut-off of this dataset for the first and the second one."""
        return of_suite.replace("@first", f"@{self.cutoffs[0]}").replace("@second", f"@{self.cutoffs[1]}")


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A line of a table or a point of a figure; `place` is where a chart has it."""

    name: str
    method: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    published: Mapping[str, Any] = field(default_factory=dict)
    paper: Mapping[str, Sequence[float]] = field(default_factory=dict)
    paper_sd: Mapping[str, Sequence[float]] = field(default_factory=dict)
    released: Mapping[str, Sequence[float]] = field(default_factory=dict)
    place: Mapping[str, Any] = field(default_factory=dict)

    def recipe(self, dataset: Dataset, common: Mapping[str, Any] | None) -> tuple[str, Method]:
        """Return a key by which equal recipes of several suites are one, and the method.

        `common`, given as published, are settings for every method that has them and no published form of its own. A
        published form has the dataset's own settings; `base_of` makes it the base of a calibrated one.
        """
        method, settings, calibrated = self.method, dict(self.settings), None
        if common is not None and self.published:
            method = self.published.get("method", method)
            calibrated = {**dataset.published.get(method, {}), **self.published}.get("base_of")
            method = calibrated or method
            own = settings_of(make(method))
            named = calibrated or "method" in self.published
            usual = {} if named else {key: value for key, value in common.items() if key in own}
            settings = usual | settings | dict(dataset.published.get(method, {})) | self.published.get("settings", {})
        key = " ".join([f"base of {method}" if calibrated else method, *([_plain(settings)] if settings else [])])
        made = make(method, **{setting: _part(value) for setting, value in settings.items()})
        return key, _uncorrected(made.base if calibrated and isinstance(made, DoublyCalibrated) else made)


def _plain(settings: Mapping[str, Any]) -> str:
    return json.dumps(settings, sort_keys=True)


def _part(value: Any) -> Any:
    """Return a setting as Python has it: a recipe for a table with a kind, and None, which TOML lacks."""
    return from_plain(value) if isinstance(value, dict) else None if value == "none" else value


def _uncorrected(method: Method) -> Method:
    """Return the method with calibrators that stand as they are fitted, as in the paper, and never step back."""
    if not isinstance(method, DoublyCalibrated):
        return method
    propensity, imputation = (
        part and replace(part, step_back=False) for part in (method.propensity, method.imputation)
    )
    return replace(method, propensity=propensity, imputation=imputation)


@dataclass(frozen=True, kw_only=True)
class Suite:
    """A table or a figure: its entries, and the figures that are shown.

    `panels` are pairs of axes for pictures of points; `world_panels` are for a simulated world alone.
    """

    target: str
    title: str
    number: str
    quantities: tuple[str, ...]
    picture: str = "rows"
    panels: tuple[tuple[str, str], ...] = ()
    world_panels: tuple[tuple[str, str], ...] = ()
    tested: bool = False
    published: Mapping[str, Any] = field(default_factory=dict)
    entries: tuple[Entry, ...] = ()

    def on(self, dataset: Dataset, only: Sequence[str] = ()) -> Suite:
        """Return the suite with a dataset's cut-offs and these entries alone, or all if none is named."""
        known = {entry.name: entry for entry in self.entries}
        for wanted in only:
            if wanted not in known:
                raise ParameterError(f"{self.number} has no entry {wanted!r}{nearest(wanted, known)}")
        in_world = dataset.name == "world"
        panels = (*self.panels, *(self.world_panels if in_world else ()))
        more = [figure for pair in (self.world_panels if in_world else ()) for figure in pair]
        truth = ["true_risk"] if in_world and "mse" in self.quantities else []
        return replace(
            self,
            quantities=tuple(dict.fromkeys(map(dataset.figure, (*self.quantities, *truth, *more)))),
            panels=tuple((x, dataset.figure(y)) for x, y in panels),
            entries=tuple(entry for entry in self.entries if not only or entry.name in only),
        )

    def recipes(self, dataset: Dataset, as_published: bool) -> dict[str, tuple[str, Method]]:
        """Return of each entry its key and its method."""
        if as_published:
            register_published()
        return {each.name: each.recipe(dataset, self.published if as_published else None) for each in self.entries}


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
    """Read a table or figure of the paper."""
    if target not in TARGETS:
        raise ParameterError(f"There is no target {target!r}{nearest(target, TARGETS)}")
    data = _read(target)
    data["entries"] = tuple(Entry(**entry) for entry in data.get("entries", ()))
    pairs = {key: tuple((x, y) for x, y in data.get(key, ())) for key in ("panels", "world_panels")}
    return Suite(target=target, **data | pairs | {"quantities": tuple(data["quantities"])})


def dataset_of(name: str) -> Dataset:
    """Read what the suites know of a dataset."""
    data = _read("datasets")
    if name not in data:
        raise ParameterError(f"There is no dataset {name!r} in the suites{nearest(name, data)}")
    return Dataset(name=name, **data[name] | {"cutoffs": tuple(data[name]["cutoffs"])})


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads((files("unskew") / "suites" / f"{name}.toml").read_text(encoding="utf-8"))
