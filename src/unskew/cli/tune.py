"""unskew tune"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

import unskew
from unskew.cli import options
from unskew.cli.output import Answer, check_file
from unskew.cli.reading import SOURCE_HELP, Ratings
from unskew.cli.settings import Settings

EXAMPLE = "unskew tune ratings.csv --method dce-tdr --trials 50 --workers 2 --out dce-tdr.toml"
OUT_HELP = "The recipe to write, by default METHOD.toml; trials are kept in a file next to it."


def command(
    log: Annotated[str, typer.Argument(metavar="LOG", help=SOURCE_HELP, show_default=False)],
    reading: Ratings,
    method: Annotated[str, options.file("--method", "A name of `unskew list`.", "NAME", show_default=False)],
    trials: Annotated[int, options.count("--trials", "The first is the method as it is.")] = 50,
    out: Annotated[Path | None, options.file("--out", OUT_HELP)] = None,
    workers: options.Workers = 1,
    assignments: options.Settings = None,
    seed: Annotated[int, options.count("--seed", "Of the folds and of the search.", 0)] = 0,
) -> Answer:
    """Search the settings of a method on a log and write the best as a recipe.

    The search is the one of `unskew benchmark`: every trial is fitted without each of five folds of the log in turn
    and judged by them. Settings given by --set are where it starts; validation.criterion is mse, log_loss, auc or
    user_auc. Finished trials are kept in RECIPE.trials.journal: run the same command again after an interruption, and
    it goes on where it ended.

    \b
    unskew tune ratings.csv --method ips --set propensity=additive --trials 20
    unskew fit ratings.csv --method ips.toml --out model
    """
    from unskew.bench import tune
    from unskew.store.recipe import to_plain, write_recipe

    settings = Settings(assignments)
    start, reading = settings.method(unskew.make(method)), settings.reading(reading)
    reading.refuse_unread({method: start})
    target = out or Path(f"{method.replace('/', '-')}.toml")
    check_file(target, (".toml",))
    validation = settings.validation(seed)
    journal = target.with_name(f"{target.stem}.trials.journal")
    found = tune(reading.log(log), start, trials, validation=validation, workers=workers, journal=journal, name=method)
    training = validation.training
    write_recipe(target, found.method, None if training == unskew.Training() else training)
    first = found.trials[0].score
    began = "none, as it failed" if first is None else f"{first:.4f}"
    lines = [f"{validation.criterion}: {found.score:.4f}, with the settings it started from {began}"]
    lines += [f"  {name} {value}" for name, value in found.chosen.items()]
    if failed := sum(trial.score is None for trial in found.trials):
        lines.append(f"note: {failed} of {len(found.trials)} trials failed; {journal} says why")
    fit = shlex.join(["unskew", "fit", log, *reading.words(for_fit=True), "--method", str(target), "--out", "MODEL"])
    lines.append(f"wrote the recipe to {target}; next: {fit}")
    tried = [trial._asdict() for trial in found.trials]
    facts = {"recipe": str(target), "method": to_plain(found.method), "score": found.score, "trials": tried}
    return Answer("\n".join(lines), facts)
