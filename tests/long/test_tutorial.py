"""The notebooks of the tutorial run from top to bottom on the published files."""

import json
import os
from pathlib import Path

import pytest

pytestmark = [pytest.mark.long, pytest.mark.realdata]
NOTEBOOKS = sorted((Path(__file__).parents[2] / "docs" / "tutorial").glob("*.ipynb"))


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_top_to_bottom(notebook, tmp_path, monkeypatch):
    if not os.environ.get("UNSKEW_DATA"):
        pytest.skip("needs the published files: set UNSKEW_DATA to the folder that holds them")
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    for cell in json.loads(notebook.read_text())["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), str(notebook), "exec"), names)
