"""`optsmith finish`, and searches that end early for other reasons."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import optsmith
from optsmith import Study, StudyError
from optsmith.cli import main
from optsmith.study import Observer, stored_call

TASK = """
import torch
from optsmith import Protocol, Task

PROTOCOL = Protocol(
    lrs=(0.01, 0.1, 1.0), proxy_steps=10, steps=12, final_steps=20, score_seeds=2, final_seeds=2,
    threshold=None, early_stop=False,
)

def bowl(run):
    w = torch.randn(3, requires_grad=True)
    optimizer = run.optimizer([w])
    for _ in range(run.steps):
        optimizer.zero_grad()
        loss = (w**2).sum() / 2
        loss.backward()
        optimizer.step()
        yield loss.detach()

task = Task.from_function(bowl, protocol=PROTOCOL)
"""

BUDGET = 12


class Stop(Exception):  # noqa: N818 - not an error
    pass


class StopAfter(Observer):
    """Ends a search after so many accepted candidates, as an interrupt would."""

    def __init__(self, accepted: int) -> None:
        self.left = accepted

    def told(self, candidate, outcome) -> None:
        self.left -= outcome.accepted
        if self.left == 0:
            raise Stop


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    (tmp_path / "own_task.py").write_text(TASK)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def search(**changes) -> Study:
    settings = {"budget": BUDGET, "workers": 0, "baselines": "torch:sgd", "study": "mine"}
    return optsmith.search("own_task.py:task", **{**settings, **changes})


def interrupted(accepted: int, **changes) -> Study:
    with pytest.raises(Stop):
        search(observer=StopAfter(accepted), **changes)
    return Study.load("mine")


def run(monkeypatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["optsmith", *arguments])
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def test_finish_compares_what_there_is(folder, monkeypatch, capsys):
    before = interrupted(5)
    assert not before.finished
    assert run(monkeypatch, "finish", "mine", "--workers", "0", "--json") == 0
    result = json.loads(capsys.readouterr().out)
    study = Study.load("mine")
    assert study.finished
    assert study.summary["counts"]["accepted"] < BUDGET
    assert [r.rule for r in study.records][:5] == [r.rule for r in before.records][:5]
    assert result["best"]["rule"] == study.best().recipe
    assert "torch:sgd" in [row.recipe for row in study.final.rows]
    assert study.settings["budget"] == BUDGET
    assert (folder / "optsmith-studies" / "mine.html").exists()


def test_finish_starts_no_evaluation_of_the_search(folder, monkeypatch):
    before = interrupted(5)
    run(monkeypatch, "finish", "mine", "--workers", "0", "--json")
    assert len(Study.load("mine").records) == len(before.records)


def test_finish_takes_the_path_of_a_journal(folder, monkeypatch, capsys):
    interrupted(4)
    path = str(Path("optsmith-studies", "mine.journal"))
    assert run(monkeypatch, "finish", path, "--workers", "0", "--json") == 0
    assert Study.load("mine").finished


def test_a_finished_study_stays_as_it_is(folder, monkeypatch):
    study = search()
    assert run(monkeypatch, "finish", "mine", "--workers", "0", "--json") == 0
    again = Study.load("mine")
    assert [r.rule for r in again.records] == [r.rule for r in study.records]
    assert again.verdict == study.verdict


def test_a_study_that_does_not_exist(folder, monkeypatch, capsys):
    assert run(monkeypatch, "finish", "other") == 2
    assert "other" in capsys.readouterr().err


def test_a_larger_budget_continues_after_a_finish(folder, monkeypatch):
    interrupted(4)
    run(monkeypatch, "finish", "mine", "--workers", "0", "--json")
    study = search(budget=BUDGET + 4)
    assert study.finished
    assert study.summary["counts"]["accepted"] == BUDGET + 4


def test_a_task_made_in_python_is_named_on_the_command_line(folder, monkeypatch, capsys):
    task = optsmith.task.find_task("own_task.py:task")
    object.__setattr__(task, "source", "")
    with pytest.raises(Stop):
        optsmith.search(
            task, study="mine", budget=BUDGET, workers=0, baselines="none", observer=StopAfter(3)
        )
    with pytest.raises(StudyError, match="was made in Python: give --task"):
        stored_call(Study.load("mine"))
    assert run(monkeypatch, "finish", "mine", "--workers", "0") == 2
    capsys.readouterr()
    arguments = ("--workers", "0", "--task", "own_task.py:task", "--json")
    assert run(monkeypatch, "finish", "mine", *arguments) == 0
    assert Study.load("mine").finished


def test_in_python_search_finishes_a_study(folder):
    interrupted(4)
    study = optsmith.search("own_task.py:task", study="mine", workers=0, finish=True)
    assert study.finished
    assert study.summary["counts"]["accepted"] < BUDGET


def test_a_smaller_budget_finishes(folder):
    interrupted(4)
    study = search(budget=6)
    assert study.finished
    assert study.summary["counts"]["accepted"] == 6
    assert study.settings["budget"] == BUDGET  # on which the candidates depend


def test_patience_ends_the_search_at_the_same_candidate_every_time(folder):
    first = search(budget=60, patience=3)
    assert first.finished
    assert first.summary["counts"]["accepted"] < 60
    again = search(budget=60, patience=3, study="again", workers=2)
    assert [r.rule for r in again.evaluations] == [r.rule for r in first.evaluations]


def test_a_search_of_limited_cost_ends_at_the_same_candidate_every_time(folder):
    first = search(budget=None, max_cost=9.0)
    full = first.settings["protocol"]["final_steps"]
    before = sum(e.trained for e in first.evaluations[:-1])
    assert before < 9.0 * full <= before + first.evaluations[-1].trained
    again = search(budget=None, max_cost=9.0, study="again", workers=2)
    assert [r.rule for r in again.evaluations][: len(first.evaluations)] == [
        r.rule for r in first.evaluations
    ]


def test_the_options_of_the_command(folder, monkeypatch, capsys):
    small = ("own_task.py:task", "--workers", "0", "--baselines", "none", "--json")
    assert run(monkeypatch, "search", *small, "--budget", "40", "--patience", "3") == 0
    assert json.loads(capsys.readouterr().out)["counts"]["accepted"] < 40
    for wrong, message in (("--max-time=soon", "is not a duration"), ("--proxy=tiny", "a proxy")):
        assert run(monkeypatch, "search", *small, "--study", "x", wrong) == 2
        assert message in capsys.readouterr().err
