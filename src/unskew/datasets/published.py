"""Published data sets, read from folders that their users have downloaded: what each is and how its files are read.

Of each the four counts of the original are known: users, items, ratings that people chose to give, and ratings of pairs
drawn at random. Files with other counts are read as well, and a note tells the difference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.data.ids import Vocabulary
from unskew.data.log import RatingLog
from unskew.data.pairs import pair_keys
from unskew.data.read import File, is_path, read_frame, read_log
from unskew.errors import DataError, ParameterError, chosen, nearest
from unskew.registry import named, registered

Folder = str | PathLike[str]
LARGEST_ID = 10_000_000  # a catalogue runs through every id up to the highest, so a stray one must not fill the memory
NOT_RATED = 99  # in files of Jester
STARS = (1, 5)


class Counts(NamedTuple):
    users: int
    items: int
    train: int
    test: int = 0

    def __str__(self) -> str:
        parts = f"{self.users:,} users, {self.items:,} items, {self.train:,} chosen ratings"
        return f"{parts} and {self.test:,} random ones" if self.test else parts


@dataclass(frozen=True)
class Source:
    """A published data set; `counts` are those of each of its releases."""

    kind: ClassVar[str] = "dataset"

    name: str
    title: str
    where: str  # how to get it
    terms: str
    files: tuple[str, ...]
    citation: str
    positive: float  # the usual threshold: ratings from here on count as liked
    counts: tuple[Counts, ...]
    read: Callable[[Path, float | None], Dataset] | None = None  # the files of a folder, by the threshold of liking

    def file(self, folder: Path, *names: str) -> Path:
        """Find the first of some files that is there, plain or gzipped."""
        found = [path for name in names for path in (folder / name, folder / f"{name}.gz") if path.is_file()]
        if not found:
            raise DataError(f"{folder} has no file {names[0]}, which {self.title} needs: get it ({self.where}).")
        return found[0]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Ratings that people chose to give, to learn from, and those of random pairs, to be judged by."""

    name: str
    train: RatingLog
    random: RatingLog | None = None  # same vocabularies as train
    notes: tuple[str, ...] = ()

    @property
    def test(self) -> RatingLog:
        """The ratings of random pairs, refused if there are none."""
        if self.random is None:
            raise DataError(f"{self.name} has no ratings of random pairs: set some apart, as `unskew split` does.")
        return self.random

    def __str__(self) -> str:
        parts = [f"  train {self.train!r}"] + ([] if self.random is None else [f"  test  {self.random!r}"])
        return "\n".join([self.name, *parts, *(f"  - {note}" for note in self.notes)])


