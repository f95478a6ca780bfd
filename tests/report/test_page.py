"""The page as HTML: whole, self-contained, small, in two sheets, and deaf to names that are markup."""

import itertools
import re
import shlex
import shutil
import subprocess
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import unskew
from unskew.bench import Benchmark
from unskew.cli import app
from unskew.report.page import benchmark_page, page, write_page

VOID = {"meta", "link", "br"}
HOSTILE = (
    "<script>alert(1)</script>",
    "{{ 7 * 7 }}",
    "a\x1b[31m\N{RIGHT-TO-LEFT OVERRIDE}b",
    "x" * 500,
    '"><b>',
    "&amp;",
)
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Outline(HTMLParser):
    """All elements with their attributes; complains of tags that do not close each other in order."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.feed(html)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def of(self, *tags):
        return [attributes for tag, attributes in self.elements if tag in tags]


@pytest.fixture(scope="module")
def findings():
    world = unskew.simulate(120, 60, density=0.25, selection="taste", interaction=1.5, seed=2)
    items = [HOSTILE[i] if i < len(HOSTILE) else f"item {i}" for i in range(60)]
    log = unskew.RatingLog.from_arrays(
        world.log.users, np.array(items, object)[world.log.items], world.log.ratings, positive=1, item_ids=items
    )
    model = unskew.make("naive").fit(log, training=unskew.Training(max_epochs=5, progress=False))
    return model.diagnose(called="a folder/model")


@pytest.fixture(scope="module")
def html(findings):
    return page(findings, command="unskew diagnose model --out report.html", log="0123456789abcdef")


def test_the_page_loads_runs_and_sends_nothing(html):
    outline = Outline(html)
    assert not outline.of("script", "iframe", "object", "embed", "form", "img", "base", "video", "audio")
    assert [attributes["href"] for attributes in outline.of("link")] == ["data:,"]
    assert not any(name.startswith("on") or name == "src" for _, a in outline.elements for name in a)
    assert not re.findall(r"https?://(?!www\.w3\.org/2000/svg)|url\(|@import|javascript:", html)
    (policy,) = [a["content"] for a in outline.of("meta") if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"


def test_terminal_notebook_and_page_say_the_same(findings, html):
    def letters(words):
        bare = re.sub(r"<style>.*?</style>|<[^>]+>", "", words, flags=re.DOTALL)
        return re.sub(r"[\s`]", "", unescape(bare)).casefold()

    said = [findings.label, findings.about, findings.why, *findings.next_steps]
    for one in findings:
        said += [f"{one.key}: {one.answer}. {one.headline}", one.meaning, one.rests_on, one.action]
        said += map(str, one.numbers.values())
        cells = [str(cell) for row in (one.table.rows if one.table else ()) for cell in row]
        said += [cell for cell in cells if cell not in HOSTILE]
    assert len(said) > 50
    for form in (findings.text(), findings._repr_html_(), html):
        assert not [words for words in said if letters(words) not in letters(form)]


def test_the_page_is_small_and_opens_with_the_decision(html, findings):
    assert len(html.encode()) < 60_000
    assert html.index(findings.label) < html.index("Is the log biased?") < html.index("What to do next")
    levels = [int(tag[1]) for tag, _ in Outline(html).elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert all(b - a <= 1 for a, b in itertools.pairwise(levels))
    assert all(a["role"] == "img" and a["aria-label"] for a in Outline(html).of("svg"))

    classes = [set(a.get("class", "").split()) for _, a in Outline(html).elements]
    coloured = [own for own in classes if own & {"use", "test", "stop"}]
    assert coloured == [{"do", findings.decision}]  # nothing but the decision


def luminance(colour):
    """Relative luminance of WCAG 2.2."""
    parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(*colours):
    low, high = sorted(map(luminance, colours))
    return (high + 0.05) / (low + 0.05)


def test_every_text_stands_out_from_its_ground_in_light_dark_and_print(html):
    style = re.search("<style>(.*?)</style>", html, re.DOTALL)[1]
    screen, printed = style.split("@media print")
    dark_blocks = re.findall(r"@media \(prefers-color-scheme: dark\) \{\s*:root \{(.*?)\}", screen, re.DOTALL)
    looks = {"light": re.findall(r"(?m)^:root \{(.*?)\}", screen, re.DOTALL), "dark": dark_blocks, "print": [printed]}
    known: dict[str, str] = {}
    for look, blocks in looks.items():
        known |= dict(re.findall(r"--(\w+): (#[0-9a-f]{6})\b", " ".join(blocks)))
        texts = {*re.findall(r"(?<!-)(?:color|fill): var\(--(\w+)\)", screen)}
        assert {"ink", "soft", "use", "test", "stop", "accent"} <= texts <= known.keys()
        for text in texts:  # marks of charts among them, for which 3 would do
            for ground in ("paper", "card"):
                assert contrast(known[text], known[ground]) >= 4.5, (look, text, ground)


def test_the_page_can_be_read_by_keyboard(html):
    outline = Outline(html)
    screen = html.split("@media print")[0]
    tags = [tag for tag, _ in outline.elements]
    assert [tags[n + 1] for n, tag in enumerate(tags) if tag == "details"] == ["summary"] * tags.count("details") != []
    assert not re.search(r"display: none|visibility: hidden|outline: (none|0)", screen)  # what is folded is <details>
    assert not any("hidden" in a for _, a in outline.elements)
    for a in (a for _, a in outline.elements if "scroll" in a.get("class", "").split()):
        assert (a["tabindex"], a["role"]) == ("0", "region")
        assert a["aria-label"]
    assert {a["tabindex"] for _, a in outline.elements if "tabindex" in a} == {"0"}  # in the order of the page
    assert ".scroll:focus-visible, summary:focus-visible { outline: 3px solid" in screen


def test_names_from_the_log_are_text(findings):
    table = findings["lists"].table
    rows = [["person A, 1", name, name] for name in HOSTILE]
    named = replace(findings["lists"], table=replace(table, rows=rows))
    html = page(replace(findings, findings=[named if one.key == "lists" else one for one in findings]))
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    for markup in ("<script", "<img", '"><b>', "\x1b", "\N{RIGHT-TO-LEFT OVERRIDE}", "x" * 100, ">49<"):
        assert markup not in html
    Outline(html)


def test_every_command_on_the_page_exists(html):
    commands = typer.main.get_command(app).commands
    named = [unescape(code) for code in re.findall(r"<code>(.*?)</code>", html)]
    assert len(named) >= 2
    for line in named:
        first, name, *words = shlex.split(line)
        assert first == "unskew"
        commands[name].make_context(name, words)


def test_a_log_has_a_page_too():
    log = unskew.simulate(60, 40, density=0.3, seed=1).log
    html = page(unskew.diagnose(log, called="ratings.csv"))
    assert "Is the log biased?" in html
    assert "Is this model better" not in html
    Outline(html)


@pytest.mark.skipif(BROWSER is None, reason="needs chromium")
def test_two_sheets_are_enough(html, tmp_path):
    (tmp_path / "report.html").write_text(html)
    flags = ("--headless", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer", f"--user-data-dir={tmp_path}/p")
    printed = tmp_path / "report.pdf"
    words = [BROWSER, *flags, f"--print-to-pdf={printed}", (tmp_path / "report.html").as_uri()]
    subprocess.run(words, check=True, capture_output=True, timeout=120)
    assert len(re.findall(rb"/Type\s*/Page\b(?!s)", printed.read_bytes())) <= 2


@pytest.fixture
def folder(tmp_path):
    scores = {
        "naive": [{"mse": 0.21, "auc": 0.7, "seconds": 1.0}, {"mse": 0.22, "auc": 0.71, "seconds": 1.2}],
        "<script>": [{"mse": 0.19, "auc": 0.74, "seconds": 2.0}, {"mse": 0.2, "auc": 0.73, "seconds": 2.1}],
    }
    facts = {"log": "abc", "versions": {"a": 1, "b": 2}}
    found = Benchmark(tuple(scores), scores, ("Two seeds.",), (), ("nothing failed",), {}, facts)
    found.publish(tmp_path)
    return tmp_path


def test_a_benchmark_has_a_page_that_shows_who_is_best_and_escapes_names(folder):
    html = benchmark_page(folder)
    assert "&lt;script&gt; is best of 2 methods" in html
    assert "<script" not in html
    assert html.count("<svg") == html.count("</svg>") >= 2
    assert "Is it more than chance?" in html
    assert "<td>a 1, b 2</td>" in html
    assert len(html.encode()) < 60_000
    Outline(html)
    out, run = folder / "page.html", CliRunner().invoke
    assert run(app, ["diagnose", str(folder), "--out", str(out)]).exit_code == 0
    assert out.read_text() == html
    assert "name a page for them by --out" in run(app, ["diagnose", str(folder)]).stderr
    with pytest.raises(unskew.UnskewError, match="is not the record of a benchmark"):
        write_page(folder / "recipes", folder / "other.html")
