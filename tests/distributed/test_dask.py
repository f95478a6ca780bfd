"""The sampler on workers draws the bits of one machine, also when one of them is lost."""

import gc
import os
import signal
import socket
import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from threadpoolctl import threadpool_limits

import unskew
from unskew import DataError, ParameterError, distributed
from unskew.distributed import on, uniforms_at
from unskew.posterior.gibbs import sweep_rng


@pytest.mark.parametrize("first", [0, 1, 5, 4096, 4099])
def test_numbers_of_a_part_are_those_of_their_places(first):
    whole = sweep_rng(7, 3).random(5000)
    np.testing.assert_array_equal(uniforms_at(7, 3, first, 500), whole[first : first + 500])


def test_what_is_no_cluster_is_refused_and_leaves_nothing_behind(monkeypatch):
    monkeypatch.setattr(distributed, "PATIENCE", 0.2)
    with pytest.raises(ParameterError, match=r"client must be a dask\.distributed\.Client, not int"), on(3):
        pass
    pytest.importorskip("distributed", reason="needs unskew[dask]")
    from distributed import Client

    with socket.create_server(("127.0.0.1", 0)) as silent:
        for address in ("tcp://127.0.0.1:1", "nowhere", f"tcp://127.0.0.1:{silent.getsockname()[1]}"):
            with pytest.raises(ParameterError, match=f"No scheduler of Dask answers at {address}"), on(address):
                pass
    assert not any(thread.name == "IO loop" for thread in threading.enumerate())
    gc.collect()  # what a client leaves would wait here
    assert not any(isinstance(left, Client) for left in gc.get_objects())


@pytest.fixture(autouse=True)
def one_blas_thread():
    """As in a fit: sums depend on how many share them out."""
    with threadpool_limits(1, "blas"):
        yield


@pytest.fixture(scope="module")
def cluster():
    dask = pytest.importorskip("distributed", reason="needs unskew[dask]")
    settings = {"threads_per_worker": 1, "dashboard_address": ":0", "processes": True}
    made = dask.LocalCluster(n_workers=2, **settings)
    yield made
    made.close(timeout=120)  # and not forever


@pytest.fixture(scope="module")
def problem():
    from unskew.posterior.factors import BayesianFactors, Problem

    world = unskew.simulate(300, 80, density=0.4, seed=1, test_per_user=5)
    return Problem.of(world.log, BayesianFactors(n_factors=4), seed=3)


def states(problem, sweeps=3):
    """Return the state after some sweeps, the last two drawn twice: the second time from the state before, restored."""
    sampler = problem.chain(0).sampler
    while sampler.sweeps < sweeps - 2:
        sampler.sweep()
    before = sampler.state()
    for _ in range(2):
        sampler.restore(before)
        sampler.sweep()
        sampler.sweep()
    found: dict[str, Any] = sampler.state()
    return found


@pytest.mark.parametrize("kind", ["levels", "contexts", "continuum"])
def test_the_bits_are_those_of_one_machine_on_one_worker_and_on_two(cluster, problem, kind):
    from distributed import Client

    assert len(problem.log.users) > 2 * 4096  # several pieces, that parts begin and end in
    n, rng = len(problem.log.users), np.random.default_rng(0)
    changes = {"contexts": {"context": rng.integers(0, 3, n)}, "continuum": {"ratings": rng.normal(size=n)}}
    problem = replace(problem, log=problem.log._replace(**changes.get(kind, {})))
    alone = states(problem)
    for n_workers in (2, 1):
        cluster.scale(n_workers)
        with Client(cluster, direct_to_workers=n_workers == 2) as client:
            client.wait_for_workers(n_workers, timeout=60)
            with on(client, smallest=0):
                found = states(problem)
        for name, value in alone.items():
            np.testing.assert_array_equal(found[name], value, err_msg=name)
    cluster.scale(2)


