"""Axes, elements and charts: values stand where they should, and whatever is text stays text."""

from __future__ import annotations

import itertools
import math
from xml.etree import ElementTree

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from unskew.report.axes import NUMBER, PERCENT, SIGNED, WHOLE, linear, logarithmic, short
from unskew.report.charts import Heights, Plot, Series, band, bars, histogram, lines, reliability
from unskew.report.figure import ACCENT, PLAIN, WIDTH, Figure, Table, spaced
from unskew.report.rows import Row, Rows, beams, dumbbells, intervals, strips
from unskew.report.svg import element, marker, written

NAUGHTY = "<script>&\"' </svg>"
PLOT = Plot("name", NAUGHTY, NAUGHTY, "x", "y")
CHART = Rows("name", NAUGHTY, NAUGHTY, "x")
FINITE = st.floats(-1e9, 1e9, allow_nan=False)


def tree(figure: Figure) -> ElementTree.Element:
    return ElementTree.fromstring(str(figure.svg))


def places(figure: Figure, tag: str, kind: str, *names: str) -> list[tuple[float, ...]]:
    found = (one for one in tree(figure).iter(tag) if kind in one.get("class", "").split())
    return [tuple(float(one.get(name)) for name in names) for one in found]


@settings(max_examples=60, deadline=None)
@example([5e-68], WHOLE)
@example([1e9, 1e9 + 1e-3], NUMBER)
@given(st.lists(FINITE, min_size=1, max_size=5), st.sampled_from([NUMBER, PERCENT, SIGNED, WHOLE]))
def test_a_linear_axis_holds_all_values_between_ticks_that_tell_themselves_apart(values, unit):
    axis = linear(values, 10, 110, unit=unit)
    slack = 1e-6 * max(abs(axis.low), abs(axis.high))
    assert axis.low - slack <= min(values)
    assert max(values) <= axis.high + slack
    assert len({words for _, words in axis.ticks}) == len(axis.ticks)
    assert 2 <= len(axis.ticks) <= 12
    assert all(10 <= axis(value) <= 110 for value in values)


@pytest.mark.parametrize(
    ("values", "unit", "words"),
    [
        ([0, 0.31], PERCENT, ["0%", "10%", "20%", "30%", "40%"]),
        ([0, 0.1], PERCENT, ["0.0%", "2.5%", "5.0%", "7.5%", "10.0%"]),
        ([-0.5, 1], SIGNED, ["−0.5", "0.0", "+0.5", "+1.0"]),
        ([1, 2], WHOLE, ["1", "2"]),
        ([0, 4000], NUMBER, ["0", "1,000", "2,000", "3,000", "4,000"]),
    ],
)
def test_ticks_are_round_and_told_with_as_many_digits_as_they_need(values, unit, words):
    assert [said for _, said in linear(values, 0, 1, wanted=4, unit=unit).ticks] == words


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=5))
def test_a_logarithmic_axis_holds_all_values_and_puts_powers_of_ten_at_equal_distances(values):
    axis = logarithmic(values, 0, 100)
    assert axis.low <= min(values)
    assert max(values) <= axis.high
    middle = math.sqrt(axis.low * axis.high)
    assert axis(middle) == pytest.approx(50)


def test_numbers_are_short():
    assert [short(value) for value in (0, 0.00005, 0.003, 12, 1500, 2_000_000)] == [
        "0",
        "5e-05",
        "0.003",
        "12",
        "1.5k",
        "2M",
    ]
    assert [written(value) for value in (1.0, 1.26, 3, "x")] == ["1", "1.3", "3", "x"]


def test_ticks_whose_words_would_touch_are_left_out():
    axis = linear([0, 1], 0, 60, wanted=10)
    kept = [axis(value) for value, _ in spaced(axis)]
    assert len(kept) < len(axis.ticks)
    assert all(b - a >= 4 * 3 for a, b in itertools.pairwise(kept))


def test_text_and_attributes_are_escaped():
    assert str(element("text", NAUGHTY, class_=NAUGHTY)) == (
        '<text class="&lt;script&gt;&amp;&#34;&#39; &lt;/svg&gt;">&lt;script&gt;&amp;&#34;&#39; &lt;/svg&gt;</text>'
    )
    assert "rotate(45 1 2)" in marker(1.0, 2.0, "mark", "diamond")


