"""Progress of real searches, and what an interrupt leaves."""

from __future__ import annotations

import pytest

import optsmith
from tasks_for_tests import bowl

SMALL = {"budget": 6, "options": {"levels": 2}, "workers": 0, "proposals": 1, "baselines": "none"}


def test_progress_is_shown_by_default(tmp_path, capsys):
    study = optsmith.search(bowl(), storage=tmp_path, **SMALL)
    shown = capsys.readouterr().err
    assert study.finished
    lines = shown.splitlines()
    assert lines[0].startswith("bowl: mct search for 6 rules, seed 0")
    assert shown.count("trained one at a time: the task has a training loop of its own") == 1
    assert "level 1: 3 accepted; descends to" in shown
    assert "comparison on report seeds: 1 evaluation" in lines


def test_a_search_can_be_silent(tmp_path, capsys):
    optsmith.search(bowl(), storage=tmp_path, progress=False, **SMALL)
    assert capsys.readouterr() == ("", "")


class Impatient(optsmith.Observer):
    """Interrupts a search after some evaluations."""

    def __init__(self, after: int) -> None:
        self.after = after

    def told(self, candidate, outcome) -> None:
        self.after -= outcome.evaluated
        if self.after <= 0:
            raise KeyboardInterrupt


def test_an_interrupt_returns_the_study_so_far(tmp_path, capsys):
    study = optsmith.search(bowl(), storage=tmp_path, observer=Impatient(3), **SMALL)
    assert not study.finished
    assert len(study.records) >= 3
    assert study.best().search_score > 0
    assert "The same call resumes the search." in capsys.readouterr().err
    again = optsmith.search(bowl(), storage=tmp_path, **SMALL)
    assert again.finished
    assert "resuming: " in capsys.readouterr().err


class Hasty(optsmith.Observer):
    """Interrupts a search before its first evaluation."""

    def stacked(self, stacking) -> None:
        raise KeyboardInterrupt


def test_an_interrupt_before_the_first_evaluation_is_raised(tmp_path, capsys):
    with pytest.raises(KeyboardInterrupt):
        optsmith.search(bowl(), storage=tmp_path, observer=Hasty(), **SMALL)
    assert "resumes" not in capsys.readouterr().err


def test_an_observer_is_checked_before_anything_is_written(tmp_path):
    with pytest.raises(optsmith.StudyError, match=r"optsmith.Observer"):
        optsmith.search(bowl(), storage=tmp_path, observer=print, **SMALL)
    assert not list(tmp_path.iterdir())
