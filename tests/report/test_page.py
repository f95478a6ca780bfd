"""The page as HTML, without a browser: whole, self-contained, linked, described, and deaf to names that are markup."""

from __future__ import annotations

import itertools
import re
from html.parser import HTMLParser

import pytest

import unskew
from unskew.report.material import Material
from unskew.report.model import TITLES, model_page
from unskew.report.names import shown
from unskew.report.page import Page, Section, rendered
from unskew.report.report import write_report

SHORT = unskew.Training(max_epochs=2, holdout=0.2, progress=False)
VOID = {"meta", "link", "img", "br", "hr", "input"}


class Outline(HTMLParser):
    """All elements with their attributes and text; complains of tags that do not close each other in order."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.rows: list[tuple[int, list[int]]] = []  # of each table, cells in its head and in its rows
        self.feed(html)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        assert len(attributes) == len(attrs), f"an attribute of {tag} is given twice"
        self.elements.append((tag, attributes))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self.rows.append((0, []))
        elif tag == "tr" and "tbody" in self.open:
            self.rows[-1][1].append(0)
        elif tag in ("th", "td"):
            head, rows = self.rows[-1]
            if "thead" in self.open:
                self.rows[-1] = head + 1, rows
            else:
                rows[-1] += 1

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"{tag} closes nothing"
        assert self.open.pop() == tag

    def of(self, *tags: str) -> list[dict[str, str]]:
        return [attributes for tag, attributes in self.elements if tag in tags]


@pytest.fixture(scope="module")
def outline(html: str) -> Outline:
    return Outline(html)


def test_ids_are_unique_and_everything_that_refers_to_one_finds_it(outline: Outline) -> None:
    ids = [attributes["id"] for _, attributes in outline.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for _, attributes in outline.elements:
        for name in ("aria-labelledby", "aria-describedby"):
            assert set(attributes.get(name, "").split()) <= set(ids)
    links = [attributes["href"] for attributes in outline.of("a")]
    assert {f"#{name}" for name in TITLES} <= set(links)
    assert all(link.startswith("#") and link[1:] in ids for link in links)


def test_the_page_loads_runs_and_sends_nothing(html: str, outline: Outline) -> None:
    assert not outline.of("script", "iframe", "object", "embed", "form", "img", "base", "video", "audio")
    assert [attributes["href"] for attributes in outline.of("link")] == ["data:,"]
    assert not any(name.startswith("on") or name == "src" for _, attributes in outline.elements for name in attributes)
    assert not re.findall(r"https?://|url\(|@import|javascript:", html)
    (policy,) = [a["content"] for a in outline.of("meta") if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'")


def test_every_figure_has_a_title_a_description_and_its_numbers(page: Page, outline: Outline, html: str) -> None:
    figures = outline.of("figure")
    assert len(figures) >= 10
    assert len(outline.of("svg")) == len(figures) == html.count("</desc>") == html.count("The numbers<span")
    assert all(attributes["role"] == "img" for attributes in outline.of("svg"))


def test_every_row_of_a_table_has_as_many_cells_as_its_head(outline: Outline) -> None:
    assert len(outline.rows) > 15
    for head, rows in outline.rows:
        assert rows
        assert set(rows) == {head}


def test_headings_skip_no_level(outline: Outline) -> None:
    levels = [int(tag[1]) for tag, _ in outline.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b - a <= 1 for a, b in itertools.pairwise(levels))


def test_names_from_the_log_are_text(html: str) -> None:
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    for markup in ("<script", "<img", "<b>", "\0", "\a", "\N{RIGHT-TO-LEFT OVERRIDE}", "x" * 100):
        assert markup not in html
    assert ">49<" not in html  # 7 * 7


def test_a_very_long_name_is_cut_and_what_disturbs_is_replaced() -> None:
    assert shown("y" * 500) == "y" * 59 + "…"
    assert shown("a\x1b[31m\N{RIGHT-TO-LEFT OVERRIDE}b") == "a�[31m�b"
    assert shown(12) == "12"


def test_the_page_is_small(html: str) -> None:
    assert len(html.encode()) < 500_000


def test_a_model_that_ignores_the_bias_is_shown_beside_one_that_does_not(log: unskew.RatingLog) -> None:
    method = unskew.Naive(net=unskew.MF(n_factors=2))
    html = rendered(model_page(method.fit(log, training=SHORT), propensity=unskew.Additive()))
    assert Outline(html).of("figure")
    assert "This model <em>is</em> the naive one" in html
    assert "a debiased model, doubly calibrated" in html


def test_sections_come_in_the_order_of_the_questions(page: Page) -> None:
    assert [section.id for section in page.sections] == list(TITLES)
    assert list(TITLES)[:4] == ["data", "bias", "remedy", "versus"]


def test_a_template_that_asks_for_what_is_not_there_fails_instead_of_leaving_it_out() -> None:
    with pytest.raises(Exception, match="has no attribute 'tiles'"):
        rendered(Page("t", "limits.html", [], (Section("data", "D", "Data", "data.html", object()),)))


def test_a_report_is_written_whole_or_not_at_all(material: Material, tmp_path, monkeypatch) -> None:
    target = tmp_path / "report.html"
    target.write_text("before")
    monkeypatch.setattr("unskew.report.report.page_of", lambda *a, **k: Page("t", "limits.html", [], ()))
    monkeypatch.setattr("unskew.report.report.rendered", lambda page: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_report(material.model, target)
    assert target.read_text() == "before"
    monkeypatch.setattr("unskew.report.report.rendered", lambda page: "after")
    unskew.write_report(material.model, target)
    assert target.read_text() == "after"
    with pytest.raises(unskew.ParameterError, match="cannot be written"):
        write_report(material.model, tmp_path / "none" / "report.html")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
