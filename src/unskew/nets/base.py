"""What fills a role: a part answers for pairs, a net is a part that learns from slopes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from unskew.errors import ParameterError
from unskew.losses.columns import Array, logit
from unskew.nets.kernels import CORRECTIONS, adam, scatter
from unskew.nets.near import Products, Ranked, by_logits
from unskew.settings import check_settings

State = Mapping[str, Array]
PAIRS_AT_ONCE = 1 << 10  # whose rows fit into the cache of a processor


class Part:
    """What fills a role. The code -1 stands for somebody or something unknown, answered as the average one.

    `notes` are sentences on what the fit found, `answers_unseen` is False for what knows seen pairs only, and
    `knows_ratings` True for what can tell how much the rating itself drives seeing, by `rating_ratio`; `out_of_fold` is
    True for what answers for no pair that it has learned from.
    """

    orders: ClassVar[tuple[str, ...]] = ("liking",)  # that lists can be ranked by, the usual one first
    user_rows: ClassVar[tuple[str, ...]] = ()  # its arrays with a row for each user, the last for unknown ones
    item_rows: ClassVar[tuple[str, ...]] = ()  # and for each item
    other_arrays: ClassVar[tuple[str, ...]] = ()
    notes: Sequence[str] = ()
    history: Any = None
    answers_unseen: bool = True
    knows_ratings: bool = False
    out_of_fold: bool = False
    is_data: bool = True  # False for what holds a function, which no file keeps

    def logits(self, users: Array, items: Array) -> Array:
        """Return logits of the pairs (users[n], items[n]), float32."""
        raise TypeError(f"{type(self).__name__} answers for no pairs.")

    def answers(self, users: Array, items: Array) -> Array:
        """Answer with the same logits, by NumPy alone where it can be, as Numba is slow to import."""
        return self.logits(users, items)

    def user_vectors(self, users: Array) -> Array:
        """Return one row a user that tells users apart; here one constant: all users look alike."""
        return np.zeros((len(users), 1), np.float32)

    def calibrated(self, logits: Array, users: Array) -> Array:
        """Return probabilities for logits of another role."""
        raise TypeError(f"{type(self).__name__} is no calibrator.")

    def order_scores(self, by: str, users: Array, items: Array, rng: np.random.Generator) -> Array:
        """Score what a list ranks; `by` is one of its `orders`, and what is random about it comes from `rng`."""
        return self.logits(users, items)

    def level_chances(self, *pairs: Any, **options: Any) -> Any:
        """Return the levels of ratings, and the chance of each for every pair."""
        raise ParameterError(
            f"{type(self).__name__} is not sampled in sweeps: it cannot tell how far it may be off and knows no levels "
            "of ratings; use the method 'dce-bayes'."
        )

    std = liked = expected = continued = order_moments = level_chances  # what a posterior knows besides

    def ranked(self, by: str) -> Ranked | None:
        """Return what lists are ranked by for users and all items at once; None if only pairs tell it."""
        if by != "liking" or (form := self.linear()) is None:
            return None
        products = Products(np.column_stack([form.items, form.offsets])[:-1])
        return lambda users: by_logits(products(np.column_stack([form.users[users], np.ones(len(users))])))

    def linear(self) -> Linear | None:
        """Return the part as inner products of users and items, the unknown ones last; None if it has no such form."""
        return None

    def folded(self, starts: Array, items: Array, stars: Array) -> Part | None:
        """Return the part with a new user for each chunk of ratings; None if it has no way of its own."""
        return None

    def rating_ratio(self, users: Array, items: Array, ratings: Array) -> Array:
        """P(seen given the rating) / P(seen)."""
        raise TypeError(f"{type(self).__name__} knows nothing of ratings.")

    def state(self) -> dict[str, Array]:
        """Return all that the part knows, as arrays: for stopping at the best epoch and for model folders."""
        return {name: getattr(self, name) for name in (*self.user_rows, *self.item_rows, *self.other_arrays)}

    def sizes(self) -> tuple[int | None, int | None]:
        """Return how many users and items it knows, None for any number."""
        users, items = (len(getattr(self, of[0])) - 1 if of else None for of in (self.user_rows, self.item_rows))
        return users, items

    def extended(self, counts: Array, owner: Part | None = None) -> Part:
        """Return the same part with new users after the known ones, given how many ratings each has.

        Here they are as unknown ones are. `owner` is the extended part whose vectors it shares.
        """
        longer = {name: extended_rows(getattr(self, name), len(counts)) for name in self.user_rows}
        return type(self)(**self.state() | longer) if longer else self


class PartSpec:
    """Settings of a part; equal settings are equal specifications."""

    kind: ClassVar[str] = "part"
    fitted: ClassVar[type[Part]] = Part  # made of the arrays that it names
    reads_features: ClassVar[bool] = False  # of users or items
    learns_from_all: ClassVar[bool] = False  # ratings of the log, the hold-out included
    needs_all_pairs: ClassVar[bool] = False  # as the population: no rows that were listed as seen or not

    def __post_init__(self) -> None:
        check_settings(self)

    def from_state(self, state: State, owner: Part | None = None) -> Part:
        """Return the part with this state; `owner` is the part whose vectors it shares, if any."""
        return self.fitted(**state)


class Linear(NamedTuple):
    """logit = users[u] . items[i] + offsets[i]: the form of a part that is linear in what it knows of a user."""

    users: Array
    items: Array
    offsets: Array


class NetContext(NamedTuple):
    """What a net may know before it learns; `interactions` are users and items of the rows it will be trained on."""

    n_users: int
    n_items: int
    base_rate: float
    interactions: tuple[Array, Array]

    @property
    def base_logit(self) -> float:
        return float(logit(self.base_rate, nearest=1e-6))


class Net(Part, ABC):
    """A part that learns from d loss / d logit of pairs: three verbs, `logits`, `learn`, `step`."""

    @abstractmethod
    def learn(self, users: Array, items: Array, slopes: Array) -> None:
        """Add to the gradients what these pairs teach."""

    @abstractmethod
    def step(self, rate: float, l2: float) -> None:
        """Move by the gradients since the last step, and forget them."""

    @abstractmethod
    def restore(self, state: State) -> None:
        """Take a state of this net."""

    def take_over(self, other: Net) -> None:
        """Know what a net of the same architecture has learned."""
        self.restore(other.state())

    def rest(self) -> int:
        """Come to rest after a stage; tells how many users or items have learned nothing.

        Whoever has learned nothing holds a random start and answers as the average one from here on.
        """
        return 0

    def know_users(self, rows: Array) -> None:
        """Take these as the last users' rows of the `linear` form, if there is one."""
        raise ParameterError(f"New users cannot be added to a {type(self).__name__}: fit again with their ratings.")

    def is_finite(self) -> bool:
        return all(bool(np.isfinite(value).all()) for value in self.state().values())


