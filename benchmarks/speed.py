"""Time sampler, default method, lists, command and cluster; whatever is compared is timed in one process."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import unskew
from benchmarks.cases import Experiment, Job, Measured, coat, million, movielens, tiny
from benchmarks.peers import HELD_OUT, PEERS, implicit_model, matrix
from benchmarks.quality import QUIET, Posterior, warm_up, with_columns
from benchmarks.tables import Record, read
from unskew.data.log import RatingLog
from unskew.findings import Table
from unskew.metrics.table import roc_auc
from unskew.posterior.exposure import Pairs
from unskew.posterior.factors import BayesianFactors, Problem, one_blas_thread
from unskew.training.loop import Loop

SWEEPS, TIMES, FEW, FACTORS, REQUESTS = 8, 5, 3, 16, 200
AUTHORS = {"coat": 14.4, "yahoo": 1021}  # seconds of the DCE paper's code for one fit
EQUAL, BURN, MOST = ("cornac-mf", "lenskit-biased-mf", "surprise-svd", "implicit-als"), 10, 400


def seconds(run: Callable[[], Any], clock: Callable[[], float] = time.process_time) -> float:
    """Return the time that a call takes."""
    began = clock()
    run()
    return clock() - began


def medians(
    *runs: Callable[[], Any], times: int = TIMES, clock: Callable[[], float] = time.process_time
) -> list[float]:
    """Return the median times of calls that take turns."""
    return [float(x) for x in np.median([[seconds(run, clock) for run in runs] for _ in range(times)], axis=0)]


def same_bits(one: Any, other: Any) -> float:
    """Return 1 if two samplers are in one state, 0 if not."""
    first, second = one.state(), other.state()
    return float(all(np.array_equal(first[key], second[key]) for key in first))


def sampler_of(log: RatingLog, seed: int, threads: int = 1) -> Any:
    """Return a sampler of 16 factors on ratings of five levels, which a draw makes of a simulated log's two."""
    rng = np.random.default_rng(seed)
    stars = np.asarray(log.ratings * 2 + rng.integers(0, 3, len(log)), np.float64)
    found = Problem(Pairs.of(log, stars), BayesianFactors(n_factors=FACTORS), seed).chain(0).sampler
    found.threads = threads
    return found


@one_blas_thread
def sweep(job: Job) -> Measured:
    """Time a Gibbs sweep per million ratings: processor time on one thread, the clock's on both, that of peers."""
    log = job.case.train
    samplers = [sampler_of(log, job.seed, threads) for threads in (1, 2)]
    for sampler in samplers:
        sampler.sweep()
    (own,) = medians(samplers[0].sweep)
    one, two = medians(*(sampler.sweep for sampler in samplers), times=SWEEPS, clock=time.perf_counter)
    while samplers[1].sweeps < samplers[0].sweeps:
        samplers[1].sweep()
    found = {"processor seconds": own, "seconds": one, "seconds, 2 threads": two}
    figures = {f"sweep: {name}": x * 1e6 / len(log) for name, x in found.items()}
    figures |= {"sweep: gain": one / two, "sweep: same bits": same_bits(*samplers)}
    for name, peer in (("smurff", smurff_sweep), ("myfm", myfm_sweep)):
        with suppress(ImportError):
            figures[f"sweep: {name}'s time over ours"] = peer(log) / own
    return Measured(figures, {"d": FACTORS, "levels": samplers[0].n_levels})


def smurff_sweep(log: RatingLog) -> float:
    """Return the processor time of a sweep of SMURFF on one thread."""
    import smurff

    sizes = {"num_latent": FACTORS, "burnin": 1, "nsamples": TIMES, "num_threads": 1, "seed": 1, "verbose": 0}
    session = smurff.TrainSession(priors=["normal", "normal"], **sizes)
    session.addTrainAndTest(matrix(log).astype(float), None, smurff.FixedNoise(1.0))
    session.init()
    session.step()
    return medians(session.step)[0]


