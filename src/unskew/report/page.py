"""From facts to HTML: templates that escape whatever they are given."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import jinja2
from markupsafe import Markup

from unskew._version import __version__

TEMPLATES = "templates"


@dataclass(frozen=True)
class Section:
    """A part of a page: `template` says it in words, with `facts` under the name `it`."""

    id: str
    short: str  # its name in the contents
    title: str
    template: str
    facts: Any


@dataclass(frozen=True)
class Page:
    """`template` is what stands above the sections, `head` its facts."""

    title: str
    template: str
    head: Any
    sections: tuple[Section, ...]


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("unskew.report", TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def rendered(page: Page) -> str:
    """One page that needs nothing beside itself, and may fetch or run nothing."""
    environment = _environment()
    source, _, _ = jinja2.PackageLoader("unskew.report", TEMPLATES).get_source(environment, "style.css")
    return environment.get_template("page.html").render(page=page, style=Markup(source), version=__version__) + "\n"
