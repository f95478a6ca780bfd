"""Which turns can be taken in one compiled call, and how.

A turn is recognised by the closed forms of its updates (`risk.closed`), so a method that changes a loss loses the
express and nothing else: the loop then takes the same steps one by one. Both give the same numbers up to rounding.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from unskew.calibration.base import FittedCalibrator, Tables
from unskew.data.feed import Stretch
from unskew.express import kernels
from unskew.nets.kernels import is_for_many
from unskew.risk.closed import DoublyRobust, Gap, Seeing, Weighted, form_of
from unskew.risk.errors import log_error
from unskew.training.plan import Role, Update
from unskew.training.view import Cast, RowsView, View

Values = NDArray[np.float64]
UNCALIBRATED: Tables = tuple(np.full((1, 1), value, np.float32) for value in (1, 1, 0))


class Express(Protocol):
    """Takes the batches from `first` to `last` of a stretch, which the view shows as a whole; says every risk."""

    def __call__(self, view: View, stretch: Stretch, first: int, last: int) -> Values: ...


def in_one_call(turn: tuple[Update, ...], roles: Mapping[str, Role], cast: Cast) -> Express | None:
    """How to take the turn, or None if it has to be taken step by step."""
    trained = [role for update in turn for role in update.trains]
    kinds = {type(cast.players[role]) for role in trained}
    shared = not any(update.own_batch for update in turn)
    if not (shared and len(kinds) == 1 and kinds <= kernels.FOR.keys()):
        return None
    match [form_of(update.loss) for update in turn], trained:
        case [Weighted(role="prediction") as form], ["prediction"] if cast.error is log_error:
            return _weighted(form, _net(roles, cast, "prediction"))
        case [Gap() as gap, DoublyRobust()], ["imputation", "prediction"] if cast.error is log_error:
            maps = _maps(cast, "imputation")
            nets = _net(roles, cast, "imputation"), _net(roles, cast, "prediction")
            return None if maps is None else _joint(gap, *nets, maps)
        case [Seeing()], ["propensity"]:
            return _seeing(_net(roles, cast, "propensity"))
    return None


class Taught(NamedTuple):
    """A net of some kind as the kernels for its kind see it."""

    kind: type
    seen: tuple[Any, ...]

    def kernels_for(self, stretch: Stretch, *, pairs: bool) -> SimpleNamespace:
        """Those for one thread or for many, as a step on a batch, and its pairs if they are read, takes."""
        rows = int(stretch.cuts[1] + pairs * stretch.pair_cuts[1])
        on_one, on_many = kernels.FOR[self.kind]
        return on_many if is_for_many(4 * rows * self.seen[0][0].shape[1]) else on_one


def _net(roles: Mapping[str, Role], cast: Cast, name: str) -> Taught:
    role, player = roles[name], cast.players[name]
    return Taught(type(player), player.for_kernels(np.float32(role.l2 or 0.0), np.float32(role.learning_rate)))


def _maps(cast: Cast, role: str) -> Tables | None:
    """The maps of all users that calibrate the role; None if it has others than such."""
    name = cast.calibrators.get(role, "")
    calibrator = cast.players.get(name)
    if calibrator is None:
        return UNCALIBRATED
    plain = getattr(type(calibrator), "looked_up", None) is FittedCalibrator.looked_up
    return cast.known.get(name) if plain else None


def _codes(rows: RowsView) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    return rows.users.numpy(), rows.items.numpy()


def _weighted(form: Weighted, net: Taught) -> Express:
    def take(view: View, stretch: Stretch, first: int, last: int) -> Values:
        o, divisor = view.observed, 0.0 if form.normalised else view.n_pairs
        columns = *_codes(o), o.ratings.numpy(), form.weight(view).numpy()
        cuts, kernel = stretch.cuts[first : last + 1], net.kernels_for(stretch, pairs=False).weighted
        values: Values = kernel(cuts, *columns, stretch.cells, divisor, net.seen, view.largest_logit)
        return values

    return take


def _joint(gap: Gap, imputation: Taught, prediction: Taught, maps: Tables) -> Express:
    def take(view: View, stretch: Stretch, first: int, last: int) -> Values:
        o, part = view.observed, slice(first, last + 1)
        seen = *_codes(o), o.ratings.numpy(), gap.weight(view).numpy(), o.inverse_propensity().numpy(), stretch.cells
        sampled = stretch.pair_cuts[part], *_codes(view.sampled), stretch.pairs, view.n_pairs
        nets = imputation.seen, prediction.seen, maps, gap.targeted, view.largest_logit
        kernel = prediction.kernels_for(stretch, pairs=True).joint
        values: Values = kernel(stretch.cuts[part], *seen, *sampled, *nets)
        return values

    return take


def _seeing(net: Taught) -> Express:
    def take(view: View, stretch: Stretch, first: int, last: int) -> Values:
        part, d = slice(first, last + 1), view.sampled
        sampled = stretch.pair_cuts[part], *_codes(d), d.seen.numpy(), stretch.pairs, view.n_pairs, net.seen
        kernel = net.kernels_for(stretch, pairs=True).seeing
        values: Values = kernel(stretch.cuts[part], *_codes(view.observed), stretch.cells, *sampled)
        return values

    return take
