"""A tiny log in files, a model fitted on it by the command line, and a way to run commands."""

import csv
import json

import numpy as np
import pytest

import unskew


def write_rows(path, names, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([names, *rows])
    return path


@pytest.fixture(scope="session")
def facts(run):
    """Run a command with --json and return what it prints."""
    return lambda *words: json.loads(run(*words, "--json").stdout)


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """A folder with ratings.csv (1 to 5 stars), test.csv and pairs.csv; users are u0, u1, ..., items are integers.

    A.csv and B.csv are scores of all pairs; A's are better.
    """
    folder = tmp_path_factory.mktemp("files")
    world = unskew.simulate(60, 40, density=0.25, selection="popularity", test_per_user=12, seed=1)
    stars = np.random.default_rng(0)
    for name, log in (("ratings.csv", world.log), ("test.csv", world.test)):
        rated = np.where(log.ratings == 1, stars.integers(3, 6, len(log)), stars.integers(1, 3, len(log)))
        rows = [(f"u{u}", i, r) for u, i, r in zip(log.users, log.items, rated, strict=True)]
        write_rows(folder / name, ("user_id", "item_id", "rating"), rows)
    known_users, known_items = np.unique(world.log.users), np.unique(world.log.items)
    pairs = [(f"u{u}", i, "kept") for u in known_users[:5] for i in known_items[:4]]
    write_rows(folder / "pairs.csv", ("user_id", "item_id", "remark"), pairs)
    noise = np.random.default_rng(1)
    for name, spread in (("A.csv", 0.1), ("B.csv", 0.4)):
        users, items = np.divmod(np.arange(world.n_pairs), world.n_items)
        score = np.clip(world.preference(users, items) + noise.normal(0, spread, len(users)), 0.01, 0.99)
        rows = [(f"u{u}", i, s) for u, i, s in zip(users, items, score, strict=True)]
        write_rows(folder / name, ("user_id", "item_id", "score"), rows)
    return folder


@pytest.fixture(scope="session")
def model(files, run):
    folder = files / "model"
    few = ("--set", "training.max_epochs=2", "--set", "propensity=additive")
    run("fit", files / "ratings.csv", "--method", "ips", "--out", folder, *few)
    return folder
