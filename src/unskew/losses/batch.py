"""What a loss may see of a batch: a role that learns answers with slopes, a role at rest calibrated and without."""

from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from unskew.data.feed import Batch, Block
from unskew.losses.columns import ERRORS, Array, Column, Terms, Total, sigmoid, value_of


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

    def answer(self, role: str, users: Array, items: Array, logits: Array | None = None) -> Array:
        """Return probabilities of a role at rest: calibrated if its calibrator is fitted."""
        logits = self[role].logits(users, items) if logits is None else logits
        calibrator = self.parts.get(self.calibrators.get(role, ""))
        return np.asarray(sigmoid(logits) if calibrator is None else calibrator.calibrated(logits, users))

    def weights(self, role: str, users: Array, items: Array, ratings: Array | None, p: Array | None = None) -> Array:
        """1 / max(p, clip) of a role at rest, p given the rating where it is known and the part tells it apart.

        The clip comes first: it bounds for how many pairs a rating may stand because of where it was found, not what
        the rating itself tells.
        """
        p = self.answer(role, users, items) if p is None else p
        p = np.maximum(p, p.dtype.type(self.clips.get(role, 0.0)))
        if ratings is not None and self[role].knows_ratings:
            p = np.minimum(p * self[role].rating_ratio(users, items, ratings), p.dtype.type(1))
        return np.asarray(1 / p)


class Rows:
    """Some pairs of a block and what every role answers for them; each stands for `cells` pairs."""

    def __init__(self, parts: Parts, block: Block, where: slice | Array, cells: float | Array) -> None:
        own = block.known("cells")
        self.parts, self.block, self.where = parts, block, where
        self.cells = cells if own is None else np.float32(cells) * own[where]
        self.users, self.items = block.users[where], block.items[where]
        self._found: dict[str, dict[Any, Any]] = {}  # of each role, until it moves

    def __len__(self) -> int:
        return len(self.users)

    @cached_property
    def ratings(self) -> Array:
        if (found := self.block.known("ratings")) is None:
            raise LookupError("pairs drawn from the whole population have no ratings.")
        return np.asarray(found[self.where])

    @cached_property
    def seen(self) -> Array:
        """1 for drawn pairs that are in the log, 0 for all others."""
        return np.asarray(self.block.known("seen")[self.where])

    def logits(self, role: str) -> Array:
        """Return logits of a role, uncalibrated and without slopes."""
        found = self._found.setdefault(role, {})
        if "logits" not in found:
            found["logits"] = self.parts[role].logits(self.users, self.items)
        return np.asarray(found["logits"])

    def terms(self, role: str, kind: Callable[[Array], Terms]) -> Any:
        """Return what an error of a role is made of, found once for all labels."""
        found = self._found.setdefault(role, {})
        if kind not in found:
            found[kind] = kind(self.logits(role))
        return found[kind]

    def probability(self, role: str = "prediction") -> Any:
        """Return the probability of a role: raw and with slopes while it learns, calibrated at rest."""
        if role in self.parts.learning:
            p = sigmoid(self.logits(role))
            return Column(p, {role: p * (1 - p)})
        return self._at_rest(role)

    def error(self, role: str = "prediction", label: Any = None, kind: Callable[[Array], Terms] | None = None) -> Any:
        """e: the error of a role against a label, the rating if none is given; the label may learn instead."""
        zero, effect, r, scale = self.terms(role, kind or self.parts.error)
        label = self.ratings if label is None else label
        y = value_of(label)
        return self._labelled(role, label, effect, zero + y * effect, lambda: scale * (r - y))

    def imputed_error(self, role: str = "prediction", imputation: str = "imputation") -> Any:
        """e_imputed: the error of a role against the imputed rating."""
        return self.error(role, self.probability(imputation))

    def residual(self, role: str = "prediction", imputation: str = "imputation") -> Any:
        """e - e_imputed, which is (e1 - e0)(r - r_imputed)."""
        _, effect, _, scale = self.terms(role, self.parts.error)
        gap = self.ratings - self.probability(imputation)
        apart = value_of(gap)
        return self._labelled(role, gap, effect, effect * apart, lambda: -scale * apart)

    def _labelled(self, role: str, label: Any, effect: Array, value: Array, slope: Callable[[], Array]) -> Column:
        """Make a column that is linear in a label: with the role's slope if it learns, and those of the label."""
        found = Column(value, {role: slope()} if role in self.parts.learning else None)
        if isinstance(label, Column):
            found.slopes |= {learner: effect * of_label for learner, of_label in label.slopes.items()}
        return found

    def label_effect(self, role: str) -> Array:
        """e1 - e0: how much the error of a role depends on the label; without slopes."""
        return np.asarray(self.terms(role, self.parts.error).effect)

    def inverse_propensity(self, role: str = "propensity") -> Any:
        """1 / max(p, clip) of a role at rest."""
        found = self._found.setdefault(role, {})
        if "1/p" not in found:
            ratings = self.ratings if "ratings" in self.block.columns else None
            found["1/p"] = self.parts.weights(role, self.users, self.items, ratings, self._at_rest(role))
        return found["1/p"]

    def _at_rest(self, role: str) -> Array:
        """Return the probability of a role at rest, found once for the whole block where nothing moves it."""
        if role in self.parts.still:
            return self.block.answers(role, self.parts.answer)[self.where]
        return self.parts.answer(role, self.users, self.items, self.logits(role))

    def total(self, column: Any = 1.0) -> Any:
        """Sum over the pairs that these rows stand for: a Total if anything in it learns; of 1, their number."""
        values = value_of(column)
        if isinstance(self.cells, np.ndarray):
            found = float(np.broadcast_to(self.cells * values, len(self)).sum(dtype=np.float64))
        else:
            summed = np.add.reduce(values, dtype=np.float64) if isinstance(values, np.ndarray) else len(self) * values
            found = float(self.cells) * float(summed)
        if not isinstance(column, Column) or not column.slopes:
            return found
        return Total(found, {(role, self): self.cells * slope for role, slope in column.slopes.items()})

    def mean(self, column: Any) -> Any:
        return self.total(column) / self.total()


class View:
    """A batch: `observed` stands for all seen pairs (O), `sampled` for all pairs (D), of which there are `n_pairs`."""

    def __init__(self, parts: Parts, batch: Batch, n_pairs: float) -> None:
        self.parts, self.n_pairs = parts, n_pairs
        self.observed, self.sampled = Rows(parts, *batch.observed), Rows(parts, *batch.sampled)

    def held(self, x: Any) -> Any:
        """Return the value of x, which a loss takes for a constant although what learns may move it."""
        return value_of(x)

    def forget(self, roles: Collection[str]) -> None:
        """Drop the answers of roles that have moved."""
        for role in roles:
            self.observed._found.pop(role, None)
            self.sampled._found.pop(role, None)


Loss = Callable[[View], Any]  # gives a Total, or a plain number if nothing learns
