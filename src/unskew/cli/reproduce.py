"""unskew reproduce"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from unskew.cli import options
from unskew.cli.benchmark import WORLD, material
from unskew.cli.output import Answer
from unskew.cli.reading import Reading
from unskew.errors import ParameterError

EXAMPLE = "unskew reproduce table1 --dataset coat --data DATA --workers 2 --out reproduced"
Target = Literal["table1", "table2", "table3", "figure1", "figure2", "figure3", "all"]
DatasetName = Literal["coat", "yahoo-r3", "kuairec", "world"]


def command(
    target: Annotated[Target, typer.Argument(help="What to make; all makes every one.", show_default=False)],
    dataset: Annotated[DatasetName, typer.Option("--dataset", help="On what data.", show_default=False)],
    out: options.OutFolder,
    data: options.DataFolder = None,
    seeds: options.Seeds = 10,
    tune: options.Trials = 0,
    workers: options.Workers = 1,
    as_published: Annotated[
        bool, options.flag("--as-published", "Fit what public code does, with its nets and its protocol.")
    ] = False,
    only: Annotated[
        list[str] | None, options.file("--only", "Only this entry; may be given several times.", "ENTRY")
    ] = None,
    epochs: Annotated[int | None, options.count("--epochs", "The most epochs a stage may take.")] = None,
) -> Answer:
    """Make the tables and figures of the DCE paper anew, the paper's numbers next to ours.

    Each target becomes data (.csv), a page (.md) and charts (.svg) in the folder. Whatever is finished is kept in
    records.jsonl there: run the same command again after an interruption, and it goes on where it ended; targets share
    the fits that they have in common.

    \b
    unskew reproduce all --dataset world --seeds 3 --out world
    unskew reproduce table1 --dataset coat --data DATA --as-published --only DCE-DR --out coat
    """
    from unskew.bench.paper import TARGETS, reproduce

    if data is None and dataset != WORLD:
        raise ParameterError(f"--dataset {dataset}: name the folder of its files by --data FOLDER.")
    given = material(dataset, Reading(), data)
    rules: Any = {"seeds": seeds, "trials": tune, "workers": workers, "max_epochs": epochs, "only": only or ()}
    rules |= {"dataset": dataset, "as_published": as_published, "world": given.world, "about": given.about}
    targets = TARGETS if target == "all" else (target,)
    made = [reproduce(name, given.log, given.test, out, **rules) for name in targets]
    lines: list[str] = []
    for one in made:
        lines.append(f"{one.suite.number}: {one.suite.title} ({one.dataset.title})\n{one.table().text()}")
        lines += [f"failed: {fit}: {sentence}" for fit, sentence in one.failures.items()]
        lines.append(f"wrote {', '.join(str(path) for path in one.files)}\n")
    return Answer("\n".join(lines), [one.to_dict() for one in made])
