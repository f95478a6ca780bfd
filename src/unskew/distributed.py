"""The sampler on a Dask cluster: workers hold their parts of the log, by user and by item, and the client the rows.

A sweep is three waves. Scores: every worker scores its ratings. Users: given the rows of items, every worker draws the
latent ratings and rows of its users. Items: both go from there to where items are, and rows of items are drawn, while
the client fetches those of users. Rows travel, and one number a rating; ratings do not. Random numbers are drawn where
they are used, from their place in the stream of the sweep; only those of scales come from the client. So the bits are
those of one machine, whatever the number of workers. The state between two sweeps is whole at the client: after a
worker is lost the log is cut anew for those that are left, and the sweep is drawn again.
"""

from collections.abc import Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import pairwise
from os import PathLike, fspath
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.data.log import RatingLog
from unskew.data.read import files_of
from unskew.data.read import read_log as read_here
from unskew.errors import DataError, ParameterError
from unskew.posterior.gibbs import SAMPLER, Sampler, Side, sweep_rng
from unskew.posterior.kernels import PIECE, Float, Int, sample_rows, score_pieces

TRIES = 5
PATIENCE, REPLACED = 10, 60  # seconds for a scheduler to answer, and for a lost worker to be replaced
BLOCK = 4  # numbers that a step of the counter makes
SMALL = 1_000_000  # ratings: fewer are drawn sooner than they are sent


@contextmanager
def on(client: Any, smallest: int | None = None) -> Iterator[None]:
    """Draw the sweeps of every model that is sampled in this block on the workers of a `dask.distributed.Client`.

    None draws them here, an address is that of a scheduler. Those of a log of fewer than `smallest` ratings, a million,
    are drawn here, with the same bits.
    """
    if client is None:
        yield
        return
    if isinstance(client, str):
        with connected(client) as found, on(found, smallest):
            yield
        return
    if not hasattr(client, "submit") or not hasattr(client, "scheduler_info"):
        raise ParameterError(f"client must be a dask.distributed.Client, not {type(client).__name__}.")

    def made(users: Int, *given: Any, **settings: Any) -> Sampler:
        few = len(users) < (SMALL if smallest is None else smallest)
        return Sampler(users, *given, **settings) if few else DaskSampler(client, users, *given, **settings)

    token = SAMPLER.set(made)
    try:
        yield
    finally:
        SAMPLER.reset(token)


def connected(address: str) -> Any:
    """Return a client of the scheduler at this address."""
    import asyncio  # slow to import, and only a cluster needs it

    try:
        from distributed import Client
    except ImportError as error:
        raise ParameterError(f"a scheduler needs {error.name}: pip install 'unskew[dask]'.") from None
    settings = {"timeout": PATIENCE, "set_as_default": False}

    async def answers() -> None:
        client = Client(address, asynchronous=True, **settings)
        try:
            await asyncio.wait_for(client, PATIENCE)  # what answers may be no scheduler
        finally:
            await client.close()

    try:
        # First in a thread that ends: a client that finds nobody leaves its own behind, which may wait forever.
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, answers()).result()
        return Client(address, **settings)
    except (OSError, ValueError, TimeoutError):
        where = f"No scheduler of Dask answers at {address}"
        raise ParameterError(f"{where}: give its address, such as tcp://host:8786.") from None


def read_log(path: str | PathLike[str], client: Any, **settings: Any) -> RatingLog:
    """Read a folder of Parquet files, one a task, by workers that see the same path; the log is that of one machine.

    Text is sent as codes. Settings are those of `unskew.read_log`.
    """
    read = [client.submit(_columns, file, pure=False) for file in files_of(fspath(path))]
    table = pa.concat_tables(client.gather(read)).unify_dictionaries()
    return read_here(table, **settings)


def _columns(file: str) -> pa.Table:
    """Return the columns of a Parquet file, text as codes."""
    from pyarrow import parquet  # slow to import

    try:
        table = parquet.read_table(file)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{file} cannot be read as Parquet by a worker ({str(error)[:80]}): check the path.") from None
    text = pa.string(), pa.large_string()
    coded = [column.dictionary_encode() if column.type in text else column for column in table.columns]
    return pa.table(coded, names=table.column_names)


