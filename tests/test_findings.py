"""Findings: one record as text, JSON, markup and tables; `repr` is one screen; nothing hostile gets through."""

import csv
import io
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unskew.charts import Row, rows
from unskew.errors import ParameterError
from unskew.findings import LABELS, SCREEN, WIDTH, Finding, Findings, Interval, Table

SHARE = Interval(0.39, 0.34, 0.43, ".0%")
CHART = rows("Share liked", "Less than the log shows.", [Row("All pairs", SHARE)], axis="share liked")
TABLE = Table("Models", ("model", "error", "liked"), [("plain", 0.25, 61), ("this", Interval(0.2, 0.1, 0.3), None)])
BIAS = Finding("bias", "yes", "By 13 points", "People rate what they like.", {"over all pairs": SHARE}, "the log")
BIG = Finding("gain", "cannot tell", "word " * 60, "word " * 200, {}, "folds", "collect ratings", CHART, TABLE)
ALL = Findings("test", "The log cannot tell.", [BIAS, BIG], ["unskew fit log.csv", "word " * 50], "a log")


def test_an_interval_shows_what_it_has():
    assert str(SHARE) == "39% (34% to 43%)"
    assert str(Interval(6960, form=",.0f")) == "6,960"
    assert str(Interval(math.nan)) == "unknown"
    assert SHARE.covers(0.4)
    assert not Interval(0.4).covers(0.4)
    assert Interval(0.5).to_dict() == {"value": 0.5, "low": None, "high": None}


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
    assert ALL.numbers().csv().splitlines()[1] == "bias,over all pairs,0.39,0.34,0.43"
    with pytest.raises(ParameterError, match="no finding 'bais': there are bias, gain"):
        ALL["bais"]
    labels = [Findings(decision, "", subject=subject).label for subject in LABELS for decision in LABELS[subject]]
    assert len(set(labels)) == 6


def test_a_table_is_the_same_in_every_format():
    table = Table("Errors", ("model", "error"), [("a_b", 0.123456), ("c|d", 1234)], frozenset({(0, 1)}))
    assert table.text() == "model    error\na_b    0.1235*\nc|d      1,234"
    assert table.markdown().split("\n") == [
        "| model | error |",
        "| --- | ---: |",
        r"| a\_b | **0.1235** |",
        r"| c\|d | 1,234 |",
    ]
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
