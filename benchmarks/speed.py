"""Time sampler, default method, lists, command and cluster; whatever is compared is timed in one process."""

from __future__ import annotations

import json
import os
import re
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
from benchmarks.cases import QUIET, Experiment, Figures, Job, Measured, coat, grouped, log_of, million, movielens, tiny
from benchmarks.peers import PEERS, cornac_data, divided, fitted, implicit_model, matrix
from benchmarks.quality import Posterior, warm_up, with_columns
from benchmarks.tables import Record, grid, read
from unskew.data.log import RatingLog
from unskew.datasets import simulate_funnel
from unskew.metrics.table import roc_auc
from unskew.posterior.exposure import Pairs
from unskew.posterior.factors import BayesianFactors, Problem, one_blas_thread
from unskew.training.loop import Loop

TIMES, FEW, FACTORS, REQUESTS = 5, 3, 16, 200
AUTHORS = {"coat": 14.4, "drawn": 1021}  # seconds of the DCE paper's code for a fit; drawn is of Yahoo!R3's shape
EQUAL, BURN, MOST = ("cornac-mf", "lenskit-biased-mf", "surprise-svd", "implicit-als"), 10, 400
CPU, WALL = time.process_time, time.perf_counter


def timed(run: Callable[[], Any], clock: Callable[[], float] = CPU) -> tuple[float, Any]:
    """Return the time that a call takes, and what it returns."""
    began = clock()
    found = run()
    return clock() - began, found


def medians(*runs: Callable[[], Any], times: int = TIMES, clock: Callable[[], float] = CPU) -> list[float]:
    """Return the median times of calls that take turns."""
    return [float(x) for x in np.median([[timed(run, clock)[0] for run in runs] for _ in range(times)], axis=0)]


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
    found.sweep()
    return found


def drawn(n_users: int, n_items: int, n: int, seed: int) -> RatingLog:
    """Return a log of random pairs and ratings: speed asks for no taste."""
    rng = np.random.default_rng(seed)
    pairs = np.unique(rng.integers(n_users * n_items, size=n))
    ratings = rng.integers(0, 2, len(pairs)).astype(np.float32)
    return log_of(*np.divmod(pairs, n_items), ratings, 1, (n_users, n_items))


@one_blas_thread
def sweep(job: Job) -> Figures:
    """Time a Gibbs sweep per million ratings: processor time on one thread, the clock's on both, that of peers."""
    log = job.data.train
    one, two = (sampler_of(log, job.seed, threads) for threads in (1, 2))
    own, _ = medians(one.sweep, two.sweep)
    by_clock = medians(one.sweep, two.sweep, clock=WALL)
    found = {"processor seconds": own, "seconds": by_clock[0], "seconds, 2 threads": by_clock[1]}
    found = {name: x * 1e6 / len(log) for name, x in found.items()}
    for name, peer in {"smurff": smurff_sweep, "myfm": myfm_sweep}.items():
        with suppress(ImportError):
            found[f"{name}'s time over ours"] = peer(log) / own
    return found | {"gain": by_clock[0] / by_clock[1], "same bits": same_bits(one, two)}


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

    sides = [csr_array((np.ones(len(log)), (np.arange(len(log)), codes))) for codes in (log.users, log.items)]
    x, y = hstack(sides).tocsr(), np.asarray(log.ratings, float)

    def run(sweeps: int) -> float:
        return timed(lambda: myfm.MyFMRegressor(rank=FACTORS).fit(x, y, n_iter=sweeps, n_kept_samples=1))[0]

    short = run(1)
    return (run(1 + TIMES) - short) / TIMES


def whole(job: Job) -> Figures:
    """Time the default method against one Bayesian fit with the same columns and nothing else."""
    warm_up("dce-bayes")
    method = unskew.make("dce-bayes")
    fit = {"log": job.data.train, "seed": job.seed, "training": QUIET}
    taken, model = timed(partial(method.fit, **fit))
    alone = Posterior(factors=with_columns(method.factors, model.part("prediction").notes))
    one, _ = timed(partial(alone.fit, **fit))
    return {"seconds": taken, "one fit": one, "ratio": taken / one}


def paper(job: Job) -> Figures:
    """Time the paper's method against what its authors' code took elsewhere."""
    warm_up("dce-dr")
    log, times = job.data.train, TIMES
    if job.case == "drawn":
        log, times = unskew.simulate(15_400, 1_000, density=0.02024, seed=job.seed).log, 1
    (taken,) = medians(partial(unskew.make("dce-dr").fit, log, training=QUIET), times=times)
    return {"seconds": taken, "authors' time over ours": AUTHORS[job.case] / taken}


