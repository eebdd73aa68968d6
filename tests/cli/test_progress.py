"""What a person sees of a search while it runs."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

import optsmith
from optsmith.cli import _progress
from optsmith.cli._progress import LiveProgress, Pace, PlainProgress, make_progress
from tasks_for_tests import bowl


def watch(tmp_path, make, terminal: bool, **changes) -> str:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=terminal, width=100, color_system=None)
    settings = {"budget": 6, "levels": 2, "workers": 0, "proposals": 1, "compare": [], **changes}
    optsmith.search(bowl(), storage=tmp_path, observer=make(console), **settings)
    return screen.getvalue()


def test_a_terminal_shows_a_panel_that_is_redrawn(tmp_path):
    shown = watch(tmp_path, LiveProgress, terminal=True)
    for words in ("/ 6", "evaluations a minute", "best", "node   level", "drawn", "fails the"):
        assert words in shown
    assert shown.count("\x1b[") > 3


def test_a_file_gets_plain_lines(tmp_path, monkeypatch):
    monkeypatch.setattr(_progress, "LINE_SECONDS", 0.0)
    shown = watch(tmp_path, PlainProgress, terminal=False)
    assert "\x1b" not in shown
    lines = shown.splitlines()
    assert lines[0].startswith("bowl: mct search for 6 rules, seed 0")
    assert "level 1: 3 accepted; on to" in shown
    assert any(line.startswith("6/6, ") and "best " in line for line in lines)
    assert "comparing 1 recipe at full length on fresh seeds" in shown


def test_why_runs_are_trained_one_at_a_time_is_said_once(tmp_path):
    shown = watch(tmp_path, PlainProgress, terminal=False)
    assert shown.count("trained one at a time: the task has a training loop of its own") == 1


def test_a_search_that_goes_on_says_so(tmp_path):
    watch(tmp_path, PlainProgress, terminal=False)
    shown = watch(tmp_path, PlainProgress, terminal=False, budget=8)
    assert "continuing: " in shown
    assert "evaluations recorded" in shown


def test_the_display_fits_where_it_goes():
    assert isinstance(make_progress(Console(force_terminal=True)), LiveProgress)
    assert isinstance(make_progress(Console(file=io.StringIO())), PlainProgress)


@pytest.mark.parametrize(
    ("seconds", "text"), [(5, "5 s"), (65, "1 min 05 s"), (3700, "1 h 01 min")]
)
def test_clocks(seconds, text):
    assert _progress._clock(seconds) == text


def test_a_pace_needs_something_to_go_by():
    assert Pace().left(5) is None
    assert Pace(counted=2).left(4) == pytest.approx(0.0, abs=1e-2)
