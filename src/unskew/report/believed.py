"""Do the chances mean what they say? Reliability diagrams before and after calibration."""

from __future__ import annotations

from dataclasses import dataclass

from unskew.diagnosis.calibration import Calibration, Curve
from unskew.report.charts import Plot, reliability
from unskew.report.figure import ACCENT, PLAIN, Figure, Table
from unskew.report.material import Material
from unskew.report.plain import Plain, plainly

ENTRIES = (("before", PLAIN), ("after", ACCENT))
MEANING = {
    "propensity": "that a pair is rated",
    "imputation": "that a rating is positive",
}


@dataclass(frozen=True)
class BelievedFacts:
    verdict: Plain
    figures: tuple[Figure, ...]
    table: Table
    calibrates: bool
    mend_first: str | None


def believed_of(material: Material) -> BelievedFacts:
    found, model = material.diagnosis, material.model
    return BelievedFacts(
        verdict=plainly("believed", found["believed"]),
        figures=tuple(_figure(entry, number) for number, entry in enumerate(found.calibration)),
        table=_groups(found.calibration),
        calibrates=bool(model.parts.calibrators.keys() & {"propensity", "imputation"}),
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