def equal(job: Job) -> Figures:
    """Time the sampler until its AUC on a held-out tenth is that of each peer, against the peer's whole fit.

    Peers have the settings that they were tuned to on MovieLens, the sampler the columns that it takes there; the time
    of looking, every fifth sweep, is not counted. `naive` is our own fit by gradients, whole.
    """
    log = job.data.train
    rest, tenth = divided(log, job.seed)
    warm_up("naive")
    ours, pairs = partial(unskew.make("naive").fit, rest, seed=job.seed, training=QUIET), (tenth.users, tenth.items)
    fits: dict[str, Callable[[], Any]] = {"naive": lambda: ours().predict_codes(*pairs)}
    for record in reversed(read(Path(__file__).parent / "records" / "peers.jsonl")):
        name = record["method"]
        if name in EQUAL and record["case"].startswith("movielens"):
            settings = {key: record["settings"][key] for key in PEERS[name].space}
            run = implicit_scores if PEERS[name].lists else partial(fitted, PEERS[name])
            fits[name] = partial(run, rest, tenth, job.seed, settings)
    found = {name: timed(fit) for name, fit in fits.items()}
    goals = {name: (float(roc_auc(tenth.ratings, answers)), theirs) for name, (theirs, answers) in found.items()}
    start = partial(Problem.of(rest, BayesianFactors(exposure=True, history=True), job.seed).chain, BURN)
    taken, chain = timed(start)
    auc, figures = 0.0, dict[str, float]()
    chain.sampler.threads = 1
    for name, (goal, theirs) in sorted(goals.items(), key=lambda each: each[1]):
        while auc < goal and chain.sampler.sweeps < MOST:
            taken += timed(partial(chain.run, 5))[0]
            if chain.kept > 1:
                auc = float(roc_auc(tenth.ratings, chain.posterior().probability(*pairs)))
        figures |= {f"{name}'s AUC": goal, f"{name}'s seconds": theirs}
        if auc >= goal:
            figures |= {f"ours to {name}'s AUC": taken, f"{name}'s time over ours": theirs / taken}
    return figures | {"our last AUC": auc}


def implicit_scores(log: RatingLog, asked: RatingLog, seed: int, settings: dict[str, Any]) -> Any:
    """Return the inner products of implicit's vectors."""
    model = implicit_model(log, seed, **settings)
    return (model.user_factors[asked.users] * model.item_factors[asked.items]).sum(axis=1)


def epoch(job: Job) -> Figures:
    """Time an epoch of naive training and of DR-JL per rating against one of Cornac's MF, all with 64 factors."""
    from cornac.models import MF

    log, size = job.data.train, {"k": 64, "num_threads": 1, "seed": 1}
    rated = cornac_data(log, log.ratings.astype(float), 1)

    def theirs() -> float:
        one, six = (timed(partial(MF(**size, max_iter=n).fit, rated))[0] for n in (1, 6))
        return (six - one) / 5 / len(log)

    def begun(method: str, **settings: Any) -> Callable[[], float]:
        plan, split = unskew.make(method, **settings).plan(), QUIET.split(log, job.seed)
        loop = Loop(plan, split, seed=job.seed, training=QUIET)
        for stage in plan.stages:
            loop.begin(stage)
            if not stage.steps:
                loop.fit(stage, 1.0)
        return lambda: timed(partial(loop._run_epoch, stage, 1))[0] / len(split.train_rows)

    runs = {"naive": begun("naive"), "dr-jl": begun("dr-jl", propensity=unskew.Additive()), "Cornac": theirs}
    times = np.median([[run() for run in runs.values()] for _ in range(TIMES + 1)][1:], axis=0)
    found = {f"{name}, ns a rating": x * 1e9 for name, x in zip(runs, times, strict=True)}
    return found | {"naive's time over Cornac's": times[0] / times[2]}


@one_blas_thread
def tenfold(job: Job) -> Figures:
    """Time a sweep of ten million ratings against one of a million, per rating, and the memory that it takes."""
    from resource import RUSAGE_SELF, getrusage

    logs = [drawn(6_000 * size, 3_700, 1_000_000 * size, job.seed) for size in (1, 10)]
    before = getrusage(RUSAGE_SELF).ru_maxrss
    samplers = [sampler_of(log, job.seed) for log in logs]
    one, ten = (x / len(log) for x, log in zip(medians(*(s.sweep for s in samplers)), logs, strict=True))
    return {"per rating": ten / one, "GB": (getrusage(RUSAGE_SELF).ru_maxrss - before) / 1e6}