def myfm_sweep(log: RatingLog) -> float:
    """Return the processor time of a sweep of myFM: that of six less that of one, over five."""
    import myfm
    from scipy.sparse import csr_array, hstack

    rows = np.arange(len(log))
    sides = [csr_array((np.ones(len(log)), (rows, codes))) for codes in (log.users, log.items)]
    x, y = hstack(sides).tocsr(), np.asarray(log.ratings, float)

    def run(sweeps: int) -> None:
        myfm.MyFMRegressor(rank=FACTORS).fit(x, y, n_iter=sweeps, n_kept_samples=1)

    short = seconds(partial(run, 1))
    return (seconds(partial(run, 1 + TIMES)) - short) / TIMES


def whole(job: Job) -> Measured:
    """Time the default method against one Bayesian fit with the same columns and nothing else."""
    warm_up("dce-bayes")
    method, fitted, log = unskew.make("dce-bayes"), list[unskew.Recommender](), job.case.train
    taken = seconds(lambda: fitted.append(method.fit(log, seed=job.seed, training=QUIET)))
    alone = Posterior(factors=with_columns(method.factors, fitted[0].part("prediction").notes))
    one = seconds(lambda: alone.fit(log, seed=job.seed, training=QUIET))
    figures = {"whole: seconds": taken, "whole: one fit": one, "whole: ratio": taken / one}
    return Measured(figures, {"method": repr(method)})


def paper(job: Job) -> Measured:
    """Time the paper's method against what its authors' code took elsewhere: Coat, a log of Yahoo!R3's shape."""
    warm_up("dce-dr")
    method, small = unskew.make("dce-dr"), job.case.name == "coat"
    log = job.case.train if small else unskew.simulate(15_400, 1_000, density=0.02024, seed=job.seed).log
    (taken,) = medians(partial(method.fit, log, training=QUIET), times=TIMES if small else 1)
    authors = AUTHORS["coat" if small else "yahoo"]
    return Measured({"paper: seconds": taken, "paper: authors' time over ours": authors / taken}, {"ratings": len(log)})


def equal(job: Job) -> Measured:
    """Time the sampler until its AUC on a held-out tenth is that of each peer, against the peer's whole fit.

    Peers have the settings that they were tuned to on MovieLens, the sampler the columns that it takes there; the time
    of looking, every fifth sweep, is not counted. `naive` is our own fit by gradients, whole.
    """
    log = job.case.train
    held_out = np.random.default_rng([job.seed, 17]).random(len(log)) < HELD_OUT
    rest, tenth = log.take(~held_out), log.take(held_out)
    users, items, liked = tenth.users.astype(np.int64), tenth.items.astype(np.int64), tenth.ratings.astype(int)
    fits: dict[str, Callable[[], Any]] = {
        name: partial(fit, rest, tenth, job.seed, settings) for name, (fit, settings) in tuned_on_movielens().items()
    }
    warm_up("naive")
    fits["naive"] = lambda: unskew.make("naive").fit(rest, seed=job.seed, training=QUIET).predict_codes(users, items)
    goals: dict[str, tuple[float, float]] = {}
    for name, fit in fits.items():
        began = time.process_time()
        found = fit()
        goals[name] = float(roc_auc(liked, found)), time.process_time() - began
    on = BayesianFactors(exposure=True, history=True)
    chain, auc, figures = Problem.of(rest, on, job.seed).chain(BURN), 0.0, dict[str, float]()
    chain.sampler.threads, taken = 1, seconds(lambda: Problem.of(rest, on, job.seed).chain(BURN))
    for name, (goal, theirs) in sorted(goals.items(), key=lambda each: each[1]):
        while auc < goal and chain.sampler.sweeps < MOST:
            taken += seconds(partial(chain.run, 5))
            auc = float(roc_auc(liked, chain.posterior().probability(users, items))) if chain.kept > 1 else 0.0
        figures |= {f"equal: {name}'s AUC": goal, f"equal: {name}'s seconds": theirs}
        if auc >= goal:
            figures |= {f"equal: ours to {name}'s AUC": taken, f"equal: {name}'s time over ours": theirs / taken}
    return Measured(figures | {"equal: our last AUC": auc}, {"ratings": len(rest), "sweeps": chain.sampler.sweeps})


def tuned_on_movielens() -> dict[str, tuple[Callable[..., Any], dict[str, Any]]]:
    """Return how peers are fitted, and the settings that they were tuned to, of their first record."""
    found: dict[str, Any] = {}
    for record in read(Path(__file__).parent / "records" / "peers.jsonl"):
        name = record["method"]
        peer = PEERS[name]
        if name in EQUAL and record["case"] == ("movielens by time" if peer.lists else "movielens"):
            settings = {key: record["settings"][key] for key in peer.space}
            found.setdefault(name, (implicit_scores if peer.lists else peer.fit, settings))
    return found


