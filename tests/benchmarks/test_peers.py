"""Claims about peers: tuned on the log alone, measured as ours are; the libraries themselves where installed."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

import unskew

if (root := str(Path(__file__).parents[2])) not in sys.path:
    sys.path.insert(0, root)
cases, peers = map(importlib.import_module, ("benchmarks.cases", "benchmarks.peers"))
WORLD = unskew.simulate(80, 50, density=0.3, seed=0)
LIBRARIES = {"myfm": "myfm", "smurff": "smurff", "surprise-svd": "surprise", "lenskit-biased-mf": "lenskit"}
LIBRARIES |= {"cornac-mf": "cornac", "implicit-als": "implicit"}


def test_trials_see_the_log_alone_and_the_test_is_read_once(monkeypatch):
    pytest.importorskip("optuna")
    asked = []

    def fit(log, pairs, seed, settings):
        asked.append((len(log), len(pairs), seed))
        return np.asarray(settings["x"] * (2 * pairs.ratings - 1) + np.arange(len(pairs)) % 5, float)

    monkeypatch.setitem(peers.PEERS, "made", peers.Peer("numpy", fit, {"x": (0.1, 0.01, 9.0), "sweeps": 4}))
    case = cases.Case(WORLD.log, WORLD.test, "tiny")
    first = peers.measure(cases.Job("made", case, 3))
    assert len(asked) == peers.TRIALS + 2
    tenths = {(rows, pairs) for rows, pairs, _ in asked[:-1]}
    assert {sum(pair) for pair in tenths} == {len(WORLD.log)}
    assert len(tenths) == 1
    assert asked[-1] == (len(WORLD.log), len(WORLD.test), 3)
    assert first.settings["x"] > 1.9  # from 2 on it tells liked from not without fail
    again = peers.measure(cases.Job("made", case, 3, first.settings))
    assert again.metrics["auc"] == first.metrics["auc"]
    assert len(asked) == peers.TRIALS + 3
    assert first.versions == {"numpy": np.__version__}


def test_the_ridge_on_liked_ratings_is_ease_in_closed_form():
    log, penalty = WORLD.log, 7.0
    x = np.zeros((log.n_users, log.n_items))
    x[log.users, log.items] = log.ratings > 0
    inverse = np.linalg.inv(x.T @ x + penalty * np.eye(log.n_items))
    scores = x @ (np.eye(log.n_items) - inverse / np.diag(inverse))
    top = peers.liked_ridge(log, log, 0, {"penalty": penalty})
    assert np.array_equal(top, peers.top_unseen(scores, log))
    seen = np.zeros(x.shape, bool)
    seen[log.users, log.items] = True
    assert not np.take_along_axis(seen, top, 1).any()


def test_popularity_shows_what_most_have_rated():
    log = unskew.RatingLog.from_arrays([0, 1, 2, 3, 3], [0, 0, 1, 1, 2], [1, 1, 5, 1, 5], positive=3)
    assert peers.popularity(log, log, 0, {"counted": "rated"})[0, 0] == 1
    assert peers.popularity(log, log, 0, {"counted": "liked"})[3].tolist()[0] == 0


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_library_learns_the_world_by_its_defaults(name):
    pytest.importorskip(LIBRARIES[name])
    peer = peers.PEERS[name]
    found = peers.fitted(peer, WORLD.log, WORLD.test, 0, {**peer.defaults, **peer.trial})
    if peer.lists:
        assert found.shape == (WORLD.n_users, peers.TOP)
    else:
        assert unskew.evaluate(found, WORLD.test)["auc"] > 0.6
