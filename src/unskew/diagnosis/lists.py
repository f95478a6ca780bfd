"""What people will notice: how lists change, how much of the catalogue is shown, and three people's lists."""

from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray

from unskew.data.log import RatingLog
from unskew.findings import Finding, Interval, Table
from unskew.metrics.ranking import TopLists
from unskew.model import Recommender
from unskew.topk import Candidates, top_items

K, EXAMPLES, OTHER_SEED = 10, 3, 7919
PLAIN, OWN = "plain training", "this model"
MOST_CELLS, MOST_USERS = 20_000_000, 1_000  # beyond the first, lists of only this number are made
ALIKE = 0.8  # share of users with one first item, from which lists are no recommendations


def lists(model: Recommender, plain: Recommender, other: Recommender, *, show_ids: bool = False) -> Finding:
    """Compare the model's lists with those of plain training; `other` is the latter by another seed: chance."""
    log, users = model.log, some_users(model)
    shown = [shown_by(each, users) for each in (plain, model, other)]
    after, by_chance = _changed(shown[0], shown[1]), _changed(shown[0], shown[2])
    first = [each.same_first() for each in shown]
    different = [len(np.unique(each.items)) for each in shown]
    numbers = {
        "places in top tens that change": Interval(after, form=".0%"),
        "the same between two fits of plain training": Interval(by_chance, form=".0%"),
        "items shown to somebody": Interval(different[1], form=",.0f"),
        "items shown by plain training": Interval(different[0], form=",.0f"),
        "people with the same first item": Interval(first[1], form=".0%"),
        "the same by plain training": Interval(first[0], form=".0%"),
        "novelty": Interval(shown[1].novelty(K), form=".2f"),
        "novelty by plain training": Interval(shown[0].novelty(K), form=".2f"),
    }
    meaning = (
        f"{100 * after:.0f} of 100 places in top-ten lists go to other items (two fits of plain training differ in "
        f"{100 * by_chance:.0f}). {different[1]:,} of {log.n_items:,} items are shown to somebody, {different[0]:,} "
        f"before. The same first item for {100 * first[1]:.0f}% of people, {100 * first[0]:.0f}% before."
    )
    alike = first[1] >= ALIKE
    headline = "No: nearly everybody gets one first item" if alike else f"{100 * after:.0f} of 100 places change"
    rests = f"{len(users):,} of {log.n_users:,} people; what was {log.wording.seen} is left out."
    table = _examples(log, users, shown[0], shown[1], show_ids)
    return Finding("lists", "no" if alike else "yes", headline, meaning, numbers, rests_on=rests, table=table)


def some_users(model: Recommender) -> NDArray[np.int64]:
    """Everybody or, where the catalogue is large, some."""
    log = model.log
    if log.n_users * log.n_items <= MOST_CELLS:
        return np.arange(log.n_users)
    return np.sort(np.random.default_rng([model.seed, 71]).permutation(log.n_users)[:MOST_USERS])


def shown_by(model: Recommender, users: NDArray[np.int64]) -> TopLists:
    """Return the first ten items of these users in the model's usual order."""
    log = model.log
    found = top_items(model.ranking(model.order()), Candidates(log, users), K, ranked=model.ranked(model.order()))
    return TopLists(found.position, found.items, found.rank, np.bincount(log.items, minlength=log.n_items))


def _changed(one: TopLists, other: TopLists) -> float:
    """Return the share of places whose item is not in the other list."""
    return float(1 - np.isin(other.keys, one.keys).mean()) if len(other.keys) else 0.0


def name_of(log: RatingLog, item: int) -> str:
    """Return the title of an item, its id where there is none."""
    return str((log.titles[item].as_py() if log.titles is not None else None) or log.item_ids[item])


def _examples(log: RatingLog, users: NDArray[np.int64], before: TopLists, after: TopLists, show_ids: bool) -> Table:
    """Return lists of three people: one whose list changes little, one in the middle, one whose list changes most."""
    same = np.bincount(after.owner, np.isin(after.keys, before.keys), len(users))
    full = np.flatnonzero(np.bincount(after.owner, minlength=len(users)) > 0)
    order = full[np.argsort(same[full], kind="stable")]
    chosen = order[[0, len(order) // 2, -1]][::-1] if len(order) >= EXAMPLES else order
    rows: list[tuple[str, ...]] = []
    for letter, place in zip("ABC", chosen.tolist(), strict=False):
        who = f"person {log.user_ids[int(users[place])] if show_ids else letter}"
        both = [[name_of(log, int(i)) for i in each.items[each.owner == place][:5]] for each in (before, after)]
        rows += [(f"{who}, {n}", *names) for n, names in enumerate(zip_longest(*both, fillvalue=""), 1)]
    return Table("The first five items of three people", ("", "before (plain training)", "after (this model)"), rows)