def implicit_scores(log: RatingLog, asked: RatingLog, seed: int, s: dict[str, Any]) -> Any:
    """Return the inner products of implicit's vectors."""
    model = implicit_model(log, seed, s)
    return (model.user_factors[asked.users] * model.item_factors[asked.items]).sum(axis=1)


def epochs(job: Job) -> Measured:
    """Time an epoch of naive training and of DR-JL per rating against one of Cornac's MF, all with 64 factors."""
    from cornac.data import Dataset
    from cornac.models import MF

    log, size = job.case.train, {"k": 64, "num_threads": 1, "seed": 1}
    ids = [{code: code for code in range(n)} for n in (log.n_users, log.n_items)]
    columns = log.users.astype(int), log.items.astype(int), log.ratings.astype(float)
    rated = Dataset(log.n_users, log.n_items, *ids, columns, seed=1)

    def theirs() -> float:
        one, six = (seconds(partial(MF(**size, max_iter=n).fit, rated)) for n in (1, 6))
        return (six - one) / 5 / len(log)

    def begun(method: str) -> Callable[[], float]:
        settings = {} if method == "naive" else {"propensity": unskew.Additive()}
        plan, split = unskew.make(method, **settings).plan(), QUIET.split(log, job.seed)
        loop = Loop(plan, split, seed=job.seed, training=QUIET)
        for stage in plan.stages:
            loop.begin(stage)
            if not stage.steps:
                loop.fit(stage, 1.0)
        return lambda: seconds(partial(loop._run_epoch, stage, 1)) / len(split.train_rows)

    timed = {"naive": begun("naive"), "dr-jl": begun("dr-jl"), "Cornac": theirs}
    times = [{name: once() for name, once in timed.items()} for _ in range(TIMES + 1)][1:]
    middle = {name: float(np.median([each[name] for each in times])) for name in timed}
    figures = {f"epoch: {name}, ns a rating": value * 1e9 for name, value in middle.items()}
    figures["epoch: naive's time over Cornac's"] = middle["naive"] / middle["Cornac"]
    return Measured(figures, {"d": 64})


def tenfold(job: Job) -> Measured:
    """Time a sweep of ten million ratings against one of a million, per rating, and the memory that it takes."""
    from resource import RUSAGE_SELF, getrusage

    logs = [drawn(6_000 * size, 3_700, 1_000_000 * size, job.seed) for size in (1, 10)]
    before = getrusage(RUSAGE_SELF).ru_maxrss
    samplers = [sampler_of(log, job.seed) for log in logs]
    for sampler in samplers:
        sampler.sweep()
    one, ten = (x / len(log) for x, log in zip(medians(*(s.sweep for s in samplers)), logs, strict=True))
    more = (getrusage(RUSAGE_SELF).ru_maxrss - before) / 1e6
    return Measured({"tenfold: per rating": ten / one, "tenfold: GB": more}, {"d": FACTORS})


def drawn(n_users: int, n_items: int, n: int, seed: int) -> RatingLog:
    """Return a log of random pairs and ratings: speed asks for no taste."""
    rng = np.random.default_rng(seed)
    pairs = np.unique(rng.integers(n_users * n_items, size=n))
    ratings = rng.integers(0, 2, len(pairs)).astype(np.float32)
    ids: dict[str, Any] = {"user_ids": np.arange(n_users), "item_ids": np.arange(n_items), "positive": 1}
    return RatingLog.from_arrays(*np.divmod(pairs, n_items), ratings, **ids)


def lists(job: Job) -> Measured:
    """Time lists of ten by liking for many users against NumPy's own product and partition of the same vectors."""
    n_users, n_items = 10_000, 20_000
    log = drawn(n_users, n_items, 100_000, job.seed)
    model = unskew.make("naive", net=unskew.MF(n_factors=FACTORS)).fit(log, training=unskew.Training(max_epochs=1))
    form = model.part("prediction").linear()

    def plain() -> None:
        for start in range(0, n_users, 100):
            scores = form.users[start : start + 100] @ form.items.T + form.offsets
            np.partition(scores, n_items - 10, axis=1)

    def ours() -> None:
        model.recommend(k=10, exclude_seen=False, library="pyarrow")

    theirs, own = medians(plain, ours, times=FEW)
    return Measured({"lists: over NumPy's": own / theirs, "lists: seconds": own}, {"users": n_users})