COAT = Source(
    name="coat",
    title="Coat Shopping",
    where="coat.zip on the page of Recommendations as Treatments, https://www.cs.cornell.edu/~schnabts/mnar/",
    terms="Published by its authors for research, with the request to cite the paper; see their page.",
    files=("train.ascii", "test.ascii", "user_item_features/"),
    citation=(
        "T. Schnabel, A. Swaminathan, A. Singh, N. Chandak and T. Joachims. Recommendations as Treatments: "
        "Debiasing Learning and Evaluation. ICML 2016."
    ),
    positive=3,
    counts=(Counts(290, 300, 6_960, 4_640),),
)
YAHOO_R3 = Source(
    name="yahoo_r3",
    title="Yahoo!R3",
    where=(
        "on request from the Yahoo Webscope program, as R3, Yahoo! Music ratings for User Selected and "
        "Randomly Selected songs, version 1.0"
    ),
    terms="Non-commercial research under Yahoo's data sharing agreement; it may not be passed on.",
    files=("ydata-ymusic-rating-study-v1_0-train.txt", "ydata-ymusic-rating-study-v1_0-test.txt"),
    citation=(
        "B. M. Marlin and R. S. Zemel. Collaborative Prediction and Ranking with Non-Random Missing Data. RecSys 2009."
    ),
    positive=3,
    counts=(Counts(15_400, 1_000, 311_704, 54_000),),
)
KUAIREC = Source(
    name="kuairec",
    title="KuaiRec",
    where=(
        "user.txt and random.txt, comma separated user, item, watch ratio, as prepared by debiasing studies; "
        "the raw data is on the KuaiRec project page, https://kuairec.com"
    ),
    terms="The raw data comes with the licence named on its project page; the prepared files inherit it.",
    files=("user.txt", "random.txt"),
    citation=(
        "C. Gao, S. Li, W. Lei, J. Chen, B. Li, P. Jiang, X. He, J. Mao and T.-S. Chua. KuaiRec: "
        "A Fully-Observed Dataset and Insights for Evaluating Recommender Systems. CIKM 2022."
    ),
    positive=1,
    counts=(Counts(7_163, 10_596, 201_171, 117_113),),
)
MOVIELENS = Source(
    name="movielens",
    title="MovieLens",
    where="any release on https://grouplens.org/datasets/movielens/, as downloaded and unpacked",
    terms="Research; not for commercial use without permission; passed on only under the same terms, with its README.",
    files=("ratings.csv, ratings.dat or u.data", "movies.csv, movies.dat or u.item"),
    citation="F. M. Harper and J. A. Konstan. The MovieLens Datasets: History and Context. ACM TiiS 5(4), 2015.",
    positive=4,
    counts=(
        Counts(610, 9_724, 100_836),
        Counts(943, 1_682, 100_000),
        Counts(6_040, 3_706, 1_000_209),
        Counts(69_878, 10_677, 10_000_054),
        Counts(138_493, 26_744, 20_000_263),
        Counts(162_541, 59_047, 25_000_095),
    ),
)
JESTER = Source(
    name="jester",
    title="Jester",
    where="data set 1 on https://eigentaste.berkeley.edu/dataset/, its tables saved as CSV",
    terms="Freely available for research when the authors are acknowledged; not to be passed on.",
    files=("jester-data-1.csv, or complete.csv with a header and ratings times 100",),
    citation=(
        "K. Goldberg, T. Roeder, D. Gupta and C. Perkins. Eigentaste: A Constant Time Collaborative Filtering "
        "Algorithm. Information Retrieval 4(2), 2001."
    ),
    positive=2,
    counts=(Counts(24_983, 100, 1_810_455), Counts(3_000, 100, 300_000)),
)


def coat(folder: Path, positive: float | None) -> Dataset:
    """Read grids of 1 to 5 stars, 0 for a missing one; ids are line and column numbers, counted from 0."""
    files = [COAT.file(folder, name) for name in COAT.files[:2]]
    grids, notes = [_grid(file) for file in files], []
    settings: dict[str, Any] = {"positive": positive, "rating_scale": STARS}
    for side, n in zip(("user", "item"), grids[0].shape, strict=True):
        settings[f"{side}_ids"] = np.arange(n)
        file, called = (folder / f"user_item_features/{side}_features{end}" for end in (".ascii", "_map.txt"))
        if not (file.is_file() and called.is_file()):
            notes.append(f"{side} features are missing; left out")
            continue
        names = [name for name in called.read_text("utf-8", "backslashreplace").splitlines() if name.strip()]
        values, size = _grid(file), (n, len(names))
        if values.shape != size:
            raise DataError(f"{file} has {values.shape} rows and columns where there must be {size}: get it again.")
        settings[f"{side}_features"] = pa.table([np.arange(n), *values.T], names=[f"{side}_id", *names])
    train, test = (
        _log(file, *np.nonzero(grid), grid[grid != 0], **settings) for file, grid in zip(files, grids, strict=True)
    )
    return Dataset(COAT.name, train, test, tuple(notes))


def yahoo_r3(folder: Path, positive: float | None) -> Dataset:
    """Read the published files or, comma separated and counted from 0, user.txt and random.txt."""
    variant = not (folder / YAHOO_R3.files[0]).is_file() and (folder / KUAIREC.files[0]).is_file()
    names, shift = (KUAIREC.files, 1) if variant else (YAHOO_R3.files, 0)
    logs = _both([YAHOO_R3.file(folder, name) for name in names], 1, shift, positive=positive, rating_scale=STARS)
    notes = ("1 was added to every id, as the published ids count from 1",) if variant else ()
    return Dataset(YAHOO_R3.name, logs[0], logs[1], notes=notes)


