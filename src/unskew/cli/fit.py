"""unskew fit"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unskew.cli import options
from unskew.cli.output import Answer, check_folder
from unskew.cli.reading import SOURCE_HELP, Everything
from unskew.cli.settings import Settings
from unskew.errors import ParameterError
from unskew.runtime import say

if TYPE_CHECKING:
    from unskew.model import Recommender

EXAMPLE = "unskew fit ratings.csv --method ips --set propensity=additive --out model"
DEFAULT_METHOD, DEFAULT_OUT = "dce-bayes", Path("model")
WIDTH = 110


def command(
    log: Annotated[str, typer.Argument(metavar="LOG", help=SOURCE_HELP, show_default=False)],
    reading: Everything,
    out: Annotated[
        Path | None, options.file("--out", "Where to write the model; model, if there is none yet.", "FOLDER")
    ] = None,
    method: Annotated[
        str | None,
        options.file("--method", f"A name of `unskew list`, or a recipe, FILE.toml; {DEFAULT_METHOD}.", "NAME"),
    ] = None,
    assignments: options.Settings = None,
    random_ratings: options.RandomRatings = None,
    seed: Annotated[
        int | None, options.count("--seed", "The same seed gives the same result; the recipe's, or 0.", 0)
    ] = None,
    scheduler: Annotated[
        str | None, options.file("--scheduler", "Draw the sweeps of dce-bayes on a Dask cluster.", "ADDRESS")
    ] = None,
    diagnose: Annotated[bool, options.flag("--diagnose", "Judge the model too, as `unskew diagnose` does.")] = False,
) -> Answer:
    """Fit a method on a log of ratings and save the model.

    Columns and the threshold of what is liked are guessed from the file, and noted.
    """
    settings = Settings(assignments)
    chosen, reading = settings.recipe(method or DEFAULT_METHOD), settings.reading(reading)
    target = _model_path(out)
    reading.refuse_unread({method or type(chosen.method).__name__: chosen.method})
    ratings = reading.log(log, chosen.scale)
    lines = [f"{ratings!r}, {ratings.duplicates_merged:,} duplicates merged"]
    random = reading.random_ratings(random_ratings, ratings, known=False)
    if random is not None:
        lines.append(f"random ratings: {random!r}, {random.duplicates_merged:,} duplicates merged")
    for line in lines:
        say(line)
    from unskew.methods.base import fit_on

    seed = (chosen.seed or 0) if seed is None else seed
    model = fit_on(scheduler, chosen.method, ratings, seed=seed, training=chosen.training, random_ratings=random)
    model.save(target)

    from unskew.diagnosis.diagnose import known_already

    lines = [fill(line, WIDTH, subsequent_indent="  ") for line in known_already(model)]
    lines.append(f"wrote the model to {target}; next: unskew diagnose {target}, or unskew recommend {target}")
    facts = _facts(model, target, reading.guessed)
    if diagnose:
        found = model.diagnose(called=str(target))
        lines.append(found.text(details=False))
        facts["diagnosis"] = found.to_dict()
    return Answer("\n".join(lines), facts)


def _model_path(out: Path | None) -> Path:
    """Return where the model goes; what could not be written to is refused before training, not after."""
    from unskew.store.model import refuse_foreign

    if out is None and DEFAULT_OUT.exists():
        raise ParameterError(f"{DEFAULT_OUT} is there already: name a folder by --out, the same one to replace it.")
    target = out or DEFAULT_OUT
    check_folder(target)
    refuse_foreign(target)
    return target


def _facts(model: Recommender, out: Path, guessed: list[str]) -> dict[str, Any]:
    from unskew.store.recipe import to_plain

    log = model.log
    return {
        "model": str(out),
        "method": to_plain(model.method),
        "seed": model.seed,
        "settings": model.settings,
        "log": {name: getattr(log, name) for name in ("n_users", "n_items", "positive_rate", "duplicates_merged")}
        | {"ratings": len(log), "positive_from": log.scale.positive, "guessed": guessed},
        "history": asdict(model.history),
        "weights": None if model.weights is None else asdict(model.weights),
        "random_ratings": None if model.random_ratings is None else asdict(model.random_ratings),
    }
