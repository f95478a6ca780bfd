"""unskew demo"""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unskew.cli import options
from unskew.cli.output import print_json, print_table, write_file, write_table
from unskew.errors import ParameterError

if TYPE_CHECKING:
    from unskew.demo import Demo, Row

EXAMPLE = "unskew demo --out demo"
COLUMNS = {
    "claimed_risk": "error by\nits log",
    "true_risk": "true\nerror",
    "mse": "MSE",
    "auc": "AUC",
    "ndcg_at_5": "nDCG@5",
    "propensity_error": "propensity\nerror",
    "uncalibrated_propensity_error": "before\ncalibration",
}


def command(
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FOLDER", help="Write the table as demo.csv and demo.json, and demo.png."),
    ] = None,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
) -> None:
    """Show in a simulated world what ignoring selection costs.

    People mostly rate what they like. Methods that ignore this and methods that correct for it are fitted on such a
    log and judged by what is true of the whole world. Takes up to a minute.
    """
    if out is not None:
        _make_folder(out)
    from unskew.demo import run

    found = run(seed)
    if out is not None:
        _write(found, out)
    if as_json:
        print_json(_facts(found))
        return
    typer.echo(f"a world where people mostly rate what they like: {found.log}")
    typer.echo(f"liked: {found.liked_in_log:.1%} of the ratings in the log, {found.liked_in_world:.1%} of all pairs")
    typer.echo()
    _show(found)
    typer.echo()
    typer.echo(_explained(found))
    if out is not None:
        typer.echo(f"\nwrote demo.csv, demo.json and demo.png to {out}")


def _make_folder(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ParameterError(f"{out} cannot be made a folder: {(error.strerror or str(error)).lower()}.") from error


def _show(found: Demo) -> None:
    shown = [name for name in COLUMNS if any(getattr(row, name) is not None for row in found.rows)]
    rows = [(row.method, *(_cell(row, name) for name in shown)) for row in found.rows]
    headings = [COLUMNS[name] for name in shown]
    print_table(("method", *headings), rows, numbers=headings)


def _cell(row: Row, name: str) -> str:
    value = getattr(row, name)
    return "" if value is None else f"{value:.4f}"


def _explained(found: Demo) -> str:
    from unskew.demo import in_words

    return (
        "Errors are mean squared errors: 'by its log' is the method's own estimate from held-out ratings, 'true' is "
        f"over all pairs of the world and at best {found.least_risk:.4f}; MSE, AUC and nDCG are on random pairs.\n\n"
        + in_words(found)
    )


def _write(found: Demo, out: Path) -> None:
    import pyarrow as pa

    from unskew.cli.picture import as_png
    from unskew.demo import Row

    columns = {field.name: [getattr(row, field.name) for row in found.rows] for field in fields(Row)}
    write_table(out / "demo.csv", pa.table(columns))
    write_file(out / "demo.json", json.dumps(_facts(found), indent=2).encode())
    write_file(out / "demo.png", as_png(found))


def _facts(found: Demo) -> dict[str, Any]:
    from unskew.demo import in_words

    return asdict(found) | {"in_words": in_words(found)}