def kuairec(folder: Path, positive: float | None) -> Dataset:
    """Read watch ratios, time watched by length of the video, which have no upper bound; ids count from 0."""
    if positive is None:
        raise ParameterError("positive=None keeps graded ratings, which watch ratios are not: give a threshold.")
    files = [KUAIREC.file(folder, name) for name in KUAIREC.files]
    logs = _both(files, 0, positive=positive, rating_scale=(0, np.inf))
    return Dataset(KUAIREC.name, logs[0], logs[1])


def movielens(folder: Path, positive: float | None) -> Dataset:
    """Read ratings with their times, and titles if their file is there too."""
    ratings, titles = MOVIELENS.file(folder, "ratings.csv", "ratings.dat", "u.data"), None
    lists = [path for name in ("movies.csv", "movies.dat", "u.item") for path in folder.glob(f"{name}*")]
    if lists and ".csv" in lists[0].name:
        titles = read_frame(lists[0], sides=("item",))
    elif lists:  # of 1998 and 2003: without header, and not always in UTF-8
        raw, delimiter = lists[0].read_bytes(), "::" if lists[0].suffix == ".dat" else "|"
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            text = raw.decode("latin-1")
        titles = dict(line.split(delimiter)[:2] for line in text.splitlines())
    train = read_log(ratings, positive=positive, rating_scale=(0.5, 5), item_names=titles)
    return Dataset(MOVIELENS.name, train, notes=() if lists else ("titles are missing; left out",))


def jester(folder: Path, positive: float | None) -> Dataset:
    """Read grids of users by jokes, rated from -10 to 10: after a column of counts, 99 for a joke that is not rated.

    complete.csv has a header and a column of ids, ratings times 100 and no gaps.
    """
    settings: dict[str, Any] = {"positive": positive, "rating_scale": (-10, 10)}
    if files := sorted(folder.glob("jester-data-*.csv*")):
        grid = np.vstack([_grid(file) for file in files])
        users, items = np.nonzero(grid[:, 1:] != NOT_RATED)
        return Dataset(JESTER.name, _log(files[0], users + 1, items + 1, grid[users, items + 1], **settings))
    file = JESTER.file(folder, "complete.csv")
    grid = _grid(file)
    users, items = np.indices((len(grid), grid.shape[1] - 1)).reshape(2, -1)
    return Dataset(JESTER.name, _log(file, grid[users, 0], items + 1, grid[users, items + 1] / 100, **settings))


def open_bandit(folder: Folder, campaign: str = "all", policy: str = "random") -> pa.Table:
    """Read impressions of the Open Bandit data set: item, position, click, propensity_score and features of users.

    It names no users, so that no log can be made of it. Files are as downloaded or called CAMPAIGN_POLICY.csv.
    Y. Saito, S. Aihara, M. Matsutani and Y. Narita. Open Bandit Dataset and Pipeline. arXiv 2008.07146; Apache-2.0,
    https://research.zozo.com/data.html.
    """
    chosen(campaign, "campaign", ("all", "men", "women"))
    chosen(policy, "policy", ("random", "bts"))
    names = (f"{policy}/{campaign}/{campaign}.csv", f"{campaign}_{policy}.csv", f"{campaign}_{policy}.csv.gz")
    for path in (_folder(folder) / name for name in names):
        if path.is_file():
            return read_frame(path)
    raise DataError(
        f"{folder} has neither {names[0]} nor {names[1]}: get Open Bandit from research.zozo.com/data.html."
    )


READERS = {COAT: coat, YAHOO_R3: yahoo_r3, KUAIREC: kuairec, MOVIELENS: movielens, JESTER: jester}
PUBLISHED = tuple(replace(source, read=read) for source, read in READERS.items())


def available() -> tuple[Source, ...]:
    """Return every data set that `load` knows, and where to get it."""
    return tuple(named("dataset").values())


