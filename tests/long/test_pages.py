"""README's blocks in an environment made by its own command; the notebooks of the tutorial from top to bottom."""

import os
import re
import subprocess
import sys
from pathlib import Path
from shutil import copy, copytree, ignore_patterns

import pytest

import unskew

pytestmark = pytest.mark.long
ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "docs" / "tutorial").glob("*.ipynb"))


def test_the_blocks_of_the_readme_run_where_its_command_has_installed_it(tmp_path):
    """Nothing but what the command brings is there; the files are those that the blocks name."""
    copytree(ROOT, tmp_path / "copy", ignore=ignore_patterns(".git", ".venv", "__pycache__"))
    text = (ROOT / "README.md").read_text()
    command = re.search(r"<!-- main command -->\n```sh\n(.*?)```", text, re.DOTALL)[1]
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    subprocess.run(["bash", "-ec", command], cwd=tmp_path / "copy", env=clean, check=True)
    programs = tmp_path / "copy" / ".venv" / "bin"
    clean["PATH"] = f"{programs}{os.pathsep}{clean['PATH']}"
    log = unskew.simulate(100, 50, density=0.3, selection="popularity", seed=0).log
    rows = zip(log.users, log.items, 2 + 2 * log.ratings, strict=True)
    work = tmp_path / "work"
    work.mkdir()
    lines = [f"u{user},i{item},{rating:g}\n" for user, item, rating in rows]
    (work / "ratings.csv").write_text("user_id,item_id,rating\n" + "".join(lines))
    (python,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    subprocess.run([str(programs / "python"), "-c", python], cwd=work, env=clean, check=True)
    shell = next(block for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) if "diagnose" in block)
    other = "unskew fit ratings.csv --method naive --out other-model\n"
    subprocess.run(["bash", "-ec", other + shell], cwd=work, env=clean, check=True)
    assert (work / "report.html").exists()
    assert (work / "top.csv").exists()


@pytest.mark.realdata
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_top_to_bottom(notebook, tmp_path):
    if not os.environ.get("UNSKEW_DATA"):
        pytest.skip("needs the published files: set UNSKEW_DATA to the folder that holds them")
    copy(notebook, tmp_path)
    subprocess.run([sys.executable, str(ROOT / ".ci/notebooks.py"), notebook.name], cwd=tmp_path, check=True)
