"""unskew benchmark"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import unskew
from unskew.cli import options, settings
from unskew.cli.output import print_json
from unskew.cli.reading import Reading, reads
from unskew.errors import ParameterError

if TYPE_CHECKING:
    from unskew.methods.base import Method

EXAMPLE = "unskew benchmark ratings.csv --test test.csv --methods naive,ips,dce-dr --tune 30 --workers 2 --out results"
SOURCE_HELP = (
    "A dataset's name with --data (coat, yahoo-r3, kuairec), world for a simulated one, or a file of ratings "
    "(.csv, .tsv, .txt, .inter, also as .gz; .parquet)."
)


@reads("columns", "log", "features")
def command(
    source: Annotated[str, typer.Argument(metavar="DATASET|LOG", help=SOURCE_HELP, show_default=False)],
    reading: Reading,
    out: Annotated[
        Path, typer.Option("--out", metavar="FOLDER", help="Where everything is written.", show_default=False)
    ],
    methods: Annotated[
        str, typer.Option("--methods", metavar="NAMES", help="Names of `unskew list` with commas, or all.")
    ] = "all",
    seeds: Annotated[int, typer.Option("--seeds", metavar="N", help="How often each method is fitted.")] = 10,
    tune: Annotated[
        int, typer.Option("--tune", metavar="N", help="Trials for each method; 0 leaves settings as they are.")
    ] = 0,
    workers: options.Workers = 1,
    data: Annotated[
        Path | None, typer.Option("--data", metavar="FOLDER", help="Where a dataset's files are, or its folder is.")
    ] = None,
    test: Annotated[
        str | None, typer.Option("--test", metavar="FILE", help="For a log: ratings of random pairs, as the test.")
    ] = None,
    test_fraction: Annotated[
        float | None,
        typer.Option("--test-fraction", metavar="SHARE", help="For a log without --test: what to set aside, 0.2."),
    ] = None,
    empty_users: Annotated[
        options.EmptyUsers,
        typer.Option("--empty-users", help="What a user without a liked test pair counts in the means."),
    ] = options.EmptyUsers.SKIP,
    on_unknown: options.OnUnknownOption = options.OnUnknown.RAISE,
    criterion: options.CriterionOption = options.Criterion.MSE,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", help="Of folds, search, simulated world and --test-fraction.")
    ] = 0,
    epochs: options.Epochs = None,
    batch_size: options.BatchSize = None,
    as_json: options.AsJson = False,
) -> None:
    """Compare methods: as much tuning for each, then seeds, then the test once.

    Trials are judged by folds of the log alone; the test is used for the final fits only. Whatever is finished is
    kept: run the same command again after an interruption, and it goes on where it ended. The folder holds
    records.jsonl, trials.journal, benchmark.json, results.csv, table.md, table.tex and recipes/METHOD.toml.

    \b
    unskew benchmark coat --data DATA --tune 30 --empty-users one --workers 2 --out coat
    unskew benchmark world --methods naive,snips,dce-dr --seeds 5 --out world
    """
    from unskew.bench import Validation, benchmark
    from unskew.cli.material import Options, material

    chosen = _methods(methods)
    reading.refuse_unread(chosen)
    training = settings.limited(unskew.Training(), epochs, batch_size)
    validation = Validation(criterion=criterion.value, seed=seed, training=training)
    asked = Options(data=data, test=test, test_fraction=test_fraction, on_unknown=on_unknown.value, seed=seed)
    given = material(source, reading, asked)
    found = benchmark(
        given.log,
        given.test,
        chosen,
        out,
        seeds=seeds,
        trials=tune,
        validation=validation,
        workers=workers,
        empty_users=empty_users.value,
        on_unknown=on_unknown.value,
        world=given.world,
        about=given.about,
    )
    if as_json:
        print_json(found.to_dict())
        return
    for sentence in found.setting:
        typer.echo(f"{sentence}\n")
    typer.echo(found.results().text())
    for note in found.notes:
        typer.echo(f"note: {note}")
    typer.echo(f"\n{found.headline}\nwrote the tables, with tests of significance, and the recipes to {out}")


def _methods(names: str) -> dict[str, Method]:
    wanted = [entry.name for entry in unskew.registered()] if names == "all" else names.split(",")
    chosen: dict[str, Method] = {}
    for name in map(str.strip, wanted):
        if name in chosen:
            raise ParameterError(f"--methods names {name} twice: name it once.")
        chosen[name] = unskew.make(name)
    return chosen
