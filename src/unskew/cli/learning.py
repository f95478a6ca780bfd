"""From a log to a model: unskew fit, update, split and tune."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Any, Literal

import unskew
from unskew.cli import options
from unskew.cli.options import argument, count, option, share
from unskew.cli.output import Answer, check_place, write_table
from unskew.cli.reading import Everything, MoreRows, Ratings, RatingsInTime, is_model
from unskew.cli.settings import Settings
from unskew.errors import ParameterError
from unskew.runtime import say
from unskew.store.atomic import locked

if TYPE_CHECKING:
    import pyarrow as pa

    from unskew.data.log import RatingLog
    from unskew.data.split import Split
    from unskew.model import Recommender

DEFAULT_METHOD, DEFAULT_OUT = "dce-bayes", Path("model")
WIDTH = 110
BY_HELP = (
    "The latest rows, whole requests, a random share of each user's, or a random share of all; of impressions the "
    "latest or whole requests if these are known, else random."
)
RECIPE_HELP = "The recipe to write, by default METHOD.toml; trials are kept in a file next to it."


def fit(
    log: options.Log,
    reading: Everything,
    out: Annotated[Path | None, option("Where to write the model; model, if there is none yet.", "FOLDER")] = None,
    method: Annotated[
        str | None,
        option(f"A name of `unskew list`, or a recipe, FILE.toml; {DEFAULT_METHOD}.", "NAME"),
    ] = None,
    assignments: options.Settings = None,
    random_ratings: options.RandomRatings = None,
    seed: Annotated[int | None, options.seed("The same seed gives the same result; the recipe's, or 0.")] = None,
    scheduler: Annotated[str | None, option("Draw the sweeps of dce-bayes on a Dask cluster.", "ADDRESS")] = None,
    diagnose: Annotated[bool, option("Judge the model too, as `unskew diagnose` does.")] = False,
) -> Answer:
    """Fit a method on a log of ratings and save the model.

    Columns and the threshold of what is liked are guessed from the file, and noted.

    Example:
        unskew fit ratings.csv --method ips --set propensity=additive --out model
    """
    from unskew.store.model import refuse_foreign

    settings = Settings(assignments)
    chosen, reading = settings.recipe(method or DEFAULT_METHOD), settings.reading(reading)
    ratings = reading.log(log, chosen.scale)
    random = reading.random_ratings(random_ratings, ratings, known=False)
    target = out or DEFAULT_OUT
    if out is None and target.exists():
        raise ParameterError(f"{target} is there already: name a folder by --out, the same one to replace it.")
    check_place(target)
    refuse_foreign(target)  # what could not be written to is refused before training, not after
    for what, read in (("", ratings), ("random ratings: ", random)):
        if read is not None:
            merged = f", {read.duplicates_merged:,} duplicates merged" if read.duplicates_merged else ""
            say(f"{what}{read!r}{merged}")
    from unskew.methods.base import fit_on

    seed = (chosen.seed or 0) if seed is None else seed
    model = fit_on(scheduler, chosen.method, ratings, seed=seed, training=chosen.training, random_ratings=random)
    model.save(target)

    from unskew.diagnosis.diagnose import known_already

    known = "\n".join(known_already(model)).splitlines()
    lines = [fill(line, WIDTH, subsequent_indent="  ") for line in known]
    lines.append(f"wrote the model to {target}; next: unskew diagnose {target}, or unskew recommend {target}")
    facts = _facts(model, target, reading.guessed)
    if diagnose:
        found = model.diagnose(called=str(target))
        lines.append(found.text(details=False))
        facts["diagnosis"] = found.to_dict()
    return Answer("\n".join(lines), facts)


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


def update(
    model: options.Model,
    ratings: Annotated[Path, argument("RATINGS", "A file of more ratings.")],
    reading: MoreRows,
    out: Annotated[Path | None, option("Where to write it; the model's own folder.", "FOLDER")] = None,
) -> Answer:
    """Take more ratings into a model of `dce-bayes` or `bayes`.

    It takes a fraction of a fit's time: the sampler goes on from where it stands, with new users and items; a server of
    the folder takes the model up. Ratings on another scale, older than the log's last or of pairs that it has are
    refused. Impressions are read as those of its log were.

    Example:
        unskew update model new-ratings.csv --out updated
    """
    target = model if out is None else out
    check_place(target)
    with locked(target):
        known = unskew.load(model)
        if known.log.target is not None or reading.seen is not None:
            alike: Any = reading.given | {"like": known.log, "target": known.log.target}
            updated = known.update(unskew.read_log(ratings, **alike))
        else:
            table, names = reading.table(ratings, ("user", "item", "rating"), known.log)
            called = {name: getattr(known.log.names, role) for role, name in names.items()}
            held = [name for name in table.column_names if name in called or name not in called.values()]
            updated = known.update(table.select(held).rename_columns([called.get(name, name) for name in held]))
        updated.save(target)
    more, of = len(updated.log) - len(known.log), len(updated.log)
    say(f"note: {updated.history.notes[-1]}")
    facts = {"model": str(target), "taken_in": more, "ratings": of, "notes": updated.history.notes}
    return Answer(
        f"took {more:,} {updated.log.wording.rows} in, {of:,} with those before, and wrote the model to {target}", facts
    )


def split(
    log: options.Log,
    reading: RatingsInTime,
    out: Annotated[Path, option("Where to write the two files.", "FOLDER")],
    by: Annotated[Literal["time", "request", "user", "random"] | None, option(BY_HELP)] = None,
    test: Annotated[float, share("The share of ratings to set aside.")] = 0.2,
    seed: options.Seed = 0,
) -> Answer:
    """Set ratings aside for a test.

    FOLDER/train.csv and FOLDER/test.csv have the columns of the log. A test that is drawn from a log is biased as the
    log is: it shows how well ratings that people choose to give are predicted, not how well those of all pairs are.

    Example:
        unskew split ratings.csv --by user --test 0.2 --out parts
    """
    check_place(out)
    chosen: Any = "global" if by == "random" else by
    rows = reading.log(log)
    if rows.random is not None and Path(log).exists() and not is_model(log):
        rows = _all_alike(log, reading)
    split = unskew.holdout_split(rows, test, by=chosen, seed=seed)
    parts = tuple(part.to_arrow(as_stood=True) for part in (split.train, split.holdout))
    if split.log.impressions:
        parts = _impressions(log, split)
    out.mkdir(exist_ok=True)
    for name, part in zip(("train", "test"), parts, strict=True):
        write_table(out / f"{name}.csv", part)
    facts = {"train": len(parts[0]), "test": len(parts[1]), "folder": str(out)}
    text = f"wrote {facts['train']:,} rows to {out / 'train.csv'} and {facts['test']:,} to {out / 'test.csv'}"
    return Answer(text, facts | {"guessed": reading.guessed})


def _all_alike(source: str, reading: RatingsInTime) -> RatingLog:
    """Read a file of impressions without the columns that set random rows apart."""
    from unskew.data.guess import KNOWN, plain_name
    from unskew.data.read import read_frame

    table, apart = read_frame(source), {*KNOWN["is_random"], *KNOWN["policy"], *KNOWN["pscore"]}
    alike = table.select([name for name in table.column_names if plain_name(name) not in apart])
    return unskew.read_log(alike, **reading.given | {"context": None})


def _impressions(source: str, split: Split) -> tuple[pa.Table, ...]:
    """Return the rows of a file of impressions in two parts, seen or not, with all of their columns."""
    import numpy as np

    from unskew.data.read import read_frame

    held = split.held_out
    if held is None:
        held = np.zeros(len(split.log), np.bool_)
        held[split.holdout_rows] = True
    table = read_frame(source) if Path(source).exists() and not is_model(source) else None
    if table is None or len(table) != len(held):
        raise ParameterError(
            f"{source} cannot be divided row by row, as it is no file, or some are joined or left out."
        )
    return table.filter(~held), table.filter(held)


def tune(
    log: options.Log,
    reading: Ratings,
    method: Annotated[str, option("A name of `unskew list`.", "NAME")],
    trials: Annotated[int, count("The first is the method as it is.", 1, 100_000)] = 50,
    out: Annotated[Path | None, option(RECIPE_HELP)] = None,
    workers: options.Workers = 1,
    assignments: options.Settings = None,
    seed: Annotated[int, options.seed("Of the folds and of the search.")] = 0,
) -> Answer:
    """Search the settings of a method, write the best as a recipe.

    The search is the one of `unskew benchmark`: every trial is fitted without each of five folds of the log in turn
    and judged by them. Settings given by --set are where it starts; validation.criterion is mse, log_loss, auc or
    user_auc. Finished trials are kept in RECIPE.trials.journal: run the same command again after an interruption, and
    it goes on where it ended.

    \b
    unskew tune ratings.csv --method ips --set propensity=additive --trials 20
    unskew fit ratings.csv --method ips.toml --out model

    Example:
        unskew tune ratings.csv --method dce-tdr --trials 50 --workers 2 --out dce-tdr.toml
    """
    from unskew.bench import tune
    from unskew.store.recipe import to_plain, write_recipe

    settings = Settings(assignments)
    start, reading = settings.method(unskew.make(method)), settings.reading(reading)
    target = out or Path(f"{method.replace('/', '-')}.toml")
    check_place(target, ".toml")
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
