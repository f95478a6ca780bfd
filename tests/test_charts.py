"""Charts: well-formed, readable without colours or a screen, every mark where its value is, nothing hostile inside."""

import math
import xml.etree.ElementTree as ET

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from unskew.charts import COLOURS, STYLE, STYLES, WIDTH, Point, Row, Scale, lines, rows
from unskew.findings import Interval

SVG = "{http://www.w3.org/2000/svg}"


def parsed(chart):
    return ET.fromstring(chart._repr_svg_())


def two_rows(**given):
    data = [Row("log", Interval(0.52, form=".0%"), "plain"), Row("all", Interval(0.4, 0.35, 0.45, ".0%"), dots=[0.41])]
    return rows("Share liked", "Less than the log shows.", data, axis="share", **given)


def test_a_chart_has_title_words_and_numbers():
    chart = two_rows()
    drawing = parsed(chart)
    assert drawing.find(f"{SVG}title").text == "Share liked"
    assert drawing.find(f"{SVG}desc").text == "Less than the log shows."
    assert drawing.get("role") == "img"
    assert "Share liked" in drawing.get("aria-label")
    assert chart.to_dict()["rows"] == [["log", 0.52, None, None], ["all", 0.4, 0.35, 0.45]]


def test_marks_stand_where_their_values_are():
    drawing = parsed(two_rows(here=0.5))
    middle = float(drawing.find(f".//{SVG}line[@class='here']").get("x1"))
    interval = drawing.find(f".//{SVG}line[@class='way accent']")
    log = float(drawing.find(f".//{SVG}circle[@class='mark plain']").get("cx"))
    low, high = float(interval.get("x1")), float(interval.get("x2"))
    assert low < high < middle < log
    assert (high - low) / (middle - low) == pytest.approx(0.10 / 0.15, abs=0.01)


def test_styles_differ_by_shape_and_colour():
    data = {name: [Point(n, Interval(n)), Point(n + 1, Interval(n))] for n, name in enumerate("abcd")}
    chart = lines("t", "m", data, x="x", y="y")
    shapes = set()
    for style in STYLES:
        mark = parsed(chart).find(f".//*[@class='mark {style}']")
        corners = [tuple(map(float, corner.split(","))) for corner in mark.get("points", "").split()]
        shapes.add(tuple((round(x - corners[0][0]), round(y - corners[0][1])) for x, y in corners))
        assert len(COLOURS[style]) == 2
        assert f"var(--{style})" in STYLE
    assert len(shapes) == 4


def test_a_page_colours_its_charts_itself_and_a_file_brings_its_own(tmp_path):
    chart = two_rows()
    assert "<style" not in chart.svg
    assert "#" not in chart.svg
    chart.save(tmp_path / "chart.svg")
    assert "prefers-color-scheme: dark" in (tmp_path / "chart.svg").read_text()
    assert ET.parse(tmp_path / "chart.svg").getroot().tag == f"{SVG}svg"


def test_a_diagonal_is_where_both_axes_are_equal():
    chart = lines(
        "t", "m", {"": [Point(0.2, Interval(0.2, 0.1, 0.3)), Point(0.8, Interval(0.8))]}, x="x", y="y", diagonal=True
    )
    line = parsed(chart).find(f".//{SVG}line[@class='here']")
    x1, y1, x2, y2 = (float(line.get(name)) for name in ("x1", "y1", "x2", "y2"))
    for mark in parsed(chart).findall(f".//{SVG}polygon"):
        corners = [tuple(map(float, corner.split(","))) for corner in mark.get("points").split()]
        x, y = (sum(values) / 4 for values in zip(*corners, strict=True))
        assert (x - x1) / (x2 - x1) == pytest.approx((y - y1) / (y2 - y1), abs=0.01)


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
    charts = [rows(words, words, data, axis=words, log=log), lines(words, words, {words: points}, x=words, y=words)]
    for chart in charts:
        drawing = parsed(chart)
        assert drawing.find(f".//{SVG}script") is None
        places = [float(e.get(name)) for e in drawing.iter() for name in ("x1", "x2", "cx") if e.get(name)]
        assert all(-1 <= place <= WIDTH + 1 for place in places)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.floats(-1e9, 1e9, width=32), min_size=1), st.booleans())
def test_a_scale_holds_its_values_between_few_round_ticks(values, log):
    scale = Scale(values, log=log)
    assert 2 <= len(scale.ticks()) <= 60
    for value in values:
        place = scale.between(value, 0, 1)
        assert -1e-6 <= place <= 1 + 1e-6 or (log and value <= 0 and math.isnan(place))


def test_ticks_have_the_digits_they_need():
    assert [words for _, words in Scale([0, 1]).ticks()] == ["0.00", "0.25", "0.50", "0.75", "1.00"]
    assert [words for _, words in Scale([0.3, 0.55]).ticks(percent=True)] == ["30%", "40%", "50%", "60%"]
    assert [words for _, words in Scale([1, 50], log=True).ticks()] == ["1", "2", "5", "10", "20", "50"]
