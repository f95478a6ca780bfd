"""The page about a benchmark says what its records say, and refuses what is none."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import unskew
from unskew.report.fits import Fits
from unskew.report.page import rendered
from unskew.report.records import records_page
from unskew.report.report import opened

METHODS = ("naive", "dce-dr/user", "<script>alert(3)</script>")
VERSIONS = {"unskew": "0.1.0", "python": "3.11.0"}


def fit(method: str, seed: int, mse: float, **more: object) -> dict[str, object]:
    values = {"test": {"mse": mse, "auc": 1 - mse}, "seconds": 1.0 + seed, "peak_megabytes": 300.0, "parameters": 99}
    recipe = {"log": "fingerprint", "training": {"kind": "Training", "max_epochs": 2}, "world": None}
    return {
        "key": f"fit/{method}/{seed}",
        "recipe": recipe,
        "versions": VERSIONS,
        "values": values | {"validation": {}, "notes": []} | more,
    }


def trial(method: str, number: int, fold: int, score: float | None) -> dict[str, object]:
    values = {"failure": "diverged"} if score is None else {"validation": {"log_loss": score}}
    key = f"trial/{method}/{number}/{fold}"
    return {"key": key, "recipe": {"criterion": "log_loss"}, "versions": VERSIONS, "values": values}


def written(folder: Path, *records: dict[str, object], rest: str = "") -> Path:
    file = folder / "records.jsonl"
    file.write_text("".join(json.dumps(record) + "\n" for record in records) + rest)
    return file


@pytest.fixture
def file(tmp_path: Path) -> Path:
    fits = [
        fit(method, seed, 0.2 + 0.05 * n + 0.001 * seed**n) for n, method in enumerate(METHODS) for seed in range(4)
    ]
    trials = [
        trial("naive", 0, 0, 0.7),
        trial("naive", 0, 1, 0.5),
        trial("naive", 1, 0, 0.4),
        trial("naive", 2, 0, None),
    ]
    again = [fit("naive", 0, 0.19)]
    return written(tmp_path, *trials, *fits, *again, rest='{"key": "fit/nai')


def test_means_spread_and_costs_are_those_of_the_records_and_the_file_is_left_as_it_is(file: Path) -> None:
    before = file.read_bytes()
    html = rendered(records_page(file.parent / "records.jsonl"))
    assert file.read_bytes() == before
    values = [0.19, 0.201, 0.201, 0.201]
    assert f"{np.mean(values):.4f} ± {np.std(values, ddof=1):.4f} ¹" in html
    assert "naive has the lowest MSE of 3 methods." in html
    assert "2.50" in html  # mean seconds
    assert "1 fits were made again" in html
    assert "cut short" in html
    assert "&lt;script&gt;alert(3)" in html
    assert "<script" not in html


def test_trials_are_averaged_over_folds_and_failed_ones_counted(file: Path) -> None:
    (tuned,) = Fits.read(file).tuned
    assert (tuned.method, tuned.n_trials, tuned.n_failed) == ("naive", 3, 1)
    assert (tuned.first, tuned.best) == (pytest.approx(0.6), 0.4)


def test_a_method_without_all_seeds_is_left_out_and_named(tmp_path: Path) -> None:
    fits = [fit("naive", 0, 0.2), fit("naive", 1, 0.3), fit("ips", 0, 0.1)]
    page = records_page(written(tmp_path, *fits))
    assert page.head.headline.startswith("naive")
    assert any("Not all seeds are there of ips" in sentence for sentence in page.sections[4].facts)


def test_a_single_seed_is_not_compared(tmp_path: Path) -> None:
    html = rendered(records_page(written(tmp_path, fit("naive", 0, 0.2), fit("ips", 0, 0.1))))
    assert "nothing can be told from chance" in html


@pytest.mark.parametrize(
    ("record", "sentence"),
    [
        (trial("naive", 0, 0, 0.5), "holds no finished fit"),
        (fit("naive", 0, 0.2, test={"mse": "low"}), "is not a fit of a benchmark"),
        (fit("naive", 0, 0.2, seconds=None), "is not a fit of a benchmark"),
        (fit("naive", 0, 0.2, notes=[1]), "is not a fit of a benchmark"),
        (fit("naive", 0, 0.2) | {"key": "fit/naive/x"}, "is not a fit of a benchmark"),
        (fit("naive", 0, 0.2) | {"key": "fit/naive/99999999999"}, "is not a fit of a benchmark"),
        ({"something": "else"}, "Line 1 of"),
    ],
)
def test_what_is_no_benchmark_is_refused_in_one_sentence(
    record: dict[str, object], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(unskew.UnskewError, match=sentence):
        records_page(written(tmp_path, record))


def test_a_source_is_a_model_or_records_and_nothing_else(model: unskew.Recommender, file: Path, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    assert opened(model) is model
    assert isinstance(opened(tmp_path / "model"), unskew.Recommender)
    assert opened(file.parent) == opened(file) == file
    (tmp_path / "text.txt").write_text("")
    for wrong, sentence in ((tmp_path / "text.txt", "neither a model nor"), (tmp_path / "none", "does not exist")):
        with pytest.raises(unskew.ParameterError, match=sentence):
            opened(wrong)
    with pytest.raises(unskew.ParameterError, match="random_ratings= is for a report on a model"):
        unskew.write_report(file, tmp_path / "r.html", random_ratings=model.log)
