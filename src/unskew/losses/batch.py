"""What a loss may see of a batch: a role that learns answers with slopes, a role at rest calibrated and without."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from copy import copy
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from unskew.data.feed import Batch, Block
from unskew.losses.columns import Column, Total, value_of
from unskew.losses.elementwise import ERRORS, Error, sigmoid

Array = NDArray[Any]


class Answering(Protocol):
    """What a view needs of whatever fills a role."""

    knows_ratings: bool

    def logits(self, users: Array, items: Array) -> Array: ...
    def calibrated(self, logits: Array, users: Array) -> Array: ...
    def rating_ratio(self, users: Array, items: Array, ratings: Array) -> Array: ...


class Parts:
    """What fills the roles, with their clips and calibrators.

    `learning` are the roles that carry slopes now, `still` those that nothing moves in this stage.
    """

    def __init__(
        self,
        parts: Mapping[str, Any],
        *,
        clips: Mapping[str, float] | None = None,
        calibrators: Mapping[str, str] | None = None,
        error: str = "log",
    ) -> None:
        self.parts, self.clips, self.calibrators = parts, clips or {}, calibrators or {}
        self.error = ERRORS[error]
        self.learning: Collection[str] = ()
        self.still: Collection[str] = ()

    def __contains__(self, role: object) -> bool:
        return role in self.parts

    def __getitem__(self, role: str) -> Any:
        return self.parts[role]

    @property
    def uncalibrated(self) -> Parts:
        """The same parts, all answering raw."""
        twin = copy(self)
        twin.calibrators = {}
        return twin

    def answer(self, role: str, users: Array, items: Array, logits: Array | None = None) -> Array:
        """Probabilities of a role at rest: calibrated if its calibrator is fitted."""
        if logits is None:
            logits = self.parts[role].logits(users, items)
        calibrator = self.parts.get(self.calibrators.get(role, ""))
        found: Array = sigmoid(logits) if calibrator is None else calibrator.calibrated(logits, users)
        return found

    def inverse(
        self, role: str, users: Array, items: Array, ratings: Array | None, logits: Array | None = None
    ) -> Array:
        """1 / max(p, clip) of a role at rest.

        A part that knows how much more often a pair is seen for its own rating tells P(seen given the rating) / P(seen)
        by its `rating_ratio`. The clip comes first: it bounds for how many pairs a rating may stand because of where it
        was found, not what the rating itself tells.
        """
        p = self.answer(role, users, items, logits)
        p = np.maximum(p, p.dtype.type(self.clips.get(role, 0.0)))
        part: Answering = self.parts[role]
        if ratings is not None and part.knows_ratings:
            p = np.minimum(p * part.rating_ratio(users, items, ratings), p.dtype.type(1))
        return np.asarray(1 / p)


class Rows:
    """Some pairs of a block and what every role answers for them; each stands for `cells` pairs."""

    def __init__(self, parts: Parts, block: Block, where: slice, cells: float | Array) -> None:
        self.parts, self.block, self.where, self.cells = parts, block, where, cells
        self.users, self.items = block.users[where], block.items[where]
        self._logits: dict[str, Array] = {}

    def __len__(self) -> int:
        return len(self.users)

    @property
    def ratings(self) -> Array:
        found = self.block.column("ratings", None)
        if found is None:
            raise LookupError("pairs drawn from the whole population have no ratings.")
        return found[self.where]

    @property
    def seen(self) -> Array:
        """1 for pairs of the log, 0 for all others."""
        found = self.block.column("seen", lambda block: np.ones(len(block), np.float32))
        assert found is not None
        return found[self.where]

    def logits(self, role: str) -> Array:
        """Logits of a role, uncalibrated and without slopes."""
        if role not in self._logits:
            self._logits[role] = self.parts.parts[role].logits(self.users, self.items)
        return self._logits[role]

    def forget(self, roles: Collection[str]) -> None:
        """Drop the logits of roles that have moved."""
        for role in roles:
            self._logits.pop(role, None)

    def logit(self, role: str = "prediction") -> Any:
        """The logit of a role, a Column while it learns."""
        s = self.logits(role)
        return Column(s, {role: np.ones_like(s)}) if role in self.parts.learning else s

    def probability(self, role: str = "prediction") -> Any:
        """The probability of a role: raw and with slopes while it learns, calibrated at rest."""
        if role in self.parts.learning:
            p = sigmoid(self.logits(role))
            return Column(p, {role: p * (1 - p)})
        if role in self.parts.still:
            return self._found_once(role, lambda b: self.parts.answer(role, b.users, b.items))
        return self.parts.answer(role, self.users, self.items, self.logits(role))

    def error(self, role: str = "prediction", label: Any = None, kind: Error | None = None) -> Column:
        """e: the error of a role against a label, the rating if none is given; the label may learn instead."""
        kind, s, label = kind or self.parts.error, self.logits(role), self.ratings if label is None else label
        y = value_of(label)
        value, slope = kind.of(s, y if isinstance(y, np.ndarray) else np.full(len(s), y, s.dtype))
        found = Column(value, {role: slope} if role in self.parts.learning else None)
        if isinstance(label, Column):
            effect = kind.label_effect(s)
            found.slopes |= {learner: effect * of_label for learner, of_label in label.slopes.items()}
        return found

    def log_error(self, role: str, label: Any) -> Column:
        """The cross-entropy of a role against a label, whatever the plan's error is."""
        return self.error(role, label, ERRORS["log"])

    def imputed_error(self, role: str = "prediction", imputation: str = "imputation") -> Column:
        """e_imputed: the error of a role against the imputed rating."""
        return self.error(role, self.probability(imputation))

    def label_effect(self, role: str = "prediction") -> Array:
        """e1 - e0: how much the error of a role depends on the label; without slopes."""
        return self.parts.error.label_effect(self.logits(role))

    def inverse_propensity(self, role: str = "propensity") -> Array:
        """1 / max(p, clip) of a role at rest, found once for the whole block where nothing moves it."""

        def inverse(rows: Block | Rows, ratings: Array | None, logits: Array | None = None) -> Array:
            return self.parts.inverse(role, rows.users, rows.items, ratings, logits)

        if role in self.parts.still:
            return self._found_once("1/" + role, lambda block: inverse(block, block.column("ratings", None)))
        ratings = self.block.column("ratings", None)
        return inverse(self, None if ratings is None else ratings[self.where], self.logits(role))

    def _found_once(self, name: str, make: Callable[[Block], Array]) -> Array:
        found = self.block.column(name, make)
        assert found is not None
        return found[self.where]

    def total(self, column: Any = 1.0) -> Any:
        """The sum over the pairs that these rows stand for: a Total if anything in it learns; of 1, their number."""
        if isinstance(column, Column):
            slopes = {(role, self): self.cells * slope for role, slope in column.slopes.items()}
            return Total(self._summed(column.value), slopes) if slopes else self._summed(column.value)
        return self._summed(column)

    def _summed(self, values: Any) -> float:
        if isinstance(values, np.ndarray) and not isinstance(self.cells, np.ndarray):
            return float(self.cells) * float(values.sum(dtype=np.float64))
        return float(np.broadcast_to(self.cells * values, len(self)).sum(dtype=np.float64))

    def mean(self, column: Any) -> Any:
        return self.total(column) / self.total()


class View:
    """A batch: `observed` stands for all seen pairs (O), `sampled` for all pairs (D), of which there are `n_pairs`."""

    def __init__(self, parts: Parts, batch: Batch, n_pairs: float) -> None:
        self.parts, self.n_pairs = parts, n_pairs
        self.observed, self.sampled = Rows(parts, *batch.observed), Rows(parts, *batch.sampled)

    def held(self, x: Any) -> Any:
        """The value of x, which a loss takes for a constant although what learns may move it."""
        return value_of(x)

    def forget(self, roles: Collection[str]) -> Self:
        """Drop the logits of roles that have moved."""
        self.observed.forget(roles)
        self.sampled.forget(roles)
        return self


Loss = Callable[[View], Any]  # gives a Total, or a plain number if nothing learns
