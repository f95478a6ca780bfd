"""A page that mkdocs.yml gives no place stands under "More" instead of nowhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def on_files(files: Any, *, config: Any) -> Any:
    placed = set(leaves(config.nav))
    if others := [page.src_uri for page in files.documentation_pages() if page.src_uri not in placed]:
        config.nav.append({"More": others})
    return files


def leaves(nav: Any) -> Iterator[str]:
    """The paths in a navigation, however deep."""
    if isinstance(nav, str):
        yield nav
        return
    for part in nav.values() if isinstance(nav, dict) else nav:
        yield from leaves(part)
