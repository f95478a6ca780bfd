"""The page about a model."""

from __future__ import annotations

from typing import Any, NamedTuple

from unskew.data.log import RatingLog
from unskew.model import Recommender
from unskew.propensity.base import Propensity
from unskew.report.believed import believed_of
from unskew.report.bias import bias_of
from unskew.report.changes import Changes, changes_of
from unskew.report.comparison import comparison_of
from unskew.report.data import data_of
from unskew.report.figure import Figure
from unskew.report.limits import limits_of
from unskew.report.material import Announce, Fitted, Material, material_of
from unskew.report.names import Level
from unskew.report.page import Page, Section
from unskew.report.remedy import name_of, remedy_of
from unskew.report.reproduce import ReproduceFacts, reproduce_of
from unskew.report.summary import Summary, summary_of
from unskew.report.trained import trained_of
from unskew.runtime import bar

STEPS = 6
TITLES = {
    "data": ("Data", "What the data is"),
    "bias": ("Bias", "Is it biased?"),
    "remedy": ("Remedy", "What the model does about it"),
    "versus": ("Comparison", "Against a model that ignores the bias"),
    "believed": ("Calibration", "Do its chances mean what they say?"),
    "training": ("Training", "How it was trained"),
    "changes": ("Changes", "What changes when the bias is removed"),
    "limits": ("Limits", "Limits"),
    "reproduce": ("Reproduce", "How to reproduce it"),
}


class Head(NamedTuple):
    """What stands on top of the page."""

    summary: Summary
    method: str
    log: str


class ChangeFacts(NamedTuple):
    found: Changes
    level: Level
    figures: tuple[Figure, Figure]


class Reproduction(NamedTuple):
    how: ReproduceFacts
    fitted: tuple[Fitted, ...]


def model_page(
    model: Recommender,
    *,
    random_ratings: RatingLog | None = None,
    propensity: Propensity | None = None,
) -> Page:
    """Everything about a fitted model; whatever is missing is fitted on its own split and options."""
    with bar("report", STEPS, "step") as shown:
        material = material_of(model, random_ratings=random_ratings, propensity=propensity, announce=shown.advance)
        return page_about(material, shown.advance)


def page_about(material: Material, announce: Announce = lambda words: None) -> Page:
    """The page, when everything is at hand."""
    announce("the figures")
    model, log = material.model, material.log
    level, data, compared, changes = Level(log), data_of(material.model), comparison_of(material), changes_of(material)
    facts: dict[str, Any] = {
        "data": data,
        "bias": bias_of(material.diagnosis, level),
        "remedy": remedy_of(material),
        "versus": compared,
        "believed": believed_of(material),
        "training": trained_of(model),
        "changes": ChangeFacts(changes, level, (changes.items.figure(level), changes.users.figure(level))),
        "limits": limits_of(material, data, compared.main, changes),
        "reproduce": Reproduction(reproduce_of(model), material.fitted),
    }
    words = f"{len(log):,} ratings by {log.n_users:,} users on {log.n_items:,} items"
    head = Head(summary_of(material, compared, data), name_of(model), words)
    sections = tuple(Section(name, *titles, f"{name}.html", facts[name]) for name, titles in TITLES.items())
    return Page(f"Report on a model by {head.method}", "model.html", head, sections)
