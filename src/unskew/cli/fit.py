"""unskew fit"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unskew.cli import options, settings
from unskew.cli.errors import INTERRUPTED
from unskew.cli.output import print_json
from unskew.cli.reading import SOURCE_HELP, Reading
from unskew.errors import ParameterError

if TYPE_CHECKING:
    from unskew.recommender import Recommender

EXAMPLE = "unskew fit ratings.csv --method ips --set propensity=additive --out model"


def command(
    log: Annotated[str, typer.Argument(metavar="LOG", help=SOURCE_HELP, show_default=False)],
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Where to write the model.", show_default=False)],
    method: Annotated[
        str | None, typer.Option("--method", metavar="NAME", help="A name of `unskew methods`.", show_default=False)
    ] = None,
    recipe: Annotated[
        Path | None,
        typer.Option("--recipe", metavar="FILE", help="A recipe instead of a method, such as `unskew tune` writes."),
    ] = None,
    user: options.UserColumn = "user_id",
    item: options.ItemColumn = "item_id",
    rating: options.RatingColumn = "rating",
    positive: options.Positive = None,
    graded: options.Graded = None,
    duplicates: options.DuplicatesOption = options.Duplicates.ERROR,
    delimiter: options.Delimiter = None,
    user_features: options.UserFeatures = None,
    item_features: options.ItemFeatures = None,
    cache: options.Cache = None,
    accept_altered: options.AcceptAltered = False,
    assignments: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help=settings.HELP, show_default=False)
    ] = None,
    unbiased: Annotated[
        str | None,
        typer.Option("--unbiased", metavar="FILE", help="Ratings of random pairs, even a few: see docs/slice.md."),
    ] = None,
    members: options.Members = None,
    workers: Annotated[
        int,
        typer.Option("--workers", metavar="N", help="Members fitted side by side, in processes of one thread each."),
    ] = 1,
    seed: options.Seed = 0,
    epochs: options.Epochs = None,
    batch_size: options.BatchSize = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option("--checkpoint", metavar="FOLDER", help="Keep the state of the run here, and go on from it."),
    ] = None,
    checkpoint_every: Annotated[
        int | None, typer.Option("--checkpoint-every", metavar="N", help="Steps between two checkpoints.")
    ] = None,
    device: Annotated[
        str, typer.Option("--device", metavar="NAME", help="Where nets compute: cpu, or cuda for plain PyTorch nets.")
    ] = "cpu",
    as_json: options.AsJson = False,
) -> None:
    """Fit a method on a log of ratings and save the model.

    Started by torchrun, all its processes train one model: torchrun --nproc_per_node 2 -m unskew fit ...
    """
    chosen, training = settings.recipe_from(method, recipe, assignments or [], members)
    first, spread = os.environ.get("RANK", "0") == "0", int(os.environ.get("WORLD_SIZE", "1")) > 1
    engine = None if device == "cpu" else "torch"
    kept = {"checkpoint": checkpoint, "checkpoint_every": checkpoint_every, "workers": workers}
    training = settings.limited(training, epochs, batch_size, device=device, engine=engine, spread=spread, **kept)
    _check_model_path(out)
    if checkpoint is not None:
        from unskew.training.checkpoint import refuse_foreign

        refuse_foreign(checkpoint)
    reading = Reading(
        user=user,
        item=item,
        rating=rating,
        positive=positive,
        graded=graded,
        duplicates=duplicates.value,
        delimiter=delimiter,
        user_features=user_features,
        item_features=item_features,
        cache=cache,
        accept_altered=accept_altered,
    )
    ratings = reading.log(log)
    say = typer.echo if first and not as_json else _silent
    say(f"{ratings!r}, {ratings.duplicates_merged:,} duplicates merged")
    random_ratings = None if unbiased is None else reading.unbiased(unbiased, ratings, known=False)
    if random_ratings is not None:
        say(f"unbiased: {random_ratings!r}, {random_ratings.duplicates_merged:,} duplicates merged")
    from unskew.files.lock import locked

    with _resumable(checkpoint, first), locked(out if first else None):
        model = chosen.fit(ratings, seed=seed, training=training, unbiased=random_ratings)
        if first:
            model.save(out)
    training.group.total(0)  # waits until the model is written
    if checkpoint is not None and os.environ.get("LOCAL_RANK", "0") == "0":
        shutil.rmtree(checkpoint, ignore_errors=True)
    if not first:
        return
    if as_json:
        print_json(_facts(model, out))
        return
    say(str(model.history))
    for number, fit in enumerate(model.members or (model,)):
        if fit.overlap is not None:
            say(f"member {number}: {fit.overlap}" if model.members else str(fit.overlap))
    if model.slice is not None:
        say(str(model.slice))
    say(f"wrote the model to {out}; next: unskew evaluate {out} TEST, or unskew recommend {out}")


@contextmanager
def _resumable(checkpoint: Path | None, first: bool) -> Iterator[None]:
    """Say how to go on after an interruption."""
    try:
        yield
    except KeyboardInterrupt:
        if checkpoint is None:
            raise
        if first:
            typer.echo(f"interrupted: the same command goes on from the last checkpoint in {checkpoint}.", err=True)
        raise typer.Exit(INTERRUPTED) from None


def _silent(_: str) -> None:
    pass


def _check_model_path(out: Path) -> None:
    """Refuse what could not be written to before training, not after."""
    from unskew.files.manifest import foreign_names

    if out.exists() and not out.is_dir():
        raise ParameterError(f"{out} is a file: give the path of a folder.")
    if out.is_dir() and (foreign := foreign_names(out)):
        raise ParameterError(f"{out} holds {foreign[0]!r}, which is no part of a model: give another folder.")
    if not out.absolute().parent.is_dir():
        raise ParameterError(f"{out} cannot be written: the folder {out.parent} does not exist.")


def _facts(model: Recommender, out: Path) -> dict[str, Any]:
    from unskew.recipe import to_plain

    log, history = model.log, model.history
    return {
        "model": str(out),
        "method": to_plain(model.method),
        "seed": model.seed,
        "log": {
            "ratings": len(log),
            "users": log.n_users,
            "items": log.n_items,
            "mean_in_unit_scale": log.positive_rate,
            "duplicates_merged": log.duplicates_merged,
        },
        "stages": {stage: _stage(model, stage) for stage in dict.fromkeys(epoch.stage for epoch in history.epochs)},
        "notes": list(history.notes),
        "overlap": _overlap(model),
        "slice": None if model.slice is None else asdict(model.slice),
        "members": [{"overlap": _overlap(member)} for member in model.members],
    }


def _overlap(model: Recommender) -> dict[str, Any] | None:
    return None if model.overlap is None else asdict(model.overlap)


def _stage(model: Recommender, stage: str) -> dict[str, Any]:
    epochs = model.history.of(stage)
    kept = model.history.kept.get(stage, epochs[-1].epoch)
    return {
        "epochs": len(epochs),
        "kept_epoch": kept,
        "validation_risk": next((epoch.validation for epoch in epochs if epoch.epoch == kept), None),
        "seconds": sum(epoch.seconds for epoch in epochs),
    }
