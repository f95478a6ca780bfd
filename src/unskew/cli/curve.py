"""unskew benchmark --unbiased-curve"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from unskew.cli.output import print_json, print_table
from unskew.cli.settings import numbers
from unskew.errors import ParameterError

if TYPE_CHECKING:
    from unskew.bench import Curve, Exam
    from unskew.cli.material import Material
    from unskew.methods.base import Method


def check(given: Material, trials: int) -> None:
    """Refuse what a curve cannot be drawn from."""
    if not given.random:
        raise ParameterError("--unbiased-curve takes random ratings from the test: give one of random pairs by --test.")
    if trials:
        raise ParameterError("--unbiased-curve fits methods as they are: leave --tune out.")


def show(
    exam: Exam,
    methods: Mapping[str, Method],
    out: Path,
    slices: str,
    *,
    draws: int,
    workers: int,
    about: Sequence[str],
    as_json: bool,
) -> None:
    """Run the fits, write the pages and print the tables."""
    from unskew.bench.curve import unbiased_curve
    from unskew.bench.curve_report import document_of, publish
    from unskew.bench.document import Grid

    sizes = numbers(slices, "--slices")
    if any(size != int(size) for size in sizes):
        raise ParameterError(f"--slices {slices} must be whole numbers with commas, such as 0,50,100.")
    curve = unbiased_curve(exam, methods, out, sizes=[int(size) for size in sizes], draws=draws, workers=workers)
    publish(curve, exam, out, about)
    if as_json:
        print_json(_facts(curve))
        return
    for block in document_of(curve, exam, about).blocks:
        if isinstance(block, str):
            typer.echo(f"{block}\n")
        elif isinstance(block, Grid):
            typer.echo(block.caption)
            print_table(block.header, [[cell.text for cell in row] for row in block.rows], numbers=block.header[1:])
    typer.echo(f"\nwrote the tables and the picture to {out}")


def _facts(curve: Curve) -> dict[str, Any]:
    points = {
        metric: {name: {str(size): point._asdict() for size, point in own.items()} for name, own in methods.items()}
        for metric, methods in curve.points.items()
    }
    return {"draws": curve.draws, "judged_on": curve.n_judged, "points": points, "notes": list(curve.notes)}
