"""unskew demo"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from unskew.cli import options
from unskew.cli.output import Answer, check_file

EXAMPLE = "unskew demo --out demo.svg"


def command(
    out: Annotated[Path | None, options.file("--out", "Write the picture, as .svg.")] = None, seed: options.Seed = 0
) -> Answer:
    """Show in a simulated world what ignoring selection costs.

    People mostly rate what they like. Methods that ignore this and methods that correct for it learn from such a log;
    what they believe stands next to what is true of the whole world, and so does the decision that the log alone
    allows.
    """
    check_file(out, (".svg",))
    from unskew.bench.demo import run

    found = run(seed)
    if out is not None:
        found.chart().save(out)
    return Answer(found.text() + ("" if out is None else f"\n\nwrote {out}"), found.to_dict())
