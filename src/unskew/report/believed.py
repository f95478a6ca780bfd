"""Do the chances mean what they say? Reliability diagrams before and after calibration, for all and by expert."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from unskew.diagnosis.calibration import Calibration, Curve, Rows, curve, rows_of
from unskew.diagnosis.subject import Nuisance
from unskew.recommender import Recommender
from unskew.report.charts import Plot, reliability
from unskew.report.figure import ACCENT, PLAIN, Figure, Table
from unskew.report.material import Material
from unskew.report.plain import Plain, plainly

ENTRIES = (("before", PLAIN), ("after", ACCENT))
FEWEST, BINS = 40, 5  # rows of an expert, and bins of its diagram
MEANING = {
    "propensity": "that a pair is rated",
    "imputation": "that a rating is positive",
}


@dataclass(frozen=True)
class BelievedFacts:
    verdict: Plain
    figures: tuple[Figure, ...]
    table: Table
    experts: tuple[Figure, ...]
    expert_notes: tuple[str, ...]
    calibrates: bool
    mend_first: str | None


def believed_of(material: Material) -> BelievedFacts:
    found, model = material.diagnosis, material.model
    experts, notes = _experts(material)
    return BelievedFacts(
        verdict=plainly("believed", found["believed"]),
        figures=tuple(_figure(entry, number) for number, entry in enumerate(found.calibration)),
        table=_groups(found.calibration),
        experts=experts,
        expert_notes=notes,
        calibrates=bool(model.cast.calibrators.keys() & {"propensity", "imputation"}),
        mend_first=found.errors.mend_first,
    )


def _points(one: Curve) -> list[tuple[float, float]]:
    return list(zip(one.said, one.came_true, strict=True))


def _figure(entry: Calibration, number: int) -> Figure:
    before, after = entry.before.debiased_error.value, entry.after.debiased_error.value
    used = "uses calibrated" if entry.used == "after" else "uses as it was before"
    plot = Plot(
        f"reliability-{number}",
        f"Reliability of the {entry.role}" + (", random ratings" if entry.rows == "random ratings" else ""),
        f"Chances said {MEANING.get(entry.role, '')} against how often it happened ({entry.rows}); on the dashed line "
        f"the two are equal. The typical gap is {before:.3f} before and {after:.3f} after calibration; the model "
        f"{used}.",
        "chance that was said",
        "share that happened",
        entries=ENTRIES,
    )
    return reliability(plot, _points(entry.curve_before), _points(entry.curve_after))


def _groups(entries: tuple[Calibration, ...]) -> Table:
    header = ("which", "says on average", "happened", "typical gap", "before calibration")
    rows = []
    for entry in entries:
        groups = (("everybody", entry.before, entry.after), *entry.groups)
        for name, before, after in groups:
            used = before if entry.used == "before" else after
            rows.append(
                (
                    f"{entry.role}, {name}" + (" (random ratings)" if entry.rows == "random ratings" else ""),
                    f"{used.mean.value:.4f}",
                    f"{used.base_rate.value:.4f}",
                    f"{used.debiased_error.value:.4f}",
                    f"{before.debiased_error.value:.4f}",
                )
            )
    return Table("What is said and what happens, for everybody and by thirds of users and items", header, rows)


def _experts(material: Material) -> tuple[tuple[Figure, ...], tuple[str, ...]]:
    """A small diagram for every expert that has rows enough, and sentences about the others."""
    figures, notes, model = [], [], material.model
    for part, words, rows in rows_of(material.subject):
        calibrator = _calibrator(model, part.name)
        if calibrator is None or words == "random ratings":
            continue
        shares = ", ".join(f"{share:.0%}" for share in calibrator.usage)
        notes.append(f"The experts of the {part.name} have {shares} of the users.")
        few = []
        for expert, own in _by_expert(model, calibrator, part, rows):
            if len(own.labels) < FEWEST:
                few.append(str(expert + 1))
            else:
                figures.append(_expert_figure(part, own, expert, float(calibrator.usage[expert])))
        if few:
            notes.append(f"Those with fewer than {FEWEST} rows here, {', '.join(few)}, get no diagram.")
    return tuple(figures), tuple(notes)


def _calibrator(model: Recommender, role: str) -> Any:
    """The role's calibrator, if it has experts."""
    name = model.cast.calibrators.get(role)
    player = model.cast.players.get(name) if name else None
    return player if hasattr(player, "expert_of") else None


def _by_expert(model: Recommender, calibrator: Any, part: Nuisance, rows: Rows) -> Iterator[tuple[int, Rows]]:
    users, place = np.unique(rows.users, return_inverse=True)
    expert = calibrator.expert_of(users.astype(np.int64), model.player(part.name))[place]
    for number in range(len(calibrator.usage)):
        yield number, rows.take(expert == number)


def _expert_figure(part: Nuisance, rows: Rows, expert: int, share: float) -> Figure:
    before, after = (
        curve(np.clip(says(rows.users, rows.items), 0.0, 1.0), rows, BINS) for says in (part.before, part.after)
    )
    plot = Plot(
        f"{part.name}-expert-{expert + 1}",
        f"{part.name.capitalize()}, expert {expert + 1}",
        f"Expert {expert + 1} of the {part.name}, {share:.0%} of the users, {len(rows.labels):,} rows.",
        "said",
        "happened",
        small=True,
        entries=ENTRIES,
    )
    return reliability(plot, _points(before), _points(after))
