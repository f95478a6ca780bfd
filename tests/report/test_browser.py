"""The page in headless Chromium: it renders on a desk and on a phone, in light, in dark and on paper."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from unskew.report.model import TITLES

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")
if not BROWSER or not DRIVER:
    pytest.skip("needs chromium and chromedriver (apt-get install chromium chromium-driver)", allow_module_level=True)
webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium (pip install selenium)")

FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
)
SMALLEST_LETTERS = 10.5  # pixels on a phone
FIGURES = """
return [...document.querySelectorAll('figure')].map(figure => {
  const svg = figure.querySelector('svg'), box = svg.getBoundingClientRect();
  const letters = 13 * box.width / svg.viewBox.baseVal.width;
  const words = [...svg.querySelectorAll('text')].map(text => text.getBoundingClientRect());
  const beyond = words.filter(w => w.right > document.documentElement.clientWidth + 1 || w.left < -1).length;
  const shapes = svg.querySelectorAll('path, rect, circle, line.way, line.beam').length;
  return [svg.getAttribute('aria-labelledby'), box.width, box.height, letters, beyond, shapes, words.length];
})
"""


@pytest.fixture(scope="module")
def browser(html: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    folder = tmp_path_factory.mktemp("browser")
    (folder / "report.html").write_text(html)
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for flag in (*FLAGS, f"--user-data-dir={folder / 'profile'}"):
        options.add_argument(flag)
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    try:
        driver.get((folder / "report.html").as_uri())
        yield driver
    finally:
        driver.quit()


def show(browser: webdriver.Chrome, width: int, *, scheme: str = "light", media: str = "screen") -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})
    browser.get(browser.current_url.partition("#")[0])


@pytest.mark.parametrize("width", [1280, 390])
def test_every_figure_is_visible_and_legible_nothing_sticks_out_and_the_console_is_silent(browser, width) -> None:
    show(browser, width)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    figures = browser.execute_script(FIGURES)
    assert len(figures) >= 12
    for name, wide, high, letters, beyond, shapes, words in figures:
        assert wide > 150, name
        assert high > 80, name
        assert letters >= SMALLEST_LETTERS, name
        assert beyond == 0, name
        assert shapes > 0, name
        assert words > 2, name
    assert browser.get_log("browser") == []


def test_links_lead_to_their_sections(browser) -> None:
    show(browser, 1280)
    for name in TITLES:
        browser.execute_script("document.querySelector(`nav a[href='#${arguments[0]}']`).click()", name)
        assert browser.current_url.endswith(f"#{name}")
        assert browser.execute_script("return document.querySelector(':target').id") == name


def test_dark_is_dark_and_paper_is_white_with_no_contents(browser) -> None:
    def brightness() -> float:
        colour = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
        return sum(map(float, colour[4:-1].split(",")[:3])) / (3 * 255)

    show(browser, 1280)
    light = brightness()
    show(browser, 1280, scheme="dark")
    assert brightness() < 0.2 < 0.9 < light
    show(browser, 1280, scheme="dark", media="print")
    assert brightness() == 1
    assert not browser.execute_script("return document.querySelector('nav').checkVisibility()")


CONTRAST = """
const part = c => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
const light = colour => {
  const [r, g, b] = colour.match(/[\\d.]+/g).map(Number);
  return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
};
const under = element => {
  const colour = element ? getComputedStyle(element).backgroundColor : 'rgb(255, 255, 255)';
  return colour === 'rgba(0, 0, 0, 0)' ? under(element.parentElement) : colour;
};
const told = document.querySelectorAll('p, li, dd, dt, th, td, h1, h2, h3, a, summary, figcaption');
return Math.min(...[...told].map(element => {
  const [more, less] = [light(getComputedStyle(element).color), light(under(element))].sort((a, b) => b - a);
  return (more + 0.05) / (less + 0.05);
}));
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_has_the_contrast_that_people_with_weak_eyes_need(browser, scheme) -> None:
    show(browser, 1280, scheme=scheme)
    assert browser.execute_script(CONTRAST) >= 4.5


def test_the_keyboard_reaches_the_content_and_opens_what_is_folded(browser) -> None:
    from selenium.webdriver.common.keys import Keys

    show(browser, 390)
    body = browser.find_element("tag name", "body")
    body.send_keys(Keys.TAB)
    first = browser.switch_to.active_element
    assert first.get_attribute("href").endswith("#main")
    assert first.location["x"] >= 0
    summary = browser.find_element("css selector", "figure summary")
    summary.send_keys(Keys.ENTER)
    assert browser.find_element("css selector", "figure details[open] table").is_displayed()


def test_a_user_called_script_is_text(browser) -> None:
    assert browser.execute_script("return document.scripts.length") == 0
    assert "<script>alert(1)</script>" in browser.execute_script("return document.body.innerText")


def test_on_paper_no_heading_or_head_of_a_table_is_left_alone(browser) -> None:
    show(browser, 1280, media="print")
    rules = "return [...document.querySelectorAll(arguments[0])].map(one => getComputedStyle(one)[arguments[1]])"
    for selector, rule in (
        ("h2, h3, h4, figcaption, .caption, thead", "breakAfter"),
        ("figure, li, tr, article", "breakInside"),
        ("tbody tr:first-child", "breakBefore"),
    ):
        assert set(browser.execute_script(rules, selector, rule)) == {"avoid"}, selector
