"""Show the executed notebooks of the tutorial as pages of the site: text, code, and what the code printed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from mkdocs.structure.files import File, Files


def on_files(files: Files, config: Any) -> Files:
    """Put a page in the place of each notebook."""
    for file in [file for file in files if file.src_uri.endswith(".ipynb")]:
        files.remove(file)
        text = "\n\n".join(blocks(json.loads(file.content_string)))
        files.append(File.generated(config, file.src_uri.replace(".ipynb", ".md"), content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Lead links to a notebook to its page."""
    return markdown.replace(".ipynb)", ".md)")


def blocks(notebook: dict[str, Any]) -> Iterator[str]:
    """Yield the cells of a notebook as Markdown; only text that was printed is shown."""
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        yield source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```"
        printed = "".join(
            "".join(out.get("text", "")) for out in cell.get("outputs", ()) if out.get("name") == "stdout"
        )
        if printed:
            yield f"```text\n{printed.rstrip()}\n```"