def command(job: Job) -> Measured:
    """Time `unskew predict` of ten pairs, the whole command, and Python's own start."""
    with TemporaryDirectory() as folder:
        log, pairs, out = tiny().train, Path(folder) / "pairs.csv", Path(folder) / "found.csv"
        unskew.make("naive").fit(log, training=QUIET).save(Path(folder) / "model")
        rows = "".join(f"{log.user_ids[u]},{log.item_ids[u + 1]}\n" for u in range(10))
        pairs.write_text(f"user_id,item_id\n{rows}")
        commands = ["-m", "unskew", "predict", f"{folder}/model", f"{pairs}", "--out", f"{out}"], ["-c", ""]
        runs = [
            partial(subprocess.run, [sys.executable, *words], check=True, capture_output=True) for words in commands
        ]
        times = [[seconds(run, lambda: sum(os.times()[2:4])) for run in runs] for _ in range(TIMES)]
    own, start = np.min(times, axis=0)
    return Measured({"command: processor seconds": float(own), "command: Python alone": float(start)}, {})


def reading(job: Job) -> Measured:
    """Read five million rows of CSV as a log, with ids, scale, times and checks, and as `pyarrow.csv` reads a table."""
    import pyarrow.csv as pcsv

    log = drawn(60_000, 8_000, 5_000_000, job.seed)
    with TemporaryDirectory() as folder:
        path, times = Path(folder) / "ratings.csv", 1.5e9 + np.arange(len(log))
        rows = log.to_arrow().append_column("timestamp", [times.astype(np.int64)])
        pcsv.write_csv(rows.take(np.random.default_rng(job.seed).permutation(len(rows))), path)
        figures, runs = {}, [partial(read, path) for read in (unskew.read_log, pcsv.read_csv)]
        for name, clock in (("processor time", time.process_time), ("clock", time.perf_counter)):
            own, theirs = medians(*runs, clock=clock)
            figures[f"reading: times of pyarrow.csv, {name}"] = own / theirs
    return Measured(figures, {"rows": len(log)})


def cluster(job: Job) -> Measured:
    """Weigh a sweep of ten million ratings on one and on two workers of a local Dask cluster, and without.

    Processor time of the client and of the busiest worker: they take turns, so their sum is a sweep's time on idle
    machines; the clock's time says the same on idle cores only. Bytes are those of the arrays that are sent.
    """
    from distributed import Client, LocalCluster

    from unskew.distributed import on

    log = drawn(60_000, 3_700, 10_000_000, job.seed)
    settings = {"threads_per_worker": 1, "dashboard_address": ":0", "memory_limit": 0}
    figures, sums, clocks = dict[str, float](), list[float](), list[float]()
    for n in (1, 2):
        with LocalCluster(n_workers=n, **settings) as made, Client(made) as client, on(client):
            sampler = sampler_of(log, job.seed)
            sampler.sweep()
            before, began, clock = client.run(time.process_time), time.process_time(), time.perf_counter()
            for _ in range(FEW):
                sampler.sweep()
            by_clock, own = (time.perf_counter() - clock) / FEW, (time.process_time() - began) / FEW
            after = client.run(time.process_time)
            busiest = max(after[name] - before[name] for name in after) / FEW
            figures[f"cluster: seconds by the clock, {n} workers"] = by_clock
            figures |= {f"cluster: client's seconds, {n} workers": own, f"cluster: busiest worker's, {n}": busiest}
            sums.append(own + busiest)
            clocks.append(by_clock)
    alone = sampler_of(log, job.seed)
    figures["cluster: seconds, none"] = medians(alone.sweep, times=FEW + 1)[0]
    figures["cluster: same bits"] = same_bits(alone, sampler)
    figures |= {"cluster: gain": sums[0] / sums[1], "cluster: gain by the clock": clocks[0] / clocks[1]}
    sides = alone.user_side, alone.item_side
    rows, means = ([getattr(side, name).nbytes + side.scale.nbytes for side in sides] for name in ("rows", "mean"))
    figures |= {"cluster: MB out, a worker": sum(rows) / 1e6, "cluster: MB back, all": (sum(rows) + sum(means)) / 1e6}
    figures["cluster: MB of latent ratings, all"] = 8 * len(log) / 1e6
    return Measured(figures, {"ratings": len(log)})


