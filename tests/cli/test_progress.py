"""What a person sees of a search while it runs."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

import optsmith
from optsmith.cli import _progress
from optsmith.cli._progress import LiveDisplay, Pace, PlainDisplay, make_display
from tasks_for_tests import bowl


def watch(tmp_path, make, terminal: bool, **changes) -> str:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=terminal, width=100, color_system=None)
    options = {"options": {"levels": 2}, "workers": 0, "proposals": 1, "compare": []}
    settings = {"budget": 6, **options, **changes}
    optsmith.search(bowl(), storage=tmp_path, observer=make(console), **settings)
    return screen.getvalue()


def test_a_terminal_shows_a_panel_that_is_redrawn(tmp_path):
    shown = watch(tmp_path, LiveDisplay, terminal=True)
    for words in (
        "/ 6",
        "evaluations per minute",
        "best",
        "search  level 1 of 2",
        "drawn",
        "fails the",
    ):
        assert words in shown
    assert shown.count("\x1b[") > 3


def test_a_file_gets_plain_lines(tmp_path, monkeypatch):
    monkeypatch.setattr(_progress, "LINE_SECONDS", 0.0)
    shown = watch(tmp_path, PlainDisplay, terminal=False)
    assert "\x1b" not in shown
    lines = shown.splitlines()
    assert lines[0].startswith("bowl: mct search for 6 rules, seed 0")
    assert "level 1: 3 accepted; descends to" in shown
    assert any(line.startswith("6/6, ") and "best " in line for line in lines)
    assert "final evaluation of 1 recipe at full length, on new seeds" in shown


def test_why_runs_are_trained_one_at_a_time_is_said_once(tmp_path):
    shown = watch(tmp_path, PlainDisplay, terminal=False)
    assert shown.count("trained one at a time: the task has a training loop of its own") == 1


def test_a_search_that_goes_on_says_so(tmp_path):
    watch(tmp_path, PlainDisplay, terminal=False)
    shown = watch(tmp_path, PlainDisplay, terminal=False, budget=8)
    assert "resuming: " in shown
    assert "evaluations recorded" in shown


def test_the_display_fits_where_it_goes():
    assert isinstance(make_display(Console(force_terminal=True)), LiveDisplay)
    assert isinstance(make_display(Console(file=io.StringIO())), PlainDisplay)


@pytest.mark.parametrize(
    ("seconds", "text"), [(5, "5 s"), (65, "1 min 05 s"), (3700, "1 h 01 min")]
)
def test_clocks(seconds, text):
    assert _progress._clock(seconds) == text


def test_a_pace_needs_something_to_go_by():
    assert Pace().left(0, 5) is None
    assert Pace(spent_before=3).left(3, 5) is None
    pace = Pace()
    pace.start -= 10.0
    assert pace.left(2, 6) == pytest.approx(20.0, rel=0.1)
