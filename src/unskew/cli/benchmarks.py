"""Methods against each other: unskew benchmark and reproduce."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import unskew
from unskew.cli import options
from unskew.cli.options import argument, count, option, share
from unskew.cli.output import Answer
from unskew.cli.reading import Ratings, Reading
from unskew.cli.settings import Settings
from unskew.errors import DataError, ParameterError

if TYPE_CHECKING:
    from unskew.data.log import RatingLog
    from unskew.datasets.world import World

SOURCE_HELP = "NAME:FOLDER of a dataset, world for a simulated one, or a file of ratings as in `unskew fit`."
WORLD = "world"
NOT_BLIND = {"coat": "The defaults of unskew were not chosen blind to Coat's test."}
DATASET_HELP = "On what data: coat, yahoo-r3 or kuairec with its folder, or world."
Target = Literal["table1", "table2", "table3", "figure1", "figure2", "figure3", "all"]


def benchmark(
    source: Annotated[str, argument("DATASET|LOG", SOURCE_HELP)],
    reading: Ratings,
    out: options.OutFolder,
    methods: Annotated[str, option("Names of `unskew list` with commas, or all.", "NAMES")] = "all",
    seeds: options.Seeds = 10,
    tune: options.Trials = 0,
    workers: options.Workers = 1,
    test: Annotated[str | None, option("For a log: ratings of random pairs, as the test.", "FILE")] = None,
    test_fraction: Annotated[float | None, share("For a log without --test: what to set aside, 0.2.")] = None,
    empty_users: options.EmptyUsersOption = "skip",
    on_unknown: options.OnUnknownOption = "raise",
    seed: Annotated[int, options.seed("Of folds, search, simulated world and --test-fraction.")] = 0,
    assignments: options.Settings = None,
) -> Answer:
    """Compare methods: as much tuning for each, then the test.

    Trials are judged by folds of the log alone; the test is used for the final fits only. Whatever is finished is
    kept: run the same command again after an interruption, and it goes on where it ended. The folder holds
    records.jsonl, trials.journal, benchmark.json, results.csv, table.md, table.tex and recipes/METHOD.toml.

    \b
    unskew benchmark coat:DATA --tune 30 --empty-users one --workers 2 --out coat
    unskew benchmark world --methods naive,snips --set training.max_epochs=20 --out world
    unskew benchmark ratings.csv --tune 30 --set validation.criterion=user_auc --out results

    Example:
        unskew benchmark ratings.csv --test test.csv --methods naive,ips,dce-dr --tune 30 --workers 2 --out results
    """
    from unskew.bench import benchmark
    from unskew.registry import named

    settings = Settings(assignments)
    settings.refuse("")
    names = list(named("method")) if methods == "all" else methods.split(",")
    if twice := next((name for place, name in enumerate(names) if name in names[:place]), None):
        raise ParameterError(f"--methods names {twice} twice: name it once.")
    chosen, reading = {name: unskew.make(name) for name in map(str.strip, names)}, settings.reading(reading)
    validation = settings.validation(seed)
    if test is not None and test_fraction is not None:
        raise ParameterError("--test and --test-fraction both name the test: give one of the two.")
    given = material(source, reading, seed, test=test, test_fraction=test_fraction, on_unknown=on_unknown)
    rules: Any = {"empty_users": empty_users, "on_unknown": on_unknown, "validation": validation, "workers": workers}
    rules |= {"seeds": seeds, "trials": tune, "world": given.world, "about": given.about}
    found = benchmark(given.log, given.test, chosen, out, **rules)
    notes = "".join(f"\nnote: {note}" for note in found.notes)
    wrote = f"{found.headline}\nwrote the tables, with tests of significance, and the recipes to {out}"
    return Answer("\n\n".join([*found.setting, f"{found.results().text()}{notes}", wrote]), found.to_dict())


class Material(NamedTuple):
    """A log, a test, the world they come from if it is simulated, and what a page should say about them."""

    log: RatingLog
    test: RatingLog
    about: tuple[str, ...]
    world: World | None = None


def material(
    source: str,
    reading: Reading,
    seed: int = 0,
    *,
    test: str | None = None,
    test_fraction: float | None = None,
    on_unknown: str = "raise",
) -> Material:
    """Return what a benchmark learns from and is judged by: of a dataset, a simulated world, or a log of one's own."""
    dataset = None if source == WORLD else reading.dataset(source)
    if (dataset is not None or source == WORLD) and (test is not None or test_fraction is not None):
        raise ParameterError(f"{source} has a random test of its own: leave --test and --test-fraction out.")
    if dataset is not None:
        about = [f"{dataset.name}: users chose what to rate in the log, and the test is of pairs drawn at random."]
        return Material(dataset.train, dataset.test, (*about, *NOT_BLIND.get(dataset.name, "").splitlines()))
    if source == WORLD:
        from unskew.bench.protocol import WORLD_SETTINGS

        if reading != Reading():
            raise ParameterError("a simulated world is not read from files: leave the options for files out.")
        settings: dict[str, Any] = WORLD_SETTINGS
        world, made = unskew.simulate(**settings, seed=seed), [f"{name} {value:g}" for name, value in settings.items()]
        about = [
            f"A simulated world ({', '.join(made)}, selection by taste, seed {seed}): the test is of pairs drawn at "
            f"random, and the true risk is over all pairs, at best {world.risk(world.preference):.4f}."
        ]
        return Material(world.log, world.test, tuple(about), world)
    log, name = reading.log(source), Path(source).name
    if test is not None:
        from unskew.topk import seen_pairs

        ratings = reading.log(test, log.scale, test=True)
        about = [
            f"Learned from {name} and judged on {Path(test).name}: unbiased only if its pairs were drawn at random."
        ]
        users = log.user_ids.codes(ratings.user_ids.take(ratings.users))
        items = log.item_ids.codes(ratings.item_ids.take(ratings.items))
        known = (users >= 0) & (items >= 0)
        if learned := int(seen_pairs(log)(users[known], items[known]).sum()):
            about.append(f"The log has {learned:,} of the {len(ratings):,} test pairs too, by which figures flatter.")
        if count := int((~known).sum()):
            what = f"{count:,} of {len(ratings):,} test pairs have a user or an item that the log does not know"
            if on_unknown == "raise":
                raise DataError(f"{what}: remove them, or pass --on-unknown fallback to answer for the average one.")
            about.append(f"{what}; they were answered for the average user or item.")
        return Material(log, ratings, tuple(about))
    fraction = test_fraction or 0.2
    split = unskew.holdout_split(log, fraction, seed=seed)
    about = [
        f"Learned from {name}, of which a random {fraction:.0%} was set aside as the test. This test is biased as the "
        "log is: its pairs are pairs that users chose to rate, so it cannot tell what a method is worth on the others."
    ]
    return Material(split.train, split.holdout, tuple(about))


