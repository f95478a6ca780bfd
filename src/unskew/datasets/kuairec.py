"""KuaiRec as prepared for debiasing studies: watch ratios of logged and of random pairs."""

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
)
from unskew.errors import ParameterError

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
)
WATCH_RATIO = Column("watch ratio", 0, whole=False)


def kuairec(folder: Folder, *, positive: float | None = KUAIREC.positive, expect_original: bool = True) -> Dataset:
    """KuaiRec from its two files; ids count from 0, and the catalogue runs to the highest id of either file.

    A pair is liked if its watch ratio (time watched by length of the video) is at least `positive`; as the
    ratio has no upper bound, there is no graded form.  Figures of random.txt (test) are checked; those of
    user.txt (train) are known from reports alone, so what differs there is a note.  Of a pair listed twice
    the last row counts, and a note says how many there were.
    """
    if positive is None:
        raise ParameterError(
            "positive=None keeps graded ratings, but watch ratios have no upper bound: give a threshold such as 1."
        )
    path = KUAIREC.folder(folder)
    files = [KUAIREC.file(path, name) for name in KUAIREC.files]
    train, test = (read_triples(file, ",", WATCH_RATIO, first_id=0) for file in files)
    notes = confirm(KUAIREC, path, _test_figures(test), expect_original)
    notes += [f"unverified figure, {figure}" for figure in _train_figures(train, test) if figure.differs]
    notes += [f"{overlap(train, test):,} pairs occur in both train and test; kept"]
    train_log, test_log = rating_logs(
        files,
        (train, test),
        positive=positive,
        user_ids=catalogue(0, train.users, test.users),
        item_ids=catalogue(0, train.items, test.items),
    )
    return Dataset(KUAIREC.name, train_log, test_log, notes=tuple(notes))


def _test_figures(test: Triples) -> list[Figure]:
    return [
        Figure("test ratings", len(test.ratings), 117_113),
        Figure("users in test", len(test.per_user), 1_411),
        Figure("fewest test ratings of a user", test.per_user.min(), 83),
        Figure("most test ratings of a user", test.per_user.max(), 83),
        Figure("items in test", len(set(test.items.tolist())), 2_519),
        Figure("highest user id in test", test.users.max(), 7_162),
        Figure("highest item id in test", test.items.max(), 10_552),
        Figure("test rows that repeat a pair (the last counts)", test.repeats, 0),
        Figure("share of test ratios of at least 1", test.rate(1), 0.334, digits=3),
        Figure("share of test ratios of at least 2", test.rate(2), 0.0495, digits=4),
    ]


def _train_figures(train: Triples, test: Triples) -> list[Figure]:
    return [
        Figure("train ratings", len(train.ratings), 201_171),
        Figure("users", max(train.users.max(), test.users.max()) + 1, 7_163),
        Figure("items", max(train.items.max(), test.items.max()) + 1, 10_596),
        Figure("train rows that repeat a pair (the last counts)", train.repeats, 0),
    ]
