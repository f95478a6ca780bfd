"""unskew list"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, asdict, fields
from typing import Any, NamedTuple

import typer

import unskew
from unskew.cli import options
from unskew.cli.output import print_json, print_table

EXAMPLE = "unskew list --json"


class Described(NamedTuple):
    """A method, or a part that a method can be made of, by the name it has on the command line."""

    name: str
    summary: str
    settings: dict[str, Any]  # with defaults; a part is a name as well

    @classmethod
    def of(cls, name: str, summary: str, recipe: Any) -> Described:
        from unskew.store.recipe import to_plain

        plain = to_plain(recipe)
        kinds = {setting: value["kind"].lower() for setting, value in plain.items() if isinstance(value, dict)}
        return cls(name, summary, {setting: value for setting, value in (plain | kinds).items() if setting != "kind"})

    @property
    def in_words(self) -> str:
        return ", ".join(f"{setting}={value}" for setting, value in self.settings.items())


def command(as_json: options.AsJson = False) -> None:
    """List the methods, their parts and their settings, and the published datasets that can be read."""
    methods = [Described.of(entry.name, entry.summary, entry.build()) for entry in unskew.registered()]
    from unskew.registry import broken

    parts, sources = list(_parts()), unskew.datasets.available()
    if as_json:
        facts = {"methods": [row._asdict() for row in methods], "parts": [row._asdict() for row in parts]}
        print_json(facts | {"datasets": [asdict(source) for source in sources], "broken": broken()})
        return
    for title, rows in (("method", methods), ("part", parts)):
        shown = [(row.name, row.summary, row.in_words) for row in rows]
        print_table((title, "what it is", "settings and their defaults"), shown)
        typer.echo()
    typer.echo("A setting is given as: unskew fit LOG --method ips --set propensity=additive --set net.n_factors=32\n")
    for sentence in broken().values():
        typer.echo(f"warning: {sentence}", err=True)
    for source in sources:
        typer.echo(f"{source.name}: {source.title}")
        for title, text in (
            ("where", source.where),
            ("terms", source.terms),
            ("files", ", ".join(source.files)),
            ("cite", source.citation),
            ("liked", f"a rating of at least {source.positive:g}, unless --positive says otherwise"),
            ("use", f"unskew fit {source.name}:FOLDER --out MODEL"),
        ):
            typer.echo(f"  {title:<6} {text}")


def _parts() -> Iterator[Described]:
    """Nets and propensities that can be named without telling more."""
    for kind in ("net", "propensity", "calibrator"):
        for entry in unskew.registered(kind):
            if all(f.default is not MISSING or f.default_factory is not MISSING for f in fields(entry.cls)):
                yield Described.of(entry.cls.__name__.lower(), entry.summary, entry.build())
