"""Progress on a terminal, silence elsewhere."""

import io
import re
from types import SimpleNamespace

import pytest
from rich.console import Console

import unskew
from unskew import progress


@pytest.fixture
def terminal(monkeypatch):
    """Standard error as a terminal of 80 columns; what is drawn on it."""
    drawn = io.StringIO()
    drawn.isatty = lambda: True
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=drawn))  # pytest changes the real one
    colours = {"TERM": "xterm-256color"}
    console = Console(file=drawn, force_terminal=True, width=80, _environ=colours)
    monkeypatch.setattr("rich.console.Console", lambda **_: console)
    return drawn


def test_a_bar_shows_title_count_time_and_notes_in_one_line_of_80_columns(terminal):
    with progress.bar("prediction", 200, "epoch", done=1, at_most=True) as shown:
        progress._State.display.refresh()
        for risk in ("0.5555", "0.4444"):
            shown.advance(f"validation {risk}")
        progress._State.display.refresh()
    drawn = [line.strip() for line in re.split(r"[\r\n]", re.sub(r"\x1b\[[^a-zA-Z]*[a-zA-Z]", "", terminal.getvalue()))]
    assert all(line.startswith("prediction") for line in drawn if line)
    assert any(line.endswith("1 of 200 epochs 0:00:00 so far") for line in drawn)
    assert any(re.search(r"3 of 200 epochs at most 0:\d\d:\d\d left validation 0.4444$", line) for line in drawn)


def test_bars_inside_bars_share_one_display_and_lines_go_above_them(terminal):
    with progress.bar("outer", 2, "fit") as outer:
        display = progress._State.display
        with progress.bar("inner", 5, "epoch"):
            assert progress._State.display is display
            assert len(display.tasks) == 2
            progress.say("a sentence [with] brackets")
        assert [task.description for task in display.tasks] == ["outer"]
        outer.advance()
        progress.say("another")
    assert progress._State.display is None
    assert "a sentence [with] brackets" in terminal.getvalue()


def test_what_need_not_be_done_counts_as_done_but_not_as_speed(terminal):
    with progress.bar("jobs", 10, "job") as shown:
        shown.pass_over(7)
        (task,) = progress._State.display.tasks
        assert (task.completed, task.time_remaining) == (7, None)
        shown.advance()
        assert task.completed == 8


def test_each_hands_on_every_item(terminal):
    assert list(progress.each([3, 1, 2], "numbers")) == [3, 1, 2]


@pytest.mark.parametrize(
    ("seconds", "limit", "words"),
    [
        (None, "", ""),
        (0.2, "", "0:00:00 left"),
        (75, "at most ", "at most 0:01:15 left"),
        (90_000, "", "1 day, 1:00:00 left"),
    ],
)
def test_the_time_left_is_told_in_words_once_it_is_known(seconds, limit, words):
    assert progress.time_left(seconds, limit) == words


def test_nothing_is_shown_where_there_is_no_terminal_or_silence_was_asked_for(terminal, monkeypatch):
    log = unskew.simulate(30, 20, density=0.3, seed=0).log
    progress.silence()
    try:
        unskew.Naive().fit(log, training=unskew.Training(max_epochs=1))
        progress.say("unheard")
    finally:
        progress.silence(False)
    assert terminal.getvalue() == ""
    elsewhere = io.StringIO()
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=elsewhere))
    unskew.Naive().fit(log, training=unskew.Training(max_epochs=1))
    assert (elsewhere.getvalue(), terminal.getvalue()) == ("", "")


def test_training_shows_the_stage_its_epochs_and_the_validation_risk(terminal, monkeypatch):
    notes = []
    monkeypatch.setattr(progress.Bar, "advance", lambda _, note=None: notes.append(note))
    log = unskew.simulate(30, 20, density=0.3, seed=0).log
    unskew.Naive().fit(log, training=unskew.Training(max_epochs=2))
    assert len(notes) == 2
    assert all(note.startswith("validation 0.") for note in notes)
    assert "prediction" in terminal.getvalue()