@one_blas_thread
def lists(job: Job) -> Figures:
    """Time lists of ten out of 20,000 items against NumPy's own product and partition of the same vectors.

    The default method's are those of a model of few sweeps, whose users are too many for a ridge of who saw what.
    """
    naive = unskew.make("naive", net=unskew.MF(n_factors=FACTORS))
    few = unskew.make("dce-bayes", factors=BayesianFactors(sweeps=8, exposure=False, history=False))
    found, n_items = Figures(), 20_000
    for method, n_users, n, orders in (
        (naive, 10_000, 100_000, ("liking",)),
        (few, 3_100, 19_900, ("liking", "choice")),
    ):
        log = drawn(n_users, n_items, n, job.seed)
        model = method.fit(log, training=unskew.Training(max_epochs=1, progress=False))
        form = model.part("prediction").linear()

        def plain(form: Any = form, n_users: int = n_users) -> None:
            for start in range(0, n_users, 100):
                scores = form.users[start : start + 100] @ form.items.T + form.offsets
                np.partition(scores, n_items - 10, axis=1)

        for by in orders:
            own = partial(model.recommend, k=10, by=by, exclude_seen=False, library="pyarrow")
            theirs, ours = medians(plain, own, times=FEW)
            name = "" if method is naive else f"default by {by} "
            found |= {f"{name}over NumPy's": ours / theirs, f"{name}seconds": ours}
    return found


