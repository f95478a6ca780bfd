"""unskew list"""

from __future__ import annotations

from dataclasses import MISSING, asdict, fields, replace
from shutil import get_terminal_size
from textwrap import fill
from typing import Any

import unskew
from unskew.cli.output import Answer
from unskew.runtime import say

EXAMPLE = "unskew list --json"
USE = "A setting is given as: unskew fit LOG --method ips --set propensity=additive --set net.n_factors=32"


def command() -> Answer:
    """List the methods, their parts and their settings, the metrics, and the published datasets that can be read."""
    from unskew.registry import broken

    problems = broken()

    def usable(*kinds: str) -> list[Any]:
        return [entry for kind in kinds for entry in unskew.registered(kind) if entry.name not in problems]

    methods = [_described(entry.name, entry) for entry in unskew.registered()]
    parts = [
        _described(entry.cls.__name__.lower(), entry)
        for entry in usable("net", "propensity", "calibrator")
        if all(f.default is not MISSING or f.default_factory is not MISSING for f in fields(entry.cls))
    ]
    sources = [entry.defaults for entry in usable("dataset")]
    metrics = [{"name": each.name, "summary": each.defaults.meaning, "settings": {}} for each in usable("metric")]
    for sentence in problems.values():
        say(f"warning: {sentence}")
    lines = [_text(row) for row in methods] + ["", "Parts, by the names that --set takes", ""]
    lines += [_text(row) for row in parts] + ["", USE, "", "Metrics", ""]
    lines += [_text(row) for row in metrics]
    for source in sources:
        lines.append(f"\n{source.name}: {source.title}")
        facts = {"where": source.where, "terms": source.terms, "files": ", ".join(source.files)}
        facts["cite"] = source.citation
        facts["liked"] = f"a rating of at least {source.positive:g}, unless --positive gives another"
        facts["use"] = f"unskew fit {source.name}:FOLDER --out MODEL"
        lines += [f"  {title:<6} {text}" for title, text in facts.items()]
    datasets = [asdict(replace(source, read=None)) for source in sources]
    return Answer(
        "\n".join(lines),
        {"methods": methods, "parts": parts, "metrics": metrics, "datasets": datasets, "broken": problems},
    )


def _described(name: str, entry: Any) -> dict[str, Any]:
    """Return name, summary and settings with defaults; a part among them is a name as well."""
    from unskew.store.recipe import to_plain

    if entry.problem:
        return {"name": name, "summary": entry.problem, "settings": {}}
    plain = to_plain(entry.build())
    kinds = {setting: value["kind"].lower() for setting, value in plain.items() if isinstance(value, dict)}
    settings = {setting: value for setting, value in (plain | kinds).items() if setting != "kind"}
    return {"name": name, "summary": entry.summary, "settings": settings}


def _text(row: dict[str, Any]) -> str:
    settings = ", ".join(f"{setting}={value}" for setting, value in row["settings"].items())
    width, indent = max(60, get_terminal_size((120, 24)).columns), " " * 24
    return "\n".join(
        fill(text, width, initial_indent=f"{first:<24}", subsequent_indent=indent, break_long_words=False)
        for first, text in ((f"{row['name']} ", row["summary"]), ("", settings))
        if text
    )
