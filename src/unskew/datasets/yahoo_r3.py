"""Yahoo!R3: 15,400 people rated songs they chose, 5,400 of them also ten drawn at random, out of 1,000."""

from __future__ import annotations

from unskew.datasets.source import (
    Column,
    Dataset,
    Figure,
    Folder,
    Source,
    Triples,
    catalogue,
    confirm,
    overlap,
    rating_logs,
    read_triples,
    star_rates,
)

PUBLISHED = ("ydata-ymusic-rating-study-v1_0-train.txt", "ydata-ymusic-rating-study-v1_0-test.txt")
CSV_VARIANT = ("user.txt", "random.txt")
YAHOO_R3 = Source(
    name="yahoo_r3",
    title="Yahoo!R3",
    where=(
        "on request from the Yahoo Webscope program, as R3, Yahoo! Music ratings for User Selected and "
        "Randomly Selected songs, version 1.0"
    ),
    terms="Non-commercial research under Yahoo's data sharing agreement; it may not be passed on.",
    files=PUBLISHED,
    citation=(
        "B. M. Marlin and R. S. Zemel. Collaborative Prediction and Ranking with Non-Random Missing Data. RecSys 2009."
    ),
    positive=3,
)
RATING = Column("rating", 1, 5)


def yahoo_r3(folder: Folder, *, positive: float | None = YAHOO_R3.positive, expect_original: bool = True) -> Dataset:
    """Yahoo!R3 from the published files, or from user.txt and random.txt, comma separated with ids from 0.

    Ids are the published ones, counted from 1, either way.  `positive` is the lowest rating that counts as
    liked; None keeps the ratings graded from 1 to 5.  With `expect_original=False` other sizes load too, and
    of a pair listed twice in one file the last row counts.
    """
    path = YAHOO_R3.folder(folder)
    is_variant = not (path / PUBLISHED[0]).is_file() and (path / CSV_VARIANT[0]).is_file()
    files = [YAHOO_R3.file(path, name) for name in (CSV_VARIANT if is_variant else PUBLISHED)]
    delimiter, first_id = (",", 0) if is_variant else ("\t", 1)
    train, test = (
        _counted_from_1(read_triples(file, delimiter, RATING, first_id=first_id), first_id) for file in files
    )
    notes = [f"read {files[0].name} and {files[1].name}"]
    if is_variant:
        notes += ["1 was added to every id, as the published ids count from 1"]
    notes += confirm(YAHOO_R3, path, _figures(train, test), expect_original)
    train_log, test_log = rating_logs(
        files,
        (train, test),
        positive=positive,
        rating_scale=(1, 5),
        user_ids=catalogue(1, train.users, test.users),
        item_ids=catalogue(1, train.items, test.items),
    )
    return Dataset(YAHOO_R3.name, train_log, test_log, notes=tuple(notes))


def _counted_from_1(rows: Triples, first_id: int) -> Triples:
    return rows._replace(users=rows.users + 1 - first_id, items=rows.items + 1 - first_id)


def _figures(train: Triples, test: Triples) -> list[Figure]:
    return [
        Figure("highest user id", max(train.users.max(), test.users.max()), 15_400),
        Figure("highest item id", max(train.items.max(), test.items.max()), 1_000),
        Figure("train ratings", len(train.ratings), 311_704),
        Figure("users in train", len(train.per_user), 15_400),
        Figure("fewest train ratings of a user", train.per_user.min(), 10),
        Figure("most train ratings of a user", train.per_user.max(), 648),
        Figure("test ratings", len(test.ratings), 54_000),
        Figure("users in test", len(test.per_user), 5_400),
        Figure("highest user id in test", test.users.max(), 5_400),
        Figure("fewest test ratings of a user", test.per_user.min(), 10),
        Figure("most test ratings of a user", test.per_user.max(), 10),
        Figure("train rows that repeat a pair (the last counts)", train.repeats, 0),
        Figure("test rows that repeat a pair (the last counts)", test.repeats, 0),
        Figure("pairs in both train and test", overlap(train, test), 0),
        *star_rates(train, test, (0.559, 0.232), (0.401, 0.088)),
    ]
