"""What this page cannot know, in plain words."""

from __future__ import annotations

from unskew.estimation.evidence import LIST_CELLS
from unskew.report.changes import Changes
from unskew.report.data import FEW, DataFacts
from unskew.report.material import MAX_PAIRS, Material
from unskew.report.versus import Versus


def limits_of(material: Material, data: DataFacts, versus: Versus, changes: Changes) -> list[str]:
    return [
        *_of_the_log(material, data),
        *_of_the_judgement(material, versus),
        *_of_the_samples(material, changes),
    ]


def _of_the_log(material: Material, data: DataFacts) -> list[str]:
    said = []
    if material.diagnosis.rates.random is None:
        said.append(
            "Nobody asked people about things they did not choose to rate. If they rate something because they like "
            "it, whatever the reason, no log alone can show that fully. Some 600 ratings of pairs drawn at random "
            "would: pass them to this report by --random-ratings."
        )
    else:
        said.append(
            "The random ratings are taken at their word: that their pairs were really drawn at random, and that they "
            "had no part in training."
        )
    if material.diagnosis.selection.blind:
        said.append(
            "The test for “people rate what they like” is nearly blind here: little can be predicted of who likes "
            "what, so finding nothing means little."
        )
    few = [f"{side.n_few:,} {side.name}" for side in (data.users, data.items) if side.n_few]
    if few:
        said.append(f"{' and '.join(few)} have fewer than {FEW} ratings. What is said of them is mostly an average.")
    return said


def _of_the_judgement(material: Material, versus: Versus) -> list[str]:
    said = [
        f"The {versus.n_ratings:,} ratings that judge the two models also decided when to stop training them, which "
        "flatters both a little, and both alike.",
        "Intervals are about chance: which pairs happened to be rated. They take the estimated chances of being rated "
        "as given, and know nothing of how wrong these may be.",
    ]
    if (learned := material.model.random_ratings) is not None:
        said.append(
            f"This model also learned from {learned.n_ratings:,} random ratings; its naive counterpart did not."
        )
    said.append(
        "Naive and debiased model share their net, settings and seed, which are this model's. A naive model with "
        "settings of its own choice may do better; a benchmark (unskew benchmark --tune) tunes both."
    )
    return said


def _of_the_samples(material: Material, changes: Changes) -> list[str]:
    said, n_pairs = [], material.log.n_pairs
    if n_pairs > MAX_PAIRS:
        said.append(
            f"Means over all pairs come from {MAX_PAIRS:,} random ones of {n_pairs:,}; lists are looked at as far as "
            f"{LIST_CELLS * MAX_PAIRS:,} scores go. The sampling is part of the intervals."
        )
    for side in (changes.items, changes.users):
        if side.n_looked_at < side.n_all:
            said.append(
                f"{side.name.capitalize()} that change most are looked for among {side.n_looked_at:,} random ones of "
                f"{side.n_all:,}."
            )
    if changes.lists.n_users < changes.lists.n_all:
        said.append(f"Lists are those of {changes.lists.n_users:,} random users of {changes.lists.n_all:,}.")
    return said
