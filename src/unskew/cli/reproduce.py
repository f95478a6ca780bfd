"""unskew reproduce"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from unskew.cli import options
from unskew.cli.output import print_json
from unskew.cli.reading import Reading
from unskew.errors import ParameterError

EXAMPLE = "unskew reproduce table1 --dataset coat --data DATA --workers 2 --out reproduced"


class Target(StrEnum):
    TABLE1 = "table1"
    TABLE2 = "table2"
    TABLE3 = "table3"
    FIGURE1 = "figure1"
    FIGURE2 = "figure2"
    FIGURE3 = "figure3"
    ALL = "all"


class DatasetName(StrEnum):
    COAT = "coat"
    YAHOO_R3 = "yahoo-r3"
    KUAIREC = "kuairec"
    WORLD = "world"


def command(
    target: Annotated[Target, typer.Argument(help="What to make; all makes every one.", show_default=False)],
    dataset: Annotated[DatasetName, typer.Option("--dataset", help="On what data.", show_default=False)],
    out: Annotated[
        Path, typer.Option("--out", metavar="FOLDER", help="Where everything is written.", show_default=False)
    ],
    data: Annotated[
        Path | None, typer.Option("--data", metavar="FOLDER", help="Where the dataset's files are, or its folder is.")
    ] = None,
    seeds: Annotated[int, typer.Option("--seeds", metavar="N", help="How often each method is fitted.")] = 10,
    tune: Annotated[
        int, typer.Option("--tune", metavar="N", help="Trials for each method; 0 leaves settings as they are.")
    ] = 0,
    workers: options.Workers = 1,
    as_published: Annotated[
        bool, typer.Option("--as-published", help="Fit what public code does, with its nets and its protocol.")
    ] = False,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="ENTRY", help="Only this entry; may be given several times.")
    ] = None,
    epochs: options.Epochs = None,
    as_json: options.AsJson = False,
) -> None:
    """Make the tables and figures of the DCE paper anew, the paper's numbers beside ours.

    Each target becomes data (.csv), a page (.md) and charts (.svg) in the folder. Whatever is finished is kept in
    records.jsonl there: run the same command again after an interruption, and it goes on where it ended; targets share
    the fits that they have in common.

    \b
    unskew reproduce all --dataset world --seeds 3 --out world
    unskew reproduce table1 --dataset coat --data DATA --as-published --only DCE-DR --out coat
    """
    from unskew.bench.paper import reproduce
    from unskew.bench.suite import TARGETS
    from unskew.cli.material import Options, material

    if data is None and dataset is not DatasetName.WORLD:
        raise ParameterError(f"--dataset {dataset.value}: name the folder of its files by --data FOLDER.")
    asked = Options(data=data, test=None, test_fraction=None, on_unknown="raise", seed=0)
    given = material(dataset.value, Reading(), asked)
    made = [
        reproduce(
            name,
            given.log,
            given.test,
            out,
            dataset=dataset.value,
            seeds=seeds,
            trials=tune,
            workers=workers,
            as_published=as_published,
            only=only or (),
            max_epochs=epochs,
            world=given.world,
            about=given.about,
        )
        for name in (TARGETS if target is Target.ALL else (target.value,))
    ]
    if as_json:
        print_json([one.to_dict() for one in made])
        return
    for one in made:
        typer.echo(f"{one.suite.number}: {one.suite.title} ({one.dataset.title})\n{one.table().text()}")
        for fit, sentence in one.failures.items():
            typer.echo(f"failed: {fit}: {sentence}")
        typer.echo(f"wrote {', '.join(str(path) for path in one.files)}\n")
