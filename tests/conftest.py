"""Fixtures that more than one folder of tests needs."""

from __future__ import annotations

import multiprocessing
import os
import traceback
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
import torch

import unskew


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    """Tests share the machine's cores with each other; tiny tensors gain nothing from a second thread."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def forked() -> Callable[[Callable[[], object]], BaseProcess]:
    """Starts a copy of this process, with all it has imported, that does one thing and may be killed at any time."""
    if not hasattr(os, "fork"):
        pytest.skip("needs fork")

    def start(work: Callable[[], object]) -> BaseProcess:
        def do() -> None:
            try:
                work()
            except BaseException:
                traceback.print_exc()
                os._exit(1)

        process = multiprocessing.get_context("fork").Process(target=do)
        process.start()
        return process

    return start


@pytest.fixture(scope="session")
def coat_folder() -> Path:
    """The published Coat files, in the folder coat/ of the one that UNSKEW_DATA names."""
    data = os.environ.get("UNSKEW_DATA")
    if not data:
        pytest.skip("needs the published Coat files: set UNSKEW_DATA to a folder that holds coat/")
    folder = Path(data) / "coat"
    if not folder.is_dir():
        pytest.skip(f"needs the published Coat files, but UNSKEW_DATA={data} holds no folder coat/")
    return folder


@pytest.fixture(scope="session")
def liking_world() -> unskew.World:
    """A world in which people rate what they like, whatever the reason."""
    return unskew.simulate(
        400, 200, density=0.1, selection="utility", strength=0.3, n_factors=2, interaction=1.2, seed=0
    )


@pytest.fixture(scope="session")
def indifferent_world() -> unskew.World:
    """The same users and items, but people rate whatever they meet."""
    return unskew.simulate(400, 200, density=0.1, selection="popularity", n_factors=2, interaction=1.2, seed=0)


@pytest.fixture(scope="session")
def liking(liking_world):
    """What the log of the first world tells about selection on utility."""
    utility = unskew.Utility(base=unskew.Additive(), n_folds=4, n_repeats=1)
    return utility.fit(liking_world.log, training=unskew.Training(progress=False))
