"""The sampler on a Dask cluster: workers hold their parts of the log, by user and by item, and the client the rows.

A sweep is three waves. Scores: every worker scores its ratings. Users: given the rows of items, every worker draws the
latent ratings and rows of its users. Items: latent ratings go to where their items are, and rows of items are drawn.
Rows travel, and one number a rating; ratings do not. Random numbers of ratings are drawn where they are, from their
place in the stream of the sweep; those of rows come from the client. So the bits are those of one machine, whatever the
number of workers. The state between two sweeps is whole at the client: a sweep that a lost worker has spoiled is drawn
again, and the part that it held is made again where there is room.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unskew.errors import ParameterError
from unskew.posterior.gibbs import SAMPLER, Sampler, sweep_rng
from unskew.posterior.kernels import PIECE, Float, Int, sample_rows, score_pieces

TRIES = 5
PATIENCE = 10  # seconds for a scheduler to answer
BLOCK = 4  # numbers that a step of the counter makes


@contextmanager
def on(client: Any) -> Iterator[None]:
    """Draw the sweeps of every model that is sampled in this block on the workers of a `dask.distributed.Client`.

    None draws them here, an address is that of a scheduler.
    """
    if client is None:
        yield
        return
    if isinstance(client, str):
        with connected(client) as found, on(found):
            yield
        return
    if not hasattr(client, "submit") or not hasattr(client, "scheduler_info"):
        raise ParameterError(f"client must be a dask.distributed.Client, not {type(client).__name__}.")
    token = SAMPLER.set(lambda *given, **settings: DaskSampler(client, *given, **settings))
    try:
        yield
    finally:
        SAMPLER.reset(token)


def connected(address: str) -> Any:
    """Return a client of the scheduler at this address."""
    try:
        from distributed import Client
    except ImportError as error:
        raise ParameterError(f"a scheduler needs {error.name}: pip install 'unskew[dask]'.") from None
    try:
        return Client(address, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError, TimeoutError):
        raise ParameterError(
            f"No scheduler of Dask answers at {address}: give its address, such as tcp://host:8786."
        ) from None


class UserPart(NamedTuple):
    """Ratings of some users, and of the pieces that they begin or end in; where each rating's item is held."""

    first: int
    """Place of the first rating of these users in the log."""
    lead: int
    """Ratings before it that share its piece."""
    users: Int
    items: Int
    levels: Int
    y: Float
    pointer: Int
    known: Float
    to: list[Int]
    """For each part of items, the ratings of these users that go there."""


class ItemPart(NamedTuple):
    """Ratings of some items: their users, and where each latent rating is among those that arrive."""

    pointer: Int
    place: Int
    other: Int
    known: Float


class DaskSampler(Sampler):
    """The sampler whose kernels run on workers; a part of users and one of items for each of them."""

    def __init__(self, client: Any, *given: Any, **settings: Any) -> None:
        super().__init__(*given, **settings)
        self.client, self.workers = client, sorted(client.scheduler_info(n_workers=-1)["workers"])
        if not self.workers:
            raise ParameterError("The cluster has no workers: start some.")
        a, b, n = self.user_side, self.item_side, len(self.users)
        self.cuts = [_cut(side.pointer, len(self.workers)) for side in (a, b)]
        of_item = np.searchsorted(self.cuts[1], self.items, side="right") - 1  # the part of items a rating goes to
        self.parts: list[list[Any]] = [[], []]
        for k, worker in enumerate(self.workers):
            low, high = self.cuts[0][k : k + 2]
            first, last = int(a.pointer[low]), int(a.pointer[high])
            begin, end = first // PIECE * PIECE, min(n, -(-last // PIECE) * PIECE)
            to = [np.flatnonzero(of_item[first:last] == j) for j in range(len(self.workers))]
            columns = [column[begin:end].copy() for column in (self.users, self.items, self.levels, self.y)]
            pointer, known = a.pointer[low : high + 1] - first, a.columns.values[low:high]
            own = UserPart._make([first, first - begin, *columns, pointer, known, to])
            self.parts[0].append(self._held(own, worker))
            low, high = self.cuts[1][k : k + 2]
            rows = slice(int(b.pointer[low]), int(b.pointer[high]))
            place = np.searchsorted(np.flatnonzero(of_item == k), b.place[rows])
            mine = ItemPart(b.pointer[low : high + 1] - rows.start, place, b.other[rows], b.columns.values[low:high])
            self.parts[1].append(self._held(mine, worker))
        self.scored: list[Any] = []
        self.drawn: list[Any] = []

    def sweep(self) -> None:
        """Draw everything once; what is lost with a worker is drawn again from the state before."""
        from distributed.client import FutureCancelledError
        from distributed.comm import CommClosedError
        from distributed.scheduler import KilledWorker

        before = self.state()
        for left in range(TRIES - 1, -1, -1):
            try:
                super().sweep()
                return
            except (CancelledError, FutureCancelledError, CommClosedError, KilledWorker, TimeoutError):
                if not left:
                    raise
                self.restore(before)

    def _held(self, part: Any, worker: str) -> Any:
        """Return a part on a worker: the result of a task, so that it is made again elsewhere if the worker is lost."""
        return self.client.submit(_same, part, workers=[worker], allow_other_workers=True, pure=False)

    def _share(self, work: Int, kernel: Any, *args: Any) -> None:
        if kernel is score_pieces:
            *_, u, v, s, t, old, new, _, out = args
            given = self.client.scatter((u, v, s, t, old, new), broadcast=True, hash=False)
            self.scored = self._run(score, [(part, given) for part in self.parts[0]])
            np.concatenate(self._first(self.scored), out=out)
            return
        x, z, scale, weight, noise, shape, precision, shift = args[7:15]
        gammas, normals, mean, left = args[17:]
        side = 0 if x is self.user_side.rows else 1
        same = self.client.scatter(
            (self.thresholds, z, weight, noise, shape, precision, shift), broadcast=True, hash=False
        )
        spans = [slice(low, high) for low, high in zip(self.cuts[side], self.cuts[side][1:], strict=False)]
        own = [(x[rows], scale[rows], gammas[rows], normals[rows]) for rows in spans]
        key = self.seed, self.sweeps, self.n_levels
        if side == 0:
            tasks = [(part, same, rows, f, key) for part, rows, f in zip(self.parts[0], own, self.scored, strict=True)]
            self.drawn = self._run(draw_users, tasks)
            found = self._first(self.drawn)
        else:
            arriving = [self._run(_pick, [(sent, j + 1) for sent in self.drawn]) for j in range(len(self.workers))]
            tasks = [(part, same, rows, *sent) for part, rows, sent in zip(self.parts[1], own, arriving, strict=True)]
            found = self.client.gather(self._run(draw_items, tasks))
        for rows, drawn in zip(spans, found, strict=True):
            for target, values in zip((x, scale, mean, left), drawn, strict=True):
                target[rows] = values

    def _run(self, function: Any, tasks: list[Any]) -> list[Any]:
        """Return a task on each worker, or where there is room if it is lost."""
        places = zip(tasks, self.workers, strict=True)
        where = {"allow_other_workers": True, "pure": False}
        return [self.client.submit(function, *task, workers=[worker], **where) for task, worker in places]

    def _first(self, futures: list[Any]) -> list[Any]:
        """Return the first of what each task has found; the rest stays where it is."""
        return list(self.client.gather(self._run(_pick, [(each, 0) for each in futures])))


