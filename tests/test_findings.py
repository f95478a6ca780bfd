"""Findings and charts: one record in every form, every mark where its value is, and nothing hostile gets through."""

import csv
import io
import json
import math
import xml.etree.ElementTree as ET

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from unskew import ParameterError, charts
from unskew.charts import Point, Row, Scale, lines, rows
from unskew.findings import LABELS, SCREEN, WIDTH, Finding, Findings, Interval, Table

SHARE = Interval(0.39, 0.34, 0.43, ".0%")
CHART = rows("Share liked", "Less than the log shows.", [Row("All pairs", SHARE)], axis="share liked")
TABLE = Table("Models", ("model", "error", "liked"), [("plain", 0.25, 61), ("this", Interval(0.2, 0.1, 0.3), None)])
BIAS = Finding("bias", "yes", "By 13 points", "People rate what they like.", {"over all pairs": SHARE}, "the log")
BIG = Finding("gain", "cannot tell", "word " * 60, "word " * 200, {}, "folds", "collect ratings", CHART, TABLE)
ALL = Findings("test", "The log cannot tell.", [BIAS, BIG], ["unskew fit log.csv", "word " * 50], "a log")


def test_a_record_survives_json_whole():
    facts = json.loads(ALL.json())
    assert (facts["decision"], facts["label"]) == ("test", "Test it first")
    assert [one["key"] for one in facts["findings"]] == ["bias", "gain"]
    assert facts["findings"][0]["numbers"]["over all pairs"]["low"] == 0.34
    assert facts["findings"][1]["table"]["rows"][1][1]["high"] == 0.3
    assert facts["findings"][1]["chart"]["rows"] == [["All pairs", 0.39, 0.34, 0.43]]


def test_repr_is_one_screen():
    many = Findings("use", "w " * 900, [BIG] * 30, ["step " * 40] * 20)
    for shown in (repr(many), repr(BIG), repr(ALL), repr(Table("", ("a",), [(n,) for n in range(99)]))):
        lines = shown.split("\n")
        assert len(lines) <= SCREEN
        assert max(map(len, lines)) <= WIDTH
    assert repr(ALL).startswith("a log\n\nTEST IT FIRST. The log cannot tell.\n\nbias  yes          By 13 points")
    assert "39% (34% to 43%)" in ALL.text()
    assert "collect ratings" in ALL.text()


def test_findings_are_found_by_key_and_decisions_have_their_own_words():
    assert ALL["bias"] is BIAS
    assert list(ALL) == [BIAS, BIG]
    assert ALL.numbers().csv().splitlines()[1] == "bias,over all pairs,39% (34% to 43%)"
    with pytest.raises(ParameterError, match="no finding 'bais': there are bias, gain"):
        ALL["bais"]
    labels = [Findings(decision, "", subject=subject).label for subject in LABELS for decision in LABELS[subject]]
    assert len(set(labels)) == 6


def test_a_table_is_the_same_in_every_format():
    table = Table("Errors", ("model", "error"), [("a_b", 0.123456), ("c|d", 1234)], frozenset({(0, 1)}))
    assert table.text() == "model    error\na_b    0.1235*\nc|d      1,234"
    rows_of_two = [r"| a\_b | **0.1235** |", r"| c\|d | 1,234 |"]
    assert table.markdown().split("\n") == ["| model | error |", "| --- | ---: |", *rows_of_two]
    assert r"a\_b & \textbf{0.1235} \\" in table.latex()
    assert r"c$|$d & 1,234 \\" in table.latex()
    assert r"\textbackslash{}input\{x\}" in Table("", (r"\input{x}",), []).latex()
    assert list(csv.reader(io.StringIO(table.csv()))) == [["model", "error"], ["a_b", "0.123456"], ["c|d", "1234"]]
    assert "<th scope='row'>a_b</th><td><b>0.1235</b></td>" in table.html()


@given(st.text(min_size=1))
def test_text_from_outside_cannot_leave_its_place(words):
    table = Table(words, ("name", words), [(words, 1.0)])
    finding = Finding("lists", "no", words, words, {words: SHARE}, words, words, None, table)
    page = Findings("stop", words, [finding], [words])._repr_html_()
    for mark in ("<script", "<img", "<a ", "<style"):
        assert mark not in page.lower()
    assert all(letter.isprintable() or letter == "\n" for letter in Findings("stop", words, [finding], [words]).text())
    assert len(table.text().split("\n")) == 2
    assert len(table.markdown().split("\n")) == 3


SVG = "{http://www.w3.org/2000/svg}"


def parsed(chart):
    return ET.fromstring(chart._repr_svg_())


def two_rows(**given):
    data = [Row("log", Interval(0.52, form=".0%"), "plain"), Row("all", Interval(0.4, 0.35, 0.45, ".0%"), dots=[0.41])]
    return rows("Share liked", "Less than the log shows.", data, axis="share", **given)


def test_marks_stand_where_their_values_are():
    drawing = parsed(two_rows(here=0.5))
    middle = float(drawing.find(f".//{SVG}line[@class='here']").get("x1"))
    interval = drawing.find(f".//{SVG}line[@class='way accent']")
    log = float(drawing.find(f".//{SVG}circle[@class='mark plain']").get("cx"))
    low, high = float(interval.get("x1")), float(interval.get("x2"))
    assert low < high < middle < log
    assert (high - low) / (middle - low) == pytest.approx(0.10 / 0.15, abs=0.01)


def test_a_page_colours_its_charts_itself_and_a_file_brings_its_own(tmp_path):
    chart = two_rows()
    assert "<style" not in chart.svg
    assert "#" not in chart.svg
    chart.save(tmp_path / "chart.svg")
    assert "prefers-color-scheme: dark" in (tmp_path / "chart.svg").read_text()
    assert ET.parse(tmp_path / "chart.svg").getroot().tag == f"{SVG}svg"


NUMBERS = st.one_of(st.floats(-1e12, 1e12), st.sampled_from([math.nan, math.inf, -math.inf]))
WORDS = st.text(st.characters(codec="utf-8"), max_size=60)


@settings(deadline=None, max_examples=60)
@example([("", 0.0, 0.0, 5e-324)], True)
@example([("", 0.0, 0.0, 5e-324)], False)
@given(st.lists(st.tuples(WORDS, NUMBERS, NUMBERS, NUMBERS), max_size=4), st.booleans())
def test_any_numbers_and_words_give_a_well_formed_chart(given_rows, log):
    data = [Row(name, Interval(*values)) for name, *values in given_rows]
    points = [Point(row.at.value if math.isfinite(row.at.value) else 1.0, row.at, row.name) for row in data]
    words = "<script>&'\"" + "".join(row.name for row in data)
    for chart in (
        rows(words, words, data, axis=words, log=log),
        lines(words, words, {words: points}, x=words, y=words),
    ):
        drawing = parsed(chart)
        assert drawing.find(f".//{SVG}script") is None
        places = [float(e.get(name)) for e in drawing.iter() for name in ("x1", "x2", "cx") if e.get(name)]
        assert all(-1 <= place <= charts.WIDTH + 1 for place in places)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.floats(-1e9, 1e9, width=32), min_size=1), st.booleans())
def test_a_scale_holds_its_values_between_few_round_ticks(values, log):
    scale = Scale(values, log=log)
    assert 2 <= len(scale.ticks()) <= 60
    for value in values:
        place = scale.between(value, 0, 1)
        assert -1e-6 <= place <= 1 + 1e-6 or (log and value <= 0 and math.isnan(place))
