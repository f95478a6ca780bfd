"""What a benchmark learns from and is judged by: a dataset, a simulated world, or a log of one's own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import unskew
from unskew.cli.reading import Reading
from unskew.errors import DataError, ParameterError

if TYPE_CHECKING:
    from unskew.data.log import RatingLog
    from unskew.datasets.world import World

WORLD = "world"
DEFAULT_FRACTION = 0.2
_SEEN_BEFORE = {
    "coat": "The defaults of unskew were not chosen blind to Coat's test: docs/benchmarks.md tells what was seen of it."
}


@dataclass(frozen=True)
class Material:
    """A log, a test, the world they come from if it is simulated, and what a page should say about them."""

    log: RatingLog
    test: RatingLog
    about: tuple[str, ...]
    world: World | None = None


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the command line says about the material beside its name."""

    data: Path | None
    test: str | None
    test_fraction: float | None
    on_unknown: str
    seed: int


def material(source: str, reading: Reading, options: Options) -> Material:
    if source == WORLD:
        return _simulated(reading, options)
    named = _with_folder(source, options.data)
    dataset = reading.dataset(named)
    if dataset is None:
        return _own(source, reading, options)
    _refuse_tests(options, source)
    about = f"{dataset.name}: users chose what to rate in the log, and the test is of pairs drawn at random."
    return Material(dataset.train, dataset.test, (about, *_SEEN_BEFORE.get(dataset.name, "").splitlines()))


def _simulated(reading: Reading, options: Options) -> Material:
    from unskew.bench.measure import WORLD_SETTINGS

    _refuse_tests(options, WORLD)
    if reading != Reading() or options.data is not None:
        raise ParameterError("a simulated world is not read from files: leave the options for files out.")
    settings: dict[str, Any] = WORLD_SETTINGS
    world = unskew.simulate(**settings, seed=options.seed)
    about = (
        f"A simulated world ({', '.join(f'{name} {value:g}' for name, value in settings.items())}, selection by taste, "
        f"seed {options.seed}): the test is of pairs drawn at random, and the true risk is over all pairs, at best "
        f"{world.risk(world.preference):.4f}."
    )
    return Material(world.log, world.test, (about,), world)


def _own(source: str, reading: Reading, options: Options) -> Material:
    if options.data is not None:
        raise ParameterError(f"--data is for datasets, and {source} is a file: leave it out.")
    log, name = reading.log(source), Path(source).name
    if options.test is not None:
        if options.test_fraction is not None:
            raise ParameterError("--test and --test-fraction both say what the test is: give one of the two.")
        test = reading.test(options.test, log.scale)
        unknown = _unknown(log, test, options.on_unknown)
        about = f"Learned from {name} and judged on {Path(options.test).name}, which is unbiased only if its pairs are."
        return Material(log, test, (about, *unknown))
    fraction = DEFAULT_FRACTION if options.test_fraction is None else options.test_fraction
    split = unskew.holdout_split(log, fraction, seed=options.seed)
    about = (
        f"Learned from {name}, of which a random {fraction:.0%} was set aside as the test. This test is biased as the "
        "log is: its pairs are pairs that users chose to rate, so it cannot tell what a method is worth on the others."
    )
    return Material(split.train, split.holdout, (about,))


def _with_folder(source: str, data: Path | None) -> str:
    """NAME:FOLDER for the name of a dataset, whose folder is `data` or inside it; any other source as it is.

    With --data a dataset is meant, even if there is a file or a folder of that name, such as that of the results.
    """
    name = source.replace("-", "_")
    if name not in {known.name for known in unskew.datasets.available()} or (data is None and Path(source).exists()):
        return source
    if data is None:
        raise ParameterError(f"{source} is a dataset: name the folder of its files by --data FOLDER.")
    inside = (folder for folder in (data / source, data / name) if folder.is_dir())
    return f"{name}:{next(inside, data)}"


def _refuse_tests(options: Options, source: str) -> None:
    if options.test is not None or options.test_fraction is not None:
        raise ParameterError(f"{source} has a random test of its own: leave --test and --test-fraction out.")


def _unknown(log: RatingLog, test: RatingLog, on_unknown: str) -> list[str]:
    """A sentence about test pairs whose user or item the log does not know, refused unless they may be answered for."""
    of_user = log.user_ids.codes(test.user_ids.take(test.users)) < 0
    of_item = log.item_ids.codes(test.item_ids.take(test.items)) < 0
    count = int((of_user | of_item).sum())
    if not count:
        return []
    what = f"{count:,} of {len(test):,} test pairs have a user or an item that the log does not know"
    if on_unknown == "raise":
        raise DataError(f"{what}: remove them, or pass --on-unknown fallback to answer for the average one.")
    return [f"{what}; they were answered for the average user or item."]
