"""Coat: 290 people rated 24 coats they chose and 16 coats drawn at random, out of 300."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.data.ids import Vocabulary
from unskew.datasets.source import (
    Column,
    Dataset,
    Figure,
    Folder,
    Source,
    Triples,
    checksum_note,
    confirm,
    overlap,
    rating_logs,
    read_grid,
    star_rates,
)
from unskew.errors import DataError

FEATURES = "user_item_features"
COAT = Source(
    name="coat",
    title="Coat Shopping",
    where="coat.zip on the page of Recommendations as Treatments, https://www.cs.cornell.edu/~schnabts/mnar/",
    terms="Published by its authors for research, with the request to cite the paper; see their page.",
    files=(
        "train.ascii",
        "test.ascii",
        "propensities.ascii",
        f"{FEATURES}/user_features.ascii",
        f"{FEATURES}/user_features_map.txt",
        f"{FEATURES}/item_features.ascii",
        f"{FEATURES}/item_features_map.txt",
    ),
    citation=(
        "T. Schnabel, A. Swaminathan, A. Singh, N. Chandak and T. Joachims. Recommendations as Treatments: "
        "Debiasing Learning and Evaluation. ICML 2016."
    ),
    positive=3,
)
SHA256 = {
    "train.ascii": "f9088c6e95fa9a42e8be6a92fc77252b95b969e34ed1299c611420da68680873",
    "test.ascii": "51fa28550f5bedebc6959d0e7b5e242b173c3c8d16317c7e49b89441304504ce",
    "propensities.ascii": "a72e3142a413623c4a6b9d20c4f70fcc017e0db67cc3eb242116f69fb8fb9661",
}
RATING = Column("rating", 0, 5)  # 0 is a missing rating
PROPENSITY = Column("propensity", 1e-9, 1, whole=False)  # positive, as it is divided by
FEATURE = Column("feature", 0, 1)


@dataclass(frozen=True, eq=False)
class PropensityTable:
    """Published propensities, looked up by user and item codes."""

    table: NDArray[np.float64]

    def __call__(self, users: NDArray[np.integer], items: NDArray[np.integer]) -> NDArray[np.float64]:
        found: NDArray[np.float64] = self.table[users, items]
        return found

    def __repr__(self) -> str:
        return "PropensityTable({} users x {} items, mean {:.4f})".format(*self.table.shape, self.table.mean())


def coat(folder: Folder, *, positive: float | None = COAT.positive, expect_original: bool = True) -> Dataset:
    """Coat from its folder; ids are line and column numbers of the files, counted from 0.

    `positive` is the lowest rating that counts as liked; None keeps the ratings graded from 1 to 5.
    With `expect_original=False` other sizes load too, and the propensities and features may be missing.
    """
    path = COAT.folder(folder)
    files = [COAT.file(path, name) for name in COAT.files[:2]]
    missing = [name for name in COAT.files if not (path / name).is_file()]
    if missing and expect_original:
        raise DataError(
            f"{path} has no file {missing[0]}, which comes with {COAT.title}: get it ({COAT.where}), "
            "or pass expect_original=False to load the rest."
        )
    grids = [read_grid(file, RATING) for file in files]
    size = grids[0].shape
    _check_size(files[1], grids[1].shape, size, "train.ascii has")
    train, test = map(_triples, files, grids)
    table = None if "propensities.ascii" in missing else _propensities(path, size)
    features = [_features(path, side, n, missing) for side, n in zip(("user", "item"), size, strict=True)]
    notes = confirm(COAT, path, _figures(size, train, test, features), expect_original)
    notes += [f"{name} is missing; left out" for name in missing]
    notes += [f"{overlap(train, test):,} pairs occur in both train and test; kept"]
    notes += [checksum_note(path / name, sha256) for name, sha256 in SHA256.items() if name not in missing]
    train_log, test_log = rating_logs(
        files,
        (train, test),
        positive=positive,
        rating_scale=(1, 5),
        user_ids=Vocabulary(np.arange(size[0])),
        item_ids=Vocabulary(np.arange(size[1])),
        user_features=features[0],
        item_features=features[1],
    )
    return Dataset(COAT.name, train_log, test_log, table, tuple(notes))


def _triples(file: Path, grid: NDArray[np.float64]) -> Triples:
    users, items = np.nonzero(grid)
    if not len(users):
        raise DataError(f"{file} holds no rating but only zeros: get the file again.")
    return Triples(users, items, grid[users, items])


def _check_size(file: Path, found: tuple[int, ...], expected: tuple[int, ...], why: str) -> None:
    if found != expected:
        raise DataError(
            f"{file} has {found[0]} rows and {found[1]} columns where {why} {expected[0]} and {expected[1]}: "
            "get these files again."
        )


def _propensities(folder: Path, size: tuple[int, ...]) -> PropensityTable:
    file = folder / "propensities.ascii"
    table = read_grid(file, PROPENSITY)
    _check_size(file, table.shape, size, "train.ascii has")
    table.flags.writeable = False
    return PropensityTable(table)


def _features(folder: Path, side: str, n_ids: int, missing: Sequence[str]) -> pa.Table | None:
    """The features of users or items as a frame keyed by their ids."""
    values_name, names_name = f"{FEATURES}/{side}_features.ascii", f"{FEATURES}/{side}_features_map.txt"
    if {values_name, names_name} & set(missing):
        return None
    values = read_grid(folder / values_name, FEATURE)
    lines = (folder / names_name).read_text(encoding="utf-8", errors="backslashreplace").split("\n")
    names = [line.strip() for line in lines if line.strip()]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"{folder / names_name} gives two columns the name {twice!r}: get the file again.")
    why = f"train.ascii and {names_name} ask for"
    _check_size(folder / values_name, values.shape, (n_ids, len(names)), why)
    return pa.Table.from_arrays([pa.array(np.arange(n_ids)), *values.T], names=[f"{side}_id", *names])


def _figures(size: tuple[int, ...], train: Triples, test: Triples, features: Sequence[pa.Table | None]) -> list[Figure]:
    figures = [
        Figure("users", size[0], 290),
        Figure("items", size[1], 300),
        Figure("train ratings", len(train.ratings), 6_960),
        Figure("test ratings", len(test.ratings), 4_640),
        Figure("fewest train ratings of a user", train.per_user.min(), 24),
        Figure("most train ratings of a user", train.per_user.max(), 24),
        Figure("fewest test ratings of a user", test.per_user.min(), 16),
        Figure("most test ratings of a user", test.per_user.max(), 16),
        Figure("pairs in both train and test", overlap(train, test), 366),
        *star_rates(train, test, (0.520, 0.401), (0.274, 0.185)),
    ]
    for side, frame, original in zip(("user", "item"), features, (14, 33), strict=True):
        if frame is not None:
            figures.append(Figure(f"{side} features", frame.num_columns - 1, original))
    return figures
