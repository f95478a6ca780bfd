"""Make the logs that experiments learn from and the pairs they are judged on.

Real data lies in a folder that the user names: `coat/`, `jester/complete.csv.gz` and
`movielens-latest-small/ratings.csv.gz`, each as its distributor gives it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit

import unskew

Array = NDArray[Any]
Figures = dict[str, float]
Settings = dict[str, Any]
QUIET = unskew.Training(progress=False)
JESTER_USERS, JESTER_CUTS, JESTER_DENSITY = 1500, (-6, -2, 2, 6), 0.12


class Job(NamedTuple):
    """A method to be measured on what a seed makes of a case; `settings` are those recorded of its seed 0, if any."""

    case: str
    method: str
    seed: int
    data: Any
    settings: Settings | None = None


class Measured(NamedTuple):
    """Figures by name, the settings they rest on, and versions of libraries besides the usual ones."""

    metrics: Figures
    settings: Settings
    versions: Mapping[str, str] = {}


def grouped(group: str, figures: Mapping[str, Any]) -> Figures:
    """Name figures by the group that they are printed in."""
    return {f"{group}: {name}": float(value) for name, value in figures.items()}


class Experiment(NamedTuple):
    """Methods, cases by name (made from the data folder and a seed), seeds, and what measures a job.

    `applies` says which methods are run on which cases; `table` makes a table of records where means say too little.
    """

    about: str
    methods: tuple[str, ...]
    cases: Mapping[str, Callable[[Path, int], Any]]
    n_seeds: int
    measure: Callable[[Job], Measured]
    applies: Callable[[str, str], bool] = lambda method, case: True
    table: Callable[[list[dict[str, Any]]], str] | None = None


class Case(NamedTuple):
    """A log to learn from, rated pairs to be judged on, and the world they come from if it is simulated."""

    train: unskew.RatingLog
    test: unskew.RatingLog
    world: unskew.World | None = None


def log_of(users: Array, items: Array, ratings: Array, positive: float, shape: tuple[int, int]) -> unskew.RatingLog:
    """Build a log of codes in a catalogue of this shape."""
    ids: dict[str, Any] = {"user_ids": np.arange(shape[0]), "item_ids": np.arange(shape[1])}
    return unskew.RatingLog.from_arrays(users, items, ratings, positive=positive, **ids)


@lru_cache(maxsize=1)
def table_of(file: Path) -> NDArray[np.float64]:
    """Read a gzipped table of numbers below a line of names."""
    try:
        return np.loadtxt(file, delimiter=",", skiprows=1)
    except (OSError, EOFError, ValueError) as error:
        raise unskew.DataError(f"{file} cannot be read as a gzipped table of numbers: {error}.") from error


def coat(data: Path, seed: int = 0, features: bool = False) -> Case:
    """Coat: 24 ratings a user by choice to learn from, 16 at random as the test; liked from 3 up."""
    found = unskew.datasets.load("coat", data / "coat", positive=3)
    logs = found.train, found.test
    return Case(*(log if features else replace(log, user_features=None, item_features=None) for log in logs))


def movielens(data: Path, seed: int = 0, by_time: bool = False) -> Case:
    """MovieLens latest-small: a random fifth, or the last fifth of each user's ratings by time, as the test.

    Films without a training rating are left out, and 4 and above is liked. The fifth by time is rounded down: rounded
    up, tests have 457 ratings more, and lists of ten about 4% more hits.
    """
    rows = table_of(data / "movielens-latest-small" / "ratings.csv.gz")
    held_out = np.random.default_rng(0).random(len(rows)) < 0.2
    if by_time:
        rows = rows[np.lexsort((rows[:, 3], rows[:, 0]))]
        counts = np.unique(rows[:, 0], return_counts=True)[1]
        place = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        held_out = place >= 0.8 * np.repeat(counts, counts)
    films = np.unique(rows[~held_out, 1])
    rows, held_out = rows[known := np.isin(rows[:, 1], films)], held_out[known]
    users, items = np.unique(rows[:, 0], return_inverse=True)[1], np.searchsorted(films, rows[:, 1])
    shape = int(users.max()) + 1, len(films)
    return Case(*(log_of(users[part], items[part], rows[part, 2], 4, shape) for part in (~held_out, held_out)))


def jester_stars(data: Path, first: int = 0) -> Array:
    """Read a block of 1,500 users and 100 jokes without gaps as stars 0 to 4; 3 and 4 are liked."""
    rows = table_of(data / "jester" / "complete.csv.gz")[first : first + JESTER_USERS, 1:]
    return np.digitize(rows / 100, JESTER_CUTS)


def taste(stars: Array, rank: int = 8) -> NDArray[np.float64]:
    """Give the part of centred stars that users, items and `rank` factors explain."""
    centred = stars - stars.mean()
    effects = centred.mean(1, keepdims=True) + centred.mean(0, keepdims=True)
    left, size, right = np.linalg.svd(centred - effects, full_matrices=False)
    return np.asarray(effects + (left[:, :rank] * size[:rank]) @ right[:rank])


def drawn(log_odds: Array, density: float, rng: np.random.Generator) -> tuple[Array, Array]:
    """Draw which pairs are seen: P = sigmoid(c + log-odds), c such that the mean is `density`; and P."""
    probability = expit(brentq(lambda c: expit(c + log_odds).mean() - density, -30, 30) + log_odds)
    return rng.random(log_odds.shape) < probability, probability


def select(stars: Array, law: str, slope: float, seed: int, density: float = JESTER_DENSITY) -> tuple[Array, Array]:
    """Draw which pairs of a complete block are seen, and return the probability of each, too.

    Log-odds are 0 (uniform), a + b (popularity), a + b/2 + slope (star - mean star) (rating) or a + b/2 + slope g
    (taste), g what `taste` gives, a_u ~ N(0, .6), b_i ~ N(0, 1).
    """
    rng = np.random.default_rng([seed, 7])
    a, b = rng.normal(0, 0.6, (len(stars), 1)), rng.normal(0, 1, (1, stars.shape[1]))
    laws: dict[str, Callable[[], Array]] = {
        "uniform": lambda: np.zeros(stars.shape),
        "popularity": lambda: a + b,
        "rating": lambda: a + b / 2 + slope * (stars - stars.mean()),
        "taste": lambda: a + b / 2 + slope * taste(stars),
    }
    return drawn(laws[law](), density, rng)


def jester(law: str, slope: float, data: Path, seed: int) -> Case:
    """Jester under a known law of selection, judged on every pair that was not seen."""
    stars = jester_stars(data)
    seen, _ = select(stars, law, slope, seed)
    return Case(*(log_of(*np.nonzero(part), stars[part], 3, seen.shape) for part in (seen, ~seen)))


def simulated(selection: str, data: Path, seed: int, **settings: Any) -> Case:
    """A simulated world, seen by popularity or by taste; its preferences are known for every pair."""
    size: Settings = {"n_users": 500, "n_items": 250, "density": 0.1}
    world = unskew.simulate(**size | settings, selection=selection, seed=seed)
    return Case(world.log, world.test, world)


million = partial(simulated, "taste", n_users=6000, n_items=3700, density=0.045)
"""A simulated million ratings of 6,000 users on 3,700 items, chosen by taste."""
tiny = partial(simulated, "taste", Path(), 0, n_users=200, n_items=150, test_per_user=5)
"""A world of a few thousand ratings, on which kernels are compiled before anything is timed."""
LAWS = {"uniform": 0.0, "popularity": 0.0, "rating .3": 0.3, "rating .6": 0.6, "rating .9": 0.9, "taste .6": 0.6}
REAL = {
    "coat": coat,
    "coat with features": partial(coat, features=True),
    "movielens": movielens,
    "movielens by time": partial(movielens, by_time=True),
}


def by_law(make: Callable[[str, float, Path, int], Any]) -> dict[str, Callable[[Path, int], Any]]:
    """Name the cases of Jester, one a law."""
    return {f"jester, {name}": partial(make, name.split()[0], slope) for name, slope in LAWS.items()}
