"""What the model does about the bias: its parts in words, its propensities, and whether weights restore balance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unskew.diagnosis.overlap import OverlapFigures
from unskew.diagnosis.subject import Subject
from unskew.model import Recommender
from unskew.registry import registered
from unskew.report.axes import PERCENT, SIGNED
from unskew.report.charts import Heights, Plot, histogram
from unskew.report.figure import ACCENT, PLAIN, Figure, Table
from unskew.report.material import Material
from unskew.report.names import signed
from unskew.report.plain import Plain, plainly
from unskew.report.rows import Row, Rows, dumbbells

SAMPLE, BINS, STREAM = 200_000, 30, 0x70726F70
SMALLEST = 1e-6  # a propensity below it is drawn there


@dataclass(frozen=True)
class RemedyFacts:
    method: str
    about: str
    parts: tuple[tuple[str, str], ...]
    verdict: Plain
    overlap: OverlapFigures
    propensities: Figure
    own: bool  # whether these propensities are the model's
    n_pairs: int
    n_seen: int
    balance: Figure
    random_ratings: str  # what was learned from random ratings
    plain: bool  # whether it corrects for nothing


def remedy_of(material: Material) -> RemedyFacts:
    model, subject, overlap = material.model, material.subject, material.diagnosis.overlap
    pairs, seen = _propensities(subject)
    return RemedyFacts(
        method=name_of(model),
        about=_about(material.model.method),
        parts=tuple(_parts(material.model)),
        verdict=plainly("works", material.diagnosis["works"]),
        overlap=overlap,
        propensities=_histogram(pairs, seen, subject.clip),
        own=not subject.fitted_here,
        n_pairs=len(pairs),
        n_seen=len(seen),
        balance=_balance(overlap),
        random_ratings="" if model.random_ratings is None else str(model.random_ratings),
        plain=material.is_naive,
    )


def name_of(model: Recommender) -> str:
    """The name by which the method is registered; of other settings the nearest one, else the name of its class."""
    return _named(model.method)


def _named(method: Any) -> str:
    exact = next((entry.name for entry in registered() if entry.defaults == method), None)
    alike = next((entry.name for entry in registered() if _kinds(entry.defaults) == _kinds(method)), None)
    return exact or (f"{alike}, with settings of its own" if alike else type(method).__name__)


def _kinds(method: Any) -> tuple[type, type]:
    """Of the method, and of the one it is wrapped around."""
    return type(method), type(getattr(method, "base", None))


def _about(method: Any) -> str:
    exact = next((entry for entry in registered() if entry.defaults == method), None)
    return exact.summary if exact else (type(method).__doc__ or "").strip().split("\n")[0]


def _parts(model: Recommender) -> list[tuple[str, str]]:
    """The roles that the model has, each with what it is for."""
    calibrators = model.parts.calibrators
    said = [("Prediction", "what a user would say about an item, rated or not: this is what it recommends by.")]
    if "propensity" in model.parts:
        said.append(
            (
                "Propensity",
                "the chance that this user rates this item at all. A rating that had a small chance stands for many "
                "pairs like it that were not rated, so it counts for more: its weight is 1 divided by its propensity.",
            )
        )
    if "imputation" in model.parts:
        said.append(
            (
                "Imputation",
                "a first guess of the ratings that are missing. Used together with the weights it makes the training "
                "“doubly robust”: the result is right on average if either the propensities or the guesses are right.",
            )
        )
    if "prediction" in calibrators:
        said.append(("Correction", "moves what holds for rated pairs to what holds for all pairs."))
    if which := " and ".join(role for role in ("propensity", "imputation") if role in calibrators):
        said.append(
            (
                "Calibration",
                f"makes chances mean what they say, those of {which}: where it says 30%, it shall happen in 30 of 100 "
                "cases. “Experts” are groups of users, each with a correction of their own.",
            )
        )
    return said


def _propensities(subject: Subject) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Of random pairs of the catalogue, and of rated ones; samples where there are more than enough."""
    log, generator = subject.log, np.random.default_rng([subject.seed, STREAM])
    at = np.arange(log.n_pairs) if log.n_pairs <= SAMPLE else generator.integers(log.n_pairs, size=SAMPLE)
    rows = np.arange(len(log)) if len(log) <= SAMPLE else generator.choice(len(log), SAMPLE, replace=False)
    pair = subject.propensity.as_used
    return pair(*np.divmod(at, log.n_items)), pair(log.users[rows], log.items[rows])


def _histogram(pairs: NDArray[np.float64], seen: NDArray[np.float64], clip: float) -> Figure:
    both = np.clip(np.concatenate([pairs, seen]), SMALLEST, 1.0)
    low, high = float(both.min()), float(both.max())
    edges = np.geomspace(low * 0.999, high * 1.001, BINS + 1) if high / low > 1.01 else np.array([low / 1.5, low * 1.5])
    heights = [np.histogram(np.clip(one, SMALLEST, 1.0), edges)[0] / len(one) for one in (pairs, seen)]
    entries = (("all pairs", PLAIN), ("rated pairs", ACCENT))
    raised = (
        f" The model treats anything below {clip:.3g} as {clip:.3g}, which concerns {(pairs < clip).mean():.0%} of all "
        f"pairs and {(seen < clip).mean():.0%} of the rated ones."
        if clip > 0
        else ""
    )
    plot = Plot(
        "propensities",
        "Chances of being rated",
        f"Estimated chances of all pairs run from {pairs.min():.2g} to {pairs.max():.2g} with a median of "
        f"{np.median(pairs):.2g}; those of rated pairs have a median of {np.median(seen):.2g}. The further apart the "
        f"two outlines, the more selective the log.{raised}",
        "propensity: chance of being rated",
        "share of pairs",
        y_unit=PERCENT,
        show=lambda value: f"{value:.2%}",
        entries=entries,
    )
    series = [Heights(name, h.tolist(), style) for (name, style), h in zip(entries, heights, strict=True)]
    return histogram(plot, edges.tolist(), series)


def _balance(overlap: OverlapFigures) -> Figure:
    rows = [
        Row(entry.property, (entry.before, entry.after), f"{signed(entry.before, 2)} → {signed(entry.after, 2)}")
        for entry in overlap.balance
    ]
    worst = max((abs(entry.after) for entry in overlap.balance), default=0.0)
    chart = Rows(
        "balance",
        "Do weights make rated pairs like all pairs?",
        "How far the rated pairs are from all pairs, in standard deviations, before and after weighting; 0 is "
        f"balanced. After weighting none is further off than {worst:.2f}.",
        "distance from all pairs (standard deviations)",
        show=lambda value: signed(value, 2),
        unit=SIGNED,
        reference=0.0,
        entries=(("as they are", PLAIN), ("weighted", ACCENT)),
    )
    data = [(row.name, *(signed(value, 3) for value in row.values)) for row in rows]
    return dumbbells(chart, rows, Table(chart.title, ("property", "as they are", "weighted"), data))