def test_a_fit_on_the_cluster_of_an_address_has_the_same_bits(run, cluster, tmp_path, monkeypatch):
    """Chains of folds, which are smaller, are drawn here, the whole one by the workers."""
    log = unskew.simulate(40, 25, density=0.3, seed=2, test_per_user=5).log
    rows = zip(log.users.tolist(), log.items.tolist(), log.ratings.tolist(), strict=True)
    (tmp_path / "log.csv").write_text("user,item,rating\n" + "".join(f"{u},{i},{r:g}\n" for u, i, r in rows))
    monkeypatch.setattr(distributed, "SMALL", len(log))
    settings = (
        word for name in ("sweeps=8", "exposure=false", "history=false") for word in ("--set", f"factors.{name}")
    )
    words, moved = ["fit", tmp_path / "log.csv", "--method", "bayes", *settings], [cluster.scheduler.transition_counter]
    for name, more in (("alone", []), ("many", ["--scheduler", cluster.scheduler_address])):
        run(*words, "--out", tmp_path / name, *more)
        moved.append(cluster.scheduler.transition_counter)
    assert moved[0] == moved[1] < moved[2]
    alone, many = (unskew.load(tmp_path / name).predict(log.users, log.items) for name in ("alone", "many"))
    np.testing.assert_array_equal(alone, many)
    with pytest.raises(ParameterError, match="Naive learns by gradients, on one machine"):
        unskew.fit(log, "naive", client=cluster.scheduler_address)


def test_workers_read_the_log_that_one_machine_reads(cluster, tmp_path):
    from distributed import Client
    from pyarrow import parquet

    rng = np.random.default_rng(0)
    for k in range(3):
        pairs = np.unique(rng.integers(0, 4000, 300))
        users, items = ([f"{side}{code % n}" for code in pairs] for side, n in (("u", 37 + k), ("i", 101)))
        columns = {"user_id": users, "item_id": items, "rating": rng.integers(1, 6, len(pairs)), "timestamp": pairs + k}
        parquet.write_table(pa.table(columns), tmp_path / f"{k}.parquet")
    with Client(cluster) as client:
        found, alone = (
            read(tmp_path, *given, positive=4, duplicates="last")
            for read, given in ((distributed.read_log, (client,)), (unskew.read_log, ()))
        )
        (tmp_path / "3.parquet").write_text("no table")
        with pytest.raises(DataError, match=r"3\.parquet cannot be read as Parquet by a worker"):
            distributed.read_log(tmp_path, client)
    for name in ("users", "items", "ratings", "stars", "times"):
        np.testing.assert_array_equal(getattr(found, name), getattr(alone, name), err_msg=name)
    assert list(found.user_ids) == list(alone.user_ids)
    assert list(found.item_ids) == list(alone.item_ids)


def test_a_lost_worker_changes_nothing(cluster, problem):
    from distributed import Client

    alone = states(problem, 4)
    with Client(cluster) as client:
        client.wait_for_workers(2, timeout=60)
        with on(client, smallest=0):
            sampler = problem.chain(0).sampler
            sampler.sweep()
            victim = next(iter(client.run(os.getpid).values()))
            os.kill(victim, signal.SIGKILL)  # a worker of this cluster
            for _ in range(3):
                sampler.sweep()
    for name, value in alone.items():
        np.testing.assert_array_equal(sampler.state()[name], value, err_msg=name)


def test_a_cluster_without_workers_is_refused_in_a_sentence(problem, monkeypatch):
    dask = pytest.importorskip("distributed", reason="needs unskew[dask]")
    monkeypatch.setattr(distributed, "REPLACED", 1)
    empty = dask.LocalCluster(n_workers=0, processes=False, dashboard_address=":0")
    refused = pytest.raises(ParameterError, match="No worker of the cluster answers for 1 seconds")
    with empty, on(empty.scheduler_address, smallest=0), refused:
        states(problem)