def _cut(pointer: Int, n_parts: int) -> Int:
    """Return where rows are cut into parts of about equal numbers of ratings."""
    inner = np.searchsorted(pointer, pointer[-1] * np.arange(1, n_parts) / n_parts)
    return np.concatenate([[0], inner, [len(pointer) - 1]])


def _same(part: Any) -> Any:
    return part


def _pick(found: Any, k: int) -> Any:
    return found[k]


def score(part: UserPart, given: Any) -> tuple[Float, Float]:
    """Return what pieces that begin in this part add up to, and f of its ratings."""
    u, v, s, t, old, new = given
    pieces, f = np.arange(-(-len(part.users) // PIECE)), np.zeros(len(part.users))
    out = np.zeros((len(pieces), len(old) - 1, 3))
    score_pieces(pieces, part.users, part.items, part.levels, part.y.copy(), u, v, s, t, old, new, f, out)
    begins = pieces * PIECE >= part.lead
    last = part.lead + int(part.pointer[-1])
    return out[begins & (pieces * PIECE < last)], f[part.lead : last]


def draw_users(part: UserPart, same: Any, rows: Any, scored: Any, key: tuple[int, int, int]) -> tuple[Any, ...]:
    """Return rows, scales, means and residuals of these users, then their latent ratings for each part of items."""
    seed, sweep, n_levels = key
    own = slice(part.lead, part.lead + int(part.pointer[-1]))
    n = own.stop - own.start
    uniforms = uniforms_at(seed, sweep, part.first, n) if n_levels > 1 else np.zeros(0)
    y, place = part.y[own].copy(), np.arange(n)
    drawn = _drawn(part, same, rows, place, part.items[own], part.levels[own], y, scored[1], uniforms)
    return (drawn, *(y[places] for places in part.to))


def draw_items(part: ItemPart, same: Any, rows: Any, *arrived: Float) -> tuple[Float, ...]:
    """Return rows, scales, means and residuals of these items, given the latent ratings from all parts of users."""
    y = np.concatenate(arrived)
    nothing = np.zeros(0, np.int64)
    return _drawn(part, same, rows, part.place, part.other, nothing, y, np.zeros(0), np.zeros(0))


def _drawn(
    part: Any, same: Any, rows: Any, place: Int, other: Int, levels: Int, y: Float, f: Float, uniforms: Float
) -> tuple[Float, ...]:
    thresholds, z, weight, noise, shape, precision, shift = same
    x, scale = rows[0].copy(), rows[1].copy()
    mean, left = np.zeros(x.shape, np.float32), np.zeros(len(x))
    sample_rows(
        np.arange(len(x)), part.pointer, place, other, levels, thresholds, y, f, x, z, scale, weight, noise, shape,
        precision, shift, part.known, uniforms, rows[2], rows[3], mean, left,
    )  # fmt: skip
    return x, scale, mean, left


def uniforms_at(seed: int, sweep: int, first: int, n: int) -> NDArray[np.float64]:
    """Return numbers `first` to `first + n` of a sweep's stream, without those before."""
    rng = sweep_rng(seed, sweep)
    rng.bit_generator.advance(first // BLOCK)  # type: ignore[attr-defined]
    return rng.random(first % BLOCK + n)[first % BLOCK :]
