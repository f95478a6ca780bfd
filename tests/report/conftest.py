"""A tiny log full of names that are markup, a model of it, and the page about both: made once for all tests."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import unskew
from unskew.report.material import Material, material_of
from unskew.report.model import page_about
from unskew.report.page import Page, rendered

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(2)>',
    "</title></style><b>",
    "{{ 7 * 7 }}",
    "nul\0 and bell\a",
    "turned \N{RIGHT-TO-LEFT OVERRIDE} round",
    "x" * 500,
    "שלום",
)
SHORT = unskew.Training(max_epochs=3, holdout=0.2, progress=False)


def named(n: int) -> list[str]:
    return [f"{HOSTILE[code % len(HOSTILE)]}{code if code >= len(HOSTILE) else ''}" for code in range(n)]


@pytest.fixture(scope="session", autouse=True)
def _few_replicates() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("unskew.diagnosis.calibration.REPLICATES", 10)
        yield


@pytest.fixture(scope="session")
def log() -> unskew.RatingLog:
    seen = unskew.simulate(60, 40, density=0.4, selection="taste", strength=0.3, seed=1).log
    users, items = np.array(named(60), object), np.array(named(40), object)
    return unskew.RatingLog.from_arrays(users[seen.users].tolist(), items[seen.items].tolist(), 1 + 4 * seen.ratings)


@pytest.fixture(scope="session")
def model(log: unskew.RatingLog) -> unskew.Recommender:
    return unskew.DoublyCalibrated(unskew.DRJL(propensity=unskew.Additive())).fit(log, training=SHORT)


@pytest.fixture(scope="session")
def material(model: unskew.Recommender) -> Material:
    return material_of(model, random_ratings=None, propensity=unskew.Additive(), announce=lambda words: None)


@pytest.fixture(scope="session")
def page(material: Material) -> Page:
    return page_about(material)


@pytest.fixture(scope="session")
def html(page: Page) -> str:
    return rendered(page)
