"""Commands on a real terminal: progress is shown, Ctrl-C says how to go on, and going on ends with the same bits."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import sys
import time
import traceback

import pytest

from unskew.cli import main
from unskew.training.loop import Loop

QUICK = "--set training.max_epochs=4 --set training.batch_size=64"
COMMANDS = {
    "fit": f"fit ratings.csv --method naive --out out {QUICK}".split(),
    "tune": f"tune ratings.csv --method naive --out out.toml --trials 2 {QUICK}".split(),
    "benchmark": f"benchmark ratings.csv --methods naive --seeds 3 --out out {QUICK}".split(),
}
WHEN = {"fit": "2 of at most 4 epochs", "tune": "2 of 10 fits", "benchmark": "2 of 3 jobs"}
KEPT = {
    "fit": "interrupted: no half-written file was left behind.",
    "tune": "finished trials are kept in out.trials.journal; run the same command again to go on.",
    "benchmark": "of 3 jobs finished and kept in out/records.jsonl; run the same command again to go on.",
}
SECONDS = 60
CONTROL_C = b"\x03"


def at_a_terminal(words, when):
    """Give a command at a terminal and press Ctrl-C when this is shown; all that was shown, and the exit code."""
    child, terminal = pty.fork()
    if child == 0:
        _command(words)
    shown, pressed, began = "", False, time.monotonic()
    while time.monotonic() - began < SECONDS:
        if not select.select([terminal], [], [], 0.1)[0]:
            continue
        try:
            shown += os.read(terminal, 1 << 16).decode(errors="replace")
        except OSError:  # the other end is closed
            break
        if not pressed and when in plain(shown):
            pressed = os.write(terminal, CONTROL_C) == 1
    assert pressed, plain(shown)[-2000:]
    _, status = os.waitpid(child, 0)
    os.close(terminal)
    return plain(shown), os.waitstatus_to_exitcode(status)


def _command(words):
    """The command, in a child that sees the terminal and takes its time."""
    code = 1
    try:
        sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w", 1), os.fdopen(2, "w", 1)
        signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored by what a shell runs in the background
        os.environ |= {"TERM": "xterm", "COLUMNS": "100"}
        usual = Loop._take

        def slow(*given):
            time.sleep(0.1)
            return usual(*given)

        Loop._take = slow
        sys.argv = ["unskew", *words]
        main()
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


def plain(text):
    return re.sub(r"\x1b\[[^a-zA-Z]*[a-zA-Z]", "", text)


@pytest.mark.parametrize("name", COMMANDS)
def test_ctrl_c_says_how_to_go_on_and_going_on_ends_with_the_same_bits(name, ratings, commanded, tmp_path, monkeypatch):
    written = {}
    for folder in ("disturbed", "undisturbed"):
        (tmp_path / folder).mkdir()
        monkeypatch.chdir(tmp_path / folder)
        (tmp_path / folder / "ratings.csv").write_bytes(ratings.read_bytes())
        if folder == "disturbed":
            shown, code = at_a_terminal(COMMANDS[name], WHEN[name])
            assert code == 130
            assert "Traceback" not in shown
            assert " left" in shown
            lines = shown.strip().splitlines()
            if name != "fit":  # which begins anew
                assert lines.pop() == f"to go on: unskew {' '.join(COMMANDS[name])}"
            assert KEPT[name] in lines[-1]
        commanded(*COMMANDS[name])
        outcome = {"fit": "out/weights.safetensors", "tune": "out.toml", "benchmark": "out/table.md"}[name]
        written[folder] = (tmp_path / folder / outcome).read_bytes()
    assert written["disturbed"] == written["undisturbed"]