def every_chart() -> dict[str, Figure]:
    row = [Row(NAUGHTY, (0.2, 0.6), NAUGHTY, (0.1, 0.7))]
    return {
        "lines": lines(PLOT, [Series(NAUGHTY, [(1, 2), (2, float("nan")), (3, 4)])], at=2),
        "band": band(PLOT, [(1, 2, 2), (2, 1, 3)], 2),
        "histogram": histogram(PLOT, [0.1, 1, 10], [Heights(NAUGHTY, [0.5, 0.2], PLAIN)]),
        "bars": bars(PLOT, [NAUGHTY, "b"], [0.5, -0.2]),
        "reliability": reliability(PLOT, [(0.1, 0.2)], [(0.3, 0.3)]),
        "dumbbells": dumbbells(CHART, row, Table("", ("a",), [(NAUGHTY,)])),
        "intervals": intervals(CHART, row, ("a", "b", "c", "d", "e")),
        "strips": strips(CHART, row, ("a", "b", "c")),
        "beams": beams(CHART, row, ("a", "b", "c")),
        "nothing": lines(PLOT, [Series("empty", [])]),
    }


@pytest.mark.parametrize(("kind", "figure"), every_chart().items(), ids=every_chart())
def test_every_chart_is_well_formed_has_a_title_and_a_description_and_stays_within_its_frame(kind, figure):
    svg = tree(figure)
    assert [svg.find(tag).text for tag in ("title", "desc")] == [NAUGHTY, NAUGHTY]
    assert svg.get("aria-labelledby") == "name-title name-desc"
    assert svg.get("role") == "img"
    assert not list(svg.iter("script"))
    _, _, width, height = map(float, svg.get("viewBox").split())
    for text in svg.iter("text"):
        assert 0 <= float(text.get("y")) <= height
        assert 0 <= float(text.get("x")) <= width


def test_bars_are_as_high_as_their_values():
    figure = bars(PLOT, ["a", "b"], [0.2, 0.8])
    (_, small), (_, large) = places(figure, "rect", "bar", "y", "height")
    assert large == pytest.approx(4 * small, rel=0.01)


def test_a_histograms_outline_steps_at_its_edges():
    figure = histogram(PLOT, [1, 10, 100], [Heights("h", [0.5, 0.25], ACCENT)])
    (path,) = (one for one in tree(figure).iter("path"))
    points = [tuple(map(float, point.split())) for point in path.get("d")[1:].split(" L")]
    xs, ys = zip(*points, strict=True)
    assert xs[2] - xs[1] == pytest.approx(xs[4] - xs[3], abs=0.2)  # two decades
    assert ys[0] - ys[2] == pytest.approx(2 * (ys[0] - ys[4]), abs=0.3)


def test_what_is_calibrated_lies_on_the_diagonal():
    figure = reliability(PLOT, [(0.2, 0.2), (0.6, 0.6)], [(0.4, 0.1)])
    ((x1, y1, x2, y2),) = places(figure, "line", "here", "x1", "y1", "x2", "y2")
    for x, y in places(figure, "circle", "mark", "cx", "cy"):
        assert (y - y1) * (x2 - x1) == pytest.approx((x - x1) * (y2 - y1), abs=60)


def test_dumbbells_and_intervals_put_values_on_their_axis():
    rows = [Row("a", (0.0, 1.0), ""), Row("b", (0.5, 0.25), "")]
    figure = dumbbells(CHART, rows, Table("", (), ()))
    ways = places(figure, "line", "way", "x1", "x2")
    (zero, one), (half, quarter) = ways
    assert half == pytest.approx((zero + one) / 2, abs=0.2)
    assert quarter == pytest.approx(zero + (one - zero) / 4, abs=0.2)
    assert 0 <= zero < one <= WIDTH


def test_the_numbers_behind_a_chart_are_its_values():
    figure = intervals(CHART, [Row("a", (0.25,), "", (0.125, 0.5))], ("what", "value", "low", "high"))
    assert figure.data.rows == [("a", "0.2500", "0.1250", "0.5000")]
    figure = band(PLOT, [(1, 2, 2), (3, 1, 4)], 2)
    assert figure.data.rows == [("1", "2", "2"), ("3", "1", "4")]
