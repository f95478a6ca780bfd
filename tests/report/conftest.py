"""Commands, as in tests of the command line."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from unskew.cli import app


@pytest.fixture
def run():
    def invoke(*words, code=0):
        result = CliRunner().invoke(app, [str(word) for word in words])
        assert result.exit_code == code, result.output
        return result

    return invoke
