"""The page about a model."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from unskew.data.log import RatingLog
from unskew.diagnosis.verdicts import overturned
from unskew.propensity.base import Propensity
from unskew.recommender import Recommender
from unskew.report.assumptions import assumptions_of
from unskew.report.believed import believed_of
from unskew.report.bias import bias_of
from unskew.report.changes import Changes, changes_of
from unskew.report.curves import curves_of
from unskew.report.data import data_of
from unskew.report.figure import Figure
from unskew.report.limits import limits_of
from unskew.report.material import Announce, Fitted, Material, material_of
from unskew.report.names import Level
from unskew.report.page import Page, Section
from unskew.report.plain import Plain, plainly
from unskew.report.remedy import name_of, remedy_of
from unskew.report.reproduce import ReproduceFacts, reproduce_of
from unskew.report.summary import Summary, summary_of
from unskew.report.versus import Versus, hidden_causes, hidden_causes_figure, on_random_ratings, versus, weighted


class Head(NamedTuple):
    """What stands on top of the page."""

    summary: Summary
    method: str
    log: str
    fitted: tuple[Fitted, ...]


class VersusFacts(NamedTuple):
    main: Versus | None
    second: Versus | None
    random: Versus | None
    n_random_left_out: int
    refusal: str
    is_naive: bool
    figure: Figure | None
    verdict: Plain | None
    hidden: Figure | None


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
    unbiased: RatingLog | None = None,
    propensity: Propensity | None = None,
    announce: Announce = lambda words: None,
) -> Page:
    """Everything about a fitted model; whatever is missing is fitted on its own split and options."""
    material = material_of(model, unbiased=unbiased, propensity=propensity, announce=announce)
    announce("the figures")
    level, data = Level(model.log), data_of(model)
    table = versus(material)
    compared, factor = _versus_facts(material, table)
    changes = changes_of(material)
    told = ChangeFacts(changes, level, (changes.items.figure(level), changes.users.figure(level)))
    sections = (
        Section("data", "Data", "What the data is", "data.html", data),
        Section("bias", "Bias", "Is it biased?", "bias.html", bias_of(material.diagnosis, level)),
        Section("remedy", "Remedy", "What the model does about it", "remedy.html", remedy_of(material)),
        Section("versus", "Comparison", "Against a model that ignores the bias", "versus.html", compared),
        Section(
            "believed", "Calibration", "Do its chances mean what they say?", "believed.html", believed_of(material)
        ),
        Section("training", "Training", "How it was trained", "training.html", curves_of(model)),
        Section("changes", "Changes", "What changes when the bias is removed", "changes.html", told),
        Section(
            "assumptions",
            "Assumptions",
            "Under other assumptions",
            "assumptions.html",
            assumptions_of(model, level, announce),
        ),
        Section("limits", "Limits", "Limits", "limits.html", limits_of(material, data, table, changes)),
        Section(
            "reproduce",
            "Reproduce",
            "How to reproduce it",
            "reproduce.html",
            Reproduction(reproduce_of(model), material.fitted),
        ),
    )
    name = name_of(model)
    summary = summary_of(material, table, compared.random, factor, data)
    head = Head(summary, name, _log_in_words(model), material.fitted)
    return Page(f"Report on a model by {name}", "model.html", head, sections)


def _log_in_words(model: Recommender) -> str:
    log = model.log
    return f"{len(log):,} ratings by {log.n_users:,} users on {log.n_items:,} items"


def _versus_facts(material: Material, table: Versus | None) -> tuple[VersusFacts, float | None]:
    found = hidden_causes(material)
    main = None if table is None else table.main
    verdict: Any = None if found is None else plainly("overturned", overturned(found))
    hidden = None if found is None or main is None else hidden_causes_figure(found, main.found.first.value)
    facts = VersusFacts(
        main=table,
        second=weighted(material),
        random=on_random_ratings(material),
        n_random_left_out=material.n_random_left_out,
        refusal=material.refusal,
        is_naive=material.is_naive,
        figure=None if table is None or not table.lines else table.figure("differences"),
        verdict=verdict,
        hidden=hidden,
    )
    decided = found is not None and found.better is not None and math.isfinite(found.overturning_factor)
    return facts, found.overturning_factor if found is not None and decided else None