def load(name: str, folder: Folder, *, positive: float | Literal["usual"] | None = "usual") -> Dataset:
    """Read the data set called `name` from its folder.

    The folder may hold the data set's own. `positive` is the lowest rating that counts as liked: by default the usual
    one, such as 3 stars or a watch ratio of 1; None keeps graded ratings. Of a pair listed twice the last row counts.
    Notes say how the files compare with the original.
    """
    if isinstance(name, str) and name == "open_bandit":
        raise ParameterError("open_bandit has impressions and no ratings: unskew.datasets.open_bandit reads its rows.")
    known = {entry.name: entry for entry in registered("dataset")}
    if not isinstance(name, str) or name not in known:
        choices = f": choose from {', '.join(map(repr, known))}."
        raise ParameterError(f"there is no dataset called {name!r}{nearest(name, known, ': ', choices)}")
    source, path = known[name].defaults, _folder(folder)
    if source.read is None:
        raise ParameterError(f"the dataset {name!r} has no function that reads it: give its Source one as read=.")
    if not path.is_dir():
        problem = "is not a folder" if path.exists() else "does not exist"
        raise DataError(f"{path} {problem}: get {source.title} ({source.where}) and name the folder of its files.")
    path = path / name if (path / name).is_dir() else path
    usual = isinstance(positive, str) and positive == "usual"
    data: Dataset = source.read(path, source.positive if usual else positive)
    return replace(data, notes=(*data.notes, *_compared(source, data.train, data.random)))


def _folder(given: Any) -> Path:
    if not is_path(given):
        raise ParameterError(f"folder must be the path of the files, not {given!r:.80}.")
    return Path(given).expanduser()


def _compared(source: Source, train: RatingLog, test: RatingLog | None) -> list[str]:
    """Say how the counts compare with the original, and what is listed twice."""
    found = Counts(train.n_users, train.n_items, len(train), 0 if test is None else len(test))
    originals = " or ".join(map(str, source.counts))
    notes = [f"{found}, as in the original" if found in source.counts else f"{found}; the original has {originals}"]
    for part, log in (("train", train), ("test", test)):
        if log is not None and log.duplicates_merged:
            notes.append(f"{log.duplicates_merged:,} {part} rows repeat a pair; the last counts")
    if test is not None:
        keys = [pair_keys(log.users, log.items, log.n_items) for log in (train, test)]
        notes.append(f"{len(np.intersect1d(keys[0], keys[1])):,} pairs occur in both train and test; kept")
    return notes


def _log(file: Path, *columns: Any, **settings: Any) -> RatingLog:
    try:
        return RatingLog.from_arrays(*columns, duplicates="last", **settings)
    except DataError as problem:
        raise DataError(f"{file} makes no rating log: {problem}") from None


def _both(files: list[Path], first: int, shift: int = 0, **settings: Any) -> list[RatingLog]:
    """Read users, items and ratings without header; the catalogue has every id from the first to the highest found."""
    kinds, parts = {"1": pa.int64(), "2": pa.int64(), "3": pa.float64()}, []
    for file in files:
        users, items, ratings = (column.to_numpy() for column in File(str(file)).read(kinds).columns)
        low, high = (float(pick([pick(users), pick(items)])) for pick in (np.min, np.max))
        if not (low + shift >= first and high <= LARGEST_ID):
            raise DataError(f"{file} has ids from {low:g} to {high:g}, not from {first - shift} to {LARGEST_ID:,}.")
        parts.append((users + shift, items + shift, ratings))
    for place, side in enumerate(("user_ids", "item_ids")):
        settings[side] = Vocabulary(np.arange(first, max(int(part[place].max()) for part in parts) + 1))
    return [_log(file, *part, **settings) for file, part in zip(files, parts, strict=True)]


def _grid(file: Path) -> NDArray[np.float64]:
    """Read a table of numbers, separated by spaces or commas."""
    opened = File(str(file))
    table = opened.read(dict.fromkeys(opened.names, pa.float64()))
    return np.column_stack([column.to_numpy() for column in table.columns])
