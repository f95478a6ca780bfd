"""Places, comparisons and the ways a table is written down."""

from __future__ import annotations

import csv
import io
import re
from html.parser import HTMLParser

import pytest

from unskew.bench.document import Document, Grid, Text, as_csv, comparisons, document_of
from unskew.bench.formats import latex, markdown, page
from unskew.bench.significance import holm, paired
from unskew.bench.table import Table, standing, standings_of

SCORES = {
    "naive": [{"mse": 0.30, "auc": 0.70}, {"mse": 0.31, "auc": 0.71}, {"mse": 0.33, "auc": 0.69}],
    "ips": [{"mse": 0.20, "auc": 0.72}, {"mse": 0.24, "auc": 0.66}, {"mse": 0.22, "auc": 0.68}],
    "dr-jl": [{"mse": 0.21, "auc": 0.60}, {"mse": 0.20, "auc": 0.65}, {"mse": 0.30, "auc": 0.67}],
    "broken": [{"mse": 0.10}, {"mse": 0.10}, {"mse": 0.10}],
    "failed": [],
}
HOSTILE = r"a_b & 50% <script>alert(1)</script> \cmd {x} ~ ^ # $ | *bold* [l](u) `c` ±"


def test_lower_errors_and_higher_aucs_are_better_and_what_lacks_a_metric_is_left_out():
    mse, auc = (standing(metric, SCORES) for metric in ("mse", "auc"))
    assert {method: cell.place for method, cell in mse.cells.items()} == {"broken": 1, "ips": 2, "dr-jl": 3, "naive": 4}
    assert {method: cell.place for method, cell in auc.cells.items()} == {"naive": 1, "ips": 2, "dr-jl": 3}
    assert str(mse.cells["ips"]) == "0.2200 ± 0.0200"
    assert str(standing("mse", {"naive": [{"mse": 0.25}]}).cells["naive"]) == "0.2500"


def test_each_is_compared_with_the_best_of_the_others_and_the_best_with_its_runner_up():
    auc = standing("auc", SCORES)
    assert {method: versus.other for method, versus in auc.best_competitor.items()} == {
        "naive": "ips",
        "ips": "naive",
        "dr-jl": "naive",
    }
    own = {method: [found["auc"] for found in SCORES[method]] for method in ("naive", "ips", "dr-jl")}
    ips, drjl = (paired(own[method], own["naive"]) for method in ("ips", "dr-jl"))
    assert ips is not None
    assert drjl is not None
    t_ips, t_drjl = holm([ips.t, drjl.t])  # two pairs, as naive and ips are one
    assert auc.best_competitor["ips"][1:4] == pytest.approx((ips.difference, ips.t, t_ips))
    assert auc.best_competitor["naive"][1:4] == pytest.approx((-ips.difference, ips.t, t_ips))
    assert auc.naive["dr-jl"][1:4] == pytest.approx((drjl.difference, drjl.t, t_drjl))
    assert "naive" not in auc.naive


def test_with_one_seed_nothing_is_compared_and_without_naive_nothing_with_it():
    one = standing("mse", {name: seeds[:1] for name, seeds in SCORES.items()})
    assert one.best_competitor == one.naive == {}
    assert standing("mse", {"ips": SCORES["ips"], "dr-jl": SCORES["dr-jl"]}).naive == {}


@pytest.fixture
def table():
    return Table("Benchmark of 5 methods", ("How.",), tuple(SCORES), standings_of(SCORES), notes=("Beware.",))


def test_every_format_marks_the_best_and_the_runner_up_and_names_the_failed(table):
    document = document_of(table)
    assert "| naive | 0.3133 ± 0.0153 | **0.7000 ± 0.0100** |" in markdown(document)
    assert "| ips | *0.2200 ± 0.0200* | *0.6867 ± 0.0306* |" in markdown(document)
    assert "| failed | failed | failed |" in markdown(document)
    assert r"ips & \underline{0.2200 $\pm$ 0.0200} & \underline{0.6867 $\pm$ 0.0306} \\" in latex(document)
    assert "<td>naive</td><td>0.3133 ± 0.0153</td><td><strong>0.7000 ± 0.0100</strong></td>" in page(document)


def test_the_csv_has_every_method_by_every_metric_with_p_values_raw_and_corrected(table):
    rows = list(csv.DictReader(io.StringIO(as_csv(table))))
    assert [(row["method"], row["metric"]) for row in rows] == [(m, k) for m in SCORES for k in ("mse", "auc")]
    versus = table.standings["mse"].naive["ips"]
    ips = rows[2]
    assert float(ips["mean"]) == pytest.approx(0.22)
    assert [float(ips[f"naive_{name}"]) for name in versus._fields[1:]] == list(versus[1:])
    assert rows[-1]["mean"] == ""


def hostile_document():
    grid = Grid(HOSTILE, ["method", HOSTILE], [[Text("m"), Text(HOSTILE, 1)], [Text("n"), Text(HOSTILE, 2)]])
    return Document(HOSTILE, (HOSTILE, grid))


def test_html_shows_hostile_text_as_it_is_and_needs_nothing_from_elsewhere():
    text = page(hostile_document())
    seen, tags = [], []

    class Reader(HTMLParser):
        def handle_starttag(self, tag, attributes):
            tags.append(tag)
            assert not {"src", "href"} & {name for name, _ in attributes}

        def handle_data(self, data):
            seen.append(data)

    Reader().feed(text)
    assert "script" not in tags
    assert seen.count(HOSTILE) == 7  # title, heading, paragraph, caption, heading of a column, two cells


def test_latex_escapes_all_that_it_would_take_for_its_own():
    text = latex(hostile_document())
    escaped = (
        r"a\_b \& 50\% $<$script$>$alert(1)$<$/script$>$ \textbackslash{}cmd \{x\} \textasciitilde{} "
        r"\textasciicircum{} \# \$ $|$ *bold* {[}l{]}(u) `c` $\pm$"
    )
    assert text.count(escaped) == 6
    known = (r"\begin", r"\end", r"\section", r"\centering", r"\caption", r"\hline", r"\textbf", r"\underline")
    known += (r"\textbackslash", r"\textasciitilde", r"\textasciicircum", r"\pm")
    assert set(re.findall(r"\\[a-z]+", text)) <= set(known)


def test_markdown_keeps_hostile_text_in_its_cell():
    text = markdown(hostile_document())
    row = next(line for line in text.splitlines() if line.startswith("| m |"))
    assert len(re.findall(r"(?<!\\)\|", row)) == 3
    assert r"\<script\>" in row
    assert r"\*bold\*" in row


def test_without_naive_nothing_is_said_of_it_and_a_metric_is_called_as_on_the_page():
    scores = {name: [{"propensity_ece": low + seed**2} for seed in range(3)] for name, low in (("a", 0), ("b", 1))}
    (grid,) = comparisons(standing("propensity_ece", scores), said="ECE of the propensity")
    assert grid.caption.startswith("ECE of the propensity: each method against the best of the others, mean")
    assert grid.header == ["method", "best competitor", "minus it", "p (t)", "p (Wilcoxon)"]
    assert {len(row) for row in grid.rows} == {len(grid.header)}
