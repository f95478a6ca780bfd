"""Plain data as TOML, which the standard library reads but does not write."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def as_toml(data: Mapping[str, Any]) -> str:
    """A table of texts, numbers, booleans, lists and tables; None, which TOML lacks, is written as "none"."""
    return "\n".join(_table(data, ())).strip() + "\n"


def _table(data: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    """A table's own values under its heading, then the tables inside it under theirs."""
    if path:
        yield f"\n[{'.'.join(map(_key, path))}]"
    for key, value in data.items():
        if not isinstance(value, Mapping):
            yield f"{_key(key)} = {_value(value)}"
    for key, value in data.items():
        if isinstance(value, Mapping):
            yield from _table(value, (*path, key))


def _value(value: Any) -> str:
    if value is None:
        return '"none"'
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(key)} = {_value(held)}" for key, held in value.items()) + "}"
    return "[" + ", ".join(map(_value, value)) + "]"


def _key(key: str) -> str:
    return key if BARE_KEY.fullmatch(key) else _text(key)


def _text(text: str) -> str:
    # A JSON text is a TOML text but for the delete character, which TOML wants escaped.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
