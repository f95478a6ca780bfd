"""unskew methods"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, fields
from typing import Any, NamedTuple

import typer

import unskew
from unskew.cli import options
from unskew.cli.output import print_json, print_table

EXAMPLE = "unskew methods --json"


class Described(NamedTuple):
    """A method, or a part that a method can be made of, by the name it has on the command line."""

    name: str
    summary: str
    settings: dict[str, Any]  # with defaults; a part is a name as well

    @classmethod
    def of(cls, name: str, summary: str, recipe: Any) -> Described:
        from unskew.recipe import to_plain

        plain = to_plain(recipe)
        kinds = {setting: value["kind"].lower() for setting, value in plain.items() if isinstance(value, dict)}
        return cls(name, summary, {setting: value for setting, value in (plain | kinds).items() if setting != "kind"})

    @property
    def in_words(self) -> str:
        return ", ".join(f"{setting}={value}" for setting, value in self.settings.items())


def command(as_json: options.AsJson = False) -> None:
    """List the methods, their parts and their settings."""
    methods = [Described.of(entry.name, entry.summary, entry.build()) for entry in unskew.registered()]
    parts = list(_parts())
    if as_json:
        print_json({"methods": [row._asdict() for row in methods], "parts": [row._asdict() for row in parts]})
        return
    for title, rows in (("method", methods), ("part", parts)):
        shown = [(row.name, row.summary, row.in_words) for row in rows]
        print_table((title, "what it is", "settings and their defaults"), shown)
        typer.echo()
    typer.echo("A setting is given as: unskew fit LOG --method ips --set propensity=additive --set net.n_factors=32")


def _parts() -> Iterator[Described]:
    """Nets and propensities that can be named without telling more."""
    for kind in ("net", "propensity", "calibrator"):
        for entry in unskew.registered(kind):
            if all(f.default is not MISSING or f.default_factory is not MISSING for f in fields(entry.cls)):
                yield Described.of(entry.cls.__name__.lower(), entry.summary, entry.build())
