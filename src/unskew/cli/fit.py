"""unskew fit"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unskew.cli import options, settings
from unskew.cli.output import print_json
from unskew.cli.reading import SOURCE_HELP, Reading, reads
from unskew.errors import ParameterError

if TYPE_CHECKING:
    from unskew.model import Recommender

EXAMPLE = "unskew fit ratings.csv --method ips --set propensity=additive --out model"
DEFAULT_METHOD, DEFAULT_OUT = "dce-bayes", Path("model")


@reads("columns", "log", "features")
def command(
    log: Annotated[str, typer.Argument(metavar="LOG", help=SOURCE_HELP, show_default=False)],
    reading: Reading,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FOLDER", help="Where to write the model; model, if there is none yet."),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            "--method", metavar="NAME", help=f"A name of `unskew list`, or a recipe, FILE.toml; {DEFAULT_METHOD}."
        ),
    ] = None,
    assignments: options.Settings = None,
    random_ratings: Annotated[
        str | None,
        typer.Option("--random-ratings", metavar="FILE", help="Ratings of random pairs, even a few."),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option("--seed", metavar="N", help="The same seed gives the same result; the recipe's, or 0."),
    ] = None,
    diagnose: Annotated[
        bool, typer.Option("--diagnose", help="Judge the model too, as `unskew diagnose` does.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Fit a method on a log of ratings and save the model.

    Columns and the threshold of what is liked are guessed from the file, and said.
    """
    from unskew.diagnosis.diagnose import known_already

    chosen = settings.recipe_from(method or DEFAULT_METHOD, assignments or [])
    target = _model_path(out)
    reading.refuse_unread({method or type(chosen.method).__name__: chosen.method})
    ratings = reading.log(log, chosen.scale)
    say = _silent if as_json else typer.echo
    say(f"{ratings!r}, {ratings.duplicates_merged:,} duplicates merged")
    random = None if random_ratings is None else reading.random_ratings(random_ratings, ratings, known=False)
    if random is not None:
        say(f"random ratings: {random!r}, {random.duplicates_merged:,} duplicates merged")
    seed = (chosen.seed or 0) if seed is None else seed
    model = chosen.method.fit(ratings, seed=seed, training=chosen.training, random_ratings=random)
    model.save(target)
    if as_json:
        print_json(_facts(model, target, reading))
        return
    for line in known_already(model):
        say(line)
    say(f"wrote the model to {target}; next: unskew diagnose {target}, or unskew recommend {target}")
    if diagnose:
        say(model.diagnose(called=str(target)).text(details=False))


def _silent(_: str) -> None:
    pass


def _model_path(out: Path | None) -> Path:
    """Where the model goes; what could not be written to is refused before training, not after."""
    from unskew.store.model import foreign_names

    if out is None and DEFAULT_OUT.exists():
        raise ParameterError(f"{DEFAULT_OUT} is there already: name a folder by --out, the same one to replace it.")
    target = out or DEFAULT_OUT
    if target.exists() and not target.is_dir():
        raise ParameterError(f"{target} is a file: give the path of a folder.")
    if target.is_dir() and (foreign := foreign_names(target)):
        raise ParameterError(f"{target} holds {foreign[0]!r}, which is no part of a model: give another folder.")
    if not target.absolute().parent.is_dir():
        raise ParameterError(f"{target} cannot be written: the folder {target.parent} does not exist.")
    return target


def _facts(model: Recommender, out: Path, reading: Reading) -> dict[str, Any]:
    from unskew.store.recipe import to_plain

    log, history = model.log, model.history
    return {
        "model": str(out),
        "method": to_plain(model.method),
        "seed": model.seed,
        "settings": model.settings,
        "log": {
            "ratings": len(log),
            "users": log.n_users,
            "items": log.n_items,
            "mean_in_unit_scale": log.positive_rate,
            "positive_from": log.scale.positive,
            "duplicates_merged": log.duplicates_merged,
            "guessed": reading.guessed,
        },
        "stages": {stage: _stage(model, stage) for stage in dict.fromkeys(epoch.stage for epoch in history.epochs)},
        "notes": list(history.notes),
        "weights": None if model.weights is None else asdict(model.weights),
        "random_ratings": None if model.random_ratings is None else asdict(model.random_ratings),
    }


def _stage(model: Recommender, stage: str) -> dict[str, Any]:
    epochs = model.history.of(stage)
    kept = model.history.kept.get(stage, epochs[-1].epoch)
    return {
        "epochs": len(epochs),
        "kept_epoch": kept,
        "validation_risk": next((epoch.validation for epoch in epochs if epoch.epoch == kept), None),
        "seconds": sum(epoch.seconds for epoch in epochs),
    }
