"""The page of a benchmark's folder: made of its record alone, and as safe as the page of findings."""

from __future__ import annotations

import pytest

import unskew
from unskew.bench.protocol import Benchmark
from unskew.report.benchmark_page import benchmark_page, write_benchmark_page


@pytest.fixture
def folder(tmp_path):
    scores = {
        "naive": [{"mse": 0.21, "auc": 0.7, "seconds": 1.0}, {"mse": 0.22, "auc": 0.71, "seconds": 1.2}],
        "<script>": [{"mse": 0.19, "auc": 0.74, "seconds": 2.0}, {"mse": 0.2, "auc": 0.73, "seconds": 2.1}],
    }
    found = Benchmark(tuple(scores), scores, ("Two seeds.",), (), ("nothing failed",), {}, {"log": "abc"})
    found.publish(tmp_path)
    return tmp_path


def test_the_page_shows_who_is_best_and_escapes_names(folder):
    html = benchmark_page(folder)
    assert "&lt;script&gt; is best of 2 methods" in html
    assert "<script" not in html
    assert html.count("<svg") == html.count("</svg>") >= 2
    assert "Is it more than chance?" in html
    assert len(html.encode()) < 60_000


def test_it_is_written_by_diagnose_and_refused_without_a_name(folder, run):
    out = folder / "page.html"
    run("diagnose", folder, "--out", out)
    assert out.read_text() == benchmark_page(folder)
    assert "name a page for them by --out" in run("diagnose", folder, code=2).stderr


def test_what_is_no_benchmark_is_refused(tmp_path):
    with pytest.raises(unskew.UnskewError, match="is not the record of a benchmark"):
        write_benchmark_page(tmp_path, tmp_path / "page.html")