class NetSpec(PartSpec, ABC):
    """The architecture of a net, before it knows the data."""

    kind: ClassVar[str] = "net"

    @abstractmethod
    def build(self, context: NetContext, rng: np.random.Generator, owner: Part | None = None) -> Net:
        """Return a net with seeded starting values; `owner` is the net whose vectors it shares, if any."""


class Table:
    """Rows that learn one by one: a step moves only what was touched, by Adam with a step count of its own for each.

    value[row][column], moments[first, second][row][column]; gradients[place][column] of rows read since the last step;
    marks[steps, readings, place, touched][row], whose last column counts. The last row is nobody's: at rest it holds
    the average of all that have learned, and the code -1 reads it. `decay` is the share of the L2 that each column
    takes.
    """

    def __init__(self, value: Array, decay: Any) -> None:
        self.decay = np.asarray(decay, np.float32)
        if value.shape[1:] != self.decay.shape or not len(value):
            raise ParameterError(f"A table of {len(self.decay)} columns cannot hold values of shape {value.shape}.")
        self.value, self.moments = np.array(value, np.float32, order="C"), np.zeros((2, *value.shape), np.float32)
        self.gradients, self.marks = np.zeros(value.shape, np.float32), np.zeros((4, len(value) + 1), np.int32)
        self.inherited = np.zeros(len(value), np.bool_)

    @property
    def learned(self) -> Array:
        """Whether each row has learned, in this net or in one whose state it took over."""
        return (self.marks[0, :-1] > 0) | self.inherited

    def learn(self, codes: Array, gradient: Array) -> None:
        """Add a gradient to the row of each code."""
        scatter(codes, np.ascontiguousarray(gradient, np.float32), self.gradients, self.marks)

    def step(self, rate: float, l2: float) -> None:
        adam(self.value, self.moments, self.gradients, self.marks, self.decay, rate, l2, CORRECTIONS)

    def move(self, gradient: Array, rate: float) -> None:
        """Take one step of all rows."""
        self.gradients[:], self.marks[1], self.marks[2:] = gradient, 1, np.arange(len(gradient) + 1)
        self.step(rate, 0.0)

    def rest(self) -> int:
        """Let rows that have learned nothing answer as the average of those that have; tells how many there are."""
        if self.learned.any():
            self.value[~self.learned] = self.value[self.learned].mean(0, dtype=np.float64)
        return int((~self.learned[:-1]).sum())


def pair_products(users: Array, items: Array, of_users: Array, of_items: Array) -> Array:
    """v_u . w_i of pairs by NumPy alone. The bits of a pair do not depend on what else is asked, or on threads."""
    found = np.empty(len(users), np.float32)
    for start in range(0, len(users), PAIRS_AT_ONCE):
        chunk = slice(start, start + PAIRS_AT_ONCE)
        u, right = users[chunk], of_items[items[chunk]]
        if (u == u[0]).all():  # as in a list of items for one user
            found[chunk] = np.einsum("nc,c->n", right, of_users[u[0]])
        else:
            found[chunk] = np.einsum("nc,nc->n", of_users[u], right)
    return found


def rows_for(n: int, n_columns: int, std: float, rng: np.random.Generator) -> Array:
    """Normal starting values of n rows, and a last row of zeros for whoever is unknown."""
    start = np.zeros((n + 1, n_columns), np.float32)
    rng.standard_normal(out=start[:-1], dtype=np.float32)
    start *= np.float32(std)
    return start


def extended_rows(value: Array, n_new: int) -> Array:
    """Return rows with new ones like the average one, which is the last before and after."""
    return np.concatenate([value, np.repeat(value[-1:], n_new, axis=0)])
