"""unskew doctor"""

from __future__ import annotations

import typer

from unskew.cli import options
from unskew.cli.output import print_json

EXAMPLE = "unskew doctor"
SICK = 1  # the exit code if a check has failed


def command(as_json: options.AsJson = False) -> None:
    """Check that unskew can work here: versions, threads, compile cache, memory, disk, and a tiny fit.

    Every check is one line. The exit code is 1 if one has failed, and 0 if not; warnings and what is optional do not
    count.
    """
    from unskew.health import Check, checks

    found: list[Check] = []
    for check in checks():
        found.append(check)
        if not as_json:
            typer.echo(f"{check.state:<8}  {check.name}: {check.text}")
    failed = sum(check.state == "failed" for check in found)
    if as_json:
        print_json({"checks": [check._asdict() for check in found], "failed": failed})
    else:
        warned = sum(check.state == "warning" for check in found)
        typer.echo(f"{failed} of {len(found)} checks failed, {warned} warn")
    if failed:
        raise typer.Exit(SICK)
