"""What is installed is whole: a built wheel holds every file of the package, and no other."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
pytest.importorskip("hatchling", reason="needs hatchling to build the wheel")


def test_a_wheel_holds_every_file_of_the_package_and_no_other(tmp_path):
    words = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(words, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
        about = next(name for name in archive.namelist() if name.endswith("entry_points.txt"))
        assert "unskew = unskew.cli:main" in archive.read(about).decode()
    files = [
        path for path in (ROOT / "src" / "unskew").rglob("*") if path.is_file() and "__pycache__" not in path.parts
    ]
    assert held == {str(path.relative_to(ROOT / "src")) for path in files}
    endings = {Path(name).suffix for name in held}
    assert {".toml", ".html", ".css", ".pyi", ".py"} <= endings