def reproduce(
    target: Annotated[Target, argument(None, "What to make; all makes every one.")],
    dataset: Annotated[str, option(DATASET_HELP, "NAME:FOLDER")],
    out: options.OutFolder,
    seeds: options.Seeds = 10,
    tune: options.Trials = 0,
    workers: options.Workers = 1,
    as_published: Annotated[bool, option("Fit what public code does, with its nets and its protocol.")] = False,
    only: Annotated[list[str] | None, option("Only this entry; may be given several times.", "ENTRY")] = None,
    epochs: Annotated[int | None, count("The most epochs a stage may take.", 1, 1_000_000)] = None,
) -> Answer:
    """Make the tables and figures of the DCE paper anew.

    Each target becomes data (.csv), a page (.md) and charts (.svg) in the folder, the paper's numbers next to ours.
    Whatever is finished is kept in records.jsonl there: run the same command again after an interruption, and it goes
    on where it ended; targets share the fits that they have in common.

    \b
    unskew reproduce all --dataset world --seeds 3 --out world
    unskew reproduce table1 --dataset coat:DATA --as-published --only DCE-DR --out coat

    Example:
        unskew reproduce table1 --dataset coat:DATA --workers 2 --out reproduced
    """
    from unskew.bench.paper import TARGETS, dataset_of, reproduce

    known = dataset_of(dataset.partition(":")[0].replace("_", "-"))
    given = material(dataset, Reading())
    rules: Any = {"seeds": seeds, "trials": tune, "workers": workers, "max_epochs": epochs, "only": only or ()}
    rules |= {"dataset": known.name, "as_published": as_published, "world": given.world, "about": given.about}
    targets = TARGETS if target == "all" else (target,)
    made = [reproduce(name, given.log, given.test, out, **rules) for name in targets]
    lines: list[str] = []
    for one in made:
        lines.append(f"{one.suite.number}: {one.suite.title} ({one.dataset.title})\n{one.table().text()}")
        lines += [f"failed: {fit}: {sentence}" for fit, sentence in one.failures.items()]
        lines.append(f"wrote {', '.join(str(path) for path in one.files)}\n")
    return Answer("\n".join(lines), [one.to_dict() for one in made])
