"""The loop of a recommender in a world of known taste: serve, rate, log, update, over and over.

A model that is trained on what it has shown itself sees ever more of what it believes in. `simulate_loop` plays rounds
of it and compares with the truth: what was lost by showing something else than the best (regret), how much of the
catalogue was ever shown, what lists promise and what comes of them, and what share of all pairs is believed to be liked
(the level), by the model alone and corrected with the logged chances: over the n candidates of a user, with the item at
place p shown with chance pi,

    sum over candidates of the prediction m + (1/k) sum over places of (r - m) / pi,

which is right in the mean whatever the model is, if every candidate may be shown at every place (explore > 0).
"""

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.data.log import RatingLog
from unskew.data.pairs import SeenPairs
from unskew.datasets.world import World
from unskew.errors import ParameterError, checked_seed, chosen, of_class, whole, within
from unskew.registry import as_method

POLICIES = {"greedy": "liking", "epsilon": "liking", "thompson": "thompson"}


class Round(NamedTuple):
    """What a round has come to; `level_by_chances` is a mean over all rounds so far, NaN without exploring.

    `promised` is the share of what was shown that the model had answered would be liked, `liked` the share that was.
    """

    round: int
    regret: float
    coverage: float
    promised: float
    liked: float
    liked_in_log: float
    level: float
    level_by_chances: float
    true_level: float


def simulate_loop(
    world: World, *, method: Any = "dce-bayes", policy: str = "thompson", explore: float = 0.0, rounds: int = 10,
    k: int = 5, start: int = 5, seed: int = 0,
) -> list[Round]:  # fmt: skip
    """Play rounds in which every user is shown k unseen items and rates them all, and the model learns from it.

    `start` items a user, drawn at random, are rated before the first. `policy` is "greedy", "epsilon" (greedy, and a
    share `explore` of lists in random order) or "thompson" (draws from the posterior, and such a share). A sampled
    model is updated, any other fitted again.
    """
    world = of_class(world, "world", World)
    by = POLICIES[chosen(policy, "policy", POLICIES)]
    within(0, 1, "included", explore=explore)
    seed, rounds, k = checked_seed(seed), whole(rounds, "rounds", 1), whole(k, "k", 1)
    if whole(start, "start", 1) + rounds * k > world.n_items or (policy == "epsilon") != (
        explore > 0 and by == "liking"
    ):
        raise ParameterError(
            f"{world.n_items} items are too few for {start} and {rounds} times {k}, or explore={explore:g} does not go "
            f"with policy={policy!r}: epsilon explores, greedy does not."
        )
    rng, method = np.random.default_rng([seed, 5]), as_method(method)
    everybody, everything = np.arange(world.n_users), np.arange(world.n_items)
    items = np.concatenate([rng.permutation(world.n_items)[:start] for _ in everybody])
    log = _log(world, np.repeat(everybody, start), items)
    model, true = method.fit(log, seed=seed), _levels(world, world.preference)
    answers = _levels(world, model.predict_codes)
    found, by_chances, shown = list[Round](), list[float](), set[int]()
    for number in range(1, rounds + 1):
        table = model.recommend(k=k, by=by, explore=explore, seed=int(rng.integers(2**31)), library="pyarrow")
        users, items, chance = (table[name].to_numpy() for name in (*table.column_names[:2], "pscore"))
        ratings = world.rating(users, items)
        unseen = ~SeenPairs(log)(np.repeat(everybody, world.n_items), np.tile(everything, world.n_users))
        taste = np.where(unseen.reshape(world.n_users, -1), true, -np.inf)
        best = np.sort(taste, axis=1)[:, -k:].mean()
        if explore > 0:
            total = total_by_chances(answers.ravel()[unseen], ratings, answers[users, items], chance, k)
            by_chances.append((total + float(log.ratings.sum())) / world.n_pairs)
        promised, liked = answers[users, items].mean(), ratings.mean()
        shown |= set(items.tolist())
        new = pa.table({log.names.user: users, log.names.item: items, log.names.rating: ratings})
        log = _log(world, np.concatenate([log.users, users]), np.concatenate([log.items, items]))
        sampled = "thompson" in model.part("prediction").orders
        model = model.update(new) if sampled else method.fit(log, seed=seed)
        answers = _levels(world, model.predict_codes)
        found.append(Round(
            number, float(best - world.preference(users, items).mean()), len(shown) / world.n_items, float(promised),
            float(liked), float(log.ratings.mean()), float(answers.mean()),
            float(np.mean(by_chances)) if by_chances else float("nan"), float(true.mean()),
        ))  # fmt: skip
    return found


def total_by_chances(
    candidates: NDArray[Any], ratings: NDArray[Any], predictions: NDArray[Any], chances: NDArray[Any], k: int
) -> float:
    """Estimate the sum of ratings over candidates by their predictions and by what k places of each list have shown."""
    return float(candidates.sum() + ((ratings - predictions) / chances).sum() / k)


def _log(world: World, users: NDArray[Any], items: NDArray[Any]) -> RatingLog:
    """Return what was rated so far; ids are codes."""
    ids = {"user_ids": range(world.n_users), "item_ids": range(world.n_items)}
    return RatingLog.from_arrays(users, items, world.rating(users, items), positive=1, rating_scale=(0, 1), **ids)  # type: ignore[arg-type]


def _levels(world: World, answers: Any) -> NDArray[np.float64]:
    """Answers for all pairs, a row a user; such worlds are small."""
    rows = [answers(np.full(world.n_items, user), np.arange(world.n_items)) for user in range(world.n_users)]
    return np.array(rows)
