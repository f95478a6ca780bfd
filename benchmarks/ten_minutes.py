"""Make docs/ten-minutes.md anew: give its commands in an empty folder, write what they say into it, take its pictures.

`python benchmarks/ten_minutes.py docs`. A block of text below a command or a program is replaced by what that says now
and the processor time it took; `<!-- first N lines -->` above it says how much of it is shown. Needs chromium,
chromedriver and selenium.
"""

from __future__ import annotations

import base64
import os
import re
import resource
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from PIL import Image

import unskew
from unskew.files.atomic import replace_file

PAGE = "ten-minutes.md"
TOLD = re.compile(
    r"^```(?P<language>sh|python)\n(?P<code>.*?)^```\n\n(?:<!-- first (?P<most>\d+) lines -->\n)?```text\n.*?^```\n",
    re.DOTALL | re.MULTILINE,
)
WIDTH = 120  # of a line that is shown
PICTURES = {"ten-minutes-desk.png": (1280, 1500), "ten-minutes-phone.png": (390, 1500)}
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage")
COLOURS = 128


def main() -> None:
    docs = Path(sys.argv[1])
    with TemporaryDirectory() as folder:
        page = TOLD.sub(lambda block: told(block, Path(folder)), (docs / PAGE).read_text())
        with browser() as driver:
            for name, (width, height) in PICTURES.items():
                replace_file(docs / name, picture(driver, Path(folder) / "report.html", width, height))
    replace_file(docs / PAGE, page.encode())


def told(block: re.Match[str], folder: Path) -> str:
    """A block of the page and what it says when it is run in this folder."""
    words = [sys.executable, "-c", block["code"]] if block["language"] == "python" else ["sh", "-ec", block["code"]]
    began = processor_seconds()
    done = subprocess.run(words, cwd=folder, env=surroundings(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    seconds = processor_seconds() - began
    text = done.stdout.decode().replace(f"{folder.resolve()}/", "")
    if done.returncode:
        raise unskew.UnskewError(f"{block['code'].strip()} ended with {done.returncode}: {text}")
    lines = [piece for line in text.splitlines() for piece in folded(line)]
    most = int(block["most"] or len(lines))
    shown = [*lines[:most], *([f"... and {len(lines) - most} more lines"] if len(lines) > most else [])]
    abridged = f"<!-- first {most} lines -->\n" if block["most"] else ""
    code = f"```{block['language']}\n{block['code']}```"
    print(f"{block['code'].strip().splitlines()[-1]}: {seconds:.1f} s", flush=True)
    return f"{code}\n\n{abridged}```text\n" + "\n".join([*shown, f"({seconds:.0f} s)"]) + "\n```\n"


def processor_seconds() -> float:
    """Of all commands so far: what they take of a machine that does nothing else, whatever this one does."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def surroundings() -> dict[str, str]:
    """Commands find this package as this script does."""
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", "")])
    return os.environ | {"PATH": path, "PYTHONPATH": str(Path(unskew.__file__).parents[1])}


def folded(line: str) -> Iterator[str]:
    """A line as a terminal of that width would show it, broken between words."""
    while len(line) > WIDTH and " " in line[:WIDTH].strip():
        end = line.rindex(" ", 0, WIDTH)
        yield line[:end]
        line = line[end + 1 :]
    yield line


@contextmanager
def browser() -> Iterator[Any]:
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for flag in FLAGS:
        options.add_argument(flag)
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    try:
        yield driver
    finally:
        driver.quit()


def picture(driver: Any, page: Path, width: int, height: int) -> bytes:
    """The top of a page as a small PNG."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    driver.get(page.as_uri())
    image = Image.open(BytesIO(base64.b64decode(driver.get_screenshot_as_base64())))
    image.convert("RGB").quantize(COLOURS).save(small := BytesIO(), "PNG", optimize=True)
    return small.getvalue()


if __name__ == "__main__":
    main()
