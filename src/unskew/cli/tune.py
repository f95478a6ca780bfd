"""unskew tune"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import unskew
from unskew.cli import options, settings
from unskew.cli.output import print_json
from unskew.cli.reading import SOURCE_HELP, Reading, reads
from unskew.errors import ParameterError

if TYPE_CHECKING:
    from unskew.bench import Tuned

EXAMPLE = "unskew tune ratings.csv --method dce-tdr --trials 50 --workers 2 --out dce-tdr.toml"


@reads("columns", "log", "features")
def command(
    log: Annotated[str, typer.Argument(metavar="LOG", help=SOURCE_HELP, show_default=False)],
    reading: Reading,
    method: Annotated[
        str, typer.Option("--method", metavar="NAME", help="A name of `unskew list`.", show_default=False)
    ],
    trials: Annotated[int, typer.Option("--trials", metavar="N", help="The first is the method as it is.")] = 50,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="The recipe to write, by default METHOD.toml; trials stand beside."),
    ] = None,
    workers: options.Workers = 1,
    assignments: options.Settings = None,
    criterion: options.CriterionOption = options.Criterion.MSE,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Of the folds and of the search.")] = 0,
    epochs: options.Epochs = None,
    batch_size: options.BatchSize = None,
    as_json: options.AsJson = False,
) -> None:
    """Search the settings of a method on a log and write the best as a recipe.

    The search is the one of `unskew benchmark`: every trial is fitted without each of five folds of the log in turn
    and judged by them. Settings given by --set are where it starts. Finished trials are kept in RECIPE.trials.journal:
    run the same command again after an interruption, and it goes on where it ended.

    \b
    unskew tune ratings.csv --method ips --set propensity=additive --trials 20
    unskew fit ratings.csv --method ips.toml --out model
    """
    from unskew.bench import Validation, tune
    from unskew.store.recipe import write_recipe

    start = settings.method_from(method, assignments or [])
    reading.refuse_unread({method: start})
    target = out or Path(f"{method.replace('/', '-')}.toml")
    if target.is_dir() or not target.absolute().parent.is_dir():
        raise ParameterError(f"{target} cannot be written: give the path of a file in a folder that exists.")
    training = settings.limited(unskew.Training(), epochs, batch_size)
    validation = Validation(criterion=criterion.value, seed=seed, training=training)
    journal = target.with_name(f"{target.stem}.trials.journal")
    given: dict[str, Any] = {"validation": validation, "workers": workers, "journal": journal, "name": method}
    found = tune(reading.log(log), start, trials, **given)
    write_recipe(target, found.method, None if training == unskew.Training() else training)
    if as_json:
        print_json(_facts(found, target))
        return
    first = found.trials[0].score
    typer.echo(f"{criterion.value}: {found.score:.4f}, with the settings it started from {_shown(first)}")
    for name, value in found.chosen.items():
        typer.echo(f"  {name} {value}")
    if failed := sum(trial.score is None for trial in found.trials):
        typer.echo(f"note: {failed} of {len(found.trials)} trials failed; {journal} says why")
    fit = shlex.join(["unskew", "fit", log, *reading.words, "--method", str(target), "--out", "MODEL"])
    typer.echo(f"wrote the recipe to {target}; next: {fit}")


def _shown(score: float | None) -> str:
    return "none, as it failed" if score is None else f"{score:.4f}"


def _facts(found: Tuned, target: Path) -> dict[str, object]:
    from unskew.store.recipe import to_plain

    trials = [trial._asdict() for trial in found.trials]
    return {"recipe": str(target), "method": to_plain(found.method), "score": found.score, "trials": trials}