def command(job: Job) -> Figures:
    """Time `unskew predict` of ten pairs, the whole command with bytecode kept, and Python's own start."""
    log = tiny().train
    with TemporaryDirectory() as folder:
        unskew.make("naive").fit(log, training=QUIET).save(Path(folder) / "model")
        rows = "".join(f"{log.user_ids[u]},{log.item_ids[u + 1]}\n" for u in range(10))
        (Path(folder) / "pairs.csv").write_text(f"user_id,item_id\n{rows}")
        own = ["-m", "unskew", "predict", "model", "pairs.csv", "--out", "found.csv"]
        compiled = os.environ | {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": folder}
        run = partial(subprocess.run, check=True, capture_output=True, cwd=folder, env=compiled)
        runs = [partial(run, [sys.executable, *words]) for words in (own, ["-c", ""])]
        times = [[timed(each, lambda: sum(os.times()[2:4]))[0] for each in runs] for _ in range(TIMES)]
    return dict(zip(("processor seconds", "Python alone"), np.min(times, axis=0), strict=True))


def reading(job: Job) -> Figures:
    """Read five million rows of CSV as a log, with ids, scale, times and checks, and as `pyarrow.csv` reads a table."""
    import pyarrow.csv as pcsv

    log = drawn(60_000, 8_000, 5_000_000, job.seed)
    with TemporaryDirectory() as folder:
        path, times = Path(folder) / "ratings.csv", 1.5e9 + np.arange(len(log))
        rows = log.to_arrow().append_column("timestamp", [times.astype(np.int64)])
        pcsv.write_csv(rows.take(np.random.default_rng(job.seed).permutation(len(rows))), path)
        runs = [partial(reader, path) for reader in (unskew.read_log, pcsv.read_csv)]
        taken = {name: medians(*runs, clock=clock) for name, clock in (("processor time", CPU), ("clock", WALL))}
    return {f"times of pyarrow.csv, {name}": own / theirs for name, (own, theirs) in taken.items()}


@one_blas_thread
def cluster(job: Job) -> Figures:
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
        with LocalCluster(n_workers=n, **settings) as made, Client(made, direct_to_workers=True) as client, on(client):
            sampler = sampler_of(log, job.seed)
            before, began, clock = client.run(CPU), CPU(), WALL()
            for _ in range(FEW):
                sampler.sweep()
            clocks.append((WALL() - clock) / FEW)
            own, after = (CPU() - began) / FEW, client.run(CPU)
        busiest = max(after[name] - before[name] for name in after) / FEW
        sums.append(own + busiest)
        figures[f"seconds by the clock, {n} workers"] = clocks[-1]
        figures |= {f"client's seconds, {n} workers": own, f"busiest worker's, {n}": busiest}
    alone = sampler_of(log, job.seed)
    figures |= {"seconds, none": medians(alone.sweep, times=FEW)[0], "same bits": same_bits(alone, sampler)}
    sides = alone.user_side, alone.item_side
    rows, means = (sum(getattr(side, name).nbytes + side.scale.nbytes for side in sides) for name in ("rows", "mean"))
    out = alone.item_side.rows.nbytes + alone.item_side.scale.nbytes
    figures |= {"MB out, a worker": out / 1e6, "MB back, all": (rows + means) / 1e6}
    figures |= {"MB of rows between, a worker": (rows - out) / 1e6, "MB of latent ratings, all": 8 * len(log) / 1e6}
    return figures | {"gain": sums[0] / sums[1], "gain by the clock": clocks[0] / clocks[1]}


def load(job: Job) -> Figures:
    """Time `unskew serve` on this machine, asked by two clients at once; /health is what HTTP alone costs."""
    bodies = {"/health": None, "/predict": {"users": [3], "items": [7]}, "/recommend": {"users": [3], "by": "liking"}}
    model = unskew.make("naive").fit(drawn(1000, 1000, 30_000, job.seed), training=unskew.Training(max_epochs=1))
    figures: Figures = {}
    with TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        model.save(Path(folder) / "model")
        words = [sys.executable, "-m", "unskew", "serve", f"{folder}/model", "--port", "0"]
        with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as server:
            try:
                address = next(found[1] for line in server.stderr or () if (found := re.search(r"http://(\S+);", line)))
                for path, body in bodies.items():
                    ask(address, path, body, 10)
                    began = processor_time(server.pid)
                    taken = np.concatenate(list(pool.map(partial(ask, address, path, body), (REQUESTS,) * 2)))
                    own = (processor_time(server.pid) - began) / len(taken) * 1e3
                    median, slow = np.percentile(taken, (50, 99)) * 1e3
                    found = {"requests a second": 2 / taken.mean(), "processor ms of the server": own}
                    found |= {"median ms": median, "99th percentile ms": slow}
                    figures |= {f"{path}, {name}": x for name, x in found.items()}
            finally:
                server.terminate()
    return figures


def processor_time(pid: int) -> float:
    """Return the seconds that another process has computed, on Linux."""
    return sum(map(int, Path(f"/proc/{pid}/stat").read_text().split()[13:15])) / os.sysconf("SC_CLK_TCK")


def ask(address: str, path: str, body: Any, n: int) -> list[float]:
    """Return the times of n requests on one connection, on which one came before."""
    connection, text = HTTPConnection(address, timeout=60), None if body is None else json.dumps(body)

    def once() -> None:
        connection.request("GET" if text is None else "POST", path, text, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 200

    return [timed(once, WALL)[0] for _ in range(n + 1)][1:]


SHOWN = """
import sys, time
from resource import RUSAGE_SELF, getrusage
import unskew
def tell(began): print(time.process_time() - began, getrusage(RUSAGE_SELF).ru_maxrss / 1e6)
began = time.process_time()
log = unskew.read_log(sys.argv[1], target="click")
tell(began)
began = time.process_time()
unskew.fit(log, seed=1)
tell(began)
"""


def shown(job: Job) -> Figures:
    """Read two million impressions from folders of Parquet and fit the default to clicks, in a process of its own."""
    import pyarrow.parquet as pq

    rows = simulate_funnel(100_000, 10_000, 400_000, seed=1 + job.seed).rows
    with TemporaryDirectory() as folder:
        for k in range(10):
            (place := Path(folder) / f"part={k}").mkdir()
            pq.write_table(rows.slice(k * len(rows) // 10, len(rows) // 10), place / "rows.parquet")
        words, alone = [sys.executable, "-c", SHOWN, folder], {"NUMBA_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        found = subprocess.run(words, check=True, capture_output=True, text=True, env=os.environ | alone).stdout
    names = "reading, processor seconds", "reading, GB", "fit, processor seconds", "fit, GB"
    return dict(zip(names, map(float, found.split()), strict=True))


TIMED = {
    "sweep": (sweep, ("million",)), "dce-bayes": (whole, ("coat", "movielens")), "dce-dr": (paper, ("coat", "drawn")),
    "equal": (equal, ("movielens", "million")), "epoch": (epoch, ("million",)),
    "tenfold": (tenfold, ("drawn",)), "lists": (lists, ("drawn",)), "predict": (command, ("drawn",)),
    "dask": (cluster, ("drawn",)), "serve": (load, ("drawn",)), "read": (reading, ("drawn",)),
    "shown": (shown, ("drawn",)),
}  # fmt: skip


def measure(job: Job) -> Measured:
    """Time one thing, and note how busy the machine is."""
    run = TIMED[job.method][0]
    return Measured(grouped(run.__name__, run(job)), {"load": os.getloadavg()[0]})


def table(records: list[Record]) -> str:
    """Print every figure, the median over seeds."""
    held: dict[tuple[str, str], list[float]] = {}
    for record in records:
        for name, value in record["metrics"].items():
            held.setdefault((record["case"], name), []).append(value)
    rows = [[case, name, f"{np.median(each):.3g}", str(len(each))] for (case, name), each in sorted(held.items())]
    return grid([["case", "figure", "median", "runs"], *rows])


EXPERIMENT = Experiment(
    "sampler, default, lists, command and cluster, each against something in the same process",
    tuple(TIMED),
    {"million": million, "coat": coat, "movielens": movielens, "drawn": lambda data, seed: tiny()},
    3,
    measure,
    lambda method, case: case in TIMED[method][1],
    table=table,
)