class UserPart(NamedTuple):
    """Ratings of some users, and of the pieces that they begin or end in; where each rating's item is held."""

    first: int
    """Place of the first rating of these users in the log."""
    lead: int
    """Ratings before it that share its piece."""
    rows: tuple[int, int, int]
    """The first user of these pieces, the first and the end of the users that are drawn here."""
    users: Int
    """Counted from the first of these pieces."""
    items: Int
    levels: Int
    pointer: Int
    place: Int
    known: Float
    to: list[Int]
    """For each part of items, the ratings of these users that go there."""


class ItemPart(NamedTuple):
    """Ratings of some items: their users, and where each latent rating is among those that arrive."""

    rows: tuple[int, int]
    pointer: Int
    place: Int
    other: Int
    known: Float


class DaskSampler(Sampler):
    """The sampler whose kernels run on workers; a part of users and one of items for each of them."""

    def __init__(self, client: Any, *given: Any, **settings: Any) -> None:
        super().__init__(*given, **settings)
        self.client = client
        self.workers: list[str] = []
        self.items_now: Any = None
        self.users_now: list[Any] = []
        """Where workers hold the rows of users, of which those here are `grown` times, if they are these."""
        self.grown = 1.0
        self.scored: list[Any] = []
        self.drawn: list[Any] = []

    def _distribute(self) -> None:
        """Cut the log into a part of users and one of items for each worker, and send them there."""
        with suppress(OSError):
            self.client.wait_for_workers(1, timeout=REPLACED)
        self.workers = sorted(self.client.scheduler_info(n_workers=-1).get("workers", ()))
        if not self.workers:
            raise ParameterError(f"No worker of the cluster answers for {REPLACED} seconds: start some, and fit again.")
        a, b, n = self.user_side, self.item_side, len(self.users)
        cuts = [_cut(side.pointer, len(self.workers)) for side in (a, b)]
        of_item = np.searchsorted(cuts[1], self.items, side="right") - 1  # the part of items a rating goes to
        self.spans: list[list[slice]] = [[slice(*ends) for ends in pairwise(each.tolist())] for each in cuts]
        self.pieces: list[slice] = []  # users of the pieces of each part
        self.parts: list[list[Any]] = [[], []]
        for k, worker in enumerate(self.workers):
            own, mine = self.spans[0][k], self.spans[1][k]
            first, last = int(a.pointer[own.start]), int(a.pointer[own.stop])
            begin, end = first // PIECE * PIECE, min(n, -(-last // PIECE) * PIECE)
            low, high = (int(self.users[begin]), int(self.users[end - 1]) + 1) if begin < end else (0, 0)
            self.pieces.append(slice(min(low, own.start), max(high, own.stop)))
            low = self.pieces[-1].start
            to = [np.flatnonzero(of_item[first:last] == j) for j in range(len(self.workers))]
            pointer, known = a.pointer[own.start : own.stop + 1] - first, a.columns.values[own]
            rows, held = (low, own.start, own.stop), slice(begin, end)
            columns = self.users[held] - low, self.items[held], self.levels[held]
            part = UserPart(first, first - begin, rows, *columns, pointer, a.place[: last - first], known, to)
            self.parts[0].append(self.client.scatter(part, workers=[worker], hash=False))
            ratings = slice(int(b.pointer[mine.start]), int(b.pointer[mine.stop]))
            place = np.searchsorted(np.flatnonzero(of_item == k), b.place[ratings])
            pointer, known = b.pointer[mine.start : mine.stop + 1] - ratings.start, b.columns.values[mine]
            other = ItemPart((mine.start, mine.stop), pointer, place, b.other[ratings], known)
            self.parts[1].append(self.client.scatter(other, workers=[worker], hash=False))

    def sweep(self) -> None:
        """Draw everything once; what is lost with a worker is drawn again from the state before."""
        from distributed.client import FutureCancelledError
        from distributed.scheduler import KilledWorker

        before = self.thresholds  # all that moves before everything drawn has come back
        for _ in range(TRIES):
            try:
                if not self.workers:
                    self._distribute()
                super().sweep()
                return
            except (CancelledError, FutureCancelledError, KilledWorker, OSError):  # closed connections are of these
                self.thresholds = before
                self.workers, self.users_now = [], []
        raise ParameterError(
            f"Sweep {self.sweeps + 1} was lost with workers {TRIES} times: see their logs, and fit again."
        )

    def restore(self, state: dict[str, Any], longer: bool = False) -> None:
        super().restore(state, longer)
        self.users_now = []

    def _rescale(self, rng: np.random.Generator) -> float:
        self.grown = super()._rescale(rng)
        return self.grown

    def _numbers(self, rng: np.random.Generator) -> tuple[Float, list[Float]]:
        """Pass over what workers draw by themselves."""
        n = sum(map(self._size, (0, 1, 2)))
        rng.bit_generator.advance(n // BLOCK)  # type: ignore[attr-defined]
        rng.random(n % BLOCK)
        return np.zeros(0), [np.zeros(0)] * 2

    def _size(self, stream: int) -> int:
        """Return how many numbers of a sweep ratings, users and items are drawn by."""
        if stream == 0:
            return len(self.users)
        return int((self.user_side, self.item_side)[stream - 1].rows.size)

    def _scored(self, old: Float, new: Float) -> Float:
        a, b = self.user_side, self.item_side
        self.items_now = self.client.scatter((b.rows, b.scale), broadcast=True, hash=False)
        if not self.users_now:
            self.users_now = [self.client.scatter((a.rows, a.scale), broadcast=True, hash=False)]
            self.grown = 1.0
        tasks = [(self.items_now, self.users_now, self.grown, own, old, new) for own in self.pieces]
        self.scored = self._run(score, tasks, self.parts[0])
        gains = self.client.gather(self._picked(self.scored, 0))
        return np.asarray(np.concatenate(gains).sum(axis=0))

    def _rows(self, side: Side, other: Side, uniforms: Float, gammas: Float, normals: Float) -> None:
        number, prior = 0 if side is self.user_side else 1, side.prior
        key = self.seed, self.sweeps, sum(map(self._size, range(number + 1)))
        rest = self.scale_shape, prior.precision, prior.coefficients @ prior.precision
        given, tasks = [(*rest, gammas[own], key) for own in self.spans[number]], list[Any]()
        if number == 0:
            tasks = [(self.items_now, f, self.thresholds, own) for f, own in zip(self.scored, given, strict=True)]
            self.drawn = self._run(draw_users, tasks, self.parts[0])
            return
        self.users_now, means, *arriving = [self._picked(self.drawn, j) for j in range(2 + len(self.workers))]
        tasks = [(self.items_now, self.users_now, sent, own) for sent, own in zip(arriving, given, strict=True)]
        drawn = self._run(draw_items, tasks, self.parts[1])
        users = self.client.gather([self.users_now, means])  # while items are drawn
        items = zip(*self.client.gather(drawn), strict=True)
        self._take(other, self.spans[0], *users)
        self._take(side, self.spans[1], *items)

    def _run(self, function: Any, tasks: list[Any], parts: list[Any]) -> list[Any]:
        """Return a task on each worker, of the part that it holds."""
        places, where = zip(parts, tasks, self.workers, strict=True), {"allow_other_workers": True, "pure": False}
        return [self.client.submit(function, part, *task, workers=[worker], **where) for part, task, worker in places]

    def _picked(self, futures: list[Any], k: int) -> list[Any]:
        """Return the k-th of what each task has found, where it is."""
        return self._run(_pick, [(k,)] * len(futures), futures)

    def _take(self, side: Side, spans: list[slice], rows: Any, means: Any) -> None:
        """Take in what workers have drawn of a side."""
        for own, drawn, mean in zip(spans, rows, means, strict=True):
            (side.rows[own], side.scale[own]), (side.mean[own], side.left[own]) = drawn, mean


def _cut(pointer: Int, n_parts: int) -> Int:
    """Return where rows are cut into parts of about equal numbers of ratings."""
    inner = np.searchsorted(pointer, pointer[-1] * np.arange(1, n_parts) / n_parts)
    return np.concatenate([[0], inner, [len(pointer) - 1]])


def _pick(found: Any, k: int) -> Any:
    return found[k]


def score(
    part: UserPart, items: Any, users: Any, grown: float, held: slice, old: Float, new: Float
) -> tuple[Float, Float, Float, Float]:
    """Return what pieces that begin in this part add up to, f of its ratings, and its rows and scales of users."""
    pieces, f = np.arange(-(-len(part.users) // PIECE)), np.zeros(len(part.users))
    out = np.zeros((len(pieces), len(old) - 1, 3))
    (u, s), (v, t) = (each[held] for each in _joined(users)), items
    u *= grown
    score_pieces(pieces, part.users, part.items, part.levels, u, v, s, t, old, new, f, out)
    begins = pieces * PIECE >= part.lead
    last = part.lead + len(part.place)
    low, first, end = part.rows
    own = slice(first - low, end - low)
    return out[begins & (pieces * PIECE < last)], f[part.lead : last], u[own], s[own]


def draw_users(part: UserPart, items: Any, scored: Any, thresholds: Float, given: Any) -> tuple[Any, ...]:
    """Return what `_drawn` does of these users, then their latent ratings for each part of items."""
    own, n = slice(part.lead, part.lead + len(part.place)), len(part.place)
    (seed, sweep, _), (v, t), (_, f, *rows) = given[-1], items, scored
    y, uniforms = np.empty(n), uniforms_at(seed, sweep, part.first, n)
    ratings = part.place, part.items[own], part.levels[own], thresholds, y, f
    drawn = _drawn(part, ratings, uniforms, rows, (v, 1 / t), part.rows[1], given)
    return (*drawn, *(y[places] for places in part.to))


def draw_items(part: ItemPart, items: Any, users: Any, arrived: list[Float], given: Any) -> tuple[Any, ...]:
    """Return what `_drawn` does of these items, given rows and latent ratings from all parts of users."""
    nothing, own = np.zeros(0), slice(*part.rows)
    u, s = _joined(users)
    ratings = part.place, part.other, nothing.astype(np.int64), nothing, np.concatenate(arrived), nothing
    return _drawn(part, ratings, nothing, [each[own] for each in items], (u, 1 / s), own.start, given)


def _joined(users: Any) -> list[Float]:
    """Return rows and scales of all users, copied, from those of each part."""
    return [np.concatenate(each) for each in zip(*users, strict=True)]


def _drawn(part: Any, ratings: Any, uniforms: Float, rows: Any, other: Any, first: int, given: Any) -> tuple[Any, ...]:
    """Return rows and scales, and means and residuals; `first` of the side is the first row of this part."""
    shape, precision, shift, gammas, (seed, sweep, before) = given
    (x, scale), (z, weight) = (each.copy() for each in rows), other
    place, codes, levels, thresholds, y, f = ratings
    mean, left = np.zeros(x.shape, np.float32), np.zeros(len(x))
    normals = uniforms_at(seed, sweep, before + first * x.shape[1], x.size).reshape(x.shape)
    sample_rows(
        np.arange(len(x)), part.pointer, place, codes, levels, thresholds, y, f, x, z, scale, weight, shape,
        precision, shift, part.known, uniforms, gammas, normals, mean, left, (0,) * x.shape[1],
    )  # fmt: skip
    return (x, scale), (mean, left)


def uniforms_at(seed: int, sweep: int, first: int, n: int) -> NDArray[np.float64]:
    """Return numbers `first` to `first + n` of a sweep's stream, without those before."""
    rng = sweep_rng(seed, sweep)
    rng.bit_generator.advance(first // BLOCK)  # type: ignore[attr-defined]
    return rng.random(first % BLOCK + n)[first % BLOCK :]