def load(job: Job) -> Measured:
    """Time `unskew serve` on this machine, asked by two clients at once; /health is what HTTP alone costs."""
    log = drawn(1000, 1000, 30_000, job.seed)
    asked: dict[str, Any] = {
        "/health": None, "/predict": {"users": [3], "items": [7]}, "/recommend": {"users": [3], "by": "liking"},
    }  # fmt: skip
    figures: dict[str, float] = {}
    with TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as free:
        unskew.make("naive").fit(log, training=unskew.Training(max_epochs=1)).save(Path(folder) / "model")
        port = free.getsockname()[1]
        free.close()
        words = [sys.executable, "-m", "unskew", "serve", f"{folder}/model", "--port", str(port)]
        with subprocess.Popen(words, stderr=subprocess.DEVNULL) as server, ThreadPoolExecutor(2) as pool:
            try:
                for path, body in asked.items():
                    ask(port, path, body, 10)
                    began = processor_time(server.pid)
                    taken = np.concatenate(list(pool.map(partial(ask, port, path, body), (REQUESTS,) * 2)))
                    own = (processor_time(server.pid) - began) / len(taken)
                    figures |= {f"load: {path}, requests a second": 2 / float(taken.mean())}
                    figures |= {f"load: {path}, processor ms of the server": own * 1e3}
                    figures[f"load: {path}, median ms"] = float(np.median(taken)) * 1e3
                    figures[f"load: {path}, 99th percentile ms"] = float(np.percentile(taken, 99)) * 1e3
            finally:
                server.terminate()
    return Measured(figures, {"requests": 2 * REQUESTS})


def processor_time(pid: int) -> float:
    """Return the seconds that another process has computed, on Linux."""
    return sum(map(int, Path(f"/proc/{pid}/stat").read_text().split()[13:15])) / os.sysconf("SC_CLK_TCK")


def ask(port: int, path: str, body: Any, n: int) -> list[float]:
    """Return the times of n requests on one connection, opened when the server is up."""
    connection, text = HTTPConnection("127.0.0.1", port, timeout=60), None if body is None else json.dumps(body)
    for _ in range(600):
        with suppress(ConnectionRefusedError):
            connection.connect()
            break
        time.sleep(0.1)

    def once() -> None:
        connection.request("GET" if text is None else "POST", path, text, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 200

    once()
    return [seconds(once, time.perf_counter) for _ in range(n)]


TIMED = {
    "sweep": (sweep, ("million",)), "dce-bayes": (whole, ("coat", "movielens")), "dce-dr": (paper, ("coat", "drawn")),
    "equal": (equal, ("movielens", "million")), "epoch": (epochs, ("million",)),
    "tenfold": (tenfold, ("drawn",)), "lists": (lists, ("drawn",)), "predict": (command, ("drawn",)),
    "dask": (cluster, ("drawn",)), "serve": (load, ("drawn",)), "read": (reading, ("drawn",)),
}  # fmt: skip


def measure(job: Job) -> Measured:
    """Time one thing, and note how busy the machine is."""
    found = TIMED[job.method][0](job)
    return found._replace(settings=found.settings | {"load": os.getloadavg()[0]})


def table(records: list[Record]) -> str:
    """Print every figure, the median over seeds."""
    held: dict[tuple[str, str], list[float]] = {}
    for record in records:
        for name, value in record["metrics"].items():
            held.setdefault((record["case"], name), []).append(value)
    rows = [[case, name, f"{np.median(each):.3g}", str(len(each))] for (case, name), each in sorted(held.items())]
    return Table("Speed", ["case", "figure", "median", "runs"], rows).markdown()


EXPERIMENT = Experiment(
    "sampler, default, lists, command and cluster, each against something in the same process",
    tuple(TIMED),
    {"million": million, "coat": coat, "movielens": movielens, "drawn": lambda data, seed: tiny()},
    3,
    measure,
    lambda method, case: case in TIMED[method][1],
    table=table,
)
