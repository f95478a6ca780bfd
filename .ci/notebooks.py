"""Show the executed notebooks of the tutorial as pages of the site: text, code, and what the code printed.

`python .ci/notebooks.py docs/tutorial/*.ipynb` executes them anew in their places.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
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


def execute(file: Path) -> None:
    """Run the cells of a notebook from top to bottom and keep what each of them printed."""
    notebook, names = json.loads(file.read_text(encoding="utf-8")), {"__name__": "__main__"}
    code = (cell for cell in notebook["cells"] if cell["cell_type"] == "code")
    for number, cell in enumerate(code, 1):
        with redirect_stdout(StringIO()) as printed:
            exec(compile("".join(cell["source"]), f"{file}, cell {number}", "exec"), names)
        text = printed.getvalue().splitlines(keepends=True)
        outputs = [{"name": "stdout", "output_type": "stream", "text": text}] if text else []
        cell.update(execution_count=number, outputs=outputs)
    file.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


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


if __name__ == "__main__":
    for name in sys.argv[1:]:
        execute(Path(name))
