"""A simulated shop in which everything is known: what is shown, with what chance, clicked and bought.

A request of a user fills some positions, each on its own, with items drawn by a policy. What is shown is clicked if it
is looked at, which gets rarer with the position, and wanted; what is clicked may be bought:

    P(shown i | u)        = softmax over items of strength (taste of u's group . w_i) + popularity_i   (learned policy)
                          = 1 / |I|                                                                    (random policy)
    P(clicked | shown)    = 1 / (1 + position)^decay * sigma(f_ui),   f = c + a_u + b_i + v_u . w_i
    P(bought | clicked)   = sigma(g_ui),                              g = c' + link (f_ui - mean f) + v'_u . w'_i

`link` is how strongly wanting to look and wanting to have go together: 0 leaves clicks no bearing on conversions.
Policies draw by groups of users, so that the chance of every draw is exact and a log of any size is drawn in its own
memory.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.errors import ParameterError, checked_seed, whole, within
from unskew.special import expit, softmax

Array = NDArray[Any]
N_GROUPS, N_FACTORS, SAMPLE = 64, 4, 100_000
START, REQUESTS_A_DAY = 1.7e9, 20_000


@dataclass(frozen=True, eq=False)
class Funnel:
    """A simulated log of impressions (`rows`) and the truth behind it."""

    rows: pa.Table  # request, user_id, item_id, position, policy, is_random, pscore, clicked, converted, time
    examination: Array  # P(looked at), by position
    policy: Array  # P(item | group of users) of the learned policy
    group: Array  # of users
    want: tuple[Array, Array, Array, Array, float]  # a, b, v, w, c
    have: tuple[Array, Array, float, float]  # v', w', link, c'

    @property
    def n_users(self) -> int:
        return len(self.group)

    @property
    def n_items(self) -> int:
        return int(self.policy.shape[1])

    def chance_shown(self, users: Array, items: Array, policy: str = "learned") -> Array:
        """Return the chance that a policy puts an item into a position."""
        if policy == "random":
            return np.full(np.shape(items), 1 / self.n_items)
        return np.asarray(self.policy[self.group[users], items])

    def chance_clicked(self, users: Array, items: Array, position: Array | None = None) -> Array:
        """Return P(clicked | shown at a position), or if looked at for certain."""
        found = expit(self._wanted(users, items))
        return np.asarray(found if position is None else found * self.examination[position])

    def chance_converted(self, users: Array, items: Array) -> Array:
        """Return P(bought | clicked), also where nobody clicked."""
        v, w, link, level = self.have
        return np.asarray(expit(level + link * self._wanted(users, items) + (v[users] * w[items]).sum(-1)))

    def _wanted(self, users: Array, items: Array) -> Array:
        a, b, v, w, level = self.want
        return np.asarray(level + a[users] + b[items] + (v[users] * w[items]).sum(-1))


def simulate_funnel(
    n_users: int = 2_000,
    n_items: int = 300,
    n_requests: int = 30_000,
    *,
    n_positions: int = 5,
    click_rate: float = 0.1,
    conversion_rate: float = 0.1,
    link: float = 1.0,
    policy_strength: float = 1.0,
    decay: float = 0.7,
    random_share: float = 0.05,
    seed: int = 0,
) -> Funnel:
    """Draw a funnel; rates are those of what the learned policy shows, `random_share` of requests are filled at random.

    The same pair may be shown many times: rows are impressions, not pairs.
    """
    counts = {"n_users": n_users, "n_items": n_items, "n_requests": n_requests, "n_positions": n_positions}
    for name, count in counts.items():
        whole(count, name, 1)
    within(0, 1, click_rate=click_rate, conversion_rate=conversion_rate)
    within(0, 1, "included", random_share=random_share)
    within(0, 50, "included", policy_strength=policy_strength, decay=decay)
    within(-50, 50, "included", link=link)
    rng = np.random.default_rng(checked_seed(seed))
    a, b = rng.normal(0, 0.7, n_users), rng.normal(0, 0.7, n_items)
    v, w = (rng.normal(0, 1 / np.sqrt(N_FACTORS), (n, N_FACTORS)) * 1.2 for n in (n_users, n_items))
    v2, w2 = (rng.normal(0, 1 / np.sqrt(N_FACTORS), (n, N_FACTORS)) for n in (n_users, n_items))
    centres = rng.normal(0, 1 / np.sqrt(N_FACTORS), (N_GROUPS, N_FACTORS)) * 1.2
    group = np.concatenate([((part @ centres.T) - (centres**2).sum(1) / 2).argmax(1) for part in _parts(v)])
    policy = softmax(policy_strength * (centres @ w.T + b) + rng.normal(0, 0.5, n_items), axis=1)
    examination = (1.0 + np.arange(n_positions)) ** -decay

    users = np.repeat(rng.integers(n_users, size=n_requests), n_positions)
    random = np.repeat(rng.random(n_requests) < random_share, n_positions)
    position = np.tile(np.arange(n_positions), n_requests)
    items = np.where(random, rng.integers(n_items, size=len(users)), _drawn(policy, group[users], rng))

    some = rng.integers(len(users), size=min(SAMPLE, len(users)))
    f, looked = a[users[some]] + b[items[some]] + (v[users[some]] * w[items[some]]).sum(1), examination[position[some]]
    level = _solved(lambda c: (looked * expit(c + f)).mean(), click_rate, "click_rate")
    centre = level + f.mean()
    g = link * (f - f.mean()) + (v2[users[some]] * w2[items[some]]).sum(1)
    weight = looked * expit(level + f)
    own = _solved(lambda c: (weight * expit(c + g)).sum() / weight.sum(), conversion_rate, "conversion_rate")

    found = Funnel(pa.table({}), examination, policy, group, (a, b, v, w, level), (v2, w2, link, own - link * centre))
    clicked = rng.random(len(users)) < found.chance_clicked(users, items, position)
    converted = clicked & (rng.random(len(users)) < found.chance_converted(users, items))
    pscore = np.where(random, 1 / n_items, found.chance_shown(users, items))
    days = np.sort(rng.random(n_requests)) * n_requests / REQUESTS_A_DAY
    columns = {
        "request": np.repeat(np.arange(n_requests), n_positions),
        "user_id": users,
        "item_id": items,
        "position": position,
        "policy": pa.array(np.where(random, "random", "learned")).dictionary_encode(),
        "is_random": random,
        "pscore": pscore,
        "clicked": clicked.astype(np.int8),
        "converted": converted.astype(np.int8),
        "time": START + 86_400 * np.repeat(days, n_positions),
    }
    return replace(found, rows=pa.table(columns))


def _parts(rows: Array) -> list[Array]:
    """Divide rows, so that nothing as large as users times groups is held."""
    return [rows[start : start + SAMPLE] for start in range(0, len(rows), SAMPLE)]


def _drawn(policy: Array, groups: Array, rng: np.random.Generator) -> Array:
    """Draw an item for each row by the policy of its group: one search in all distributions, laid end to end."""
    ends = (policy.cumsum(axis=1) / policy.sum(axis=1, keepdims=True)).clip(max=1) + np.arange(len(policy))[:, None]
    places = np.searchsorted(ends.ravel(), groups + rng.random(len(groups)), side="right")
    return np.asarray(np.minimum(places - groups * policy.shape[1], policy.shape[1] - 1))


def _solved(rate: Any, target: float, name: str) -> float:
    """Return the level at which a rate is met."""
    from scipy.optimize import brentq  # slow to import

    try:
        return float(brentq(lambda c: rate(c) - target, -40, 40))
    except ValueError as error:
        raise ParameterError(f"{name} {target:g} cannot be had: looking decays too fast with the position.") from error
